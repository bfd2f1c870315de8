package storetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func reserveCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"DueSources", reserveDueSources[T]},
		{"WhatItCarries", reserveCarries[T]},
		{"ForATime", reserveForATime[T]},
		{"TakenByKey", reserveTakenByKey[T]},
		{"Types", reserveTypes[T]},
		{"SideBySide", reserveSideBySide[T]},
		{"Record", reserveRecord[T]},
		{"RecordTooLate", reserveRecordLate[T]},
		{"Overrun", reserveOverrun[T]},
		{"RecordAfterAnOverrun", reserveRecordOverrun[T]},
	}
}

// dueSources returns the sources with due events, by name.
func (w *bench[T]) dueSources(sources ...string) []driver.DueSource {
	w.Helper()
	got, err := w.d.DueSources(w.Context(), sources)
	if err != nil {
		w.Fatalf("DueSources: %v", err)
	}
	// A store may also name sources without due events.
	got = slices.DeleteFunc(got, func(s driver.DueSource) bool { return !s.Fresh && !s.Tried && !s.Suspect })
	slices.SortFunc(got, func(a, b driver.DueSource) int { return strings.Compare(a.Source, b.Source) })
	return got
}

func reserveDueSources[T any](w *bench[T]) {
	asked := []string{"both", "fresh", "tried", "crashed", "late", "done", "routed", "nobody", "it's"}
	// A store may remember for a second that a source had nothing due long ago.
	same(w, "sources of an empty store", []driver.DueSource(nil), w.dueSources("stripe", "nobody"))
	same(w, "no sources", []driver.DueSource(nil), w.dueSources())
	now := w.clock()
	in := func(source, id string, at time.Time) *driver.TakeParams {
		c := newClaim(source, id, "{}")
		c.Work = driver.WorkQueued
		w.claimNew(at, c)
		p := w.takeParams(time.Time{}, 1, false)
		p.Source = source
		return p
	}
	past := now.Add(-time.Hour)
	for _, source := range []string{"both", "tried"} {
		run := w.takeThese(in(source, "evt_1", past), "evt_1")
		r := retried(&run.Events()[0])
		r.RetryIn = 0
		w.finish(past, run, r)
	}
	in("both", "evt_2", past)
	in("fresh", "evt_1", past)
	in("it's", "evt_1", past)
	in("unasked", "evt_1", past)
	in("late", "evt_1", now.Add(time.Hour))
	w.succeed(past, w.takeThese(in("done", "evt_1", past), "evt_1"))
	in("crashed", "evt_1", past)
	p := in("crashed", "evt_2", past)
	p.Limit = 2
	w.die(w.takeWith(p))
	w.claimNew(past, newClaim("routed", "evt_1", "{}", "billing"))

	want := []driver.DueSource{
		{Source: "both", Fresh: true, Tried: true},
		{Source: "fresh", Fresh: true},
		{Source: "it's", Fresh: true},
		{Source: "tried", Tried: true},
	}
	same(w, "before the sweep", withoutCrashed(want), withoutCrashed(w.dueSources(asked...)))
	w.sweepWith(sweepParams(past))
	want = slices.Insert(want, 1, driver.DueSource{Source: "crashed", Suspect: true})
	same(w, "sources", want, w.dueSources(asked...))
	same(w, "one source", want[:1], w.dueSources("both"))
}

// withoutCrashed removes the source whose events are in an interrupted run. A store may count them
// as due until they are swept; the cost is a take that finds nothing.
func withoutCrashed(sources []driver.DueSource) []driver.DueSource {
	return slices.DeleteFunc(slices.Clone(sources), func(s driver.DueSource) bool { return s.Source == "crashed" })
}

func (w *bench[T]) reserve(at time.Time, d time.Duration) []driver.TakenEvent {
	w.Helper()
	return w.reserveWith(&driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 100, For: d, Now: at})
}

func (w *bench[T]) reserveWith(p *driver.ReserveParams) []driver.TakenEvent {
	w.Helper()
	got, err := w.d.Reserve(w.Context(), p)
	if err != nil {
		w.Fatalf("Reserve: %v", err)
	}
	return got
}

// reserveThese reserves exactly the given events, in any order.
func (w *bench[T]) reserveThese(at time.Time, d time.Duration, ids ...string) []driver.TakenEvent {
	w.Helper()
	got := w.reserve(at, d)
	slices.SortFunc(got, func(a, b driver.TakenEvent) int { return strings.Compare(a.EventID, b.EventID) })
	same(w, "reserved", ids, eventIDs(got))
	return got
}

