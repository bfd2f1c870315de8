package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

func inlineCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Counted", inlineCounted[T]},
		{"AtOnce", inlineAtOnce[T]},
		{"DeliveredAgain", inlineDeliveredAgain[T]},
		{"Replayed", inlineReplayed[T]},
		{"SucceededAfterFailures", inlineSucceeded[T]},
		{"Attempts", inlineAttempts[T]},
		{"ClaimedMeanwhile", inlineClaimedMeanwhile[T]},
		{"DeadAlready", inlineDeadAlready[T]},
		{"AtTheLimitAtOnce", inlineRace[T]},
		{"Filed", inlineFiled[T]},
		{"FiledUpToALimit", inlineFiledLimit[T]},
		{"FiledAgainstDelivery", inlineFiledRace[T]},
		{"DatabaseClock", inlineDatabaseClock[T]},
		{"DroppedRow", inlineDropped[T]},
	}
}

func inlineFailure(at time.Time, c driver.Claim, limit int) *driver.InlineFailure {
	return &driver.InlineFailure{Claim: c, Error: handlerError, Limit: limit, Now: at}
}

func (w *bench[T]) countInline(p *driver.InlineFailure, want driver.InlineFailed) {
	w.Helper()
	got, err := w.d.CountInlineFailure(w.Context(), p)
	if err != nil {
		w.Fatalf("CountInlineFailure: %v", err)
	}
	same(w, "inline failures", want, *got)
}

// filed checks the dead letter of an event whose runs failed.
func (w *bench[T]) filed(c *driver.Claim, at time.Time, failures int) {
	w.Helper()
	got := w.event(c.Source, c.EventID)
	if got.State != driver.StateDead || got.Attempts != failures || got.LastError != handlerError || !got.FailedAt.Equal(at) || got.Generation != 0 {
		w.Errorf("the event is %+v, want it dead since %v after %d attempts", got.Event, at, failures)
	}
	same(w, "body", c.Body, got.Body)
	same(w, "headers", c.Headers, got.Headers)
	same(w, "time", c.OccurredAt, got.OccurredAt)
	for _, m := range got.Messages {
		if m.State != driver.StatePending {
			w.Errorf("its message is %+v, want it pending", m)
		}
	}
	if len(got.Messages) != len(c.Messages) {
		w.Errorf("it has the messages %+v, want %d", got.Messages, len(c.Messages))
	}
	letters := w.deadLetters(&driver.MessageFilter{Source: c.Source, EventID: c.EventID}).DeadLetters
	if len(letters) != 1 || letters[0].MessageID != "" || letters[0].Attempts != failures || letters[0].LastError != handlerError {
		w.Errorf("the dead letters are %+v, want one of the event", letters)
	}
	same(w, "duplicate", []driver.ClaimResult{{Duplicate: true, Dead: true}}, w.claim(at, queuedAs(*c)))
	w.takeNone("of a dead event", w.takeParams(at.Add(day), 10, true))
}

func inlineCounted[T any](w *bench[T]) {
	c := newInline("evt_1", "billing")
	c.OccurredAt = t0.Add(-time.Hour)
	for n := 1; n < 3; n++ {
		w.countInline(inlineFailure(t0.Add(time.Duration(n)*time.Second), c, 3), driver.InlineFailed{Failures: n})
		w.absent("stripe", "evt_1")
		w.abandon(w.takeFirst(t0, c)) // the next delivery is a first one
	}
	at := t0.Add(time.Minute)
	w.countInline(inlineFailure(at, c, 3), driver.InlineFailed{Failures: 3, Dead: true})
	w.filed(&c, at, 3)
	// The event is claimed, so its routes' messages are sent even though the handler failed.
	if m := w.leaseOne(at, "to-billing"); m.ID != c.Messages[0].ID || string(m.Body) != string(c.Body) {
		w.Errorf("leased %+v, want the message of the claim", m)
	}
}

