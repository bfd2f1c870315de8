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

// NewEvent returns an event as a handler gets it on its first attempt: received now, with content
// type JSON. Change its other fields as needed.
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

// Result is the result of running a handler.
type Result struct {
	// Handled is false if the Mux has no handler for the event; all other fields are then zero.
	Handled bool
	// Err is the handler's error. If the handler panicked or ended its goroutine, Err says so. nil
	// means that the event would be done.
	Err error
	// Permanent means that Err would make the event dead at once.
	Permanent bool
	// RetryAfter is the time until the next attempt, if Err sets it by hookonce.RetryAfter;
	// otherwise 0.
	RetryAfter time.Duration
	// Messages are the handler's calls of Outbox.EnqueueTx. After a failed handler hookonce would
	// not send them.
	Messages []*hookonce.Message
}

// Work runs the handler of mux for ev in tx, as a worker does, but without a timeout. It neither
// commits nor rolls back, and records nothing about the event. So a test can inspect the handler's
// writes and roll back.
//
// A handler that calls t.FailNow, as t.Fatal does, ends itself but not the test.
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
