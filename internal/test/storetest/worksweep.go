package storetest

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
)

func sweepCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Alone", sweepAlone[T]},
		{"Batch", sweepBatch[T]},
		{"UsedUp", sweepUsedUp[T]},
		{"Backoff", sweepBackoff[T]},
		{"Several", sweepSeveral[T]},
		{"Beside", sweepBeside[T]},
		{"ByAnother", sweepByAnother[T]},
		{"ALivingRun", sweepLiving[T]},
		{"WhatIsNotRunning", sweepNotRunning[T]},
		{"Operators", sweepOperators[T]},
		{"DatabaseClock", sweepDatabaseClock[T]},
	}
}

// lostAlone is the result of a sweep for an event that was alone in its run.
func lostAlone(c *driver.Claim, attempts int, dead bool) driver.LostRun {
	return driver.LostRun{Key: c.Key, Source: c.Source, EventID: c.EventID, Type: c.Type, Attempts: attempts, Alone: true, Dead: dead}
}

// interruptedAttempt is the record of an attempt whose run was interrupted. Its duration is
// unknown.
func interruptedAttempt(outcome string, at time.Time, generation, number int) driver.Attempt {
	return driver.Attempt{Generation: generation, Number: number, Outcome: outcome, Error: driver.ErrorRunInterrupted, At: at}
}

func sweepAlone[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.interrupt(w.take(t0, "evt_1"))
	w.effects()
	want := claimed(&c, t0)
	want.State = driver.StateRunning
	w.sameEvent(want)
	at := t0.Add(time.Hour)
	for _, tried := range []bool{false, true} {
		w.takeNone("before the sweep", w.takeParams(at, 10, tried))
	}
	same(w, "lost", []driver.LostRun{lostAlone(&c, 1, false)}, w.sweep(at))
	w.sameEvent(pendingAfter(&c, interruptedAttempt("retry", at, 0, 1)))
	w.sweptNothing("the second time", at.Add(day))
	w.takeNone("as fresh, after an interruption", w.takeParams(at.Add(day), 10, false))
	run := w.takeTried(at.Add(sweepFirst), "evt_1")
	event := taken(&c, t0)
	event.Attempts, event.Crashes = 1, 1
	same(w, "taken", []driver.TakenEvent{event}, run.Events())
	w.effect(run)
	w.succeed(at, run)
	w.effects("evt_1#0")
}

// sweepBatch interrupts a run of several events. Any of them may be innocent, so the sweep counts
// no attempt, and each runs alone from then on.
func sweepBatch[T any](w *bench[T]) {
	all := w.queue(t0, "evt_a")
	all = append(all, w.queue(t0.Add(time.Microsecond), "evt_b")...)
	all = append(all, w.queue(t0.Add(2*time.Microsecond), "evt_c")...)
	now := t0.Add(time.Second)
	w.interrupt(w.take(now, "evt_a", "evt_b", "evt_c"))
	var want []driver.LostRun
	for i := range all {
		want = append(want, driver.LostRun{Key: all[i].Key, Source: "stripe", EventID: all[i].EventID, Type: all[i].Type})
	}
	same(w, "lost", want, w.sweep(now))
	w.effects()
	w.takeNone("as fresh", w.takeParams(now.Add(day), 10, false))
	run := w.takeWith(w.takeParams(now, 10, true))
	if run == nil || len(run.Events()) != len(all) {
		w.Fatalf("took %v, want all of the batch, due at once", run)
	}
	w.abandon(run)
	for i := range all {
		w.sameEvent(claimed(&all[i], t0.Add(time.Duration(i)*time.Microsecond)))
		p := w.takeParams(now, 1, true)
		p.Keys = []driver.Key{all[i].Key}
		run := w.takeThese(p, all[i].EventID)
		event := taken(&all[i], t0.Add(time.Duration(i)*time.Microsecond))
		event.Crashes = 1
		same(w, "taken", []driver.TakenEvent{event}, run.Events())
		if i == 1 {
			w.interrupt(run)
			same(w, "lost alone", []driver.LostRun{lostAlone(&all[i], 1, false)}, w.sweep(now))
			continue
		}
		w.succeed(now, run)
	}
	run = w.takeTried(now.Add(day), "evt_b")
	if e := run.Events()[0]; e.Attempts != 1 || e.Crashes != 2 {
		w.Errorf("the event is %+v, want one attempt and two interrupted runs", e)
	}
	w.succeed(now, run)
}

