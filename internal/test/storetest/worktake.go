package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func takeCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"WhatItCarries", takeCarries[T]},
		{"Replayed", takeReplayed[T]},
		{"OldestFirst", takeOldestFirst[T]},
		{"NotDue", takeNotDue[T]},
		{"OneSource", takeOneSource[T]},
		{"Types", takeTypes[T]},
		{"Tried", takeTriedApart[T]},
		{"Keys", takeKeys[T]},
		{"WhatIsNotPending", takeNotPending[T]},
		{"SideBySide", takeSideBySide[T]},
		{"DatabaseClock", takeDatabaseClock[T]},
		{"CancelledContext", takeCancelled[T]},
		{"Limits", takeLimits[T]},
		{"Bytes", takeBytes[T]},
	}
}

func takeCarries[T any](w *bench[T]) {
	c := newQueued("evt_1")
	setBody(&c, []byte("\x00\xff{}"))
	c.OccurredAt = t0.Add(-time.Hour)
	w.claimNew(t0, c)
	run := w.take(t0.Add(time.Minute), "evt_1")
	same(w, "taken", []driver.TakenEvent{taken(&c, t0)}, run.Events())
	want := claimed(&c, t0)
	want.State = driver.StateRunning
	w.sameEvent(want)
	w.abandon(run)
	w.sameEvent(claimed(&c, t0))

	next := newQueued("evt_2")
	next.Type, next.Headers, next.OccurredAt = "", []byte("{}"), time.Time{}
	setBody(&next, nil)
	w.claimNew(t0.Add(time.Second), next)
	run = w.take(t0.Add(time.Minute), "evt_1", "evt_2")
	same(w, "taken", []driver.TakenEvent{taken(&c, t0), taken(&next, t0.Add(time.Second))}, run.Events())
	w.abandon(run)
}

// takeReplayed replays and reopens an event in every possible way. KeyGeneration changes only if
// the event is replayed as new.
func takeReplayed[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	keyGeneration := 0
	for generation, step := range []struct {
		replayed, asNew bool
		again           func()
	}{
		{again: func() {}},
		{replayed: true, again: func() { w.replayAt(t0, c.Key, driver.ReplayPlain) }},
		{again: func() { same(w, "reopened", []driver.Key{c.Key}, w.reopen(t0, c.Key)) }},
		{replayed: true, again: func() { same(w, "replayed", []bool{true}, w.replayDead(t0, driver.DeadLetterRef{Key: c.Key})) }},
		{replayed: true, asNew: true, again: func() { w.replayAt(t0, c.Key, driver.ReplayAsNew) }},
		{again: func() { same(w, "reopened", []driver.Key{c.Key}, w.reopen(t0, c.Key)) }},
		{replayed: true, again: func() { w.replayAt(t0, c.Key, driver.ReplaySameID) }},
		{replayed: true, asNew: true, again: func() { w.replayAt(t0, c.Key, driver.ReplayAsNew) }},
	} {
		step.again()
		if step.asNew {
			keyGeneration = generation
		}
		want := taken(&c, t0)
		want.Generation, want.KeyGeneration, want.Replayed = generation, keyGeneration, step.replayed
		run := w.take(t0, "evt_1")
		same(w, "taken", []driver.TakenEvent{want}, run.Events())
		w.finish(t0, run, retried(&want))
		// It stays replayed on each attempt, and after an interruption.
		want.Attempts = 1
		run = w.takeTried(t0.Add(retryIn), "evt_1")
		same(w, "taken again", []driver.TakenEvent{want}, run.Events())
		w.interrupt(run)
		w.sweep(t0.Add(day))
		want.Attempts, want.Crashes = 2, 1
		same(w, "reserved", []driver.TakenEvent{want}, w.reserve(t0.Add(2*day), time.Hour))
		run = w.takeTried(t0.Add(3*day), "evt_1")
		same(w, "taken after an interruption", []driver.TakenEvent{want}, run.Events())
		w.finish(t0, run, failed(&want))
	}
	w.effects()
	// A run by a delivery gets both generations.
	run := w.takeClaim(t0, true, newInline("evt_1"), driver.ClaimResult{Duplicate: true, Dead: true, Reopened: true, Generation: 8, KeyGeneration: 7})
	want := taken(&c, t0)
	want.Generation, want.KeyGeneration = 8, 7
	same(w, "taken by a claim", []driver.TakenEvent{want}, run.Events())
	w.abandon(run)
}

