package adminclient

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

const (
	// lookAgain is the pause between two listings of the newest events. Rows of the stream are lost with
	// a killed gateway; events are not.
	lookAgain = 15 * time.Second
	// maxWaiting is how many rows of the stream wait. The listing finds the events of further ones.
	maxWaiting = 1000
	// day is the longest span that a listing reads without the help of figures, which may lack the last
	// seconds of a killed gateway.
	day = 24 * time.Hour
)

// Arrivals shows the stored events of a gateway, and then each new one, once. It follows the stream, so
// that a new event is seen at once, and reads the listing at the beginning, after an outage, where
// rows of the stream are missing, and from time to time: so it misses none.
type Arrivals struct {
	Source string    // "" for all
	Since  time.Time // of the stored events; the zero time for none
	// Overlap is how long after its time of receipt an event may become visible.
	Overlap time.Duration
	// Begin is called when the stream is open, with the number of stored events.
	Begin func(stored int) error
	// Show receives each event, the stored ones first, oldest first. Its error stops Run.
	Show func(e *hookadmin.EventDetail, stored bool) error
	// Trouble is called once at the beginning of each outage.
	Trouble func(error)

	client   *Client
	troubled bool
	// Every event received before floor was shown, or is older than the beginning. seen has the others
	// that were shown, with their times of receipt.
	floor time.Time
	seen  map[eventKey]time.Time
}

type eventKey struct{ source, id string }

// Run follows until ctx ends, and then returns nil. It goes on after outages of the gateway.
func (a *Arrivals) Run(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.client, a.seen = c, make(map[eventKey]time.Time)
	opened := make(chan struct{})
	behind := make(chan struct{}, 1)
	rows := make(chan eventKey, maxWaiting)
	ended := make(chan error, 1)
	go func() { ended <- a.follow(ctx, opened, rows, behind) }()
	select {
	case <-opened:
	case err := <-ended:
		return err
	}
	if err := a.begin(ctx); err != nil {
		return a.stopped(ctx, err)
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		var err error
		select {
		case err := <-ended:
			return err
		case key := <-rows:
			err = a.arrived(ctx, key, false)
		case <-behind:
			err = a.catchUp(ctx)
		case <-again.C:
			err = a.catchUp(ctx)
		}
		if err != nil {
			return a.stopped(ctx, err)
		}
	}
}

// stopped returns the error of Run: nil if ctx has ended.
func (a *Arrivals) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follow sends the events of new deliveries to rows. It says that it is behind where it cannot know
// them.
func (a *Arrivals) follow(ctx context.Context, opened chan<- struct{}, rows chan<- eventKey, behind chan<- struct{}) error {
	fall := func() {
		select {
		case behind <- struct{}{}:
		default: // the next listing comes anyway
		}
	}
	query := url.Values{"kind": {driver.FeedDelivery.String()}}
	if a.Source != "" {
		query.Set("source", a.Source)
	}
	f := &Follow{
		Query:   query,
		Opened:  func() error { close(opened); return nil },
		Again:   fall,
		Missing: fall,
		Trouble: func(error) {}, // the listings meet the same outage
		Show: func(row *hookadmin.StreamRow) error {
			if row.Dropped > 0 {
				fall()
			}
			if row.Outcome != "ok" || row.EventID == "" {
				return nil
			}
			select {
			case rows <- eventKey{row.Source, row.EventID}:
			default:
				fall()
			}
			return nil
		},
	}
	return f.Run(ctx, a.client)
}

// begin shows the stored events.
func (a *Arrivals) begin(ctx context.Context) error {
	newest, err := a.newest(ctx)
	if err != nil {
		return err
	}
	if !newest.IsZero() {
		a.floor = newest.Add(-a.Overlap)
	}
	since := a.floor
	if !a.Since.IsZero() && a.Since.Before(since) {
		since = a.Since
	}
	events, err := a.list(ctx, since)
	if err != nil {
		return err
	}
	stored := events[:0:0]
	for _, e := range events {
		if !a.Since.IsZero() && !time.Time(e.ReceivedAt).Before(a.Since) {
			stored = append(stored, e)
			continue
		}
		a.seen[eventKey{e.Source, e.EventID}] = time.Time(e.ReceivedAt)
	}
	floor := a.floor
	a.floor = time.Time{} // the stored events may be older
	if err := a.Begin(len(stored)); err != nil {
		return err
	}
	for _, e := range stored {
		if err := a.arrived(ctx, eventKey{e.Source, e.EventID}, true); err != nil {
			return err
		}
	}
	a.moveTo(floor)
	return nil
}

