package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func statsCases() []testCase {
	return []testCase{
		{"Life", statsLife},
		{"Queued", statsQueued},
		{"Destinations", statsDestinations},
		{"Limit", statsLimit},
		{"Backlog", backlog},
		{"BacklogOfNames", backlogOfNames},
	}
}

// statsLife checks the numbers through the life of two events.
func statsLife(f *fixture) {
	same(f, "of an empty store", driver.Stats{}, f.stats())
	f.claimNew(t0, newClaim("stripe", "none", "{}"))
	same(f, "of an event without messages", driver.Stats{}, f.stats())
	c, second := newClaim("stripe", "evt_1", "{}", "a", "b"), newClaim("stripe", "evt_2", "{}", "a")
	f.claimNew(t0, c)
	f.claimNew(t0.Add(time.Second), second)
	a, b := driver.DestinationStats{Destination: "to-a"}, driver.DestinationStats{Destination: "to-b"}
	expect := func(when string, dead int64, destinations ...driver.DestinationStats) {
		f.Helper()
		same(f, when, driver.Stats{DeadLetters: dead, Destinations: destinations}, f.stats())
	}
	a.Pending, a.OldestDueAt, b.Pending, b.OldestDueAt = 2, t0, 1, t0
	expect("claimed", 0, a, b)

	now := t0.Add(time.Minute)
	m := f.lease(now, "to-a", 1)[0]
	a.Pending, a.Sending, a.OldestDueAt = 1, 1, t0.Add(time.Second)
	expect("one is being sent", 0, a, b)
	f.mustComplete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: time.Hour})
	a.Pending, a.Sending = 2, 0
	expect("it waits", 0, a, b)
	m = f.leaseOne(now, "to-a")
	a.Pending, a.Sending, a.OldestDueAt = 1, 1, now.Add(time.Hour)
	expect("the other is being sent", 0, a, b)
	now = now.Add(day) // its lease has expired, unnoticed
	expect("its lease ran out", 0, a, b)
	f.mustComplete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	a.Sending = 0
	expect("it was sent", 0, a, b)
	f.kill(now, "to-a")
	f.kill(now, "to-b")
	dead := driver.DestinationStats{Destination: "to-a", Dead: 1}
	deadToo := driver.DestinationStats{Destination: "to-b", Dead: 1}
	expect("two are dead", 2, dead, deadToo)
	f.discard(now, letter(&c, 1))
	expect("one is discarded", 1, dead)
	f.replayAt(now, c.Key, driver.ReplayAsNew)
	expect("one is replayed as new", 0, driver.DestinationStats{Destination: "to-a", Pending: 1, OldestDueAt: now})
	f.kill(now, "to-a")
	f.replayDead(now, driver.DeadLetterRef{Key: c.Key, MessageID: driver.MessageID(c.Key, 1, "a")})
	m = f.leaseOne(now, "to-a")
	f.mustComplete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	expect("all are done", 0)
}

func statsQueued(f *fixture) {
	var keys []driver.Key
	for i := range 5 {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}")
		c.Work = driver.WorkQueued
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
		keys = append(keys, c.Key)
	}
	requests := []driver.Quarantined{{Source: "stripe", Body: []byte("1")}, {Source: "stripe", Body: []byte("2")}, {Source: "github", Body: []byte("1")}}
	f.quarantine(t0, requests...)
	f.quarantine(t0, requests[0])
	want := driver.Stats{EventsPending: 5, OldestPendingAt: t0, Quarantined: 3}
	same(f, "all wait", want, f.stats())
	f.moveQueued(keys[0], driver.StateDone)
	f.moveQueued(keys[2], driver.StateRunning)
	f.killQueued(keys[3])
	want.EventsPending, want.OldestPendingAt, want.DeadLetters = 2, t0.Add(time.Second), 1
	same(f, "one done, one running, one dead", want, f.stats())
	f.discard(t0, driver.DeadLetterRef{Key: keys[3]})
	want.DeadLetters = 0
	same(f, "one discarded", want, f.stats())
	f.replayAt(t0.Add(-time.Second), keys[0], driver.ReplaySameID)
	want.EventsPending, want.OldestPendingAt = 3, t0.Add(-time.Second)
	same(f, "one replayed", want, f.stats())
}

// statsLimit counts more than driver.CountLimit. Messages that are being sent are counted although
// those before them reach the limit.
func statsLimit(f *fixture) {
	const batch = 501
	for from := 0; from <= driver.CountLimit; from += batch {
		var claims []driver.Claim
		for i := range batch {
			c := newClaim("stripe", fmt.Sprint("evt_", from+i), "{}", "a")
			c.Work = driver.WorkQueued
			claims = append(claims, c)
		}
		f.claimNew(t0, claims...)
	}
	f.lease(time.Time{}, "to-a", 3)
	same(f, "of much work", driver.Stats{
		EventsPending: driver.CountLimit, OldestPendingAt: t0,
		Destinations: []driver.DestinationStats{{Destination: "to-a", Pending: driver.CountLimit, Sending: 3, OldestDueAt: t0}},
	}, f.stats())
}

