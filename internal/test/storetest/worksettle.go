package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func settleCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"RollsBack", settleRollsBack[T]},
		{"Once", settleOnce[T]},
		{"AfterFinish", settleAfterFinish[T]},
		{"AfterAbandon", settleAfterAbandon[T]},
		{"AfterAnInterruption", settleInterrupted[T]},
		{"AfterTheSweep", settleSwept[T]},
		{"OfAnEarlierRun", settleEarlier[T]},
		{"OfABatch", settleBatch[T]},
		{"Abandon", settleAbandon[T]},
		{"AbandonTwice", settleAbandonTwice[T]},
		{"AbandonAfterFinish", settleAbandonFinished[T]},
		{"AbandonAfterAnInterruption", settleAbandonInterrupted[T]},
		{"Sever", settleSever[T]},
		{"SeverWhileItIsUsed", settleSeverInUse[T]},
	}
}

// pendingAfter is the detail of an event after failed attempts in its first generation.
func pendingAfter(c *driver.Claim, tries ...driver.Attempt) *driver.EventDetail {
	want := claimed(c, t0)
	want.Tries, want.Attempts = tries, len(tries)
	if len(tries) > 0 {
		want.LastError = tries[len(tries)-1].Error
	}
	return want
}

func settleRollsBack[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	r := retried(&run.Events()[0])
	w.settle(t0, run, r)
	w.effects()
	w.sameEvent(pendingAfter(&c, attemptOf(r, t0, 0, 1)))
	w.takeNone("before the retry is due", w.takeParams(t0.Add(retryIn-time.Microsecond), 1, true))
	run = w.takeTried(t0.Add(retryIn), "evt_1")
	r = failed(&run.Events()[0])
	w.settle(t0, run, r)
	if got := w.event("stripe", "evt_1"); got.State != driver.StateDead || got.Attempts != 2 || !got.FailedAt.Equal(t0) {
		w.Errorf("the event is %+v, want it dead after two attempts", got.Event)
	}
	w.sweptNothing("after it was settled", t0.Add(day))
}

func settleOnce[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	r := retried(&run.Events()[0])
	w.settle(t0, run, r)
	w.unsettled("the second time", t0, run, r)
	w.unsettled("with another outcome", t0, run, failed(&run.Events()[0]))
	w.sameEvent(pendingAfter(&c, attemptOf(r, t0, 0, 1)))
	// It does not touch the next run either.
	next := w.takeTried(t0.Add(day), "evt_1")
	w.beside("settling an old run", func(ctx context.Context) error {
		err := run.Settle(ctx, &driver.FinishParams{Results: []driver.WorkResult{r}, Now: t0})
		if err == nil {
			w.Error("a run was settled under the one that came after it")
		}
		if errors.Is(err, driver.ErrNotFound) {
			return nil
		}
		return err
	})
	w.effect(next)
	w.succeed(t0, next)
	w.effects("evt_1#0")
}

func settleAfterFinish[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.unsettled("after it was committed", t0, run, failed(&run.Events()[0]))
	w.sameEvent(done(&c, t0, t0))
	w.effects("evt_1#0")
}

func settleAfterAbandon[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.abandon(run)
	w.unsettled("after it was abandoned", t0, run, failed(&run.Events()[0]))
	w.sameEvent(claimed(&c, t0))
}

// settleInterrupted loses the transaction but not the process, which can still report the outcome.
func settleInterrupted[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.h.Interrupt(w.T, w.d, run)
	if err := run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0}); err == nil {
		w.Error("Finish returned no error after its transaction was gone")
	}
	w.effects()
	r := retried(&run.Events()[0])
	w.settle(t0, run, r)
	w.sameEvent(pendingAfter(&c, attemptOf(r, t0, 0, 1)))
	w.sweptNothing("after it was settled", t0.Add(day))
	w.succeed(t0, w.takeTried(t0.Add(day), "evt_1"))
}

func settleSwept[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.h.Interrupt(w.T, w.d, run)
	if lost := w.sweep(t0); len(lost) != 1 {
		w.Fatalf("the sweep found %+v, want one event", lost)
	}
	before := w.event("stripe", "evt_1")
	for _, r := range []driver.WorkResult{retried(&run.Events()[0]), failed(&run.Events()[0]), stale(&run.Events()[0])} {
		w.unsettled("after it was swept", t0, run, r)
	}
	if err := run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0}); err == nil {
		w.Error("Finish returned no error after the run was swept")
	}
	w.sameEvent(before)
	w.abandon(run)
	w.sameEvent(before)
	w.effects()
}

