package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func claimCases() []testCase {
	return []testCase{
		{"NewThenDuplicate", claimNewThenDuplicate},
		{"OtherBody", claimOtherBody},
		{"NoBodyHash", claimNoBodyHash},
		{"ManyMixed", func(f *fixture) { claimManyMixed(f, "billing", "audit") }},
		{"ManyMixedQueued", func(f *fixture) { claimManyMixed(f) }},
		{"Large", func(f *fixture) { claimLarge(f, "billing") }},
		{"LargeQueued", func(f *fixture) { claimLarge(f) }},
		{"IdsAreUniquePerSource", claimPerSource},
		{"WritesWhatIsOwed", claimWritesWhatIsOwed},
		{"Empty", claimNothing},
		{"WrongOrderPanics", claimWrongOrder},
		{"OccurredAt", claimOccurredAt},
		{"DatabaseClock", claimDatabaseClock},
		{"CancelledContext", claimCancelled},
		{"DroppedRow", func(f *fixture) { claimDropped(f, "audit") }},
		{"DroppedRowQueued", func(f *fixture) { claimDropped(f) }},
		{"DroppedQuarantine", quarantineDropped},
		{"RefusedRow", func(f *fixture) { claimRefused(f, "audit") }},
		{"RefusedRowQueued", func(f *fixture) { claimRefused(f) }},
		{"RefusedDeadLetter", inlineRefused},
	}
}

func claimNewThenDuplicate(f *fixture) {
	c := newClaim("stripe", "evt_1", `{"id":"evt_1"}`, "billing")
	same(f, "first claim", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, c))
	for range 2 {
		same(f, "second claim", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0.Add(time.Minute), c))
	}
	f.sameEvent(claimed(&c, t0))
}

func claimOtherBody(f *fixture) {
	first := newClaim("stripe", "evt_1", `{"amount":1}`)
	other := newClaim("stripe", "evt_1", `{"amount":2}`, "billing")
	other.Type, other.Headers = "other.type", []byte(`{}`)
	f.claimNew(t0, first)
	same(f, "claim with another body", []driver.ClaimResult{{Duplicate: true, OtherBody: true}}, f.claim(t0.Add(time.Second), other))
	f.sameEvent(claimed(&first, t0))
}

// claimNoBodyHash claims an event whose body is compared with no other, and one that is compared with none.
func claimNoBodyHash(f *fixture) {
	listed, arrived := newClaim("stripe", "evt_1", `{"amount":1}`), newClaim("stripe", "evt_2", `{"amount":1}`)
	other, again := newClaim("stripe", "evt_1", `{"amount": 1}`), newClaim("stripe", "evt_2", `{"amount": 1}`)
	listed.BodyHash, again.BodyHash = driver.NoBodyHash, driver.NoBodyHash
	listed.Remote = driver.RemoteReconcile
	f.claimNew(t0, listed)
	f.claimNew(t0, arrived)
	same(f, "the delivery of a listed event", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0.Add(time.Second), other))
	same(f, "an event that was delivered", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0.Add(time.Second), again))
}

// claimManyMixed claims new and known events in one call. Each must get its own result.
func claimManyMixed(f *fixture, routes ...string) {
	const n = 90
	var old, all []driver.Claim
	var want []driver.ClaimResult
	for i := range n {
		c := newEither("stripe", fmt.Sprintf("evt_%03d", i), fmt.Sprintf(`{"n":%d}`, i), routes...)
		switch i % 3 {
		case 0:
			want = append(want, driver.ClaimResult{Claimed: true})
		case 1:
			old = append(old, c)
			want = append(want, driver.ClaimResult{Duplicate: true})
		case 2:
			old = append(old, c)
			setBody(&c, []byte("changed"))
			want = append(want, driver.ClaimResult{Duplicate: true, OtherBody: true})
		}
		all = append(all, c)
	}
	f.claimNew(t0, old...)
	same(f, "results", want, f.claim(t0.Add(time.Second), all...))
	for i := range all {
		at := t0
		c := all[i]
		switch i % 3 {
		case 0:
			at = t0.Add(time.Second)
		case 2:
			setBody(&c, fmt.Appendf(nil, `{"n":%d}`, i))
		}
		f.sameEvent(claimed(&c, at))
	}
}

