package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const day = 24 * time.Hour

func pruneCases() []testCase {
	return []testCase{
		{"Window", pruneWindow},
		{"Retention", pruneRetention},
		{"FinishedLate", pruneFinishedLate},
		{"BothInOneCall", pruneBoth},
		{"PerSource", prunePerSource},
		{"ForgottenWindow", pruneForgottenWindow},
		{"Chunks", pruneChunks},
		{"Rests", pruneRests},
		{"WhatIsOwedStays", pruneOwed},
		{"BehindWhatIsOwed", pruneBehind},
		{"EverythingOfAnEvent", pruneEverything},
		{"RefusedRow", pruneRefused},
		{"Quarantine", pruneQuarantine},
		{"QuarantineRows", pruneQuarantineRows},
		{"DatabaseClock", pruneDatabaseClock},
		{"LongestWindow", pruneLongest},
		{"UnknownSource", pruneUnknown},
		{"RegisteredLongAgo", pruneLongAgo},
		{"RegisteredByTheDatabaseClock", pruneRegisteredNow},
	}
}

// pruneRefused has a trigger that refuses to remove a row of one event. That event stays, the refusal is told, and all others
// are removed.
func pruneRefused(f *fixture) {
	var refused driver.Claim
	for i := range 7 {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}")
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
		f.count(t0, driver.DeliveryCount{Key: c.Key, Duplicates: 1})
		if i == 3 {
			refused = c
		}
	}
	allow := f.with.Refuse(f.T, f.s, "delivery_count", refused.Key)
	p := windows(day, t0.Add(3*day))
	got, err := f.s.Prune(f.Context(), p)
	if !errors.Is(err, driver.ErrBadRow) || got.Events != 6 {
		f.Errorf("Prune while a trigger refuses one of seven events: %+v and the error %v, want six removed and %v", got, err, driver.ErrBadRow)
	}
	f.event("stripe", refused.EventID)
	allow()
	same(f, "pruned later", driver.PruneResult{Events: 1}, f.prune(p))
}

// windows returns parameters with both windows equal to d.
func windows(d time.Duration, now time.Time) *driver.PruneParams {
	return &driver.PruneParams{DedupeWindow: d, Retention: d, Now: now}
}

// bodyless returns a detail past retention.
func bodyless(want *driver.EventDetail) *driver.EventDetail {
	want.Headers, want.Body, want.BodyPruned = nil, nil, true
	return want
}

func pruneWindow(f *fixture) {
	old, young := newClaim("stripe", "old", "{}"), newClaim("stripe", "young", "{}")
	f.claimNew(t0.Add(-time.Second), old)
	f.claimNew(t0.Add(time.Second), young)
	p := windows(30*day, t0.Add(30*day))
	same(f, "pruned", driver.PruneResult{Events: 1}, f.prune(p))
	f.absent("stripe", "old")
	f.sameEvent(claimed(&young, t0.Add(time.Second)))
	same(f, "pruned again", driver.PruneResult{}, f.prune(p))
	same(f, "claims", []driver.ClaimResult{{Claimed: true}, {Duplicate: true}}, f.claim(p.Now, old, young))
	f.sameEvent(claimed(&old, p.Now))
}

