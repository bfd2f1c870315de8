package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func newDeadCases() []testCase {
	return []testCase{
		{"Span", newDeadSpan},
		{"Most", newDeadMost},
		{"Enqueue", enqueueAlone},
	}
}

func (f *fixture) newDead(p *driver.NewDeadParams) []driver.NewDead {
	f.Helper()
	got, err := f.s.NewDead(f.Context(), p)
	if err != nil {
		f.Fatalf("NewDead(%+v): %v", p, err)
	}
	return got
}

// newDeadSpan has dead messages of two destinations, a dead event, one that was discarded, and a
// summary.
func newDeadSpan(f *fixture) {
	dead := func(c driver.Claim, n int, at time.Time, text string) driver.NewDead {
		m := f.leaseOne(at, c.Messages[n].Destination)
		f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: text})
		text = string([]rune(text)[:min(1000, len([]rune(text)))])
		return driver.NewDead{
			Destination: c.Messages[n].Destination, MessageID: m.ID, Source: c.Source, EventID: c.EventID,
			Error: text, FailedAt: at,
		}
	}
	a := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, a)
	first := dead(a, 0, t0.Add(2*time.Second), "answered 500: request 17")
	b := newClaim("github", "evt_2", "{}", "b")
	f.claimNew(t0, b)
	second := dead(b, 0, t0.Add(time.Second), strings.Repeat("é", 2000))
	discarded := newClaim("stripe", "evt_3", "{}", "a")
	f.claimNew(t0, discarded)
	dead(discarded, 0, t0.Add(time.Second), "gone")
	f.discard(t0.Add(time.Second), letter(&discarded, 0))
	queued := newClaim("stripe", "evt_4", "{}")
	queued.Work, queued.Undecided = driver.WorkQueued, driver.NoteUndecided+"r"
	f.claimNew(t0.Add(3*time.Second), queued)
	third := driver.NewDead{
		Source: "stripe", EventID: "evt_4", Error: queued.Undecided, FailedAt: t0.Add(3 * time.Second),
	}
	f.enqueueOne(driver.SummaryPrefix+"x", "to-a")
	for _, m := range f.lease(time.Time{}, "to-a", 9) {
		f.mustComplete(t0.Add(time.Second), driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "summary"})
	}
	both := []string{"to-a", "to-b"}
	for name, tt := range map[string]struct {
		params driver.NewDeadParams
		want   []driver.NewDead
	}{
		"nothing":           {driver.NewDeadParams{}, nil},
		"unknown names":     {driver.NewDeadParams{Destinations: []string{"to-nobody", "it's"}, Sources: []string{"to-a"}}, nil},
		"one destination":   {driver.NewDeadParams{Destinations: []string{"to-a"}}, []driver.NewDead{first}},
		"undecided routes":  {driver.NewDeadParams{Routes: []string{"other", "r"}}, []driver.NewDead{third}},
		"another route":     {driver.NewDeadParams{Routes: []string{"other", "", "%"}}, nil},
		"route and source":  {driver.NewDeadParams{Sources: []string{"github", "stripe"}, Routes: []string{"r"}}, []driver.NewDead{third}},
		"route and message": {driver.NewDeadParams{Destinations: []string{"to-a"}, Routes: []string{"r"}}, []driver.NewDead{first, third}},
		"one source":        {driver.NewDeadParams{Sources: []string{"stripe", "github"}}, []driver.NewDead{third}},
		"all":               {driver.NewDeadParams{Destinations: both, Sources: []string{"stripe"}}, []driver.NewDead{second, first, third}},
		"from a time on":    {driver.NewDeadParams{Destinations: both, Sources: []string{"stripe"}, Since: first.FailedAt}, []driver.NewDead{first, third}},
		"until before":      {driver.NewDeadParams{Destinations: both, Until: first.FailedAt}, []driver.NewDead{second}},
		"after all of them": {driver.NewDeadParams{Destinations: both, Since: third.FailedAt.Add(time.Microsecond)}, nil},
	} {
		if tt.params.Since.IsZero() {
			tt.params.Since = t0.Add(-time.Hour)
		}
		if tt.params.Until.IsZero() {
			tt.params.Until = t0.Add(time.Hour)
		}
		same(f, name, tt.want, f.newDead(&tt.params))
	}
}

// newDeadMost has more dead letters than one call returns.
func newDeadMost(f *fixture) {
	const more = 5
	var claims []driver.Claim
	for i := range driver.MaxNewDead + more {
		claims = append(claims, newClaim("stripe", fmt.Sprint(i), "{}", "a"))
	}
	f.claimNew(t0, claims...)
	var done []driver.Completion
	for _, m := range f.lease(t0, "to-a", len(claims)) {
		done = append(done, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "no"})
	}
	f.mustComplete(t0, done...)
	got := f.newDead(&driver.NewDeadParams{Destinations: []string{"to-a"}, Since: t0, Until: t0.Add(time.Microsecond)})
	if len(got) != driver.MaxNewDead {
		f.Errorf("%d dead letters, want %d", len(got), driver.MaxNewDead)
	}
}

func (f *fixture) enqueueOne(id, destination string) {
	f.Helper()
	m := driver.OutboxMessage{ID: id, Destination: destination, Type: "t", Headers: []byte("{}"), Body: []byte("1")}
	if err := f.s.Enqueue(f.Context(), []driver.OutboxMessage{m}); err != nil {
		f.Fatalf("Enqueue: %v", err)
	}
}

// enqueueAlone writes messages without a caller's transaction, each id once.
func enqueueAlone(f *fixture) {
	for range 2 {
		f.enqueueOne("m1", "to-a")
	}
	if err := f.s.Enqueue(f.Context(), nil); err != nil {
		f.Errorf("Enqueue of nothing: %v", err)
	}
	bad := []driver.OutboxMessage{{ID: "m2", Destination: "to-a", Headers: []byte("{}")}, {ID: "a.b", Destination: "to-a", Headers: []byte("{}")}}
	if err := f.s.Enqueue(f.Context(), bad); !errors.Is(err, driver.ErrBadRow) {
		f.Errorf("Enqueue of a bad id: %v, want %v", err, driver.ErrBadRow)
	}
	got := f.lease(time.Time{}, "to-a", 9)
	if len(got) != 1 || got[0].ID != "m1" || string(got[0].Body) != "1" || got[0].Type != "t" {
		f.Errorf("leased %+v, want m1 alone", got)
	}
}

// raceEnqueue enqueues the same ids in two processes.
func raceEnqueue(p *pair) {
	p.atOnce(20, func(s driver.Store, i int) error {
		var all []driver.OutboxMessage
		for n := range 5 {
			all = append(all, driver.OutboxMessage{ID: fmt.Sprint("m", (i+n)%7), Destination: "to-a", Headers: []byte("{}"), Body: []byte{byte(i)}})
		}
		return s.Enqueue(p.Context(), all)
	})
	var ids []string
	for _, m := range p.lease(time.Time{}, "to-a", 99) {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	same(p.fixture, "messages", []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6"}, ids)
}