func reserveCarries[T any](w *bench[T]) {
	c := newQueued("evt_1")
	setBody(&c, []byte("\x00\xff"))
	c.OccurredAt = t0.Add(-time.Hour)
	w.claimNew(t0, c)
	run := w.take(t0, "evt_1")
	w.finish(t0, run, failed(&run.Events()[0]))
	w.replayAt(t0, c.Key, driver.ReplayPlain)
	run = w.take(t0, "evt_1")
	w.finish(t0, run, retried(&run.Events()[0]))
	want := taken(&c, t0)
	want.Generation, want.Attempts, want.Replayed = 1, 1, true
	same(w, "reserved", []driver.TakenEvent{want}, w.reserve(t0.Add(time.Hour), time.Minute))
	if got := w.event("stripe", "evt_1"); got.State != driver.StatePending || got.Attempts != 1 {
		w.Errorf("the reserved event is %+v, want it pending with one attempt", got.Event)
	}
}

func reserveForATime[T any](w *bench[T]) {
	all := w.queue(t0, "evt_a")
	w.queue(t0.Add(time.Second), "evt_b")
	w.queue(t0.Add(time.Hour), "evt_c")
	now := t0.Add(time.Minute)
	p := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 1, For: time.Minute, Now: now}
	same(w, "reserved", []driver.TakenEvent{taken(&all[0], t0)}, w.reserveWith(p))
	w.reserveThese(now, time.Minute, "evt_b")
	w.reserveThese(now, time.Minute)
	until := now.Add(time.Minute)
	w.takeNone("while it is reserved", w.takeParams(until.Add(-time.Microsecond), 10, false))
	run := w.takeWith(w.takeParams(until, 10, false))
	if run == nil || len(run.Events()) != 2 {
		w.Fatalf("took %v after the reservation expired, want both", run)
	}
	for _, e := range run.Events() {
		if e.Attempts != 0 || e.Crashes != 0 {
			w.Errorf("the reservation counted something for event %+v", e)
		}
	}
	w.succeed(now, run)
	w.reserveThese(until, time.Minute)
}

func reserveTakenByKey[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.reserveThese(t0, time.Hour, "evt_1")
	p := w.takeParams(t0, 10, false)
	p.Keys = []driver.Key{c.Key}
	run := w.takeThese(p, "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#0")
	w.takeNone("after its reservation", w.takeParams(t0.Add(day), 10, false))
}

func reserveTypes[T any](w *bench[T]) {
	for i, eventType := range []string{"a.b", "a_b", "", "c"} {
		c := newQueued(numbered(4)[i])
		c.Type = eventType
		w.claimNew(t0, c)
	}
	for _, test := range []struct{ types, want []string }{
		{[]string{"a_*"}, []string{"evt_001"}},
		{[]string{"c", "nothing"}, []string{"evt_003"}},
		{[]string{"a*"}, []string{"evt_000"}},
		{[]string{"*"}, []string{"evt_002"}},
	} {
		got := w.reserveWith(&driver.ReserveParams{Source: "stripe", Types: test.types, Limit: 10, For: time.Hour, Now: t0})
		same(w, "reserved by"+quoted(test.types), test.want, eventIDs(got))
	}
	other := &driver.ReserveParams{Source: "nobody", Types: []string{"*"}, Limit: 10, For: time.Hour, Now: t0.Add(day)}
	same(w, "reserved of another source", []driver.TakenEvent(nil), w.reserveWith(other))
}

// reserveSideBySide reserves next to a run. Events of the run are not reserved.
func reserveSideBySide[T any](w *bench[T]) {
	other := w.second()
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	p := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10, For: time.Hour, Now: t0.Add(day)}
	for _, d := range []driver.Driver[T]{w.d, other.d} {
		w.beside("a reservation beside a run", reservesNothing(w, d, p))
	}
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#0")
}

func reserveRecord[T any](w *bench[T]) {
	ids := []string{"evt_dead", "evt_other", "evt_retry", "evt_stale"}
	all := w.queue(t0, ids...)
	events := w.reserveThese(t0, time.Hour, ids...)
	at := t0.Add(time.Second)
	dead, retry, skipped := failed(&events[0]), retried(&events[2]), stale(&events[3])
	w.record(at, dead, retry, skipped)
	want := claimed(&all[0], t0)
	want.State, want.Attempts, want.LastError, want.FailedAt = driver.StateDead, 1, handlerError, at
	want.Tries = []driver.Attempt{attemptOf(dead, at, 0, 1)}
	w.sameEvent(want)
	w.sameEvent(claimed(&all[1], t0))
	w.sameEvent(pendingAfter(&all[2], attemptOf(retry, at, 0, 1)))
	want = claimed(&all[3], t0)
	want.State, want.Note, want.LastError = driver.StateSkipped, driver.NoteStale, skipped.Error
	w.sameEvent(want)
	w.takeNone("before the retry is due", w.takeParams(at.Add(retryIn-time.Microsecond), 10, true))
	w.succeed(at, w.takeTried(at.Add(retryIn), "evt_retry"))
	w.record(at)
}