// catchUp shows the events that are in the listing and were not shown.
func (a *Arrivals) catchUp(ctx context.Context) error {
	newest, err := a.newest(ctx)
	if err != nil || newest.IsZero() {
		return err
	}
	events, err := a.list(ctx, a.floor)
	if err != nil {
		return err
	}
	for _, e := range events {
		key := eventKey{e.Source, e.EventID}
		if a.shown(key, time.Time(e.ReceivedAt)) {
			continue
		}
		if err := a.arrived(ctx, key, false); err != nil {
			return err
		}
	}
	a.moveTo(newest.Add(-a.Overlap))
	return nil
}

func (a *Arrivals) shown(key eventKey, receivedAt time.Time) bool {
	return receivedAt.Before(a.floor) || a.seen[key].Equal(receivedAt)
}

// moveTo moves the floor up. If the clock of the database is set back, it stays.
func (a *Arrivals) moveTo(floor time.Time) {
	if floor.Before(a.floor) {
		return
	}
	a.floor = floor
	for key, at := range a.seen {
		if at.Before(floor) {
			delete(a.seen, key)
		}
	}
}

// arrived shows an event, unless it was shown.
func (a *Arrivals) arrived(ctx context.Context, key eventKey, stored bool) error {
	var event *hookadmin.EventDetail
	err := a.insist(ctx, func() (err error) {
		event, err = a.client.Event(ctx, key.source, key.id)
		return err
	})
	if errors.Is(err, driver.ErrNotFound) { // removed meanwhile
		return nil
	}
	if err != nil || a.shown(key, time.Time(event.ReceivedAt)) {
		return err
	}
	a.seen[key] = time.Time(event.ReceivedAt)
	return a.Show(event, stored)
}

// newest returns the time of receipt of the newest event of any source; zero if there is none.
func (a *Arrivals) newest(ctx context.Context) (time.Time, error) {
	page, err := a.page(ctx, url.Values{"limit": {"1"}})
	if err != nil || len(page.Events) == 0 {
		return time.Time{}, err
	}
	return time.Time(page.Events[0].ReceivedAt), nil
}

// list returns the events since a time, oldest first. The zero time is for a database that was empty.
func (a *Arrivals) list(ctx context.Context, since time.Time) ([]hookadmin.Event, error) {
	if since.IsZero() {
		events, err := a.span(ctx, url.Values{})
		if a.Source != "" {
			events = slices.DeleteFunc(events, func(e hookadmin.Event) bool { return e.Source != a.Source })
		}
		return events, err
	}
	newest, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	var events []hookadmin.Event
	for from := since; !from.After(newest); from = from.Add(day) {
		query := url.Values{"since": {from.UTC().Format(time.RFC3339Nano)}, "until": {from.Add(day).UTC().Format(time.RFC3339Nano)}}
		if a.Source != "" {
			query.Set("source", a.Source)
		}
		more, err := a.span(ctx, query)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

// span returns all events that query selects, oldest first.
func (a *Arrivals) span(ctx context.Context, query url.Values) ([]hookadmin.Event, error) {
	var events []hookadmin.Event
	query.Set("limit", strconv.Itoa(driver.MaxLimit))
	err := EachPage(query, func(query url.Values) (string, error) {
		page, err := a.page(ctx, query)
		if err != nil {
			return "", err
		}
		events = append(events, page.Events...)
		return page.Next, nil
	})
	slices.Reverse(events)
	return events, err
}

func (a *Arrivals) page(ctx context.Context, query url.Values) (page *hookadmin.EventPage, err error) {
	err = a.insist(ctx, func() (err error) {
		page, err = a.client.Events(ctx, query)
		return err
	})
	return page, err
}

// insist calls ask until it succeeds or its error does not pass by itself.
func (a *Arrivals) insist(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			a.troubled = false
			return nil
		case lasts(err):
			return err
		case !a.troubled:
			a.troubled = true
			a.Trouble(err)
		}
		if !pause(ctx) {
			return ctx.Err()
		}
	}
}
