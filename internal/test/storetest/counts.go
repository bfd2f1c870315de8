package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func countCases() []testCase {
	return []testCase{
		{"AddsUp", countAddsUp},
		{"UnknownKeys", countUnknown},
		{"TellsCounted", countTells},
		{"Many", countMany},
	}
}

// countTells tells the events with duplicates, after the commit, and no others.
func countTells(f *fixture) {
	one, other := newClaim("stripe", "evt_1", "{}"), newClaim("github", "evt_2", "{}")
	repeated, unknown := newClaim("stripe", "evt_3", "{}"), newClaim("stripe", "evt_4", "{}")
	f.claimNew(t0, one, repeated)
	f.claimNew(t0.Add(time.Hour), other)
	p := &driver.CountDeliveriesParams{Counts: []driver.DeliveryCount{
		{Key: one.Key, Duplicates: 3}, {Key: other.Key, Duplicates: 1}, {Key: repeated.Key, Repeats: 1}, {Key: unknown.Key, Duplicates: 1},
	}, Now: t0.Add(2 * time.Hour)}
	slices.SortFunc(p.Counts, func(a, b driver.DeliveryCount) int { return compareKeys(a.Key, b.Key) })
	got := map[driver.Key]driver.CountedEvent{}
	p.Counted = func(e driver.CountedEvent) {
		if _, twice := got[e.Key]; twice {
			f.Errorf("told twice: %+v", e)
		}
		got[e.Key] = e
	}
	if err := f.s.CountDeliveries(f.Context(), p); err != nil {
		f.Fatal(err)
	}
	same(f, "counted events", map[driver.Key]driver.CountedEvent{
		one.Key:   {Key: one.Key, Source: "stripe", ReceivedAt: t0},
		other.Key: {Key: other.Key, Source: "github", ReceivedAt: t0.Add(time.Hour)},
	}, got)
}

func countAddsUp(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	untouched := newClaim("stripe", "evt_2", "{}")
	f.claimNew(t0, c, untouched)
	want := claimed(&c, t0)
	for i, n := range []driver.DeliveryCount{
		{Duplicates: 1},
		{Duplicates: 63, OtherBodies: 2},
		{Duplicates: 1_000_000, OtherBodies: 1, Repeats: 5},
		{Duplicates: 1, Repeats: 1},
	} {
		at := t0.Add(time.Duration(i+1) * time.Hour)
		n.Key = c.Key
		f.count(at, n)
		want.Duplicates += int64(n.Duplicates)
		want.Deliveries.Count = 1 + want.Duplicates
		want.Deliveries.OtherBodies += int64(n.OtherBodies)
		want.Deliveries.Repeats += int64(n.Repeats)
		want.Deliveries.LastAt = at
		f.sameEvent(want)
	}
	// A late flush does not move the time of the latest delivery. Neither do repeats, which are
	// deliveries of other events.
	f.count(t0.Add(time.Minute), driver.DeliveryCount{Key: c.Key, Duplicates: 1})
	f.count(t0.Add(24*time.Hour), driver.DeliveryCount{Key: c.Key, Repeats: 1})
	want.Duplicates++
	want.Deliveries.Count++
	want.Deliveries.Repeats++
	f.sameEvent(want)
	f.sameEvent(claimed(&untouched, t0))
	same(f, "listing", []driver.Event{want.Event}, f.events(&driver.EventFilter{Source: "stripe", ID: "evt_1"}).Events)
	f.claim(t0.Add(24*time.Hour), c) // claiming a duplicate counts nothing: the caller counts
	f.sameEvent(want)
}

func countUnknown(f *fixture) {
	f.count(t0)
	c := newClaim("stripe", "evt_1", "{}")
	f.count(t0, driver.DeliveryCount{Key: c.Key, Duplicates: 7})
	f.claimNew(t0, c)
	f.sameEvent(claimed(&c, t0))
	at := t0.Add(time.Second)
	f.count(at,
		driver.DeliveryCount{Key: driver.EventKey("stripe", "unknown"), Duplicates: 7},
		driver.DeliveryCount{Key: c.Key, Duplicates: 1},
	)
	want := claimed(&c, t0)
	want.Duplicates, want.Deliveries.Count, want.Deliveries.LastAt = 1, 2, at
	f.sameEvent(want)
	f.absent("stripe", "unknown")
}

func countMany(f *fixture) {
	const n = driver.MaxLimit
	var all []driver.Claim
	var counts []driver.DeliveryCount
	for i := range n {
		all = append(all, newClaim("stripe", fmt.Sprint("evt_", i), "{}"))
		counts = append(counts, driver.DeliveryCount{Key: all[i].Key, Duplicates: i + 1})
	}
	f.claimNew(t0, all...)
	at := t0.Add(time.Second)
	f.count(at, append([]driver.DeliveryCount(nil), counts...)...)
	var want []driver.Event
	for i := range all {
		e := claimed(&all[i], t0).Event
		e.Duplicates = int64(i + 1)
		want = append(want, e)
	}
	sortEvents(want)
	same(f, "listing", want, f.events(&driver.EventFilter{Limit: driver.MaxLimit}).Events)
}
