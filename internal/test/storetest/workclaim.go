package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

func takeClaimCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"First", takeClaimFirst[T]},
		{"Undone", takeClaimUndone[T]},
		{"Stale", takeClaimStale[T]},
		{"EndedByTheHandler", takeClaimEnded[T]},
		{"EndedAfterFailures", takeClaimEndedLater[T]},
		{"Duplicate", takeClaimDuplicate[T]},
		{"Dead", takeClaimDead[T]},
		{"Guarded", takeClaimGuarded[T]},
		{"WaitsForAnother", takeClaimWaits[T]},
		{"OneKey", takeClaimRace[T]},
		{"DroppedRow", takeClaimDropped[T]},
	}
}

// newInline returns a claim whose work runs in its own transaction.
func newInline(id string, routes ...string) driver.Claim {
	c := newClaim("stripe", id, "body of "+id, routes...)
	c.Work = driver.WorkDone
	return c
}

func claimParams(at time.Time, reopen bool, claims ...driver.Claim) *driver.ClaimParams {
	return &driver.ClaimParams{Claims: sorted(claims...), LockTimeout: eventually.Bound, Reopen: reopen, Now: at}
}

// takeClaim claims an event in a run, and compares the claim's result.
func (w *bench[T]) takeClaim(at time.Time, reopen bool, c driver.Claim, want driver.ClaimResult) driver.Run[T] {
	w.Helper()
	run, got, err := w.d.TakeClaim(w.Context(), claimParams(at, reopen, c))
	if err != nil {
		w.Fatalf("TakeClaim: %v", err)
	}
	w.abandonOnFailure(run)
	same(w, "claim result", want, got)
	if (run != nil) != (want.Claimed || want.Reopened) {
		w.Fatalf("TakeClaim returned the run %v with the result %+v", run, got)
	}
	return run
}

func (w *bench[T]) takeFirst(at time.Time, c driver.Claim) driver.Run[T] {
	w.Helper()
	return w.takeClaim(at, true, c, driver.ClaimResult{Claimed: true})
}

func takeClaimFirst[T any](w *bench[T]) {
	c := newInline("evt_1", "billing")
	c.OccurredAt = t0.Add(-time.Hour)
	run := w.takeFirst(t0, c)
	same(w, "taken", []driver.TakenEvent{taken(&c, t0)}, run.Events())
	w.absent("stripe", "evt_1")
	w.effect(run)
	if err := w.d.EnqueueTx(w.Context(), run.Tx(), []driver.OutboxMessage{outboxMessage("m1", &c)}); err != nil {
		w.Fatalf("EnqueueTx: %v", err)
	}
	object := objectVersion("a", "1")
	same(w, "versions", map[string]string{}, shownVersions(w.locked(run, object.Object), "a"))
	at := t0.Add(time.Second)
	w.finishWith(run, &driver.FinishParams{Results: allSucceeded(run), Versions: []driver.ObjectVersion{object}, Now: at})
	w.effects("evt_1#0")
	got := w.event("stripe", "evt_1")
	if got.State != driver.StateDone || !got.ProcessedAt.Equal(at) || !got.ReceivedAt.Equal(t0) || got.Attempts != 1 || len(got.Messages) != 2 {
		w.Errorf("the event is %+v with the messages %+v, want it done with two messages", got.Event, got.Messages)
	}
	w.leaseOne(time.Time{}, "crm")
	m := w.leaseOne(t0, "to-billing")
	same(w, "message", leased(&c, 0, t0, m.Token, 1), m)
	same(w, "version", object, w.versions(object.Object)[object.Object])
	w.sweptNothing("after a claim", t0.Add(day))
	w.takeNone("after a claim", w.takeParams(t0.Add(day), 10, false))
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true}}, w.claim(t0, queuedAs(c)))
}

// takeClaimUndone undoes claims in every way. The next delivery is a first one.
func takeClaimUndone[T any](w *bench[T]) {
	c := newInline("evt_1", "billing")
	for _, undo := range []func(run driver.Run[T]){
		w.abandon,
		func(run driver.Run[T]) { run.Sever(); w.abandon(run) },
		func(run driver.Run[T]) { w.abandon(run); w.abandon(run) },
		func(run driver.Run[T]) { w.finish(t0, run, failed(&run.Events()[0])); w.abandon(run) },
		func(run driver.Run[T]) {
			if err := w.h.Rollback(w.Context(), run.Tx()); err != nil {
				w.Fatal(err)
			}
			w.checkEnded(run, false)
			w.abandon(run)
		},
	} {
		run := w.takeFirst(t0, c)
		w.effect(run)
		undo(run)
		w.effects()
		w.absent("stripe", "evt_1")
		w.noneDue(t0.Add(day), "to-billing", "after the claim was undone")
		w.sweptNothing("after the claim was undone", t0.Add(day))
	}
	w.claimNew(t0, newClaim("stripe", "evt_1", "body of evt_1"))
}

