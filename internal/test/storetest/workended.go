package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func endedCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Committed", endedCommitted[T]},
		{"CommittedThenMore", endedCommittedThenMore[T]},
		{"RolledBack", endedRolledBack[T]},
		{"InABatch", endedInABatch[T]},
		{"InABatchBesidePostponed", endedBesidePostponed[T]},
		{"InABatchBesideABusyObject", endedBesideBusy[T]},
		{"RolledBackInABatch", endedRolledBackInABatch[T]},
		{"Killed", endedKilled[T]},
		{"KilledInABatch", endedKilledInABatch[T]},
		{"Reopened", endedReopened[T]},
		{"Replayed", endedReplayed[T]},
		{"Discarded", endedDiscarded[T]},
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
	w.misfits(run)
	w.settle(t0, run, committed(&run.Events()[0]))
	w.effects("evt_1#0")
	w.isEnded("evt_1")
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
	w.settle(t0, run, committed(&run.Events()[0]))
	w.isEnded("evt_1")
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

// misfits fails unless a run that a handler committed cannot be abandoned or settled as failed.
func (w *bench[T]) misfits(run driver.Run[T]) {
	w.Helper()
	e := &run.Events()[0]
	for what, err := range map[string]error{
		"Abandon": run.Abandon(w.Context()),
		"Settle":  run.Settle(w.Context(), &driver.FinishParams{Results: []driver.WorkResult{retried(e)}, Now: t0}),
	} {
		ended, ok := errors.AsType[*driver.TxEndedError](err)
		if !ok || !ended.Committed {
			w.Errorf("%s of a committed run returned the error %v, want a TxEndedError", what, err)
		}
	}
}

// isEnded fails unless an event is dead because its handler ended its transaction.
func (w *bench[T]) isEnded(id string) {
	w.Helper()
	got := w.event("stripe", id)
	if got.State != driver.StateDead || got.Note != driver.NoteTxEnded || got.Attempts != 1 || got.LastError == "" || len(got.Tries) != 1 {
		w.Errorf("the event is %+v with the attempts %+v, want it dead with the note %q", got.Event, got.Tries, driver.NoteTxEnded)
	}
}

// runUntil runs the events of a batch up to last like handlers that succeed, except that end ends
// the transaction in the last one. It returns the outcomes before that.
func (w *bench[T]) runUntil(run driver.Run[T], last int, end func(context.Context, T) error) (before []driver.WorkResult) {
	w.Helper()
	told := 0
	for i := range last + 1 {
		e := &run.Events()[i]
		if err := run.Next(w.Context(), e.Key, &driver.FinishParams{Results: before[told:], Now: t0}); err != nil {
			w.Fatalf("Next: %v", err)
		}
		told = len(before)
		if err := w.h.Effect(w.Context(), run.Tx(), effectOf(e)); err != nil {
			w.Fatal(err)
		}
		if i == last {
			break
		}
		if err := run.Check(w.Context(), nil); err != nil {
			w.Fatalf("Check: %v", err)
		}
		before = append(before, succeeded(e))
	}
	if err := end(w.Context(), run.Tx()); err != nil {
		w.Fatal(err)
	}
	return before
}

// takeBatch queues events and takes them in one run.
func (w *bench[T]) takeBatch(n int) driver.Run[T] {
	w.Helper()
	w.queue(t0, numbered(n)...)
	run := w.takeWith(w.takeParams(t0, n, false))
	if run == nil || len(run.Events()) != n {
		w.Fatalf("took %v, want %d events", run, n)
	}
	return run
}

// endedInABatch commits in the second of three handlers. The event before it is done, with its
// version, and the event after it is released.
func endedInABatch[T any](w *bench[T]) {
	run := w.takeBatch(3)
	before := w.runUntil(run, 1, w.h.Commit)
	w.checkEnded(run, true)
	w.misfits(run)
	first, culprit, rest := &run.Events()[0], &run.Events()[1], &run.Events()[2]
	object := driver.ObjectKey("stripe", "", "order 1")
	version := driver.ObjectVersion{Object: object, Source: "stripe", Version: []byte{1}, Shown: "1"}
	if err := run.Settle(w.Context(), &driver.FinishParams{
		Results: append(before, committed(culprit)), Versions: []driver.ObjectVersion{version}, Now: t0,
	}); err != nil {
		w.Fatalf("Settle: %v", err)
	}
	w.effects(effectOf(first), effectOf(culprit))
	if got := w.event("stripe", first.EventID); got.State != driver.StateDone || got.Attempts != 1 {
		w.Errorf("the event before it is %+v, want it done", got.Event)
	}
	w.isEnded(culprit.EventID)
	found, err := w.s.Versions(w.Context(), []driver.Key{object})
	if err != nil || found[object].Shown != "1" {
		w.Errorf("the versions are %+v with the error %v, want the applied one", found, err)
	}
	next := w.take(t0, rest.EventID)
	if e := next.Events()[0]; e.Attempts != 0 || e.Crashes != 0 {
		w.Errorf("the event after it is %+v, want no attempt", e)
	}
	w.effect(next)
	w.succeed(t0, next)
	w.effects(effectOf(first), effectOf(culprit), effectOf(rest))
}