func (w *bench[T]) record(at time.Time, results ...driver.WorkResult) {
	w.Helper()
	if err := w.d.RecordReserved(w.Context(), &driver.FinishParams{Results: results, Now: at}); err != nil {
		w.Fatalf("RecordReserved: %v", err)
	}
}

// reserveRecordLate records outcomes of events that have ended, are unknown, or are in an
// interrupted run by then.
func reserveRecordLate[T any](w *bench[T]) {
	ids := []string{"evt_dead", "evt_done", "evt_lost", "evt_open"}
	all := w.queue(t0, ids...)
	events := w.reserveThese(t0, time.Hour, ids...)
	for i, end := range []func(run driver.Run[T]){
		func(run driver.Run[T]) { w.finish(t0, run, failed(&run.Events()[0])) },
		func(run driver.Run[T]) { w.succeed(t0, run) },
		w.die,
	} {
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{all[i].Key}
		end(w.takeThese(p, ids[i]))
	}
	before := []*driver.EventDetail{w.event("stripe", "evt_dead"), w.event("stripe", "evt_done"), w.event("stripe", "evt_lost")}
	unknown := driver.TakenEvent{Key: driver.EventKey("stripe", "unknown")}
	w.record(t0, retried(&events[0]), failed(&events[1]), retried(&events[2]), retried(&unknown), retried(&events[3]))
	for _, want := range before {
		w.sameEvent(want)
	}
	w.absent("stripe", "unknown")
	if got := w.event("stripe", "evt_open"); got.Attempts != 1 {
		w.Errorf("the event that was open is %+v, want one attempt", got.Event)
	}
	same(w, "lost", []driver.LostRun{lostAlone(&all[2], 1, false)}, w.sweep(t0))
}

// reservesNothing returns a call that fails the test if it reserves something.
func reservesNothing[T any](w *bench[T], d driver.Driver[T], p *driver.ReserveParams) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := d.Reserve(ctx, p)
		if len(got) > 0 {
			w.Errorf("reserved %v, which another run holds", eventIDs(got))
		}
		return err
	}
}

// dueAt fails unless events are the one event e with this due time.
func (w *bench[T]) dueAt(what string, want time.Time, events []driver.TakenEvent) {
	w.Helper()
	if len(events) != 1 || !events[0].DueAt.Equal(want) {
		w.Errorf("%s: events %+v, want one that is due at %v", what, events, want)
	}
}

// reserveOverrun takes a reserved event by its key. Its due time tells whether somebody else had a
// turn since the reservation: it differs after another reservation and after a failed attempt, and
// stays the same while the event is only taken and given back.
func reserveOverrun[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	until := t0.Add(time.Minute)
	w.dueAt("reserved", until, w.reserve(t0, time.Minute))
	p := w.takeParams(t0, 1, false)
	p.Keys = []driver.Key{c.Key}
	for range 2 {
		run := w.takeThese(p, "evt_1")
		w.dueAt("taken by key", until, run.Events())
		w.abandon(run)
		run = w.takeThese(p, "evt_1")
		w.finish(t0, run) // without an outcome
	}
	again := until.Add(time.Hour)
	w.dueAt("reserved by another", again, w.reserve(until, time.Hour))
	run := w.takeThese(p, "evt_1")
	w.dueAt("taken by key after another reservation", again, run.Events())
	w.finish(until, run, retried(&run.Events()[0]))
	run = w.takeThese(p, "evt_1")
	w.dueAt("taken by key after a failed attempt", until.Add(retryIn), run.Events())
	w.succeed(until, run)
}

// reserveRecordOverrun records an outcome after somebody else has reserved the event. It changes
// nothing.
func reserveRecordOverrun[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	first := w.reserveThese(t0, time.Minute, "evt_1")
	second := w.reserveThese(t0.Add(time.Minute), time.Minute, "evt_1")
	w.record(t0.Add(time.Minute), failed(&first[0]))
	w.sameEvent(claimed(&c, t0))
	w.takeNone("while it is reserved", w.takeParams(t0.Add(2*time.Minute-time.Microsecond), 10, false))
	r := retried(&second[0])
	w.record(t0.Add(time.Minute), r)
	w.sameEvent(pendingAfter(&c, attemptOf(r, t0.Add(time.Minute), 0, 1)))
}
