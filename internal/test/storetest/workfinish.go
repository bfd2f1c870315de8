package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func finishCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Succeeded", finishSucceeded[T]},
		{"Many", finishMany[T]},
		{"WithItsMessages", finishMessages[T]},
		{"Retry", finishRetry[T]},
		{"Failed", finishFailed[T]},
		{"Released", finishReleased[T]},
		{"ReleasedBesideFailed", finishReleasedBesideFailed[T]},
		{"Nothing", finishNothing[T]},
		{"Stale", finishStale[T]},
		{"CancelledContext", finishCancelled[T]},
	}
}

func finishSucceeded[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	at := t0.Add(time.Minute)
	run := w.take(t0, "evt_1")
	w.effect(run)
	w.effects()
	w.succeed(at, run)
	w.effects("evt_1#0")
	w.sameEvent(done(&c, t0, at))
	w.sweptNothing("after it was done", t0.Add(day))
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true}}, w.claim(t0, c))
	same(w, "stats", driver.Stats{}, w.stats())
}

// finishMany runs all events of a large batch in one transaction.
func finishMany[T any](w *bench[T]) {
	ids := numbered(100)
	all := w.queue(t0, ids...)
	p := w.takeParams(t0, len(ids), false)
	run := w.takeWith(p)
	if run == nil || len(run.Events()) != len(ids) {
		w.Fatalf("took %v, want all %d events", run, len(ids))
	}
	w.effect(run)
	w.succeed(t0, run)
	var effects []string
	for i := range all {
		effects = append(effects, ids[i]+"#0")
		if state := w.state(ids[i]); state != driver.StateDone {
			w.Errorf("event %s is %s, want it done", ids[i], state)
		}
	}
	w.effects(effects...)
}

// finishMessages has a message of the claim, which is sent even if the handler fails, and one that
// the handler enqueues.
func finishMessages[T any](w *bench[T]) {
	c := newQueued("evt_1", "billing")
	w.claimNew(t0, c)
	w.leaseOne(t0, "to-billing")
	message := outboxMessage("m1", &c)
	for _, end := range []string{"abandoned", "failed", "done"} {
		run := w.takeThese(&driver.TakeParams{
			Source: "stripe", Types: []string{"*"}, Limit: 1, Keys: []driver.Key{c.Key},
			HandlerTimeout: w.d.WorkLimits().MaxHandlerTimeout, Now: t0,
		}, "evt_1")
		if err := w.d.EnqueueTx(w.Context(), run.Tx(), []driver.OutboxMessage{message}); err != nil {
			w.Fatalf("EnqueueTx: %v", err)
		}
		switch end {
		case "abandoned":
			w.abandon(run)
			w.nothingQueued("after the run was abandoned", "crm")
		case "failed":
			w.finish(t0, run, retried(&run.Events()[0]))
			w.nothingQueued("after the handler failed", "crm")
		case "done":
			w.succeed(t0, run)
		}
	}
	got := w.leaseOne(time.Time{}, "crm")
	same(w, "body", message.Body, got.Body)
}

// nothingQueued fails if a message is due by the database's clock.
func (w *bench[T]) nothingQueued(when, destination string) {
	w.Helper()
	w.noneDue(time.Time{}, destination, when)
}

func finishRetry[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	want := claimed(&c, t0)
	now := t0
	for n, after := range []time.Duration{retryIn, 0, 12 * time.Hour, 1500 * time.Microsecond} {
		run := w.takeThese(w.takeParams(now, 1, n > 0), "evt_1")
		w.effect(run)
		r := retried(&run.Events()[0])
		r.RetryIn, r.Error = after, fmt.Sprint(n, strings.Repeat("ö\n", 2000))
		now = now.Add(time.Second)
		w.finish(now, run, r)
		w.effects()
		want.Attempts, want.LastError = n+1, r.Error
		want.Tries = append(want.Tries, attemptOf(r, now, 0, n+1))
		w.sameEvent(want)
		now = now.Add(after)
		if after > 0 {
			w.takeNone("before the retry is due", w.takeParams(now.Add(-time.Microsecond), 1, true))
		}
		w.takeNone("as fresh, after a failure", w.takeParams(now.Add(day), 1, false))
	}
	run := w.takeTried(now, "evt_1")
	event := taken(&c, t0)
	event.Attempts = 4
	same(w, "taken", []driver.TakenEvent{event}, run.Events())
	w.effect(run)
	w.succeed(now, run)
	w.effects("evt_1#0")
	want.State, want.Attempts, want.ProcessedAt = driver.StateDone, 5, now
	w.sameEvent(want, lastAnswer())
}

func finishFailed[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.effect(run)
	at := t0.Add(time.Second)
	r := failed(&run.Events()[0])
	w.finish(at, run, r)
	w.effects()
	want := claimed(&c, t0)
	want.State, want.Attempts, want.LastError, want.FailedAt = driver.StateDead, 1, handlerError, at
	want.Tries = []driver.Attempt{attemptOf(r, at, 0, 1)}
	w.sameEvent(want)
	same(w, "dead letters", []driver.DeadLetter{{
		Key: c.Key, Source: "stripe", EventID: "evt_1", Type: c.Type, ReceivedAt: t0,
		Attempts: 1, LastError: handlerError, Signature: driver.ErrorSignature(handlerError), FailedAt: at,
	}}, w.deadLetters(&driver.MessageFilter{}).DeadLetters)
	same(w, "stats", driver.Stats{DeadLetters: 1}, w.stats())
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true, Dead: true}}, w.claim(t0, c))
	same(w, "pruned", driver.PruneResult{}, w.prune(windows(day, t0.Add(365*day))))
}