func takeOldestFirst[T any](w *bench[T]) {
	var ids []string
	for i := range 7 {
		id := numbered(7)[6-i]
		w.queue(t0.Add(time.Duration(i)*time.Second), id)
		ids = append(ids, id)
	}
	now := t0.Add(time.Minute)
	for len(ids) > 0 {
		n := min(3, len(ids))
		run := w.takeThese(w.takeParams(now, 3, false), ids[:n]...)
		w.succeed(now, run)
		ids = ids[n:]
	}
	w.takeNone("after all were taken", w.takeParams(now, 3, false))
}

func takeNotDue[T any](w *bench[T]) {
	w.takeNone("of an empty store", w.takeParams(t0, 1, false))
	w.queue(t0, "evt_1")
	w.takeNone("before it is due", w.takeParams(t0.Add(-time.Microsecond), 1, false))
	run := w.take(t0, "evt_1")
	w.finish(t0, run, retried(&run.Events()[0]))
	w.takeNone("before the retry is due", w.takeParams(t0.Add(retryIn-time.Microsecond), 1, true))
	run = w.takeTried(t0.Add(retryIn), "evt_1")
	w.succeed(t0, run)
	w.takeNone("after it was done", w.takeParams(t0.Add(day), 1, false))
	w.takeNone("after it was done", w.takeParams(t0.Add(day), 1, true))
}

func takeOneSource[T any](w *bench[T]) {
	for _, source := range []string{"stripe", "Stripe", "stripe2", "it's", "%"} {
		c := newClaim(source, "evt of "+source, "{}")
		c.Work = driver.WorkQueued
		w.claimNew(t0, c)
	}
	for _, source := range []string{"stripe", "it's", "%"} {
		p := w.takeParams(t0, 10, false)
		p.Source = source
		w.abandon(w.takeThese(p, "evt of "+source))
	}
	p := w.takeParams(t0, 10, false)
	p.Source = "nobody"
	w.takeNone("of an unknown source", p)
}

// eventTypes are types that a database might read as patterns, or fold.
var eventTypes = []string{
	"", "invoice.paid", "invoice.paid.late", "Invoice.paid", "invoice_paid", "invoice.void", "xinvoice.paid",
	"100%", "100x", "100", "a_b", "axb", "[ab]", "a", "b", "a?c", "a.c", `a\b`, `a\\b`, "a'b", "two\nlines.x", "ö.ü", "*",
	"(a|b)+", "^a$",
}

func takeTypes[T any](w *bench[T]) {
	for i, eventType := range eventTypes {
		c := newQueued(numbered(len(eventTypes))[i])
		c.Type = eventType
		w.claimNew(t0.Add(time.Duration(i)*time.Microsecond), c)
	}
	for _, test := range []struct {
		types []string
		want  []string
	}{
		{nil, nil},
		{[]string{"invoice.paid"}, []string{"invoice.paid"}},
		{[]string{"Invoice.paid"}, []string{"Invoice.paid"}},
		{[]string{"invoice.paid", "a", "nothing"}, []string{"invoice.paid", "a"}},
		{[]string{"a", "a", "a*"}, []string{"a_b", "axb", "a", "a?c", "a.c", `a\b`, `a\\b`, "a'b"}},
		{[]string{"invoice.*"}, []string{"invoice.paid", "invoice.paid.late", "invoice.void"}},
		{[]string{"*.paid"}, []string{"invoice.paid", "Invoice.paid", "xinvoice.paid"}},
		{[]string{"*.paid*"}, []string{"invoice.paid", "invoice.paid.late", "Invoice.paid", "xinvoice.paid"}},
		{[]string{"i*.*d"}, []string{"invoice.paid", "invoice.void"}},
		{[]string{"100%"}, []string{"100%"}},
		{[]string{"100%*"}, []string{"100%"}},
		{[]string{"100*"}, []string{"100%", "100x", "100"}},
		{[]string{"a_b"}, []string{"a_b"}},
		{[]string{"a_*"}, []string{"a_b"}},
		{[]string{"[ab]"}, []string{"[ab]"}},
		{[]string{"[ab]*"}, []string{"[ab]"}},
		{[]string{"a?*"}, []string{"a?c"}},
		{[]string{`a\b`}, []string{`a\b`}},
		{[]string{`a\*`}, []string{`a\b`, `a\\b`}},
		{[]string{`a\\*`}, []string{`a\\b`}},
		{[]string{"a'*"}, []string{"a'b"}},
		{[]string{"a.c", "a.*"}, []string{"a.c"}},
		{[]string{"two*x"}, []string{"two\nlines.x"}},
		{[]string{"ö.*"}, []string{"ö.ü"}},
		{[]string{"(a|b)*"}, []string{"(a|b)+"}},
		{[]string{"^a*"}, []string{"^a$"}},
		{[]string{"*"}, eventTypes},
		{[]string{"invoice.paid", "*"}, eventTypes},
	} {
		p := w.takeParams(t0.Add(time.Second), 100, false)
		p.Types = test.types
		var got []string
		if run := w.takeWith(p); run != nil {
			for _, e := range run.Events() {
				got = append(got, e.Type)
			}
			w.abandon(run)
		}
		same(w, "types taken by "+quoted(test.types), test.want, got)
	}
}