// pruneFinishedLate changes events that are older than their window, so that their senders may deliver them again. Each event
// stays for a window from then on; its body does not.
func pruneFinishedLate(f *fixture) {
	late, window := t0.Add(90*day), 30*day
	for name, happens := range map[string]func(c *driver.Claim){
		"sent": func(*driver.Claim) { f.sendOne(late, "to-a") },
		"replayed": func(c *driver.Claim) {
			f.sendOne(t0, "to-a")
			f.replayAt(late, c.Key, driver.ReplayAsNew)
			f.sendOne(late, "to-a")
		},
		"replayed when it was dead": func(c *driver.Claim) {
			f.kill(t0, "to-a")
			f.replayAt(late, c.Key, driver.ReplayPlain)
			f.sendOne(late, "to-a")
		},
		"reopened": func(c *driver.Claim) {
			f.kill(t0, "to-a")
			same(f, "reopened", []driver.Key{c.Key}, f.reopen(late, c.Key))
			f.sendOne(late, "to-a")
		},
		"delivered": func(c *driver.Claim) {
			f.sendOne(t0, "to-a")
			f.count(late, driver.DeliveryCount{Key: c.Key, Duplicates: 1})
		},
		"skipped as stale": func(*driver.Claim) {
			m := f.leaseOne(late, "to-a")
			f.mustComplete(late, staleOutcome(&m))
		},
		"discarded": func(c *driver.Claim) {
			f.kill(t0, "to-a")
			same(f, "discarded", []bool{true}, f.discard(late, letter(c, 0)))
		},
	} {
		c := newClaim("stripe", name, "{}", "a")
		f.claimNew(t0, c)
		happens(&c)
		body := driver.PruneResult{Bodies: 1}
		if name == "discarded" {
			body = driver.PruneResult{} // it can be undone
		}
		same(f, "pruned at once, "+name, body, f.prune(windows(window, late)))
		same(f, "claim", []driver.ClaimResult{{Duplicate: true}}, f.claim(late, c))
		f.prune(windows(window, late.Add(window)))
		f.event("stripe", name)
		same(f, "pruned after the window, "+name, driver.PruneResult{Events: 1}, f.prune(windows(window, late.Add(window+time.Second))))
		f.absent("stripe", name)
	}
}

func pruneRetention(f *fixture) {
	old, young := newClaim("stripe", "old", "{}"), newClaim("stripe", "young", "{}")
	f.claimNew(t0.Add(-time.Second), old)
	f.claimNew(t0.Add(time.Second), young)
	p := &driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: t0.Add(day)}
	same(f, "pruned", driver.PruneResult{Bodies: 1}, f.prune(p))
	f.sameEvent(bodyless(claimed(&old, t0.Add(-time.Second))))
	f.sameEvent(claimed(&young, t0.Add(time.Second)))
	same(f, "pruned again", driver.PruneResult{}, f.prune(p))
	same(f, "claims", []driver.ClaimResult{{Duplicate: true}, {Duplicate: true}}, f.claim(p.Now, old, young))
	setBody(&old, []byte("other"))
	same(f, "claim with another body, past retention", []driver.ClaimResult{{Duplicate: true, OtherBody: true}}, f.claim(p.Now, old))
}

func pruneBoth(f *fixture) {
	for i := range 9 {
		f.claimNew(t0.Add(time.Duration(i)*day), newClaim("stripe", fmt.Sprint("evt_", i), "{}"))
	}
	p := &driver.PruneParams{DedupeWindow: 6 * day, Retention: 3 * day, Now: t0.Add(9*day + time.Second)}
	// 0 to 3 are past both windows, 4 to 6 past retention only. A pruned identity takes its body
	// with it, and that is not counted as a body.
	same(f, "pruned", driver.PruneResult{Events: 4, Bodies: 3}, f.prune(p))
	same(f, "left", []string{"evt_8", "evt_7", "evt_6", "evt_5", "evt_4"}, idsOf(f.events(&driver.EventFilter{})))
	// A body is pruned with its identity, even if its retention is longer.
	p = &driver.PruneParams{DedupeWindow: time.Hour, Retention: 30 * day, Now: p.Now}
	same(f, "pruned", driver.PruneResult{Events: 5}, f.prune(p))
	same(f, "left", []string(nil), idsOf(f.events(&driver.EventFilter{})))
}

func prunePerSource(f *fixture) {
	for _, source := range []string{"long", "short", "other", "it's"} {
		f.claimNew(t0, newClaim(source, "evt_1", "{}"))
	}
	p := windows(10*day, t0.Add(5*day))
	p.Sources = map[string]driver.SourceWindows{
		"short":  {DedupeWindow: day, Retention: day},
		"it's":   {DedupeWindow: 30 * day, Retention: day},
		"long":   {DedupeWindow: 30 * day, Retention: 30 * day},
		"nobody": {DedupeWindow: time.Second, Retention: time.Second},
	}
	same(f, "pruned", driver.PruneResult{Events: 1, Bodies: 1}, f.prune(p))
	f.absent("short", "evt_1")
	for source, pruned := range map[string]bool{"it's": true, "other": false, "long": false} {
		if got := f.event(source, "evt_1"); got.BodyPruned != pruned {
			f.Errorf("source %s: body pruned is %v, want %v", source, got.BodyPruned, pruned)
		}
	}
	p.Now = t0.Add(11 * day)
	same(f, "pruned later", driver.PruneResult{Events: 1}, f.prune(p))
	f.absent("other", "evt_1")
	f.event("long", "evt_1")
	f.event("it's", "evt_1")
}