// sweepUsedUp interrupts every attempt of an event, in two generations.
func sweepUsedUp[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	now := t0
	var tries []driver.Attempt
	for generation := range 2 {
		for n := 1; n <= 3; n++ {
			p := w.takeParams(now, 1, n > 1)
			p.Retry = retry(3)
			w.interrupt(w.takeThese(p, "evt_1"))
			now = now.Add(time.Hour)
			same(w, "lost", []driver.LostRun{lostAlone(&c, n, n == 3)}, w.sweep(now))
			tries = append(tries, interruptedAttempt(map[bool]string{false: "retry", true: "dead"}[n == 3], now, generation, n))
			now = now.Add(time.Hour)
		}
		got := w.event("stripe", "evt_1")
		if got.State != driver.StateDead || got.Attempts != 3 || got.LastError != driver.ErrorRunInterrupted ||
			!got.FailedAt.Equal(now.Add(-time.Hour)) || got.Generation != generation {
			w.Errorf("the event is %+v, want it dead after three attempts", got.Event)
		}
		same(w, "attempts", tries, got.Tries)
		if letters := w.deadLetters(&driver.MessageFilter{}).DeadLetters; len(letters) != 1 || letters[0].LastError != driver.ErrorRunInterrupted {
			w.Errorf("the dead letters are %+v, want the event", letters)
		}
		same(w, "reopened", []driver.Key{c.Key}, w.reopen(now, c.Key))
	}
	run := w.take(now, "evt_1")
	if e := run.Events()[0]; e.Attempts != 0 || e.Crashes != 0 || e.Generation != 2 {
		w.Errorf("after it was reopened the event is %+v, want full attempts", e)
	}
	w.effect(run)
	w.succeed(now, run)
	w.effects("evt_1#2")
}

// sweepBackoff checks that the wait after each attempt stays within the schedule, and that waits
// differ.
func sweepBackoff[T any](w *bench[T]) {
	ids := numbered(maxGone)
	w.queue(t0, ids...)
	now := t0
	most, atOnce := sweepFirst, 0
	for n := 1; n <= 4; n++ {
		for range ids {
			p := w.takeParams(now, 1, n > 1)
			run := w.takeWith(p)
			if run == nil {
				w.Fatalf("before attempt %d nothing is due, want every event due %v after the one before", n, most)
			}
			w.die(run)
		}
		if lost := w.sweep(now); len(lost) != len(ids) {
			w.Fatalf("the sweep found %d events, want %d", len(lost), len(ids))
		}
		if run := w.takeWith(w.takeParams(now, len(ids), true)); run != nil {
			atOnce += len(run.Events())
			w.abandon(run)
		}
		most = min(sweepFirst<<(n-1), sweepMax)
		now = now.Add(most)
	}
	if atOnce == 4*len(ids) {
		w.Errorf("after every attempt all events were due at once, want random waits")
	}
}

func sweepSeveral[T any](w *bench[T]) {
	ids := numbered(maxGone)
	all := w.queue(t0, ids...)
	for i := range all {
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{all[i].Key}
		w.die(w.takeThese(p, ids[i]))
	}
	var want, got []driver.LostRun
	for i := range all {
		want = append(want, lostAlone(&all[i], 1, false))
	}
	// The contract does not say how many runs one call finds.
	for {
		lost := w.sweep(t0)
		if len(lost) == 0 {
			break
		}
		got = append(got, lost...)
	}
	same(w, "lost", want, got, cmpopts.SortSlices(func(a, b driver.LostRun) bool { return a.EventID < b.EventID }))
}

func sweepByAnother[T any](w *bench[T]) {
	other := w.second()
	c := w.queue(t0, "evt_1")[0]
	w.interrupt(w.take(t0, "evt_1"))
	other.takeNone("before the sweep", w.takeParams(t0.Add(day), 10, true))
	same(w, "lost", []driver.LostRun{lostAlone(&c, 1, false)}, other.sweep(t0))
	w.sweptNothing("after another had swept", t0)
	run := other.takeTried(t0.Add(day), "evt_1")
	other.effect(run)
	other.succeed(t0, run)
	w.effects("evt_1#0")
}

// sweepLiving sweeps next to a living run, at any age of the run.
func sweepLiving[T any](w *bench[T]) {
	other := w.second()
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	for _, d := range []driver.Driver[T]{w.d, other.d} {
		w.beside("a sweep beside a run", func(ctx context.Context) error {
			lost, err := d.SweepRuns(ctx, sweepParams(t0.Add(365*day)))
			if len(lost) > 0 {
				w.Errorf("the sweep found %+v, which is running", lost)
			}
			return err
		})
	}
	w.succeed(t0, run)
	w.effects("evt_1#0")
	w.sameEvent(done(&c, t0, t0))
	w.sweptNothing("after it was done", t0.Add(365*day))
}