func inlineAtOnce[T any](w *bench[T]) {
	permanent, limited := newInline("evt_1"), newInline("evt_2")
	p := inlineFailure(t0, permanent, 100)
	p.Dead = true
	w.countInline(p, driver.InlineFailed{Failures: 1, Dead: true})
	w.filed(&permanent, t0, 1)
	w.countInline(inlineFailure(t0, limited, 1), driver.InlineFailed{Failures: 1, Dead: true})
	w.filed(&limited, t0, 1)
}

// inlineDeliveredAgain reopens a dead letter by a delivery. The messages of its routes are open
// since it was filed.
func inlineDeliveredAgain[T any](w *bench[T]) {
	c := newInline("evt_1", "billing")
	w.countInline(inlineFailure(t0, c, 1), driver.InlineFailed{Failures: 1, Dead: true})
	before := w.event("stripe", "evt_1")
	at := t0.Add(time.Hour)
	reopened := driver.ClaimResult{Duplicate: true, Dead: true, Reopened: true, Generation: 1}
	w.abandon(w.takeClaim(at, true, c, reopened))
	w.sameEvent(before)
	run := w.takeClaim(at, true, c, reopened)
	w.effect(run)
	w.succeed(at, run)
	w.effects("evt_1#1")
	got := w.event("stripe", "evt_1")
	if got.State != driver.StateDone || got.Attempts != 1 {
		w.Errorf("the event is %+v, want it done", got.Event)
	}
	m := w.leaseOne(at, "to-billing")
	if m.ID != c.Messages[0].ID || string(m.Body) != string(c.Body) {
		w.Errorf("leased %+v, want the message of the claim", m)
	}
}

// inlineReplayed replays the dead letter. A worker takes it like any other event.
func inlineReplayed[T any](w *bench[T]) {
	c := newInline("evt_1", "billing")
	w.countInline(inlineFailure(t0, c, 1), driver.InlineFailed{Failures: 1, Dead: true})
	same(w, "replayed", []bool{true}, w.replayDead(t0, driver.DeadLetterRef{Key: c.Key}))
	run := w.take(t0, "evt_1")
	event := taken(&c, t0)
	event.Generation, event.Replayed = 1, true
	same(w, "taken", []driver.TakenEvent{event}, run.Events(), receivedAtAnyTime())
	w.effect(run)
	w.succeed(t0, run)
	w.effects("evt_1#1")
	if m := w.leaseOne(t0, "to-billing"); m.ID != c.Messages[0].ID {
		w.Errorf("leased %+v, want the message of the claim", m)
	}
}

// inlineSucceeded checks that a success deletes the failures of its event.
func inlineSucceeded[T any](w *bench[T]) {
	c := newInline("evt_1")
	for n := 1; n <= 2; n++ {
		w.countInline(inlineFailure(t0, c, 3), driver.InlineFailed{Failures: n})
	}
	run := w.takeFirst(t0, c)
	w.effect(run)
	w.succeed(t0, run)
	// After pruning, a delivery counts from the beginning.
	w.prune(windows(day, t0.Add(2*day)))
	w.absent("stripe", "evt_1")
	w.fileInline(&driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(2 * day)})
	w.countInline(inlineFailure(t0.Add(2*day), c, 3), driver.InlineFailed{Failures: 1})
}

