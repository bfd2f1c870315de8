package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

func TestInlineOnPGX(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onPGX, inlineTests[pgx.Tx]())
}

func TestInlineOnSQLite(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onSQLite, inlineTests[*sql.Tx]())
}

func inlineTests[T any]() []libraryTest[T] {
	return []libraryTest[T]{
		{"the effect commits with the claim", inlineTogether[T]},
		{"five failures", inlineFiveFailures[T]},
		{"dead after the first failure", inlineImmediate[T]},
		{"permanent failure", inlinePermanent[T]},
		{"a failure, then success", inlineRecovers[T]},
		{"concurrent deliveries wait for the first", inlineCopies[T]},
		{"a delivery reopens a dead event", inlineReopened[T]},
		{"an event without a handler", inlineUnhandled[T]},
		{"attempts count", inlineAttempts[T]},
		{"draining", inlineDraining[T]},
		{"draining beside a batch", inlineDrainingBatch[T]},
		{"a retry from the quarantine", inlineQuarantined[T]},
	}
}

func inline(c *hookonce.Config) { c.Sources[0].Inline = true }

var failed = result{Code: http.StatusInternalServerError}

func inlineTogether[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", effectOf(l))
	in := inbox(t, l, mux, inline) // not running: the handler runs before the answer
	deliverAll(t, in, "1", "2")
	if got := deliver(in, delivery("1", "{}")); got != duplicate {
		t.Errorf("the second delivery: %+v, want a duplicate", got)
	}
	wantOutcome(t, l, "1", done)
	wantEffects(t, l, "1", "2")
}

// failing returns a mux with a handler that inserts the event's id and then fails with failure.
func failing[T any](l *library[T], failure error) *hookonce.Mux[T] {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		return failure
	})
	return mux
}

func inlineFiveFailures[T any](t *testing.T, l *library[T]) {
	in := inbox(t, l, failing(l, errors.New("no stock")), inline)
	for i := range 4 {
		if got := deliver(in, delivery("1", `{"n":1}`)); got != failed {
			t.Errorf("delivery %d: %+v, want 500", i, got)
		}
	}
	if got := deliver(in, delivery("1", `{"n":1}`)); got != ok {
		t.Errorf("the fifth delivery: %+v, want 200", got)
	}
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 5, LastError: "no stock"})
	wantEffects(t, l)
	if body := ended(t, l, "1").Body; string(body) != `{"n":1}` {
		t.Errorf("the dead letter has the body %q, want {\"n\":1}", body)
	}
}

func inlineImmediate[T any](t *testing.T, l *library[T]) {
	in := inbox(t, l, failing(l, errors.New("no stock")), func(c *hookonce.Config) {
		inline(c)
		c.Sources[0].DeadLetter = hookonce.Immediate
	})
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "no stock"})
	wantEffects(t, l)
}

func inlinePermanent[T any](t *testing.T, l *library[T]) {
	in := inbox(t, l, failing(l, hookonce.Permanent(errors.New("no such order"))), inline)
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "no such order"})
}

// A failed run leaves no event and no effect, so the next delivery is a first one.
func inlineRecovers[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	var runs atomic.Int32
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if runs.Add(1) == 1 {
			panic("boom")
		}
		return nil
	})
	in := inbox(t, l, mux, inline)
	if got := deliver(in, delivery("1", "{}")); got != failed {
		t.Errorf("the first delivery: %+v, want 500", got)
	}
	if page, err := l.db.Events(t.Context(), &driver.EventFilter{}); err != nil || len(page.Events) != 0 {
		t.Errorf("events after the failure: %+v, error %v; want none", page, err)
	}
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 2})
	wantEffects(t, l, "1")
}

// Event.Attempt counts the earlier failures of an Inline handler.
func inlineAttempts[T any](t *testing.T, l *library[T]) {
	var attempts []int
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		attempts = append(attempts, ev.Attempt)
		if len(attempts) < 3 {
			return errors.New("no stock")
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, inline)
	for _, want := range []result{failed, failed, ok} {
		if got := deliver(in, delivery("1", "{}")); got != want {
			t.Errorf("a delivery: %+v, want %+v", got, want)
		}
	}
	if diff := cmp.Diff([]int{1, 2, 3}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 3})
	wantEffects(t, l, "1")
}

func inlineCopies[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	began, release := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if runs.Add(1) == 1 {
			close(began)
		}
		<-release
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, inline)
	const copies = 20
	answers := make([]result, copies)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() { answers[i] = deliver(in, delivery("1", "{}")) })
	}
	<-began
	close(release)
	wg.Wait()
	count := make(map[result]int)
	for _, a := range answers {
		count[a]++
	}
	if diff := cmp.Diff(map[result]int{ok: 1, duplicate: copies - 1}, count); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want once", n)
	}
	wantEffects(t, l, "1")
}

func inlineReopened[T any](t *testing.T, l *library[T]) {
	var works atomic.Bool
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if !works.Load() {
			return errors.New("no stock")
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		inline(c)
		c.Sources[0].DeadLetter = hookonce.Immediate
	})
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "no stock"})
	works.Store(true)
	if got, want := deliver(in, delivery("1", "{}")), (result{Code: 200, Status: "duplicate", Reopened: true}); got != want {
		t.Errorf("delivering the dead event: %+v, want %+v", got, want)
	}
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 1, Generation: 1})
	wantEffects(t, l, "1")
}

func inlineUnhandled[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "issues", effectOf(l))
	in := inbox(t, l, mux, inline)
	deliverAll(t, in, "1")
	deliver(in, delivery("1", "{}"))
	wantOutcome(t, l, "1", outcome{State: "done", Note: "no route"})
	wantEffects(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Run(ctx); err != nil { // writes the delivery counts, and returns
		t.Fatal(err)
	}
	if n := ended(t, l, "1").Deliveries.Count; n != 2 {
		t.Errorf("%d deliveries were counted, want 2", n)
	}
}

// inlineID makes gh an Inline source with another place of the event id.
func inlineID(location string) func(*hookonce.Config) {
	return func(c *hookonce.Config) {
		inline(c)
		idAt(location)(c)
	}
}

// A retry of a quarantined request runs the handler. While the handler fails, the request stays.
func inlineQuarantined[T any](t *testing.T, l *library[T]) {
	wrong := inbox(t, l, failing(l, nil), inlineID("body:id"))
	if got := deliver(wrong, delivery("h", `{"uid":"1"}`)); got.Code != http.StatusBadRequest {
		t.Fatalf("answered %+v, want 400", got)
	}
	kept := oneQuarantined(t, l.db)
	noStock := errors.New("no stock")
	if _, err := inbox(t, l, failing(l, noStock), inlineID("body:uid")).RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, noStock) {
		t.Errorf("a retry whose handler fails: error %v, want %v", err, noStock)
	}
	wantEffects(t, l)
	if diff := cmp.Diff(kept, oneQuarantined(t, l.db)); diff != "" {
		t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
	}
	in := inbox(t, l, failing(l, nil), inlineID("body:uid"))
	wantRetried(t, in.Engine, kept.Key, hookonce.RetriedRequest{EventIDs: []string{"1"}, Claimed: 1})
	again := done
	again.Attempts = 2
	wantOutcome(t, l, "1", again)
	wantEffects(t, l, "1")
}