// pruneForgottenWindow leaves windows out. A missing window never means "keep nothing".
func pruneForgottenWindow(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}"))
	for _, p := range []*driver.PruneParams{{}, {DedupeWindow: day}, {Retention: day}, {DedupeWindow: -day, Retention: day}} {
		p.Now = t0.Add(time.Minute)
		if got, err := f.s.Prune(f.Context(), p); err == nil {
			f.Errorf("Prune(%+v) = %+v, want an error", p, got)
		}
	}
	p := windows(10*day, t0.Add(5*day))
	p.Sources = map[string]driver.SourceWindows{"stripe": {Retention: day}}
	same(f, "pruned with one window of the source", driver.PruneResult{Bodies: 1}, f.prune(p))
	f.event("stripe", "evt_1")
}

// pruneRests makes Prune rest forever after its first step. Other callers can work meanwhile, and
// Prune ends with its context.
func pruneRests(f *fixture) {
	const all, step = 10, 3
	for i := range all {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("evt_", i), "{}"))
	}
	p := &driver.PruneParams{DedupeWindow: 10 * day, Retention: day, Now: t0.Add(11 * day), Chunk: step, Rest: 1e6}
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := f.s.Prune(ctx, p)
		ended <- err
	}()
	left := func() int { return len(idsOf(f.events(&driver.EventFilter{}))) }
	for left() == all && len(ended) == 0 { // until the first step is done
	}
	same(f, "left while Prune rests", all-step, left())
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.Errorf("Prune returned %v after its context had ended, want context.Canceled", err)
	}
	same(f, "left when it has ended", all-step, left())
}

func pruneChunks(f *fixture) {
	for i := range 10 {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("evt_", i), fmt.Sprint("body ", i)))
		f.quarantine(t0, driver.Quarantined{Source: "stripe", Body: fmt.Append(nil, i), Reason: "no id"})
	}
	p := &driver.PruneParams{DedupeWindow: 10 * day, Retention: day, Now: t0.Add(5 * day), Chunk: 3}
	same(f, "pruned bodies", driver.PruneResult{Bodies: 10, Quarantined: 10}, f.prune(p))
	p.Now = t0.Add(11 * day)
	same(f, "pruned events", driver.PruneResult{Events: 10}, f.prune(p))
	same(f, "left", []string(nil), idsOf(f.events(&driver.EventFilter{})))
}

// pruneBehind prunes events that lie between and after kept events. More events are kept than one
// step examines.
func pruneBehind(f *fixture) {
	const stay, step = 100, 2
	for i := range stay {
		c := newClaim("stripe", fmt.Sprint("open_", i), fmt.Sprint("open ", i))
		c.Work = driver.WorkQueued
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
	}
	for i, at := range []int{60, 60, 60, stay, stay} {
		f.claimNew(t0.Add(time.Duration(at)*time.Second), newClaim("stripe", fmt.Sprint("free_", i), fmt.Sprint("free ", i)))
	}
	p := &driver.PruneParams{DedupeWindow: 10 * day, Retention: day, Now: t0.Add(5 * day), Chunk: step}
	same(f, "pruned bodies", driver.PruneResult{Bodies: 5}, f.prune(p))
	p.Now = t0.Add(11 * day)
	same(f, "pruned events", driver.PruneResult{Events: 5}, f.prune(p))
	same(f, "left", stay, len(idsOf(f.events(&driver.EventFilter{Limit: driver.MaxLimit}))))
}