func quoted(types []string) string {
	text := ""
	for _, t := range types {
		text += " " + t
	}
	return text
}

// takeTriedApart has events that were tried, in both ways, next to fresh ones.
func takeTriedApart[T any](w *bench[T]) {
	w.queue(t0, "evt_a")
	run := w.take(t0, "evt_a")
	w.finish(t0, run, retried(&run.Events()[0]))
	w.queue(t0, "evt_b", "evt_c")
	p := w.takeParams(t0, 100, false)
	run = w.takeWith(p)
	w.interrupt(run)
	w.sweep(t0)
	w.queue(t0.Add(time.Minute), "evt_d")

	now := t0.Add(time.Hour)
	run = w.take(now, "evt_d")
	w.abandon(run)
	for range 3 {
		p = w.takeParams(now, 1, true)
		run = w.takeWith(p)
		if run == nil || len(run.Events()) != 1 {
			w.Fatalf("Take with Tried returned %v, want one event", run)
		}
		if e := run.Events()[0]; e.Attempts+e.Crashes == 0 {
			w.Errorf("took %+v as tried", e)
		}
		w.succeed(now, run)
	}
	w.takeNone("after the tried events were done", w.takeParams(now, 100, true))
	// In a new generation it is fresh again.
	run = w.take(now, "evt_d")
	w.finish(now, run, failed(&run.Events()[0]))
	w.reopen(now, driver.EventKey("stripe", "evt_d"))
	w.takeNone("in a new generation", w.takeParams(now, 100, true))
	w.succeed(now, w.take(now, "evt_d"))
}

func takeKeys[T any](w *bench[T]) {
	all := w.queue(t0.Add(time.Hour), "waiting", "other", "done", "dead")
	for _, c := range all[2:] {
		p := w.takeParams(t0, 10, true)
		p.Keys = []driver.Key{c.Key}
		run := w.takeThese(p, c.EventID)
		if c.EventID == "dead" {
			w.finish(t0, run, failed(&run.Events()[0]))
		} else {
			w.succeed(t0, run)
		}
	}
	routed := newClaim("stripe", "routed", "{}", "billing")
	w.claimNew(t0, routed)
	// A worker that returns to an event names it by its key alone.
	p := &driver.TakeParams{Limit: 10, HandlerTimeout: w.d.WorkLimits().MaxHandlerTimeout, Now: t0}
	for _, c := range append(all, routed) {
		p.Keys = append(p.Keys, c.Key)
	}
	p.Keys = append(p.Keys, driver.EventKey("stripe", "unknown"), all[0].Key)
	run := w.takeWith(p)
	if run == nil {
		w.Fatal("Take by keys took nothing, want the pending events")
	}
	got := eventIDs(run.Events())
	slices.Sort(got)
	same(w, "taken", []string{"other", "waiting"}, got)
	w.abandon(run)
	p.Limit = 1
	if run = w.takeWith(p); run == nil || len(run.Events()) != 1 {
		w.Fatalf("Take by keys with the limit 1 took %v", run)
	}
	w.succeed(t0, run)
	p.Keys = []driver.Key{routed.Key, all[3].Key}
	w.takeNone("by keys of events that are not pending", p)
}

func takeNotPending[T any](w *bench[T]) {
	w.queue(t0, "evt_dead")
	run := w.take(t0, "evt_dead")
	w.finish(t0, run, failed(&run.Events()[0]))
	w.queue(t0, "evt_stale")
	run = w.take(t0, "evt_stale")
	w.finish(t0, run, stale(&run.Events()[0]))
	c := w.queue(t0, "evt_given")[0]
	run = w.take(t0, "evt_given")
	w.finish(t0, run, failed(&run.Events()[0]))
	same(w, "discarded", []bool{true}, w.discard(t0, driver.DeadLetterRef{Key: c.Key}))
	w.claimNew(t0, newClaim("stripe", "routed", "{}", "billing"), newClaim("stripe", "unrouted", "{}"))
	for _, tried := range []bool{false, true} {
		w.takeNone("of ended events", w.takeParams(t0.Add(day), 100, tried))
	}
}

