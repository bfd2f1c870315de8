package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func listingCases() []testCase {
	return []testCase{
		{"Empty", listEmpty},
		{"Order", listOrder},
		{"PagesOfMessages", listPagesOfMessages},
		{"PagesOfDeadLetters", listPagesOfDeadLetters},
		{"ManyOpen", listManyOpen},
		{"PagingWhileLettersAreReplayed", listPagingWhileReplayed},
		{"Filters", listFilters},
		{"HostileTexts", listHostile},
		{"SinceAndUntil", listSinceAndUntil},
		{"TextPastRetention", listTextPastRetention},
		{"Quarantine", listQuarantine},
		{"QuarantinePages", listQuarantinePages},
		{"QuarantineSettled", settleQuarantined},
		{"QuarantineHandled", handledQuarantined},
	}
}

func listEmpty(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}")) // has no messages
	same(f, "messages", driver.MessagePage{}, *f.listMessages(&driver.MessageFilter{}))
	same(f, "dead letters", driver.DeadLetterPage{}, *f.deadLetters(&driver.MessageFilter{}))
	page, err := f.s.Quarantined(f.Context(), &driver.QuarantineFilter{})
	if err != nil {
		f.Fatalf("Quarantined: %v", err)
	}
	same(f, "quarantine", driver.QuarantinePage{}, *page)
}

// listedOf returns the messages of an event as the listing shows them.
func listedOf(e *driver.EventDetail) []driver.ListedMessage {
	var all []driver.ListedMessage
	for i := range e.Messages {
		all = append(all, driver.ListedMessage{
			Key: e.Key, Source: e.Source, EventID: e.EventID, Type: e.Type, ReceivedAt: e.ReceivedAt, MessageDetail: e.Messages[i],
		})
	}
	return all
}

// lettersOf returns the dead letters of an event. own reports whether the event has a row of its
// own.
func lettersOf(e *driver.EventDetail, own bool) []driver.DeadLetter {
	d := driver.DeadLetter{Key: e.Key, Source: e.Source, EventID: e.EventID, Type: e.Type, ReceivedAt: e.ReceivedAt}
	var all []driver.DeadLetter
	for _, m := range e.Messages {
		if m.State == driver.StateDead {
			one := d
			one.MessageID, one.Route, one.Destination = m.ID, m.Route, m.Destination
			one.Attempts, one.Generation, one.StatusCode = m.Attempts, m.Generation, m.StatusCode
			one.LastError, one.Signature, one.FailedAt = m.LastError, driver.ErrorSignature(m.LastError), m.FailedAt
			all = append(all, one)
		}
	}
	if own && e.State == driver.StateDead {
		d.Attempts, d.Generation, d.LastError, d.FailedAt = e.Attempts, e.Generation, e.LastError, e.FailedAt
		d.Signature = driver.ErrorSignature(e.LastError)
		all = append(all, d)
	}
	return all
}

// compareListed compares in the order of driver.Cursor.
func compareListed(aAt, bAt time.Time, aKey, bKey driver.Key, aID, bID string) int {
	if c := bAt.Compare(aAt); c != 0 {
		return c
	}
	if c := compareKeys(bKey, aKey); c != 0 {
		return c
	}
	return strings.Compare(bID, aID)
}

func sortListed(all []driver.ListedMessage) {
	slices.SortFunc(all, func(a, b driver.ListedMessage) int {
		return compareListed(a.ReceivedAt, b.ReceivedAt, a.Key, b.Key, a.ID, b.ID)
	})
}

func sortLetters(all []driver.DeadLetter) {
	slices.SortFunc(all, func(a, b driver.DeadLetter) int {
		return compareListed(a.ReceivedAt, b.ReceivedAt, a.Key, b.Key, a.MessageID, b.MessageID)
	})
}

// scene is a set of events that differ in everything that a listing shows.
type scene struct {
	details  []*driver.EventDetail
	messages []driver.ListedMessage
	letters  []driver.DeadLetter
}