func takeClaimStale[T any](w *bench[T]) {
	c := newInline("evt_1")
	run := w.takeFirst(t0, c)
	r := stale(&run.Events()[0])
	w.finish(t0, run, r)
	want := claimed(&c, t0)
	want.State, want.Note, want.LastError, want.ProcessedAt = driver.StateSkipped, driver.NoteStale, r.Error, time.Time{}
	w.sameEvent(want)
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true}}, w.claim(t0, queuedAs(c)))
}

// takeClaimEnded commits in the handler. That commits the claim too.
func takeClaimEnded[T any](w *bench[T]) {
	c := newInline("evt_1")
	run := w.takeFirst(t0, c)
	w.effect(run)
	if err := w.h.Commit(w.Context(), run.Tx()); err != nil {
		w.Fatal(err)
	}
	w.checkEnded(run, true)
	if state := w.state("evt_1"); state != driver.StateDone {
		w.Errorf("the event is %s, want it done, as it was claimed", state)
	}
	w.misfits(run)
	w.settle(t0, run, committed(&run.Events()[0]))
	w.effects("evt_1#0")
	w.isEnded("evt_1")
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true, Dead: true}}, w.claim(t0, queuedAs(c)))
	same(w, "reopened", []driver.Key(nil), w.reopen(t0, c.Key))
}

// takeClaimEndedLater commits in the handler after an earlier delivery failed, which counts as an
// attempt.
func takeClaimEndedLater[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.countInline(inlineFailure(t0, c, 10), driver.InlineFailed{Failures: 1})
	run := w.takeFirst(t0, c)
	w.effect(run)
	if err := w.h.Commit(w.Context(), run.Tx()); err != nil {
		w.Fatal(err)
	}
	w.settle(t0, run, committed(&run.Events()[0]))
	got := w.event("stripe", "evt_1")
	if got.State != driver.StateDead || got.Note != driver.NoteTxEnded || got.Attempts != 2 || len(got.Tries) != 1 || got.Tries[0].Number != 2 {
		w.Errorf("the event is %+v with the attempts %+v, want it dead after 2 attempts", got.Event, got.Tries)
	}
}

func takeClaimDuplicate[T any](w *bench[T]) {
	queued, first := newQueued("evt_queued"), newInline("evt_done")
	w.claimNew(t0, queued, newClaim("stripe", "evt_routed", "{}", "billing"))
	w.succeed(t0, w.takeFirst(t0, first))
	for _, id := range []string{"evt_queued", "evt_done", "evt_routed"} {
		before := w.event("stripe", id)
		c := newInline(id, "billing")
		c.Body, c.BodyHash = before.Body, before.BodySHA256
		w.takeClaim(t0, true, c, driver.ClaimResult{Duplicate: true})
		setBody(&c, []byte("another"))
		w.takeClaim(t0, true, c, driver.ClaimResult{Duplicate: true, OtherBody: true})
		w.sameEvent(before)
	}
	w.succeed(t0, w.take(t0, "evt_queued"))
}

// takeClaimDead delivers a dead event again.
func takeClaimDead[T any](w *bench[T]) {
	c := newInline("evt_1")
	queued := c
	queued.Work = driver.WorkQueued
	w.claimNew(t0, queued)
	run := w.take(t0, "evt_1")
	w.finish(t0, run, failed(&run.Events()[0]))
	before := w.event("stripe", "evt_1")
	w.takeClaim(t0, false, c, driver.ClaimResult{Duplicate: true, Dead: true})
	at := t0.Add(time.Hour)
	reopened := driver.ClaimResult{Duplicate: true, Dead: true, Reopened: true, Generation: 1}
	run = w.takeClaim(at, true, c, reopened)
	w.effect(run)
	w.abandon(run)
	w.sameEvent(before)
	w.effects()

	run = w.takeClaim(at, true, c, reopened)
	want := taken(&c, t0)
	want.Generation = 1
	same(w, "taken", []driver.TakenEvent{want}, run.Events())
	w.effect(run)
	w.succeed(at, run)
	w.effects("evt_1#1")
	got := w.event("stripe", "evt_1")
	if got.State != driver.StateDone || got.Generation != 1 || got.Attempts != 1 || !got.ProcessedAt.Equal(at) || !got.FailedAt.IsZero() {
		w.Errorf("the event is %+v, want it done in generation 1", got.Event)
	}
	same(w, "history", []driver.HistoryEntry{{At: at, Action: driver.ActionReopened, Generation: 1}}, got.History)
	same(w, "attempts", before.Tries, got.Tries)
	w.takeClaim(at, true, c, driver.ClaimResult{Duplicate: true})
}