// takeSideBySide takes from two drivers during a run. Events of the run are taken neither as fresh
// nor by key.
func takeSideBySide[T any](w *bench[T]) {
	other := w.second()
	all := w.queue(t0, "evt_a")
	first := w.take(t0, "evt_a")
	later := w.takeParams(t0.Add(day), 10, false)
	byKey := *later
	byKey.Keys = []driver.Key{all[0].Key}
	for _, d := range []driver.Driver[T]{other.d, w.d} {
		for _, p := range []*driver.TakeParams{later, &byKey} {
			w.beside("a take beside a run", func(ctx context.Context) error {
				run, err := d.Take(ctx, p)
				if run != nil {
					w.abandonOnFailure(run)
					w.Fatalf("took %v, which another run holds", eventIDs(run.Events()))
				}
				return err
			})
		}
	}
	w.effect(first)
	w.succeed(t0, first)
	other.takeNone("after it was done", later)
	w.queue(t0, "evt_b")
	run := other.take(t0, "evt_b")
	other.effect(run)
	other.succeed(t0, run)
	w.effects("evt_a#0", "evt_b#0")
}

func takeDatabaseClock[T any](w *bench[T]) {
	now := w.clock()
	w.queue(now.Add(time.Hour), "late")
	w.queue(time.Time{}, "now")
	run := w.take(time.Time{}, "now")
	w.finish(time.Time{}, run, succeeded(&run.Events()[0]))
	if got := w.event("stripe", "now").ProcessedAt; got.Sub(now).Abs() > time.Minute {
		w.Errorf("it was processed at %v, want about %v", got, now)
	}
}

func takeCancelled[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	run, err := w.d.Take(ctx, w.takeParams(t0, 1, false))
	if run != nil || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrCommitUnknown) {
		w.Fatalf("Take with a cancelled context returned %v and the error %v", run, err)
	}
	w.sweptNothing("after a take that was cancelled before it began", t0)
	w.succeed(t0, w.take(t0, "evt_1"))
}

func takeLimits[T any](w *bench[T]) {
	limits := w.d.WorkLimits()
	if limits.Transactions < 1 || limits.HandlerTimeout <= 0 || limits.MaxHandlerTimeout < limits.HandlerTimeout || limits.BatchTime <= 0 {
		w.Errorf("WorkLimits is %+v", limits)
	}
}

// takeBytes bounds the bytes of a run. The events that do not fit stay due for others, and an event
// that is too large by itself is taken alone.
func takeBytes[T any](w *bench[T]) {
	other := w.second()
	ids := numbered(5)
	size := int64(0)
	for i, id := range ids {
		c := newQueued(id)
		body := strings.Repeat("x", 3000)
		if i == 4 {
			body = strings.Repeat("x", 100_000)
		}
		setBody(&c, []byte(body))
		w.claimNew(t0.Add(time.Duration(i)*time.Second), c)
		if i == 0 {
			size = int64(len(c.Headers) + len(c.Body))
		}
	}
	now := t0.Add(time.Minute)
	p := w.takeParams(now, 10, false)
	p.Bytes = 2*size + size/2
	run := w.takeThese(p, ids[:2]...)
	w.beside("a take of the other events", func(ctx context.Context) error {
		rest, err := other.d.Take(ctx, p)
		if rest == nil {
			if err == nil {
				w.Error("took nothing beside the run, want the events that did not fit")
			}
			return err
		}
		same(w, "taken beside the run", ids[2:4], eventIDs(rest.Events()))
		return rest.Abandon(ctx)
	})
	w.abandon(run)
	w.succeed(now, w.takeThese(p, ids[:2]...))
	exact := *p
	exact.Bytes = 2 * size
	for range 2 { // by key too
		w.abandon(w.takeThese(&exact, ids[2:4]...))
		for _, id := range ids {
			exact.Keys = append(exact.Keys, driver.EventKey("stripe", id))
		}
	}
	reserved := w.reserveWith(&driver.ReserveParams{
		Source: "stripe", Types: []string{"*"}, Limit: 10, Bytes: p.Bytes, For: time.Minute, Now: now,
	})
	same(w, "reserved", ids[2:4], eventIDs(reserved))
	run = w.takeThese(p, ids[4])
	if got := len(run.Events()[0].Body); got != 100_000 {
		w.Errorf("the body of the large event has %d bytes", got)
	}
	w.succeed(now, run)
	p.Now = now.Add(time.Minute)
	w.succeed(now, w.takeThese(p, ids[2:4]...))
}
