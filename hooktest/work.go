package hooktest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/guard"
)

// NewEvent returns an event as a handler gets it on its first attempt: received
// now, with the content type JSON. Change what else it should have.
func NewEvent[B ~string | ~[]byte](source, id, eventType string, body B) *hookonce.Event {
	return &hookonce.Event{
		Source:     source,
		ID:         id,
		Type:       eventType,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       []byte(body),
		ReceivedAt: time.Now(),
		Attempt:    1,
	}
}

// Result is what came of running a handler.
type Result struct {
	// Handled is false where the Mux has no handler for the event; the rest is
	// zero then.
	Handled bool
	// Err is what the handler returned; of one that panicked, or that ended its
	// goroutine, an error that says so. nil means that the event would be done.
	Err error
	// Permanent says that Err would make the event dead at once.
	Permanent bool
	// RetryAfter is when the next attempt would come, where Err says so by
	// hookonce.RetryAfter; else 0.
	RetryAfter time.Duration
	// Messages are what the handler enqueued by Outbox.EnqueueTx, also where it
	// failed and they would never be sent.
	Messages []*hookonce.Message
}

// Work runs the handler of mux for ev in tx, as a worker does, but for the time-out
// and for what follows: it neither commits nor rolls back, and records nothing of
// the event. So a test can look at what the handler wrote, and roll back.
//
// A handler that calls t.FailNow, as t.Fatal does, ends itself and not the test.
func Work[T any](ctx context.Context, t testing.TB, tx T, mux *hookonce.Mux[T], ev *hookonce.Event) *Result {
	t.Helper()
	if ev == nil {
		t.Fatal("hooktest: Work needs an event; see NewEvent")
	}
	messages, err := mux.Run(ctx, tx, ev)
	if errors.Is(err, hookonce.ErrNoHandler) {
		return &Result{}
	}
	result := &Result{Handled: true, Err: err, Messages: messages}
	result.Permanent = guard.IsPermanent(err)
	result.RetryAfter, _ = guard.RetryDelay(err)
	return result
}