// takeClaimGuarded refuses a body that was delivered under another id.
func takeClaimGuarded[T any](w *bench[T]) {
	first, again := guarded(driver.BodyRefuse, "github", "1", "body"), guarded(driver.BodyRefuse, "github", "2", "body")
	first.Work, again.Work = driver.WorkDone, driver.WorkDone
	run := w.takeFirst(t0, first)
	w.abandon(run)
	w.succeed(t0, w.takeFirst(t0, first))
	w.takeClaim(t0, true, again, driver.ClaimResult{Duplicate: true, RepeatOf: "1", RepeatOfKey: first.Key})
	w.absent("github", "2")
}

// takeClaimWaits claims a key while a run is claiming it. The claim waits, and is a duplicate once
// the run has committed.
func takeClaimWaits[T any](w *bench[T]) {
	other := w.second()
	c := newInline("evt_1")
	run := w.takeFirst(t0, c)
	w.effect(run)
	brief := claimParams(t0, true, c)
	brief.LockTimeout = 50 * time.Millisecond
	for _, d := range []driver.Driver[T]{w.d, other.d} {
		w.behind("a claim of a key that a run is claiming", func(ctx context.Context) error {
			next, got, err := d.TakeClaim(ctx, brief)
			if next != nil || got.Claimed {
				w.abandonOnFailure(next)
				w.Fatal("an event was claimed while a run was claiming it")
			}
			return err
		})
		w.behind("a plain claim of it", func(ctx context.Context) error {
			_, err := d.Claim(ctx, brief)
			return err
		})
	}
	w.succeed(t0, run)
	other.takeClaim(t0, true, c, driver.ClaimResult{Duplicate: true})
	w.effects("evt_1#0")
	// If the run's claim is undone, the waiting one is the first.
	next := newInline("evt_2")
	run = w.takeFirst(t0, next)
	found := make(chan error, 1)
	go func() {
		got, err := other.d.Claim(w.Context(), claimParams(t0, false, queuedAs(next)))
		if err == nil && !got[0].Claimed {
			err = fmt.Errorf("the claim that had waited found %+v, want it claimed", got[0])
		}
		found <- err
	}()
	w.abandon(run)
	if err := <-found; err != nil {
		w.Error(err)
	}
}

func queuedAs(c driver.Claim) driver.Claim {
	c.Work = driver.WorkQueued
	return c
}

// takeClaimRace claims one key from two drivers at once, by runs and by plain claims. One wins, and
// its effect exists if it was a run.
func takeClaimRace[T any](w *bench[T]) {
	const callers = 8
	other := w.second()
	for round := range group.Rounds(4, 10) {
		c := newInline(fmt.Sprint("evt_", round))
		var mu sync.Mutex
		claimed := map[bool]int{} // counts wins by runs (true) and by plain claims (false)
		p := &pair{fixture: w.fixture, stores: [2]driver.Store{w.d, other.d}}
		p.atOnce(callers, func(_ driver.Store, i int) error {
			d := []driver.Driver[T]{w.d, other.d}[i%2]
			byRun, won, err := i%4 < 2, false, error(nil)
			if byRun {
				won, err = runOnce(w, d, c)
			} else {
				var got []driver.ClaimResult
				if got, err = d.Claim(w.Context(), claimParams(t0, false, queuedAs(c))); err == nil {
					won = got[0].Claimed
				}
			}
			if won {
				mu.Lock()
				defer mu.Unlock()
				claimed[byRun]++
			}
			return err
		})
		if claimed[true]+claimed[false] != 1 {
			w.Fatalf("%d runs and %d plain claims won the event, want one in all", claimed[true], claimed[false])
		}
		got := w.h.Effects(w.T, w.d)[c.EventID+"#0"]
		want := map[int]string{1: driver.StateDone, 0: driver.StatePending}[claimed[true]]
		if state := w.state(c.EventID); got != claimed[true] || state != want {
			w.Errorf("the event is %s with %d effects, want it %s with %d", state, got, want, claimed[true])
		}
	}
}

// runOnce claims an event in a run, does its work and commits. It reports whether the claim was the
// first.
func runOnce[T any](w *bench[T], d driver.Driver[T], c driver.Claim) (bool, error) {
	run, _, err := d.TakeClaim(w.Context(), claimParams(t0, false, c))
	if err != nil || run == nil {
		return false, err
	}
	err = w.h.Effect(w.Context(), run.Tx(), c.EventID+"#0")
	if err == nil {
		err = run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0})
	}
	if err != nil {
		return false, errors.Join(err, run.Abandon(w.Context()))
	}
	return true, nil
}