// pruneOwed has one event in each state. Unfinished events keep everything, at any age.
func pruneOwed(f *fixture) {
	ids := []string{"pending", "running", "sending", "retrying", "halfdead", "dead", "sent", "unrouted"}
	for _, id := range ids {
		c := guarded(driver.BodyRefuse, "stripe", id, id)
		switch id {
		case "pending":
			c.Work = driver.WorkQueued
		case "unrouted":
		case "halfdead":
			c.Messages = newClaim("stripe", id, "", id, "open").Messages
		default:
			c.Messages = newClaim("stripe", id, "", id).Messages
		}
		f.claimNew(t0, c)
	}
	f.leaseOne(t0, "to-sending")
	f.kill(t0, "to-dead")
	f.kill(t0, "to-halfdead")
	for id, outcome := range map[string]driver.MessageOutcome{"sent": driver.MessageSent, "retrying": driver.MessageRetry} {
		m := f.leaseOne(t0, "to-"+id)
		f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, RetryIn: time.Hour})
	}
	before := map[string]*driver.EventDetail{}
	for _, id := range ids {
		before[id] = f.event("stripe", id)
	}
	now := t0.Add(365 * day)
	same(f, "pruned bodies", driver.PruneResult{Bodies: 2},
		f.prune(&driver.PruneParams{DedupeWindow: 1000 * day, Retention: day, Now: now}))
	same(f, "pruned events", driver.PruneResult{Events: 2}, f.prune(windows(day, now)))
	f.absent("stripe", "sent")
	f.absent("stripe", "unrouted")
	for _, id := range ids[:6] {
		f.sameEvent(before[id])
		c := guarded(driver.BodyRefuse, "stripe", id, id)
		same(f, "claim of "+id, []driver.ClaimResult{{Duplicate: true, Dead: id == "dead"}}, f.claim(now, c))
		again := guarded(driver.BodyRefuse, "stripe", "again-"+id, id)
		same(f, "claim of the body of "+id, []driver.ClaimResult{{Duplicate: true, RepeatOf: id, RepeatOfKey: c.Key, Dead: false}}, ignoreDead(f.claim(now, again)))
	}
}

// ignoreDead clears Dead in results that repeat another event, because the contract defines it for
// the claim's own event only.
func ignoreDead(results []driver.ClaimResult) []driver.ClaimResult {
	for i := range results {
		results[i].Dead = false
	}
	return results
}

// pruneEverything prunes an event with rows in every table, and claims its id again. The new event
// is fresh, with its own messages.
func pruneEverything(f *fixture) {
	c := guarded(driver.BodyWatch, "stripe", "evt_1", "{}", "audit", "billing")
	f.claimNew(t0, c)
	f.count(t0, driver.DeliveryCount{Key: c.Key, Duplicates: 3, OtherBodies: 1, Repeats: 1})
	f.kill(t0, "to-billing")
	m := f.leaseOne(t0, "to-audit")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	f.reopen(t0, c.Key)
	m = f.leaseOne(t0, "to-billing")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	now := t0.Add(2 * day)
	same(f, "pruned", driver.PruneResult{Events: 1}, f.prune(windows(day, now)))
	f.absent("stripe", "evt_1")
	same(f, "completion of a pruned message", []bool{false},
		f.complete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead}))
	f.release(now, driver.MessageLease{ID: m.ID, Token: m.Token})
	f.count(now, driver.DeliveryCount{Key: c.Key, Duplicates: 1})
	same(f, "reopening a pruned event", []driver.Key(nil), f.reopen(now, c.Key))

	same(f, "claim after pruning", []driver.ClaimResult{{Claimed: true}}, f.claim(now, c))
	f.sameEvent(claimed(&c, now))
	for n, message := range c.Messages {
		got := f.leaseOne(now, message.Destination)
		same(f, "message", leased(&c, n, now, got.Token, 1), got)
	}
}

func pruneDatabaseClock(f *fixture) {
	now := f.clock()
	old, young := newClaim("stripe", "old", "{}"), newClaim("stripe", "young", "{}")
	f.claimNew(now.Add(-2*day), old)
	f.claimNew(time.Time{}, young)
	same(f, "pruned", driver.PruneResult{Events: 1}, f.prune(windows(day, time.Time{})))
	f.absent("stripe", "old")
	f.event("stripe", "young")
}
