package storetest

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

func endedCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Committed", endedCommitted[T]},
		{"CommittedThenMore", endedCommittedThenMore[T]},
		{"RolledBack", endedRolledBack[T]},
		{"InABatch", endedInABatch[T]},
		{"StatementFailed", endedStatementFailed[T]},
		{"StatementFailedAndReturned", endedStatementReturned[T]},
		{"HandlerFailed", endedHandlerFailed[T]},
	}
}

// checkEnded fails unless both Check and Finish report how the handler ended the transaction.
func (w *bench[T]) checkEnded(run driver.Run[T], committed bool) {
	w.Helper()
	errs := map[string]error{"Check": run.Check(w.Context(), nil), "Check of an error": run.Check(w.Context(), errors.New("mine"))}
	errs["Finish"] = run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0})
	for what, err := range errs {
		ended, ok := errors.AsType[*driver.TxEndedError](err)
		if !ok || !errors.Is(err, driver.ErrTxEnded) || ended.Committed != committed {
			w.Errorf("%s returned the error %v, want a TxEndedError with Committed %v", what, err, committed)
		}
	}
}

// endedCommitted commits in the handler. The effect exists, so the event must not run again.
func endedCommitted[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.effect(run)
	if err := w.h.Commit(w.Context(), run.Tx()); err != nil {
		w.Fatalf("Harness.Commit: %v", err)
	}
	w.checkEnded(run, true)
	w.settle(t0, run, failed(&run.Events()[0]))
	w.effects("evt_1#0")
	if got := w.event("stripe", "evt_1"); got.State != driver.StateDead || got.Attempts != 1 || got.LastError != handlerError {
		w.Errorf("the event is %+v, want it dead after one attempt", got.Event)
	}
	w.sweptNothing("after it was settled", t0.Add(day))
	w.takeNone("after it was settled", w.takeParams(t0.Add(day), 1, true))
}

// endedCommittedThenMore writes after the commit.
func endedCommittedThenMore[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	if err := w.h.Commit(w.Context(), run.Tx()); err != nil {
		w.Fatalf("Harness.Commit: %v", err)
	}
	_ = w.h.Effect(w.Context(), run.Tx(), "evt_1#0") // whether this works depends on the database
	w.checkEnded(run, true)
	w.settle(t0, run, failed(&run.Events()[0]))
	if state := w.state("evt_1"); state != driver.StateDead {
		w.Errorf("the event is %s, want it dead", state)
	}
	w.queue(t0, "evt_2")
	run = w.take(t0, "evt_2") // the connection is clean
	w.effect(run)
	w.abandon(run)
}

func endedRolledBack[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.effect(run)
	if err := w.h.Rollback(w.Context(), run.Tx()); err != nil {
		w.Fatalf("Harness.Rollback: %v", err)
	}
	w.checkEnded(run, false)
	w.settle(t0, run, retried(&run.Events()[0]))
	w.effects()
	if got := w.event("stripe", "evt_1"); got.State != driver.StatePending || got.Attempts != 1 {
		w.Errorf("the event is %+v, want it pending after one attempt", got.Event)
	}
	run = w.takeTried(t0.Add(day), "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#0")
}

// endedInABatch ends the transaction of a batch. The batch-mates are released.
func endedInABatch[T any](w *bench[T]) {
	for _, commits := range []bool{true, false} {
		w.queue(t0, "evt_a", "evt_b", "evt_c")
		run := w.takeWith(w.takeParams(t0, 3, false))
		if run == nil || len(run.Events()) != 3 {
			w.Fatalf("took %v, want three events", run)
		}
		end := w.h.Rollback
		if commits {
			end = w.h.Commit
		}
		if err := end(w.Context(), run.Tx()); err != nil {
			w.Fatal(err)
		}
		w.checkEnded(run, commits)
		w.settle(t0, run, failed(&run.Events()[1]))
		for i, e := range run.Events() {
			got := w.event("stripe", e.EventID)
			if want := map[bool]string{true: driver.StateDead, false: driver.StatePending}[i == 1]; got.State != want || (got.Attempts != 0) != (i == 1) {
				w.Errorf("event %d is %+v, want it %s", i, got.Event, want)
			}
		}
		rest := w.takeWith(w.takeParams(t0, 3, false))
		if rest == nil || len(rest.Events()) != 2 {
			w.Fatalf("took %v of the rest, want the two released events", rest)
		}
		w.succeed(t0, rest)
		w.replayDead(t0, driver.DeadLetterRef{Key: run.Events()[1].Key})
		w.succeed(t0, w.take(t0, run.Events()[1].EventID))
		w.prune(windows(day, t0.Add(2*day)))
	}
}

// endedStatementFailed ignores the error of a statement. PostgreSQL does not commit such a
// transaction; SQLite commits the rest.
func endedStatementFailed[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	if err := w.h.Fail(w.Context(), run.Tx()); err == nil {
		w.Fatal("Harness.Fail returned no error")
	}
	checked := run.Check(w.Context(), nil)
	err := run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0})
	if w.h.SwallowedErrorCommits {
		if checked != nil || err != nil {
			w.Fatalf("Check returned the error %v, and Finish %v, want none", checked, err)
		}
		w.effects("evt_1#0")
		w.sameEvent(done(&c, t0, t0))
		return
	}
	for what, err := range map[string]error{"Check": checked, "Finish": err} {
		if !errors.Is(err, driver.ErrTxAborted) || errors.Is(err, driver.ErrTxEnded) {
			w.Errorf("%s returned the error %v, want %v", what, err, driver.ErrTxAborted)
		}
	}
	w.effects()
	w.settle(t0, run, retried(&run.Events()[0]))
	w.effects()
	if got := w.event("stripe", "evt_1"); got.State != driver.StatePending || got.Attempts != 1 {
		w.Errorf("the event is %+v, want it pending after one attempt", got.Event)
	}
}

// endedStatementReturned returns the error of a statement. This is the handler's own failure, and
// the run can record it.
func endedStatementReturned[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.effect(run)
	failure := w.h.Fail(w.Context(), run.Tx())
	// A driver may report a failed statement here or not.
	if err := run.Check(w.Context(), failure); err != nil && !errors.Is(err, driver.ErrTxAborted) {
		w.Errorf("Check returned the error %v, want none or %v", err, driver.ErrTxAborted)
	}
	w.finish(t0, run, retried(&run.Events()[0]))
	w.effects()
	if got := w.event("stripe", "evt_1"); got.State != driver.StatePending || got.Attempts != 1 || len(got.Tries) != 1 {
		w.Errorf("the event is %+v, want it pending after one attempt", got.Event)
	}
	w.sweptNothing("after it was recorded", t0.Add(day))
}

func endedHandlerFailed[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.effect(run)
	for _, failure := range []error{nil, errors.New("no such order"), context.DeadlineExceeded, context.Canceled} {
		if err := run.Check(w.Context(), failure); err != nil {
			w.Errorf("Check of the handler's error %v returned %v, want nil", failure, err)
		}
	}
	w.finish(t0, run, retried(&run.Events()[0]))
	w.effects()
}