// backlog measures more and less work than the limit.
func backlog(f *fixture) {
	var keys []driver.Key
	for i := range 5 {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}", "a")
		c.Work = driver.WorkQueued
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
		keys = append(keys, c.Key)
	}
	measure := func(when string, limit int, stripe, a driver.Waiting) {
		f.Helper()
		before, err := f.s.Now(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		got, err := f.s.Backlog(f.Context(), &driver.BacklogParams{
			Sources: []string{"stripe", "none"}, Destinations: []string{"to-a", "to-none"}, Limit: limit,
		})
		if err != nil {
			f.Fatalf("%s: Backlog: %v", when, err)
		}
		if got.At.Before(before) || got.Bytes <= 0 {
			f.Errorf("%s: Backlog at %s of %d bytes, want one after %s and a size", when, got.At, got.Bytes, before)
		}
		got.At, got.Bytes, got.LogBytes = time.Time{}, 0, 0
		same(f, when, driver.Backlog{
			Sources:      map[string]driver.Waiting{"stripe": stripe, "none": {}},
			Destinations: map[string]driver.Waiting{"to-a": a, "to-none": {}},
		}, *got)
	}
	all := driver.Waiting{Open: 5, OldestDueAt: t0}
	measure("all wait", 10, all, all)
	few := driver.Waiting{Open: 3, OldestDueAt: t0}
	measure("more than the limit", 3, few, few)
	f.moveQueued(keys[0], driver.StateDone)
	f.killQueued(keys[1])
	f.killQueued(keys[2])
	events := driver.Waiting{Open: 2, OldestDueAt: t0.Add(3 * time.Second), Dead: 2}
	measure("one done, two dead", 10, events, all)
	events.Dead = 1
	measure("more dead than the limit", 1, driver.Waiting{Open: 1, OldestDueAt: events.OldestDueAt, Dead: 1}, driver.Waiting{Open: 1, OldestDueAt: t0})
	events.Dead = 2
	m := f.lease(t0.Add(time.Minute), "to-a", 1)[0]
	all.OldestDueAt = t0.Add(time.Second) // the end of a lease counts as its message's due time
	measure("one is being sent", 10, events, all)
	f.mustComplete(t0.Add(time.Minute), driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	for _, m := range f.lease(t0.Add(time.Minute), "to-a", 4) {
		f.mustComplete(t0.Add(time.Minute), driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "gone"})
	}
	measure("the others are dead", 10, events, driver.Waiting{Dead: 4})
}

// backlogOfNames measures no name, and names that a database might confuse.
func backlogOfNames(f *fixture) {
	p := &driver.BacklogParams{Limit: 9}
	for i, text := range append(ids(), "B", "b") {
		c := newClaim(text, fmt.Sprint("evt_", i), "{}", "r")
		c.Work, c.Messages[0].Destination = driver.WorkQueued, text
		f.claimNew(t0, c)
		p.Sources = append(p.Sources, text)
	}
	p.Destinations = p.Sources
	for _, names := range [][]string{nil, p.Sources} {
		p.Sources, p.Destinations = names, names
		got, err := f.s.Backlog(f.Context(), p)
		if err != nil {
			f.Fatalf("Backlog of %q: %v", names, err)
		}
		want := map[string]driver.Waiting{}
		for _, name := range names {
			want[name] = driver.Waiting{Open: 1, OldestDueAt: t0}
		}
		same(f, "sources", want, got.Sources)
		same(f, "destinations", want, got.Destinations)
	}
	if p := f.s.Pool(); p.InUse < 0 || p.Idle < 0 || p.InUse+p.Idle < 1 {
		f.Errorf("Pool returned %+v, want at least one connection after a query", p)
	}
}

// statsDestinations uses names that a database might confuse, or not sort by bytes.
func statsDestinations(f *fixture) {
	var want []driver.DestinationStats
	for i, text := range append(ids(), "B", "a", "A", "b", "_", "-", "Z", "z") {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}", "r")
		c.Messages[0].Destination = text
		f.claimNew(t0, c)
		want = append(want, driver.DestinationStats{Destination: text, Pending: 1, OldestDueAt: t0})
	}
	slices.SortFunc(want, func(a, b driver.DestinationStats) int { return strings.Compare(a.Destination, b.Destination) })
	same(f, "destinations", want, f.stats().Destinations)
}