func (s *scene) add(e *driver.EventDetail, own bool) {
	s.details = append(s.details, e)
	s.messages = append(s.messages, listedOf(e)...)
	s.letters = append(s.letters, lettersOf(e, own)...)
}

// paint claims n events, several at each time, and moves them on: messages in every state, dead
// letters of messages and of events, replaced and discarded ones.
func (f *fixture) paint(n int) *scene {
	f.Helper()
	s := &scene{}
	var all []driver.Claim
	for i := range n {
		c := newClaim([]string{"stripe", "github"}[i%2], fmt.Sprintf("evt_%02d", i/2), fmt.Sprintf(`{"n":%d}`, i/4), "a", "B", "c")
		c.Type = []string{"invoice.paid", "push"}[i/2%2]
		own := i%3 == 0
		if own {
			c.Work = driver.WorkQueued
		}
		// A destination of its own lets each message be leased alone; "c" is shared.
		for m := range 2 {
			c.Messages[m].Destination += fmt.Sprint(i)
		}
		c.Messages[2].Destination = "shared"
		f.claimNew(t0.Add(time.Duration(i/8)*time.Second), c)
		f.moveOn(&c, i, own)
		all = append(all, c)
	}
	for i := range all {
		s.add(f.event(all[i].Source, all[i].EventID), all[i].Work == driver.WorkQueued)
	}
	sortListed(s.messages)
	sortLetters(s.letters)
	return s
}

func (f *fixture) moveOn(c *driver.Claim, i int, own bool) {
	f.Helper()
	at := t0.Add(time.Minute)
	first := c.Messages[0].Destination
	switch i % 6 {
	case 1, 4:
		f.kill(at, first)
	case 2:
		m := f.leaseOne(at, first)
		f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 204})
	case 3:
		f.kill(at, first)
		f.discard(at, letter(c, 0))
	case 5:
		f.leaseOne(at, first)
	}
	if i%4 == 1 {
		f.kill(at, c.Messages[1].Destination)
	}
	if own && i%2 == 0 {
		f.killQueued(c.Key)
	}
	if !own && i%6 == 1 {
		for n, m := range c.Messages[1:] {
			for _, m := range f.lease(at, m.Destination, 100) {
				if m.ID == c.Messages[n+1].ID {
					f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 410, Error: "gone"})
					continue
				}
				f.release(at, driver.MessageLease{ID: m.ID, Token: m.Token})
			}
		}
		f.replayAt(at, c.Key, driver.ReplayAsNew)
	}
}

func listOrder(f *fixture) {
	s := f.paint(24)
	if len(s.letters) < 8 || !slices.ContainsFunc(s.letters, func(d driver.DeadLetter) bool { return d.MessageID == "" }) {
		f.Fatalf("the scene has the dead letters %+v, want more, and some of events", s.letters)
	}
	same(f, "messages", s.messages, f.listMessages(&driver.MessageFilter{Limit: driver.MaxLimit}).Messages)
	same(f, "dead letters", s.letters, f.deadLetters(&driver.MessageFilter{Limit: driver.MaxLimit}).DeadLetters)
	same(f, "messages without a limit", s.messages[:driver.DefaultLimit], f.listMessages(&driver.MessageFilter{}).Messages)
	same(f, "messages, one", s.messages[:1], f.listMessages(&driver.MessageFilter{Limit: 1}).Messages)
}

// walk pages through a listing with several limits. The cursor is converted to text and back each
// time, as in the API. page returns the entries of a page and its next cursor.
func walk[T any](f *fixture, want []T, filter driver.MessageFilter, page func(filter *driver.MessageFilter) ([]T, driver.Cursor)) {
	f.Helper()
	for _, limit := range []int{1, 2, 7, len(want) - 1, len(want), len(want) + 1} {
		filter.Limit, filter.After = limit, driver.Cursor{}
		var got []T
		for pages := 1; ; pages++ {
			some, next := page(&filter)
			got = append(got, some...)
			if next.IsZero() || len(got) > len(want) {
				if most := (len(want) + limit - 1) / limit; pages != most {
					f.Errorf("limit %d: the listing has %d pages, want %d", limit, pages, most)
				}
				break
			}
			if len(some) != limit {
				f.Errorf("limit %d: page %d has %d entries and is not the last", limit, pages, len(some))
			}
			var err error
			if filter.After, err = driver.ParseCursor(next.String()); err != nil {
				f.Fatalf("ParseCursor: %v", err)
			}
		}
		same(f, fmt.Sprint("pages of ", limit), want, got)
	}
}