func sweepNotRunning[T any](w *bench[T]) {
	w.sweptNothing("of an empty store", t0)
	all := w.queue(t0, "evt_done", "evt_dead", "evt_pending", "evt_reserved")
	for i, end := range []func(run driver.Run[T]){
		func(run driver.Run[T]) { w.succeed(t0, run) },
		func(run driver.Run[T]) { w.finish(t0, run, failed(&run.Events()[0])) },
	} {
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{all[i].Key}
		end(w.takeThese(p, all[i].EventID))
	}
	w.reserveThese(t0, time.Hour, "evt_pending", "evt_reserved")
	w.claimNew(t0, newClaim("stripe", "routed", "{}", "billing"))
	w.leaseOne(t0, "to-billing")
	w.sweptNothing("where nothing is running", t0.Add(365*day))
}

// sweepOperators checks that operators' calls leave events of an interrupted run to the sweep.
func sweepOperators[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.interrupt(w.take(t0, "evt_1"))
	before := w.event("stripe", "evt_1")
	for _, mode := range []driver.ReplayMode{driver.ReplayPlain, driver.ReplayAsNew, driver.ReplaySameID} {
		_, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Mode: mode, Now: t0})
		w.refused("replay of a running event", driver.ErrOpen, err)
	}
	same(w, "reopened", []driver.Key(nil), w.reopen(t0, c.Key))
	same(w, "dead letters replayed", []bool{false}, w.replayDead(t0, driver.DeadLetterRef{Key: c.Key}))
	same(w, "dead letters discarded", []bool{false}, w.discard(t0, driver.DeadLetterRef{Key: c.Key}))
	same(w, "pruned", driver.PruneResult{}, w.prune(windows(day, t0.Add(365*day))))
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true}}, w.claim(t0, c))
	if got := w.reserve(t0.Add(day), time.Hour); len(got) > 0 {
		w.Errorf("reserved %v, which is running", eventIDs(got))
	}
	w.sameEvent(before)
	same(w, "running", []string{"evt_1"}, idsOf(w.events(&driver.EventFilter{State: driver.StateRunning})))
	same(w, "pending", []string(nil), idsOf(w.events(&driver.EventFilter{State: driver.StatePending})))
	same(w, "lost", []driver.LostRun{lostAlone(&c, 1, false)}, w.sweep(t0))
}

func sweepDatabaseClock[T any](w *bench[T]) {
	c := w.queue(time.Time{}, "evt_1")[0]
	p := w.takeParams(time.Time{}, 1, false)
	p.Retry = retry(1)
	w.interrupt(w.takeThese(p, "evt_1"))
	same(w, "lost", []driver.LostRun{lostAlone(&c, 1, true)}, w.sweep(time.Time{}))
	if got := w.event("stripe", "evt_1").FailedAt; got.Sub(w.clock()).Abs() > time.Minute {
		w.Errorf("it failed at %v, want about now", got)
	}
}

// sweepBeside interrupts a run of one event beside handlers of other runs. Any of them may be at
// fault, so no attempt is counted, and the event is a suspect from then on.
func sweepBeside[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.queue(t0.Add(time.Second), "evt_2")
	p := w.takeParams(t0, 1, false)
	p.Beside = true
	w.interrupt(w.takeThese(p, "evt_1"))
	now := t0.Add(time.Minute)
	same(w, "lost", []driver.LostRun{{Key: c.Key, Source: "stripe", EventID: "evt_1", Type: c.Type}}, w.sweep(now))
	w.effects()
	w.sameEvent(claimed(&c, t0))

	run := w.take(now, "evt_2")
	w.finish(now, run, retried(&run.Events()[0]))
	now = now.Add(retryIn)
	p = w.takeParams(now, 10, true)
	p.Suspects = driver.NoSuspects
	w.abandon(w.takeThese(p, "evt_2"))
	p.Suspects = driver.OnlySuspects
	w.abandon(w.takeThese(p, "evt_1"))
	r := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10, For: time.Minute, Now: now, Suspects: driver.NoSuspects}
	same(w, "reserved without suspects", []string{"evt_2"}, eventIDs(w.reserveWith(r)))
	r.Suspects = driver.OnlySuspects
	same(w, "reserved suspects", []string{"evt_1"}, eventIDs(w.reserveWith(r)))

	p.Keys, p.Beside = []driver.Key{c.Key}, false
	w.interrupt(w.takeThese(p, "evt_1"))
	same(w, "lost alone", []driver.LostRun{lostAlone(&c, 1, false)}, w.sweep(now))
}
