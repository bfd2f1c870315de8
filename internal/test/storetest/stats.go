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