func listPagesOfMessages(f *fixture) {
	all := f.paint(16).messages
	for _, state := range append([]string{""}, driver.MessageStates()...) {
		want := slices.DeleteFunc(slices.Clone(all), func(m driver.ListedMessage) bool { return state != "" && m.State != state })
		if len(want) < 2 {
			f.Fatalf("the scene has %d messages of the state %q, want more", len(want), state)
		}
		walk(f, want, driver.MessageFilter{State: state}, func(filter *driver.MessageFilter) ([]driver.ListedMessage, driver.Cursor) {
			page := f.listMessages(filter)
			return page.Messages, page.Next
		})
	}
}

// listManyOpen lists a backlog that is too long to sort for each page.
func listManyOpen(f *fixture) {
	const n, batch = 10_500, 1_500
	all := newClaims(n, "a")
	var want []driver.ListedMessage
	for i := 0; i < n; i += batch {
		at := t0.Add(time.Duration(i/batch) * time.Second)
		f.claimNew(at, all[i:i+batch]...)
		for j := i; j < i+batch; j++ {
			want = append(want, listedOf(claimed(&all[j], at))...)
		}
	}
	sortListed(want)
	filter := driver.MessageFilter{State: driver.StatePending, Destination: "to-a", Limit: driver.MaxLimit}
	for start := 0; start < n; start += driver.MaxLimit {
		end := min(start+driver.MaxLimit, n)
		page := f.listMessages(&filter)
		same(f, fmt.Sprint("messages from ", start), want[start:end], page.Messages)
		if page.Next.IsZero() != (end == n) || f.Failed() {
			f.Fatalf("after %d of %d messages the next page is at %+v", end, n, page.Next)
		}
		filter.After = page.Next
	}
	one := want[n/2]
	got := f.listMessages(&driver.MessageFilter{State: driver.StatePending, MessageID: one.ID})
	same(f, "one of many", []driver.ListedMessage{one}, got.Messages)
	same(f, "stats", []driver.DestinationStats{{Destination: "to-a", Pending: driver.CountLimit, OldestDueAt: t0}}, f.stats().Destinations)
}

func listPagesOfDeadLetters(f *fixture) {
	walk(f, f.paint(24).letters, driver.MessageFilter{}, func(filter *driver.MessageFilter) ([]driver.DeadLetter, driver.Cursor) {
		page := f.deadLetters(filter)
		return page.DeadLetters, page.Next
	})
}

// listPagingWhileReplayed replays dead letters page by page, like a bulk replay. Each is listed
// once, although listed letters are no longer dead, or dead again.
func listPagingWhileReplayed(f *fixture) {
	s := f.paint(24)
	var got []driver.DeadLetter
	filter := driver.MessageFilter{Limit: 3}
	for i := 0; ; i++ {
		page := f.deadLetters(&filter)
		got = append(got, page.DeadLetters...)
		var refs []driver.DeadLetterRef
		for _, d := range page.DeadLetters {
			refs = append(refs, driver.DeadLetterRef{Key: d.Key, MessageID: d.MessageID})
		}
		work := f.replayDead
		if i%2 == 0 {
			work = f.discard
		}
		if done := work(t0.Add(time.Hour), refs...); slices.Contains(done, false) {
			f.Errorf("of the letters %+v these were done: %v, want all", refs, done)
		}
		if filter.After = page.Next; page.Next.IsZero() || i > len(s.letters) {
			break
		}
	}
	same(f, "letters seen", s.letters, got)
	same(f, "letters left", driver.DeadLetterPage{}, *f.deadLetters(&driver.MessageFilter{}))
}