// finishReleased gives no outcome for some events of a run. They lose no attempt.
func finishReleased[T any](w *bench[T]) {
	all := w.queue(t0, "evt_a")
	all = append(all, w.queue(t0.Add(time.Microsecond), "evt_b")...)
	all = append(all, w.queue(t0.Add(2*time.Microsecond), "evt_c")...)
	now := t0.Add(time.Second)
	run := w.take(now, "evt_a", "evt_b", "evt_c")
	if err := w.h.Effect(w.Context(), run.Tx(), "evt_b#0"); err != nil {
		w.Fatal(err)
	}
	w.finish(now, run, succeeded(&run.Events()[1]))
	w.effects("evt_b#0")
	w.sameEvent(claimed(&all[0], t0))
	w.sameEvent(done(&all[1], t0.Add(time.Microsecond), now))
	run = w.take(now, "evt_a", "evt_c")
	same(w, "taken", []driver.TakenEvent{taken(&all[0], t0), taken(&all[2], t0.Add(2*time.Microsecond))}, run.Events())
	w.effect(run)
	w.succeed(now, run)
	w.effects("evt_a#0", "evt_b#0", "evt_c#0")
}

// finishReleasedBesideFailed undoes the writes of a failed event's batch-mates.
func finishReleasedBesideFailed[T any](w *bench[T]) {
	all := w.queue(t0, "evt_a")
	all = append(all, w.queue(t0.Add(time.Microsecond), "evt_b")...)
	now := t0.Add(time.Second)
	run := w.take(now, "evt_a", "evt_b")
	w.effect(run)
	r := failed(&run.Events()[1])
	w.finish(now, run, r)
	w.effects()
	w.sameEvent(claimed(&all[0], t0))
	want := claimed(&all[1], t0.Add(time.Microsecond))
	want.State, want.Attempts, want.LastError, want.FailedAt = driver.StateDead, 1, handlerError, now
	want.Tries = []driver.Attempt{attemptOf(r, now, 0, 1)}
	w.sameEvent(want)
	w.sweptNothing("after it was recorded", t0.Add(day))
	run = w.take(now, "evt_a")
	w.effect(run)
	w.succeed(now, run)
	w.effects("evt_a#0")
}

func finishNothing[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.finish(t0, w.take(t0, "evt_1"))
	w.sameEvent(claimed(&c, t0))
	w.sweptNothing("after nothing was recorded", t0.Add(day))
	w.succeed(t0, w.take(t0, "evt_1"))
}

// finishStale skips one event of a batch. That is not a failure: the others are committed with it.
func finishStale[T any](w *bench[T]) {
	all := w.queue(t0, "evt_a")
	all = append(all, w.queue(t0.Add(time.Microsecond), "evt_b")...)
	now := t0.Add(time.Second)
	run := w.take(now, "evt_a", "evt_b")
	if err := w.h.Effect(w.Context(), run.Tx(), "evt_a#0"); err != nil {
		w.Fatal(err)
	}
	events := run.Events()
	w.finish(now, run, succeeded(&events[0]), stale(&events[1]))
	w.effects("evt_a#0")
	w.sameEvent(done(&all[0], t0, now))
	want := claimed(&all[1], t0.Add(time.Microsecond))
	want.State, want.Note, want.LastError = driver.StateSkipped, driver.NoteStale, "3 is older than 4"
	w.sameEvent(want)
	page := w.events(&driver.EventFilter{Note: driver.NoteStale})
	same(w, "events with the note stale", []driver.Event{want.Event}, page.Events)
	same(w, "dead letters", []driver.DeadLetter(nil), w.deadLetters(&driver.MessageFilter{}).DeadLetters)
	within := &driver.PruneParams{DedupeWindow: time.Second, Retention: day, Now: now.Add(time.Second / 2)}
	same(w, "pruned less than the window after that", driver.PruneResult{}, w.prune(within))

	// A replay takes it again, marked as replayed, so that the stale rule does not apply.
	w.replayAt(now, all[1].Key, driver.ReplayPlain)
	run = w.take(now, "evt_b")
	event := taken(&all[1], t0.Add(time.Microsecond))
	event.Generation, event.Replayed = 1, true
	same(w, "taken", []driver.TakenEvent{event}, run.Events())
	w.succeed(now, run)
	if got := w.event("stripe", "evt_b"); got.State != driver.StateDone || got.Note != "" {
		w.Errorf("after the replay the event is %+v, want it done without a note", got.Event)
	}
}

// finishCancelled finishes with a cancelled context. Nothing is committed, the run is still open,
// and Settle works.
func finishCancelled[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	w.effect(run)
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	err := run.Finish(ctx, &driver.FinishParams{Results: allSucceeded(run), Now: t0})
	if !errors.Is(err, driver.ErrUnavailable) {
		w.Fatalf("Finish with a cancelled context returned the error %v, want %v", err, driver.ErrUnavailable)
	}
	w.effects()
	w.settle(t0, run, retried(&run.Events()[0]))
	w.effects()
	run = w.takeTried(t0.Add(day), "evt_1")
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#0")
}