// inlineAttempts checks that each run knows the failures before it, and that they count as attempts
// of the event that is claimed in the end.
func inlineAttempts[T any](w *bench[T]) {
	ok, skipped := newInline("evt_ok"), newInline("evt_skipped")
	for n := range 3 {
		for _, c := range []driver.Claim{ok, skipped} {
			run := w.takeFirst(t0, c)
			if got := run.Events()[0].Attempts; got != n {
				w.Errorf("%s: the run after %d failures has %d attempts", c.EventID, n, got)
			}
			w.abandon(run)
			w.countInline(inlineFailure(t0, c, 10), driver.InlineFailed{Failures: n + 1})
		}
	}
	w.succeed(t0, w.takeFirst(t0, ok))
	run := w.takeFirst(t0, skipped)
	w.finish(t0, run, stale(&run.Events()[0]))
	for id, want := range map[string]int{"evt_ok": 4, "evt_skipped": 3} {
		if got := w.event("stripe", id).Attempts; got != want {
			w.Errorf("%s has %d attempts, want %d", id, got, want)
		}
	}
	// A new generation begins with full attempts.
	dead := newInline("evt_dead")
	for n := 1; n <= 2; n++ {
		w.countInline(inlineFailure(t0, dead, 2), driver.InlineFailed{Failures: n, Dead: n == 2})
	}
	run = w.takeClaim(t0, true, dead, driver.ClaimResult{Duplicate: true, Dead: true, Reopened: true, Generation: 1})
	if got := run.Events()[0].Attempts; got != 0 {
		w.Errorf("the reopened event has %d attempts, want none", got)
	}
	w.succeed(t0, run)
	if got := w.event("stripe", "evt_dead").Attempts; got != 1 {
		w.Errorf("the reopened event is done after %d attempts, want 1", got)
	}
}

func inlineClaimedMeanwhile[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.countInline(inlineFailure(t0, c, 2), driver.InlineFailed{Failures: 1})
	run := w.takeFirst(t0, c)
	w.effect(run)
	w.succeed(t0, run)
	before := w.event("stripe", "evt_1")
	got, err := w.d.CountInlineFailure(w.Context(), inlineFailure(t0, c, 2))
	if err != nil || got.Dead {
		w.Errorf("a failure of an event that is done gave %+v and the error %v", got, err)
	}
	w.fileInline(&driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(day)})
	w.sameEvent(before)
	w.effects("evt_1#0")
}

// inlineDeadAlready counts a failure of an event that another caller filed meanwhile, and one of an
// event that a failed delivery had reopened.
func inlineDeadAlready[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.countInline(inlineFailure(t0, c, 1), driver.InlineFailed{Failures: 1, Dead: true})
	before := w.event("stripe", "evt_1")
	w.abandon(w.takeClaim(t0, true, c, driver.ClaimResult{Duplicate: true, Dead: true, Reopened: true, Generation: 1}))
	got, err := w.d.CountInlineFailure(w.Context(), inlineFailure(t0.Add(time.Hour), c, 1))
	if err != nil || !got.Dead {
		w.Errorf("a failure of a dead event gave %+v and the error %v, want Dead set", got, err)
	}
	w.sameEvent(before)
}

// inlineRace counts the last failures of events on both drivers at once. Each is filed once.
func inlineRace[T any](w *bench[T]) {
	const limit, callers = 4, 6
	other := w.second()
	p := &pair{fixture: w.fixture, stores: [2]driver.Store{w.d, other.d}}
	for round := range group.Rounds(4, 10) {
		c := newInline(fmt.Sprint("evt_", round), "billing")
		var got [callers]driver.InlineFailed
		p.atOnce(callers, func(s driver.Store, i int) error {
			counted, err := s.CountInlineFailure(w.Context(), inlineFailure(t0, c, limit))
			if err == nil {
				got[i] = *counted
			}
			return err
		})
		dead, highest := 0, 0
		for _, counted := range got {
			highest = max(highest, counted.Failures)
			if counted.Dead {
				dead++
			}
		}
		// Even a caller that counted one of the first failures may be told that the event is dead.
		if dead <= callers-limit || highest != limit {
			w.Errorf("the callers got %+v, want %d failures counted, and the event dead from the last of them on", got, limit)
		}
		w.filed(&c, t0, limit)
		w.fileInline(&driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(day)})
	}
}

func (w *bench[T]) fileInline(p *driver.FileFailuresParams, want ...driver.FiledFailure) {
	w.Helper()
	got, err := w.d.FileInlineFailures(w.Context(), p)
	if err != nil {
		w.Fatalf("FileInlineFailures: %v", err)
	}
	same(w, "filed", want, got)
}

