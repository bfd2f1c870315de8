package storetest

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

func historyCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Attempts", historyAttempts[T]},
		{"BesideItsMessages", historyBesideMessages[T]},
		{"Discarded", historyDiscarded[T]},
		{"Pruned", historyPruned[T]},
		{"Running", historyRunning[T]},
	}
}

// historyAttempts fails in all ways through two generations, and checks that exactly the failures
// are recorded, in order.
func historyAttempts[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	var tries []driver.Attempt
	now := t0
	for generation := range 2 {
		run := w.take(now, "evt_1")
		r := retried(&run.Events()[0])
		w.finish(now, run, r)
		tries = append(tries, attemptOf(r, now, generation, 1))

		now = now.Add(day)
		run = w.takeTried(now, "evt_1")
		w.settle(now, run, r)
		tries = append(tries, attemptOf(r, now, generation, 2))

		now = now.Add(day)
		w.interrupt(w.takeTried(now, "evt_1"))
		w.sweep(now)
		tries = append(tries, interruptedAttempt("retry", now, generation, 3))

		now = now.Add(day)
		w.abandon(w.takeTried(now, "evt_1"))
		run = w.takeTried(now, "evt_1")
		r = failed(&run.Events()[0])
		w.finish(now, run, r)
		tries = append(tries, attemptOf(r, now, generation, 4))
		same(w, "attempts", tries, w.event("stripe", "evt_1").Tries)
		w.reopen(now, c.Key)
	}
	w.succeed(now, w.take(now, "evt_1"))
	got := w.event("stripe", "evt_1")
	same(w, "attempts", tries, got.Tries)
	if got.Attempts != 1 || got.Generation != 2 || got.State != driver.StateDone {
		w.Errorf("the event is %+v, want it done at the first attempt of generation 2", got.Event)
	}
}

// historyBesideMessages has attempts of the handler and of a message.
func historyBesideMessages[T any](w *bench[T]) {
	c := newQueued("evt_1", "billing")
	w.claimNew(t0, c)
	run := w.take(t0, "evt_1")
	r := retried(&run.Events()[0])
	w.finish(t0, run, r)
	m := w.leaseOne(t0.Add(time.Second), "to-billing")
	d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: time.Hour, StatusCode: 500, Error: "no"}
	w.mustComplete(t0.Add(time.Second), d)
	later := t0.Add(time.Minute)
	run = w.takeTried(later, "evt_1")
	f := failed(&run.Events()[0])
	w.finish(later, run, f)
	same(w, "attempts", []driver.Attempt{
		attemptOf(r, t0, 0, 1),
		{MessageID: m.ID, Number: 1, Outcome: "retry", StatusCode: 500, Error: "no", At: t0.Add(time.Second)},
		attemptOf(f, later, 0, 2),
	}, w.event("stripe", "evt_1").Tries)
	if state := w.state("evt_1"); state != driver.StateDead {
		w.Errorf("the event is %s, want it dead", state)
	}
	if m := w.leaseOne(t0.Add(day), "to-billing"); m.Attempt != 2 {
		w.Errorf("leased %+v, want attempt 2 of its message", m)
	}
}

func historyDiscarded[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.finish(t0, run, failed(&run.Events()[0]))
	at := t0.Add(time.Hour)
	same(w, "discarded", []bool{true}, w.discard(at, driver.DeadLetterRef{Key: c.Key}))
	got := w.event("stripe", "evt_1")
	if got.State != driver.StateSkipped || got.Note != driver.NoteDiscarded || !got.FailedAt.IsZero() || len(got.Tries) != 1 {
		w.Errorf("the event is %+v, want it skipped as discarded", got.Event)
	}
	w.replayAt(at, c.Key, driver.ReplayPlain)
	run = w.take(at, "evt_1")
	w.effect(run)
	w.succeed(at, run)
	w.effects("evt_1#1")
	same(w, "history", []driver.HistoryEntry{
		{At: at, Action: driver.ActionDiscarded}, {At: at, Action: driver.ActionReplayed, Generation: 1},
	}, w.event("stripe", "evt_1").History)
}

// historyPruned prunes an event with attempts. A later event under its id has none.
func historyPruned[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.finish(t0, run, retried(&run.Events()[0]))
	w.interrupt(w.takeTried(t0.Add(day), "evt_1"))
	w.sweep(t0.Add(day))
	w.succeed(t0.Add(2*day), w.takeTried(t0.Add(2*day), "evt_1"))
	later := t0.Add(10 * day)
	same(w, "pruned bodies", driver.PruneResult{Bodies: 1}, w.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: later}))
	if got := w.event("stripe", "evt_1"); got.State != driver.StateDone || !got.BodyPruned || len(got.Tries) != 2 {
		w.Errorf("past retention the event is %+v, want it without a body, and with its attempts", got)
	}
	same(w, "pruned", driver.PruneResult{Events: 1}, w.prune(windows(day, later)))
	w.absent("stripe", "evt_1")
	w.claimNew(later, c)
	w.sameEvent(claimed(&c, later))
	run = w.take(later, "evt_1")
	same(w, "taken", []driver.TakenEvent{taken(&c, later)}, run.Events())
	w.succeed(later, run)
}

// historyRunning reads an event while a run holds it.
func historyRunning[T any](w *bench[T]) {
	c := newQueued("evt_1", "billing")
	w.claimNew(t0, c)
	run := w.take(t0, "evt_1")
	want := claimed(&c, t0)
	want.State = driver.StateRunning // the handler runs: it does not wait for the message
	same(w, "a running event", want, w.event("stripe", "evt_1"))
	same(w, "running", []string{"evt_1"}, idsOf(w.events(&driver.EventFilter{State: driver.StateRunning})))
	same(w, "pending", []string(nil), idsOf(w.events(&driver.EventFilter{State: driver.StatePending})))
	w.succeed(t0, run)
	same(w, "done", []string{"evt_1"}, idsOf(w.events(&driver.EventFilter{State: driver.StateDone})))
}