// settleEarlier ends a swept run while a later run of the same event is interrupted and has a
// record. It must not be taken for the later run.
func settleEarlier[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	first := w.take(t0, "evt_1")
	w.h.Interrupt(w.T, w.d, first)
	w.sweep(t0)
	second := w.takeTried(t0.Add(day), "evt_1")
	w.h.Interrupt(w.T, w.d, second)
	before := w.event("stripe", "evt_1")
	w.unsettled("under a later run", t0, first, failed(&first.Events()[0]))
	w.sameEvent(before)
	w.abandon(first)
	w.sameEvent(before)
	same(w, "lost", []driver.LostRun{lostAlone(&c, 2, false)}, w.sweep(t0.Add(day)))
	w.abandon(second)
}

func settleBatch[T any](w *bench[T]) {
	all := w.queue(t0, "evt_a")
	all = append(all, w.queue(t0.Add(time.Microsecond), "evt_b")...)
	run := w.take(t0.Add(time.Second), "evt_a", "evt_b")
	w.effect(run)
	r := retried(&run.Events()[0])
	w.settle(t0, run, r)
	w.sameEvent(pendingAfter(&all[0], attemptOf(r, t0, 0, 1)))
	w.sameEvent(claimed(&all[1], t0.Add(time.Microsecond)))
	w.effects()
	w.succeed(t0, w.take(t0.Add(time.Second), "evt_b"))
}

func settleAbandon[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	for range 3 {
		run := w.take(t0, "evt_1")
		w.effect(run)
		w.abandon(run)
		w.effects()
		w.sameEvent(claimed(&c, t0))
	}
	w.sweptNothing("after it was abandoned", t0.Add(day))
	run := w.take(t0, "evt_1")
	w.finish(t0, run, retried(&run.Events()[0]))
	run = w.takeTried(t0.Add(retryIn), "evt_1")
	w.abandon(run)
	run = w.takeTried(t0.Add(retryIn), "evt_1") // due as before
	if e := run.Events()[0]; e.Attempts != 1 || e.Crashes != 0 {
		w.Errorf("after it was abandoned the event is %+v, want one attempt", e)
	}
	w.abandon(run)
}

func settleAbandonTwice[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.abandon(run)
	w.abandon(run)
	next := w.take(t0, "evt_1")
	w.beside("abandoning an old run", run.Abandon)
	w.effect(next)
	w.succeed(t0, next)
	w.effects("evt_1#0")
}

func settleAbandonFinished[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.abandon(run)
	w.effects("evt_1#0")
	w.sameEvent(done(&c, t0, t0))
}

func settleAbandonInterrupted[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.h.Interrupt(w.T, w.d, run)
	w.abandon(run)
	w.sameEvent(claimed(&c, t0))
	w.sweptNothing("after it was abandoned", t0.Add(day))
	w.succeed(t0, w.take(t0, "evt_1"))
}

func settleSever[T any](w *bench[T]) {
	all := w.queue(t0, "evt_1", "evt_2")
	for i, abandons := range []bool{false, true} {
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{all[i].Key}
		run := w.takeThese(p, all[i].EventID)
		w.effect(run)
		run.Sever()
		run.Sever()
		// It may take a moment.
		for w.h.Effect(w.Context(), run.Tx(), "late") == nil {
			if w.Context().Err() != nil {
				w.Fatal("the transaction could be used after Sever")
			}
		}
		if err := run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0}); err == nil {
			w.Error("Finish returned no error after Sever")
		}
		want := claimed(&all[i], t0)
		if abandons {
			w.abandon(run)
		} else {
			r := retried(&run.Events()[0])
			w.settle(t0, run, r)
			want = pendingAfter(&all[i], attemptOf(r, t0, 0, 1))
		}
		w.effects()
		w.sameEvent(want)
	}
	w.sweptNothing("after both had ended", t0.Add(day))
}

// settleSeverInUse severs the transaction of a handler that continues to use it. The handler must
// notice.
func settleSeverInUse[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	began, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for w.Context().Err() == nil {
			err := w.h.Effect(w.Context(), run.Tx(), "used")
			select {
			case began <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	<-began
	run.Sever()
	<-ended
	r := retried(&run.Events()[0])
	w.settle(t0, run, r)
	w.effects()
	w.sameEvent(pendingAfter(&c, attemptOf(r, t0, 0, 1)))
	run = w.takeTried(t0.Add(day), "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#0")
}