func inlineFiled[T any](w *bench[T]) {
	old, young := newInline("evt_old", "billing"), newInline("evt_young")
	w.countInline(inlineFailure(t0, old, 5), driver.InlineFailed{Failures: 1})
	w.countInline(inlineFailure(t0.Add(time.Hour), old, 5), driver.InlineFailed{Failures: 2})
	w.countInline(inlineFailure(t0.Add(2*time.Hour), young, 5), driver.InlineFailed{Failures: 1})
	p := &driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(2*time.Hour - time.Microsecond)}
	w.fileInline(p)
	p.Now = t0.Add(2*time.Hour + time.Microsecond)
	w.fileInline(p, driver.FiledFailure{Source: "stripe", EventID: "evt_old", Type: old.Type, Failures: 2, Error: handlerError})
	w.absent("stripe", "evt_young")
	w.filed(&old, w.event("stripe", "evt_old").FailedAt, 2)
	w.fileInline(p)
	same(w, "replayed", []bool{true}, w.replayDead(t0, driver.DeadLetterRef{Key: old.Key}))
	w.succeed(t0, w.take(t0, "evt_old"))
}

func inlineFiledLimit[T any](w *bench[T]) {
	ids := numbered(5)
	for _, id := range ids {
		w.countInline(inlineFailure(t0, newInline(id), 5), driver.InlineFailed{Failures: 1})
	}
	p := &driver.FileFailuresParams{OlderThan: time.Hour, Limit: 2, Now: t0.Add(day)}
	for _, want := range []int{2, 2, 1, 0} {
		if filed, err := w.d.FileInlineFailures(w.Context(), p); err != nil || len(filed) != want {
			w.Errorf("filed %+v and the error %v, want %d", filed, err, want)
		}
	}
	if n := len(w.deadLetters(&driver.MessageFilter{}).DeadLetters); n != len(ids) {
		w.Errorf("there are %d dead letters, want %d", n, len(ids))
	}
}

// inlineFiledRace delivers events again while their dead letters are filed. Each ends in one way,
// and the effect exists if it is done.
func inlineFiledRace[T any](w *bench[T]) {
	rounds := group.Rounds(6, 15)
	other := w.second()
	p := &pair{fixture: w.fixture, stores: [2]driver.Store{w.d, other.d}}
	for round := range rounds {
		c := newInline(fmt.Sprint("evt_", round))
		w.countInline(inlineFailure(t0, c, 5), driver.InlineFailed{Failures: 1})
		var filed []driver.FiledFailure
		won := false
		p.atOnce(2, func(s driver.Store, i int) (err error) {
			if (i+round)%2 == 0 {
				won, err = runOnce(w, []driver.Driver[T]{w.d, other.d}[i%2], c)
				return err
			}
			filed, err = s.FileInlineFailures(w.Context(), &driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(day)})
			return err
		})
		state, effects := w.state(c.EventID), w.h.Effects(w.T, w.d)[c.EventID+"#0"]
		if won && (state != driver.StateDone || effects != 1) || !won && (state != driver.StateDead || effects != 0) || (len(filed) == 1) == won {
			w.Errorf("the delivery won: %v, filed: %+v; the event is %s with %d effects", won, filed, state, effects)
		}
	}
}

func inlineDatabaseClock[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.countInline(inlineFailure(time.Time{}, c, 5), driver.InlineFailed{Failures: 1})
	w.fileInline(&driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10})
	w.countInline(inlineFailure(time.Time{}, c, 2), driver.InlineFailed{Failures: 2, Dead: true})
	if got := w.event("stripe", "evt_1").FailedAt; got.Sub(w.clock()).Abs() > time.Minute {
		w.Errorf("it failed at %v, want about now", got)
	}
}

// receivedAtAnyTime ignores ReceivedAt: after undone claims it may be the time of the first
// delivery or of the last.
func receivedAtAnyTime() cmp.Option { return cmpopts.IgnoreFields(driver.TakenEvent{}, "ReceivedAt") }