// claimLarge claims thousands of rows in single calls: more than a database accepts as parameters
// of one statement.
func claimLarge(f *fixture, routes ...string) {
	const n = 3000
	var all []driver.Claim
	var counts []driver.DeliveryCount
	for i := range n {
		all = append(all, newEither("stripe", fmt.Sprint("evt_", i), fmt.Sprint("body ", i), routes...))
		if len(routes) > 0 {
			all[i].BodyGuard = driver.BodyWatch
		}
		counts = append(counts, driver.DeliveryCount{Key: all[i].Key, Duplicates: 1})
	}
	f.claimNew(t0, all...)
	same(f, "second claims", duplicates(n), f.claim(t0, all...))
	if len(routes) == 0 {
		f.sameEvent(claimed(&all[0], t0))
		f.sameEvent(claimed(&all[n-1], t0))
		return
	}
	messages := f.lease(t0, "to-billing", n)
	var completions []driver.Completion
	for _, m := range messages {
		completions = append(completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	f.mustComplete(t0, completions...)
	f.count(t0, counts...)
	same(f, "pruned", driver.PruneResult{Events: n}, f.prune(windows(day, t0.Add(2*day))))
}

func claimPerSource(f *fixture) {
	a := newClaim("stripe", "1", "from stripe", "billing")
	b := newClaim("github", "1", "from github")
	f.claimNew(t0, a)
	f.claimNew(t0, b)
	f.sameEvent(claimed(&a, t0))
	f.sameEvent(claimed(&b, t0))
	f.absent("shopify", "1")
	// Source and id are never concatenated.
	f.claimNew(t0, newClaim("ab", "c", "x"), newClaim("a", "bc", "x"))
}

func claimWritesWhatIsOwed(f *fixture) {
	none := newClaim("stripe", "none", "{}")
	routed := newClaim("stripe", "routed", "{}", "zeta", "b", "a-c", "ab", "B", "a b", "a_c", "\u00e9") // shown in byte order
	queued := newClaim("stripe", "queued", "{}")
	queued.Work = driver.WorkQueued
	both := newClaim("stripe", "both", "{}", "billing")
	both.Work = driver.WorkQueued
	typeless := newClaim("stripe", "typeless", "{}")
	typeless.Type = ""
	all := []driver.Claim{none, routed, queued, both, typeless}
	f.claimNew(t0, all...)
	for i := range all {
		f.sameEvent(claimed(&all[i], t0))
	}
}

func claimNothing(f *fixture) {
	got, err := f.s.Claim(f.Context(), &driver.ClaimParams{Now: t0})
	if err != nil || len(got) != 0 {
		f.Errorf("Claim of nothing: got %v and the error %v, want nothing", got, err)
	}
}

func claimWrongOrder(f *fixture) {
	pair := sorted(newClaim("stripe", "1", "x"), newClaim("stripe", "2", "y"))
	for name, claims := range map[string][]driver.Claim{
		"descending": {pair[1], pair[0]},
		"repeated":   {pair[0], pair[0]},
	} {
		if !panics(func() { _, _ = f.s.Claim(f.Context(), &driver.ClaimParams{Claims: claims, Now: t0}) }) {
			f.Errorf("Claim of %s keys did not panic", name)
		}
	}
	f.absent("stripe", "1")
	f.absent("stripe", "2")
	f.claimNew(t0, pair...) // the store still works
}

func panics(call func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call()
	return false
}

func claimOccurredAt(f *fixture) {
	for i, at := range []time.Time{
		{},
		time.Unix(0, 0).UTC(),
		time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		t0.Add(-time.Hour).Add(time.Microsecond),
		time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 2*60*60)),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	} {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}")
		c.OccurredAt = at
		f.claimNew(t0, c)
		f.sameEvent(claimed(&c, t0))
	}
}

// claimDatabaseClock leaves Now out: the event's time must lie between two readings of the
// database's clock.
func claimDatabaseClock(f *fixture) {
	before := f.clock()
	f.claimNew(time.Time{}, newClaim("stripe", "evt_1", "{}", "billing"))
	after := f.clock()
	got := f.event("stripe", "evt_1")
	for name, at := range map[string]time.Time{
		"ReceivedAt": got.ReceivedAt, "CreatedAt": got.Messages[0].CreatedAt, "DueAt": got.Messages[0].DueAt,
	} {
		if at.Before(before.Truncate(time.Microsecond)) || at.After(after) {
			f.Errorf("%s is %v, want it between %v and %v", name, at, before, after)
		}
	}
}

func claimCancelled(f *fixture) {
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	c := newClaim("stripe", "evt_1", "{}")
	got, err := f.s.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{c}, Now: t0})
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrCommitUnknown) {
		f.Errorf("Claim on a cancelled context returned %v and the error %v, want %v or %v", got, err, driver.ErrUnavailable, driver.ErrCommitUnknown)
	}
	f.absent("stripe", "evt_1")
	f.claimNew(t0, c)
}
