package storetest

import (
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func bodyGuardCases() []testCase {
	return []testCase{
		{"Ignore", guardIgnore},
		{"Watch", guardWatch},
		{"Refuse", guardRefuse},
		{"SameIdIsAPlainDuplicate", guardSameID},
		{"KnownIdWithAnothersBody", guardAnothersBody},
		{"WithinOneClaim", guardWithinOneClaim},
		{"PerSource", guardPerSource},
		{"ForgottenWithTheEvent", guardForgotten},
		{"LaterEventIsNoForerunner", guardLater},
	}
}

func guarded(guard driver.BodyGuard, source, id, body string, routes ...string) driver.Claim {
	c := newClaim(source, id, body, routes...)
	c.BodyGuard = guard
	return c
}

func repeatOf(first *driver.Claim, claimed bool) driver.ClaimResult {
	return driver.ClaimResult{Claimed: claimed, Duplicate: !claimed, RepeatOf: first.EventID, RepeatOfKey: first.Key}
}

func guardIgnore(f *fixture) {
	f.claimNew(t0, guarded(driver.BodyWatch, "github", "1", "body"))
	again := guarded(driver.BodyIgnore, "github", "2", "body")
	same(f, "result", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, again))
	f.sameEvent(claimed(&again, t0))
	// BodyIgnore stores nothing to compare later bodies with.
	f.claimNew(t0, guarded(driver.BodyIgnore, "stripe", "1", "body"))
	again = guarded(driver.BodyIgnore, "stripe", "2", "body")
	same(f, "result", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, again))
	f.sameEvent(claimed(&again, t0))
}

func guardWatch(f *fixture) {
	first := guarded(driver.BodyWatch, "github", "1", "body", "billing")
	same(f, "first result", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, first))
	for i := 2; i <= 3; i++ {
		at := t0.Add(time.Duration(i) * time.Second)
		again := guarded(driver.BodyWatch, "github", fmt.Sprint(i), "body", "billing")
		same(f, "result", []driver.ClaimResult{repeatOf(&first, true)}, f.claim(at, again))
		want := claimed(&again, at)
		want.Deliveries.RepeatOf = first.EventID
		f.sameEvent(want)
	}
	f.sameEvent(claimed(&first, t0))
}

func guardRefuse(f *fixture) {
	first := guarded(driver.BodyRefuse, "github", "1", "body", "billing")
	same(f, "first result", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, first))
	again := guarded(driver.BodyRefuse, "github", "2", "body", "billing", "audit")
	for range 2 {
		same(f, "result", []driver.ClaimResult{repeatOf(&first, false)}, f.claim(t0, again))
		f.absent("github", "2")
	}
	if got := f.lease(t0, "to-audit", 10); len(got) > 0 {
		f.Errorf("a refused claim left messages: %+v", got)
	}
	// The refused id is still free for another body.
	fresh := guarded(driver.BodyRefuse, "github", "2", "another body", "audit")
	same(f, "result", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, fresh))
	f.sameEvent(claimed(&first, t0))
	f.sameEvent(claimed(&fresh, t0))
}

func guardSameID(f *fixture) {
	for _, guard := range []driver.BodyGuard{driver.BodyWatch, driver.BodyRefuse} {
		c := guarded(guard, fmt.Sprint("source", guard), "1", "body")
		f.claimNew(t0, c)
		same(f, "same id, same body", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
		setBody(&c, []byte("new body"))
		same(f, "same id, new body", []driver.ClaimResult{{Duplicate: true, OtherBody: true}}, f.claim(t0, c))
		// The body of a duplicate is not the body of an event.
		c = guarded(guard, c.Source, "2", "new body")
		same(f, "new id, body of a duplicate", []driver.ClaimResult{{Claimed: true}}, f.claim(t0, c))
	}
}

func guardAnothersBody(f *fixture) {
	for _, guard := range []driver.BodyGuard{driver.BodyWatch, driver.BodyRefuse} {
		source := fmt.Sprint("source", guard)
		first, second := guarded(guard, source, "1", "one"), guarded(guard, source, "2", "two")
		f.claimNew(t0, first, second)
		setBody(&second, []byte("one"))
		want := repeatOf(&first, false)
		want.OtherBody = true
		same(f, "known id, another's body", []driver.ClaimResult{want}, f.claim(t0, second))
	}
}

// guardWithinOneClaim claims one body under two ids in one call. The store may choose which is
// first.
func guardWithinOneClaim(f *fixture) {
	for _, guard := range []driver.BodyGuard{driver.BodyWatch, driver.BodyRefuse} {
		source := fmt.Sprint("source", guard)
		pair := []driver.Claim{guarded(guard, source, "1", "body"), guarded(guard, source, "2", "body")}
		got := f.claim(t0, pair...)
		first := 0
		if got[0].RepeatOf != "" {
			first = 1
		}
		want := make([]driver.ClaimResult, 2)
		want[first].Claimed = true
		want[1-first] = repeatOf(&pair[first], guard == driver.BodyWatch)
		same(f, fmt.Sprint("results under guard ", guard), want, got)
		if guard == driver.BodyRefuse {
			f.absent(source, pair[1-first].EventID)
		}
	}
}

func guardPerSource(f *fixture) {
	f.claimNew(t0, guarded(driver.BodyRefuse, "github", "1", "body"))
	same(f, "same body, other source", []driver.ClaimResult{{Claimed: true}},
		f.claim(t0, guarded(driver.BodyRefuse, "shopify", "2", "body")))
}

func guardForgotten(f *fixture) {
	f.claimNew(t0, guarded(driver.BodyRefuse, "github", "1", "body"))
	now := t0.Add(2 * time.Hour)
	same(f, "prune", driver.PruneResult{Events: 1}, f.prune(windows(time.Hour, now)))
	same(f, "same body, other id, after its event was pruned", []driver.ClaimResult{{Claimed: true}},
		f.claim(now, guarded(driver.BodyRefuse, "github", "2", "body")))
}

// guardLater prunes the first of two events with one body, then delivers the body under a third id.
// The second event must not become a repeat of the third, which came later.
func guardLater(f *fixture) {
	second := guarded(driver.BodyWatch, "github", "2", "body")
	f.claimNew(t0, guarded(driver.BodyWatch, "github", "1", "body"))
	f.claim(t0.Add(time.Hour), second)
	now := t0.Add(90 * time.Minute)
	same(f, "prune", driver.PruneResult{Events: 1}, f.prune(windows(time.Hour, now)))
	f.claim(now, guarded(driver.BodyWatch, "github", "3", "body"))
	if got := f.event("github", "2").Deliveries.RepeatOf; got != "" && got != "1" {
		f.Errorf("the second event repeats %q, which came later", got)
	}
}
