package walk

import (
	"context"

	"github.com/hookonce/hookonce/driver"
)

// The decisions about a listing that do not depend on the database.

// BoundsOf returns the bounds of a page that looks at so many rows, unless it searches for a text. scan
// is driver.EventFilter.Scan.
func BoundsOf(rows, scan int, forText bool) Bounds {
	b := Bounds{Rows: rows, First: 1_000, Most: 10_000}
	switch {
	case forText:
		b = Bounds{Rows: driver.TextRows, First: 100, Most: 10_000, Time: driver.TextTime}
	case rows < driver.ScanRows: // each row costs more
		b.First, b.Most = 200, 2_000
	}
	if scan > 0 {
		b.Rows = min(scan, b.Rows)
	}
	return b
}

const (
	// FewKeys is the most keys of a state that are looked up for one page of a listing. With more keys,
	// walking the events from the newest on finds a page sooner.
	FewKeys = 10_000
	// FewMessages is the most messages of all kinds that are looked up for one page of a listing. A
	// program with handlers alone has no messages, and would look for them among all events.
	FewMessages = 1_000
	// MaxHours is more than the hours that figures are kept.
	MaxHours = 2500
)

// stateOfNote holds the state of events, or of one of their messages, that have a note.
var stateOfNote = map[string]string{
	driver.NoteDiscarded: driver.StateSkipped, driver.NoteReplacedByNew: driver.StateSkipped, driver.NoteStale: driver.StateSkipped,
}

// The numbers of the states whose events and messages have an index in the order of the listing.
const (
	DeadNumber    = "3"
	SkippedNumber = "4"
)

// IndexedState returns the number of the state that a filter selects, by its state or by its note, if
// it is DeadNumber or SkippedNumber; otherwise "".
func IndexedState(state, note string) string {
	if state == "" {
		state = stateOfNote[note]
	}
	return map[string]string{driver.StateDead: DeadNumber, driver.StateSkipped: SkippedNumber}[state]
}

// Events reads a page of events. It sets l.Place, and ignores l.Spans where figures cannot help. isFew
// says that an index finds all events that may match. number is IndexedState of the filter.
func Events(ctx context.Context, l *Listing[driver.Event], f *driver.EventFilter, isFew bool, number string) (*driver.EventPage, error) {
	l.Place = func(e *driver.Event) driver.Cursor { return driver.Cursor{At: e.ReceivedAt, Key: e.Key} }
	forText := f.Text != "" || f.TraceID != ""
	isFiltered := forText || f.Source+f.Type+f.State+f.Note+f.ID+f.Destination != ""
	if number != "" || !Skips(f.Source, f.Type, f.Since, f.Until) {
		l.Spans = nil
	}
	rows := driver.ScanRows
	if f.State+f.Note+f.Destination != "" {
		rows = driver.StateRows
	}
	page, err := read(ctx, l, f.After, f.Limit, isFew || !isFiltered, BoundsOf(rows, f.Scan, forText))
	if err != nil {
		return nil, err
	}
	return &driver.EventPage{Events: page.Rows, Next: page.Next, SearchedUntil: page.SearchedUntil}, nil
}

// Messages reads a page of messages. It sets l.Place. isFew and number are those of Events.
func Messages(ctx context.Context, l *Listing[driver.ListedMessage], f *driver.MessageFilter, isFew bool, number string) (*driver.MessagePage, error) {
	l.Place = func(m *driver.ListedMessage) driver.Cursor {
		return driver.Cursor{At: m.ReceivedAt, Key: m.Key, ID: m.ID}
	}
	// The index on skipped messages does not have the destination.
	hasIndex := number == DeadNumber || number != "" && f.Destination == ""
	page, err := readMessages(ctx, l, f, isFew, hasIndex)
	if err != nil {
		return nil, err
	}
	return &driver.MessagePage{Messages: page.Rows, Next: page.Next, SearchedUntil: page.SearchedUntil}, nil
}

// Letters is Messages for dead letters, which have an index.
func Letters(ctx context.Context, l *Listing[driver.DeadLetter], f *driver.MessageFilter, isFew bool) (*driver.DeadLetterPage, error) {
	l.Place = func(d *driver.DeadLetter) driver.Cursor {
		return driver.Cursor{At: d.ReceivedAt, Key: d.Key, ID: d.MessageID}
	}
	page, err := readMessages(ctx, l, f, isFew, true)
	if err != nil {
		return nil, err
	}
	return &driver.DeadLetterPage{DeadLetters: page.Rows, Next: page.Next, SearchedUntil: page.SearchedUntil}, nil
}

// readMessages reads at once if an index finds the rows of the page. Those on the states of messages, which
// hasIndex tells of, serve no other conditions.
func readMessages[Row any](ctx context.Context, l *Listing[Row], f *driver.MessageFilter, isFew, hasIndex bool) (*Page[Row], error) {
	atOnce := isFew || hasIndex && f.Source+f.Type+f.EventID+f.Text+f.Note == ""
	return read(ctx, l, f.After, f.Limit, atOnce, BoundsOf(driver.MessageRows, f.Scan, f.Text != ""))
}

func read[Row any](ctx context.Context, l *Listing[Row], after driver.Cursor, limit int, atOnce bool, b Bounds) (*Page[Row], error) {
	if atOnce {
		return All(ctx, l, after, driver.PageSize(limit))
	}
	return Read(ctx, l, after, driver.PageSize(limit), b)
}

// The pages of listings that an index finds at once are cut from rows, which have one more than the size of
// the page if there is a next one.

// QuarantinePage returns a page of quarantined requests.
func QuarantinePage(rows []driver.QuarantinedRequest, limit int) *driver.QuarantinePage {
	page, next := cut(rows, driver.PageSize(limit), func(q *driver.QuarantinedRequest) driver.Cursor {
		return driver.Cursor{At: q.LastAt, Key: q.Key}
	})
	return &driver.QuarantinePage{Requests: page, Next: next}
}

// RefusedPage returns a page of refused requests.
func RefusedPage(rows []driver.RefusedRequest, limit int) *driver.RefusedPage {
	page, next := cut(rows, driver.PageSize(limit), func(r *driver.RefusedRequest) driver.Cursor {
		return driver.Cursor{At: r.At, Key: r.Key()}
	})
	return &driver.RefusedPage{Requests: page, Next: next}
}

// JobPage returns a page of jobs.
func JobPage(rows []driver.Job, limit int) *driver.JobPage {
	page, next := cut(rows, driver.PageSize(limit), func(j *driver.Job) driver.Cursor { return driver.Cursor{At: j.CreatedAt, ID: j.ID} })
	return &driver.JobPage{Jobs: page, Next: next}
}
