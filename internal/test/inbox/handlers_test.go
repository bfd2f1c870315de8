package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The workers have tests of their own, and so has each store. These tests show that an Inbox hands its
// settings and its handlers on.

// The effects, the state and the messages of a handler are one commit.
func TestHandlersCommitOnce(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) { t.Parallel(); handlersCommitOnce(t, onPGX(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); handlersCommitOnce(t, onSQLite(t)) })
}

func handlersCommitOnce[T any](t *testing.T, l *library[T]) {
	outbox, mux, crm := hookonce.NewOutbox(l.db), &hookonce.Mux[T]{}, newSent()
	hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event, body struct{ ID string }) error {
		if err := l.insert(ctx, tx, body.ID); err != nil {
			return err
		}
		err := outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "crm", Body: []byte("about " + ev.ID)})
		if err == nil && ev.Attempt == 1 {
			return errors.New("failed after the writes")
		}
		return err
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "crm", Sender: crm}}
	})
	run(t, in)
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: driver.StateDone, Attempts: 2})
	wantEffects(t, l, "1")
	<-crm.got
	ev := ended(t, l, "1")
	if len(ev.Messages) != 1 || len(crm.all) != 1 {
		t.Fatalf("%d messages written and %d sent, want one", len(ev.Messages), len(crm.all))
	}
	got := crm.all[0]
	want := &hookonce.Outgoing{
		ID: ev.Messages[0].ID, Destination: "crm", Source: "gh", EventID: "1", Type: "push", Attempt: 1,
		Header: got.Header, HTTPHeader: got.HTTPHeader, Body: []byte("about 1"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// All runs of an event have one key: in a batch and alone, and after it was dead, so another service
// does not repeat its work. Only a replay as new makes another key.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	var mu sync.Mutex
	keys := make(map[string][]string)
	in := inbox(t, l, handling(func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		mu.Lock()
		keys[ev.ID] = append(keys[ev.ID], ev.IdempotencyKey("charge"))
		mu.Unlock()
		switch {
		case ev.ID == "dies" && ev.Generation < 2:
			return hookonce.Permanent(errors.New("after the charge"))
		case ev.ID == "flaky" && ev.Attempt < 3:
			return errors.New("no stock")
		}
		return l.insert(ctx, tx, ev.ID)
	}), nil)
	deliverAll(t, in, "first", "flaky", "dies")
	run(t, in)
	wantDone(t, l, "first")
	wantOutcome(t, l, "flaky", outcome{State: driver.StateDone, Attempts: 3})
	wantOutcome(t, l, "dies", outcome{State: driver.StateDead, Attempts: 1, LastError: "after the charge"})
	if got, want := deliver(in, delivery("dies", "{}")), (result{Code: 200, Status: "duplicate", Reopened: true}); got != want {
		t.Fatalf("delivering the dead event: %+v, want %+v", got, want)
	}
	wantOutcome(t, l, "dies", outcome{State: driver.StateDead, Attempts: 1, Generation: 1, LastError: "after the charge"})
	for id, mode := range map[string]driver.ReplayMode{"dies": driver.ReplayPlain, "first": driver.ReplayAsNew} {
		if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: id, Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	wantOutcome(t, l, "dies", outcome{State: driver.StateDone, Attempts: 1, Generation: 2})
	wantOutcome(t, l, "first", outcome{State: driver.StateDone, Attempts: 1, Generation: 1})
	wantEffects(t, l, "dies", "first", "first", "flaky")
	mu.Lock()
	defer mu.Unlock()
	all := make(map[string]bool)
	for id, used := range keys {
		slices.Sort(used)
		used = slices.Compact(used)
		if want := map[string]int{"dies": 1, "flaky": 1, "first": 2}[id]; len(used) != want {
			t.Errorf("%s had the keys %q, want %d", id, used, want)
		}
		for _, key := range used {
			all[key] = true
		}
	}
	if len(all) != 4 || all[""] {
		t.Errorf("the keys are %v, want four different ones", all)
	}
	if n := len(keys["flaky"]); n < 4 {
		t.Errorf("flaky ran %d times, want a run in the batch before its three attempts", n)
	}
}

func TestOutcomesOfHandlers(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux := handling(func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		switch ev.ID {
		case "permanent":
			return errors.Join(errors.New("first"), hookonce.Permanent(errors.New("no such order")))
		case "panic":
			panic("boom")
		case "later":
			return hookonce.RetryAfter(time.Hour, errors.New("not yet"))
		}
		return nil
	})
	hookonce.HandleJSON(mux, "typed", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, _ struct{ ID int }) error {
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { addSource(c, "typed", nil) })
	deliverAll(t, in, "permanent", "panic", "later", "good")
	deliverTo(t, in, "typed", "a text")
	run(t, in)
	wantOutcome(t, l, "permanent", outcome{State: driver.StateDead, Attempts: 1, LastError: "no such order"})
	wantOutcome(t, l, "panic", outcome{State: driver.StateDead, Attempts: quickRetry.Attempts, LastError: "the handler panicked: boom"})
	wantDone(t, l, "good")
	for id, want := range map[[2]string]outcome{
		{"gh", "later"}:     {State: driver.StatePending, Attempts: 1, LastError: "not yet"},
		{"typed", "a text"}: {State: driver.StateDead, Attempts: 1, LastError: "decoding the body: json: cannot unmarshal string into Go struct field .ID of type int"},
	} {
		var got outcome
		eventually.True(t, id[1]+" has had its attempt", func() bool {
			ev, err := l.db.Event(t.Context(), id[0], id[1])
			if err != nil {
				t.Fatal(err)
			}
			got = outcome{ev.State, ev.Note, ev.Attempts, ev.Generation, ev.LastError}
			return got.Attempts > 0
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	wantEffects(t, l, "good")
}

// Each event is a batch of its own, so a failure repeats no other. A handler's time and attempts are
// those of the settings.
func TestSettingsReachTheWorkers(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	var mu sync.Mutex
	runs := make(map[string]int)
	in := inbox(t, l, handling(func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		mu.Lock()
		runs[ev.ID]++
		mu.Unlock()
		if ev.ID == "slow" {
			<-ctx.Done()
			return ctx.Err()
		}
		return l.insert(ctx, tx, ev.ID)
	}), func(c *hookonce.Config) {
		c.Batch, c.HandlerTimeout, c.Retry.Attempts = 1, time.Second, 2
	})
	deliverAll(t, in, "1", "slow", "2")
	run(t, in)
	wantDone(t, l, "1", "2")
	wantOutcome(t, l, "slow", outcome{State: driver.StateDead, Attempts: 2, LastError: "the handler used up its timeout of 1s"})
	wantEffects(t, l, "1", "2")
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[string]int{"1": 1, "slow": 2, "2": 1}, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestOnlyRegisteredTypesAreTaken(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux, other := &hookonce.Mux[*sql.Tx]{}, &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "pull_*", effectOf(l))
	hookonce.Handle(other, "gh", "push", effectOf(l))
	consume := func(c *hookonce.Config) { c.Sources[0].Consume = hookonce.ConsumeSQL }
	in := inbox(t, l, mux, consume)
	run(t, in)
	deliverAll(t, in, "1")
	if got := deliver(in, delivery("2", "{}", typed("pull_request"))); got != ok {
		t.Fatalf("delivery: %+v, want ok", got)
	}
	wantDone(t, l, "2")
	if ev := eventState(t, l.db, "1"); ev.State != driver.StatePending || ev.Attempts != 0 {
		t.Fatalf("the event without a handler here: %+v, want it pending", ev)
	}
	run(t, inbox(t, l, other, consume))
	wantDone(t, l, "1")
	wantEffects(t, l, "1", "2")
}

// One event ends its connection each time it runs. It uses up its attempts as with any other failure,
// and the other events of its batch are done.
func TestEventThatEndsItsConnection(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	in := inbox(t, l, handling(func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if ev.ID == "bad" {
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		}
		return l.insert(ctx, tx, ev.ID)
	}), nil)
	deliverAll(t, in, "1", "2", "bad", "3")
	run(t, in)
	wantOutcome(t, l, "bad", outcome{State: driver.StateDead, Attempts: quickRetry.Attempts, LastError: "57P01"})
	wantDone(t, l, "1", "2", "3")
	wantEffects(t, l, "1", "2", "3")
}
