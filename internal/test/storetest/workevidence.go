package storetest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func workEvidenceCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"RedactHandled", redactHandled[T]},
		{"RedactDeadHandled", redactDeadHandled[T]},
		{"RedactCausedMessages", redactCaused[T]},
		{"RedactDeadInline", redactDeadInline[T]},
		{"FirstDeliveryOfInline", inlineFirstDelivery[T]},
	}
}

// redactHandled redacts an event whose handler failed with a text that quotes the body.
func redactHandled[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.beside("redacting", func(ctx context.Context) error {
		_, err := w.s.Redact(ctx, &driver.RedactParams{Key: c.Key, Now: t0})
		if errors.Is(err, driver.ErrOpen) {
			return nil
		}
		return cmp.Or(err, errors.New("an event in a run was redacted"))
	})
	w.settle(t0, run, retried(&run.Events()[0]))
	_, err := w.s.Redact(w.Context(), &driver.RedactParams{Key: c.Key, Now: t0})
	w.refused("redacting an event that is retried", driver.ErrOpen, err)
	at := t0.Add(time.Hour)
	w.succeed(at, w.takeTried(at, "evt_1"))
	want := w.event("stripe", "evt_1")
	if len(want.Tries) != 1 || want.Tries[0].Error != handlerError {
		w.Fatalf("the attempts are %+v, want the failed one", want.Tries)
	}
	w.redact(driver.RedactParams{Key: c.Key, Now: at})
	w.sameEvent(redacted(want, at, ""))
}

func redactDeadHandled[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	run := w.take(t0, "evt_1")
	w.settle(t0, run, failed(&run.Events()[0]))
	want := w.event("stripe", "evt_1")
	w.redact(driver.RedactParams{Key: c.Key, Now: t0})
	w.sameEvent(redacted(want, t0, ""))
	same(w, "reopened", []driver.Key(nil), w.reopen(t0, c.Key))
	letter := driver.DeadLetterRef{Key: c.Key}
	same(w, "replayed", []bool{false}, w.replayDead(t0, letter))
	w.sameEvent(want)
	w.takeNone("of a redacted event", w.takeParams(t0.Add(day), 10, false))
	same(w, "discarded", []bool{true}, w.discard(t0, letter))
}

// redactCaused redacts an event with a message that its handler enqueued. The message has a body of
// its own, which goes too.
func redactCaused[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.enqueue(outboxMessage("m1", &c), outboxMessage("free", nil))
	w.succeed(t0, w.take(t0, "evt_1"))
	redact := func() error {
		_, err := w.s.Redact(w.Context(), &driver.RedactParams{Key: c.Key})
		return err
	}
	w.refused("redacting while a message is pending", driver.ErrOpen, redact())
	for _, m := range w.lease(time.Time{}, "crm", 10) {
		w.mustComplete(time.Time{}, driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 500, Error: "answered 500: secret", Response: []byte("secret"), ResponseType: "text/plain",
		})
	}
	if err := redact(); err != nil {
		w.Fatal(err)
	}
	got := w.event("stripe", "evt_1")
	if len(got.Messages) != 1 || got.Messages[0].LastError != driver.ErrorRedacted || got.Messages[0].State != driver.StateDead ||
		len(got.Tries) != 1 || got.Tries[0].Error != driver.ErrorRedacted || got.Tries[0].Response != nil {
		w.Errorf("after redacting, the messages are %+v and the attempts %+v", got.Messages, got.Tries)
	}
	same(w, "replayed", []bool{false, true}, w.replayDead(time.Time{}, outboxLetter("m1"), outboxLetter("free")))
	w.refused("retry", driver.ErrBodyPruned, w.s.RetryMessage(w.Context(), &driver.RetryMessageParams{ID: "m1"}))
	if m := w.leaseOne(time.Time{}, "crm"); m.ID != "free" || string(m.Body) != "body of free" {
		w.Errorf("leased %+v, want the message of no event, whole", m)
	}
	_, err := w.s.Redact(w.Context(), &driver.RedactParams{Key: driver.OutboxKey("free")})
	w.refused("redacting the row of a message", driver.ErrNotFound, err)
}

// redactDeadInline delivers a redacted dead event again: its handler does not run.
func redactDeadInline[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.countInline(inlineFailure(t0, c, 1), driver.InlineFailed{Failures: 1, Dead: true})
	w.redact(driver.RedactParams{Key: c.Key, Now: t0})
	want := w.event("stripe", "evt_1")
	if run := w.takeClaim(t0.Add(time.Hour), true, c, driver.ClaimResult{Duplicate: true, Dead: true}); run != nil {
		w.Error("a delivery reopened the redacted event")
	}
	w.sameEvent(want)
}

// inlineFirstDelivery files a dead letter after two deliveries: the first one is the first of the
// event.
func inlineFirstDelivery[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.countInline(inlineFailure(t0, c, 2), driver.InlineFailed{Failures: 1})
	again := c
	again.Remote, again.Gateway = "198.51.100.1:1", "gateway-9"
	at := t0.Add(time.Minute)
	w.countInline(inlineFailure(at, again, 2), driver.InlineFailed{Failures: 2, Dead: true})
	first := driver.Delivery{At: t0, Remote: c.Remote, Gateway: c.Gateway, SameBody: true}
	same(w, "deliveries", []driver.Delivery{first}, w.event("stripe", "evt_1").Recent)

	old := newInline("evt_2")
	w.countInline(inlineFailure(t0, old, 2), driver.InlineFailed{Failures: 1})
	if _, err := w.d.FileInlineFailures(w.Context(), &driver.FileFailuresParams{OlderThan: time.Minute, Limit: 10, Now: at.Add(time.Hour)}); err != nil {
		w.Fatal(err)
	}
	same(w, "deliveries of a filed event", []driver.Delivery{first}, w.event("stripe", "evt_2").Recent)
}