// endedBesidePostponed commits in the first of two handlers. The other event was postponed: it is
// due later, and has no attempt.
func endedBesidePostponed[T any](w *bench[T]) {
	run := w.takeBatch(2)
	w.runUntil(run, 0, w.h.Commit)
	culprit, busy := &run.Events()[0], &run.Events()[1]
	w.settle(t0, run, committed(culprit), driver.WorkResult{Key: busy.Key, Outcome: driver.WorkPostponed, RetryIn: time.Minute})
	w.isEnded(culprit.EventID)
	w.takeNone("before the postponed event is due", w.takeParams(t0.Add(59*time.Second), 1, false))
	next := w.take(t0.Add(time.Minute), busy.EventID)
	if e := next.Events()[0]; e.Attempts != 0 || e.Crashes != 0 {
		w.Errorf("the postponed event is %+v, want no attempt", e)
	}
	w.effect(next)
	w.succeed(t0, next)
	w.effects(effectOf(culprit), effectOf(busy))
}

// endedBesideBusy commits in the second of three handlers. By the time it is settled, another run
// holds the object of the first event. Settle does not wait for that run: the outcomes of the events
// are recorded, and the versions of other objects. On SQLite the other run holds the whole database,
// and Settle succeeds after it.
func endedBesideBusy[T any](w *bench[T]) {
	other := w.second()
	w.applies(t0, "evt_0", objectVersion("held", "0"))
	p := w.takeParams(t0, 1, false)
	p.Keys = []driver.Key{w.queue(t0.Add(time.Second), "evt_holder")[0].Key}
	run := w.takeBatch(3)
	first, culprit, rest := &run.Events()[0], &run.Events()[1], &run.Events()[2]
	objects := objectKeys("held", "free", "new")
	w.locked(run, objects[:2]...)
	before := w.runUntil(run, 1, w.h.Commit)
	holder := other.takeThese(p, "evt_holder")
	other.locked(holder, objects[0])
	settled := false
	settle := func(ctx context.Context) error {
		err := run.Settle(ctx, &driver.FinishParams{
			Results:  append(before, committed(culprit)),
			Versions: []driver.ObjectVersion{objectVersion("held", "1"), objectVersion("free", "1"), objectVersion("new", "1")},
			Now:      t0,
		})
		settled = err == nil
		return err
	}
	w.beside("settling", settle)
	want := map[string]string{"held": "v0", "free": "v1", "new": "v1"}
	other.succeed(t0, holder)
	if !settled {
		if !w.singleWriter() {
			return // reported before
		}
		w.ok("settling after the other run", settle(w.Context()))
		want["held"] = "v1"
	}
	same(w, "versions", want, shownVersions(w.versions(objects...), "held", "free", "new"))
	if got := w.event("stripe", first.EventID); got.State != driver.StateDone {
		w.Errorf("the event before it is %+v, want it done", got.Event)
	}
	w.isEnded(culprit.EventID)
	w.sweptNothing("after it was settled", time.Now().Add(day))
	w.abandon(w.take(t0, rest.EventID))
}

func endedRolledBackInABatch[T any](w *bench[T]) {
	run := w.takeBatch(3)
	w.runUntil(run, 1, w.h.Rollback)
	w.checkEnded(run, false)
	w.abandon(run)
	w.effects()
	again := w.takeWith(w.takeParams(t0, 3, false))
	if again == nil || len(again.Events()) != 3 {
		w.Fatalf("took %v, want all three events", again)
	}
	w.effect(again)
	w.succeed(t0, again)
}

// sweepEnded sweeps long after a handler committed and its process died.
func (w *bench[T]) sweepEnded(run driver.Run[T]) []driver.LostRun {
	w.Helper()
	w.h.Interrupt(w.T, w.d, run)
	lost := w.sweep(time.Now().Add(day))
	w.abandon(run)
	return lost
}

// endedKilled commits in the handler, and the process dies before it can record that.
func endedKilled[T any](w *bench[T]) {
	run := w.takeBatch(1)
	w.runUntil(run, 0, w.h.Commit)
	e := &run.Events()[0]
	want := driver.LostRun{Key: e.Key, Source: e.Source, EventID: e.EventID, Type: e.Type, Attempts: 1, Alone: true, Dead: true, Ended: true}
	same(w, "lost", []driver.LostRun{want}, w.sweepEnded(run))
	w.isEnded(e.EventID)
	w.effects(effectOf(e))
	w.takeNone("after the sweep", w.takeParams(time.Now().Add(2*day), 1, true))
}

// endedKilledInABatch is endedKilled in the second handler of a batch. No event can take effect
// twice, also if the store does not know which handler it was.
func endedKilledInABatch[T any](w *bench[T]) {
	run := w.takeBatch(3)
	w.runUntil(run, 1, w.h.Commit)
	first, culprit, rest := &run.Events()[0], &run.Events()[1], &run.Events()[2]
	w.sweepEnded(run)
	w.isEnded(culprit.EventID)
	if !w.h.NextTells {
		w.isEnded(first.EventID)
		w.isEnded(rest.EventID)
		w.takeNone("after the sweep", w.takeParams(time.Now().Add(2*day), 3, true))
		return
	}
	if got := w.event("stripe", first.EventID); got.State != driver.StateDone || got.Attempts != 1 {
		w.Errorf("the event before it is %+v, want it done", got.Event)
	}
	next := w.takeTried(time.Now().Add(2*day), rest.EventID)
	if e := next.Events()[0]; e.Attempts != 0 {
		w.Errorf("the event after it is %+v, want no attempt", e)
	}
	w.effect(next)
	w.succeed(t0, next)
	w.effects(effectOf(first), effectOf(culprit), effectOf(rest))
}

// end queues an event and has its handler commit by itself.
func (w *bench[T]) end(id string, routes ...string) driver.Claim {
	w.Helper()
	c := newQueued(id, routes...)
	w.claimNew(t0, c)
	run := w.take(t0, id)
	w.effect(run)
	if err := w.h.Commit(w.Context(), run.Tx()); err != nil {
		w.Fatal(err)
	}
	w.settle(t0, run, committed(&run.Events()[0]))
	w.isEnded(id)
	return c
}

// endedReopened delivers such an event again, in every way.
func endedReopened[T any](w *bench[T]) {
	c := w.end("evt_1", "billing")
	before := w.event("stripe", "evt_1")
	same(w, "reopened", []driver.Key(nil), w.reopen(t0, c.Key))
	inTx := c
	inTx.Work = driver.WorkDone
	run, result, err := w.d.TakeClaim(w.Context(), &driver.ClaimParams{Claims: []driver.Claim{inTx}, Reopen: true, Now: t0})
	if run != nil || err != nil || result.Reopened || result.Claimed {
		w.Errorf("TakeClaim returned %v, %+v and the error %v, want a duplicate", run, result, err)
	}
	tx, commit, rollback := w.h.Begin(w.T, w.d)
	defer func() { _ = rollback() }()
	results, err := w.d.ClaimTx(w.Context(), tx, &driver.ClaimParams{Claims: []driver.Claim{inTx}, Reopen: true, Now: t0})
	if err != nil || results[0].Reopened || results[0].Claimed {
		w.Errorf("ClaimTx returned %+v and the error %v, want a duplicate", results, err)
	}
	if err := commit(); err != nil {
		w.Fatal(err)
	}
	same(w, "dead letters replayed", []bool{false}, w.replayDead(t0, driver.DeadLetterRef{Key: c.Key}))
	w.sameEvent(before)
	// Its message is not concerned.
	w.leaseOne(t0, "to-billing")
}

// endedReplayed replays such an event, which needs its note.
func endedReplayed[T any](w *bench[T]) {
	c := w.end("evt_1")
	for _, mode := range []driver.ReplayMode{driver.ReplayPlain, driver.ReplayAsNew, driver.ReplaySameID} {
		for _, note := range []string{"", driver.NoteDiscarded} {
			_, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Mode: mode, Note: note, Now: t0})
			w.refused("a replay that does not name the note", driver.ErrNoteNeeded, err)
		}
	}
	w.isEnded("evt_1")
	replayed, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Note: driver.NoteTxEnded, Now: t0})
	if err != nil || replayed.Generation != 1 {
		w.Fatalf("Replay returned %+v and the error %v, want generation 1", replayed, err)
	}
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#0", "evt_1#1")
	if got := w.event("stripe", "evt_1"); got.State != driver.StateDone || got.Note != "" {
		w.Errorf("the event is %+v, want it done without a note", got.Event)
	}
}

// endedDiscarded discards such an event. The replay of it needs the note still, and the event is
// then as any other.
func endedDiscarded[T any](w *bench[T]) {
	c := w.end("evt_1")
	ref := driver.DeadLetterRef{Key: c.Key}
	same(w, "discarded", []bool{true}, w.discard(t0, ref))
	before := w.event("stripe", "evt_1")
	if before.State != driver.StateSkipped || before.Note != driver.NoteDiscarded {
		w.Fatalf("the event is %+v, want it discarded", before.Event)
	}
	for _, mode := range []driver.ReplayMode{driver.ReplayPlain, driver.ReplayAsNew, driver.ReplaySameID} {
		for _, note := range []string{"", driver.NoteDiscarded} {
			_, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Mode: mode, Note: note, Now: t0})
			w.refused("a replay that does not name the note", driver.ErrNoteNeeded, err)
		}
	}
	w.sameEvent(before)
	if _, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Note: driver.NoteTxEnded, Now: t0}); err != nil {
		w.Fatalf("Replay that names the note: %v", err)
	}
	run := w.take(t0, "evt_1")
	w.finish(t0, run, stale(&run.Events()[0]))
	if _, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Now: t0}); err != nil {
		w.Fatalf("Replay after a stale run: %v", err)
	}
	run = w.take(t0, "evt_1")
	w.finish(t0, run, failed(&run.Events()[0]))
	same(w, "discarded again", []bool{true}, w.discard(t0, ref))
	if _, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Now: t0}); err != nil {
		w.Errorf("Replay after another failure and a discard: %v", err)
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
