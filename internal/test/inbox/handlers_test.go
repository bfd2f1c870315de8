package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestHandlersOnPGX(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onPGX, handlerTests[pgx.Tx]())
}

func TestHandlersOnSQLite(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onSQLite, handlerTests[*sql.Tx]())
}

func handlerTests[T any]() []libraryTest[T] {
	return []libraryTest[T]{
		{"effect, state and messages in one commit", oneCommit[T]},
		{"one of a batch fails", oneOfBatchFails[T]},
		{"failures of every kind", failures[T]},
		{"a batch of one", batchOfOne[T]},
		{"the handler commits", handlerCommits[T]},
		{"the handler commits in a batch", handlerCommitsInBatch[T]},
		{"the handler rolls back", handlerRollsBack[T]},
		{"an SQL error is ignored", ignoredError[T]},
		{"a handler that takes too long", tooLong[T]},
		{"a handler that never returns", neverReturns[T]},
		{"only registered types are taken", onlyRegistered[T]},
		{"JSON of another type", wrongJSON[T]},
		{"Run stops", stopping[T]},
		{"replay as new", replayedAsNew[T]},
		{"the key of a dead event stays", keyAfterDeath[T]},
	}
}

func oneCommit[T any](t *testing.T, l *library[T]) {
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
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 2})
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

func oneOfBatchFails[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	keys := make(map[string][]string)
	var mu sync.Mutex
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		mu.Lock()
		keys[ev.ID] = append(keys[ev.ID], ev.IdempotencyKey("charge"))
		mu.Unlock()
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if ev.ID == "e05" && ev.Attempt < 3 {
			return errors.New("no stock")
		}
		return nil
	})
	in := inbox(t, l, mux, nil)
	deliverAll(t, in, ids(10)...)
	run(t, in)
	for _, id := range ids(10) {
		want := done
		if id == "e05" {
			want.Attempts = 3
		}
		wantOutcome(t, l, id, want)
	}
	wantEffects(t, l, ids(10)...)
	tries := ended(t, l, "e05").Tries
	if len(tries) != 2 || tries[0].Error != "no stock" || tries[1].Number != 2 || tries[0].MessageID != "" {
		t.Errorf("the audit trail of e05 is %+v, want two failures", tries)
	}
	mu.Lock()
	defer mu.Unlock()
	all := make(map[string]bool)
	for id, used := range keys {
		if slices.ContainsFunc(used, func(key string) bool { return key != used[0] }) {
			t.Errorf("the keys of %s differ: %q", id, used)
		}
		all[used[0]] = true
	}
	if len(all) != 10 || len(keys["e05"]) < 4 {
		t.Errorf("%d keys for 10 events, and e05 ran %d times; want 10 keys, and a run of e05 in the batch before its 3 attempts", len(all), len(keys["e05"]))
	}
}

func failures[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		switch ev.ID {
		case "permanent":
			return errors.Join(errors.New("first"), hookonce.Permanent(errors.New("no such order")))
		case "panic":
			panic("boom")
		case "nil panic":
			var m map[string]int
			m["x"] = 1 //nolint:govet,staticcheck // the panic is the point
		case "goexit":
			runtime.Goexit()
		case "error":
			return errors.New("a \x00 \xff b")
		case "later":
			return hookonce.RetryAfter(time.Hour, errors.New("not yet"))
		}
		return nil
	})
	in := inbox(t, l, mux, nil)
	deliverAll(t, in, "permanent", "panic", "nil panic", "goexit", "error", "later", "good")
	run(t, in)
	for id, want := range map[string]outcome{
		"permanent": {State: "dead", Attempts: 1, LastError: "no such order"},
		"panic":     {State: "dead", Attempts: 3, LastError: "the handler panicked: boom"},
		"nil panic": {State: "dead", Attempts: 3, LastError: "assignment to entry in nil map"},
		"goexit":    {State: "dead", Attempts: 3, LastError: "runtime.Goexit"},
		"error":     {State: "dead", Attempts: 3, LastError: "a \ufffd \ufffd b"},
		"good":      done,
	} {
		wantOutcome(t, l, id, want)
	}
	wantEffects(t, l, "good")
	rig.WaitFor(t, func() bool {
		ev, err := l.db.Event(t.Context(), "gh", "later")
		return err != nil || ev.Attempts > 0
	})
	ev, err := l.db.Event(t.Context(), "gh", "later")
	if err != nil {
		t.Fatal(err)
	}
	if ev.Attempts != 1 || ev.State != "pending" || ev.LastError != "not yet" {
		t.Errorf("the event later is %s with %d attempts and the error %q, want pending, 1 and \"not yet\"", ev.State, ev.Attempts, ev.LastError)
	}
}

func batchOfOne[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	runs := make(map[string]int)
	var mu sync.Mutex
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		mu.Lock()
		runs[ev.ID]++
		mu.Unlock()
		if ev.ID == "e03" {
			return hookonce.Permanent(errors.New("bad"))
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Batch = 1 })
	deliverAll(t, in, ids(6)...)
	run(t, in)
	want := make(map[string]int)
	for _, id := range ids(6) {
		ended(t, l, id)
		want[id] = 1
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// ending returns a handler that inserts the event's id, and ends its transaction with end for the
// event bad.
func ending[T any](l *library[T], end func(context.Context, T) error) hookonce.HandlerFunc[T] {
	return func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if ev.ID == "bad" {
			return end(ctx, tx)
		}
		return nil
	}
}

// committed is an event whose handler committed by itself.
var committed = outcome{State: "dead", Note: driver.NoteTxEnded, Attempts: 1, LastError: "committed the transaction by itself"}

func handlerCommits[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", ending(l, l.commit))
	in := inbox(t, l, mux, nil)
	deliverAll(t, in, "bad")
	run(t, in)
	wantOutcome(t, l, "bad", committed)
	// Neither another delivery nor a replay of all dead letters runs it again.
	if got := deliver(in, delivery("bad", `{"id":"bad"}`)); got.Code != 200 || got.Status != "duplicate" || got.Reopened {
		t.Errorf("another delivery is answered %+v, want a duplicate", got)
	}
	worked, err := in.ReplayDead(t.Context(), &hookonce.DeadLetters{})
	if err != nil || worked.Done != 0 || worked.Passed != 1 {
		t.Errorf("ReplayDead returned %+v and the error %v, want the event passed over", worked, err)
	}
	replay := &hookonce.ReplayRequest{Source: "gh", EventID: "bad"}
	if _, err := in.Replay(t.Context(), replay); !errors.Is(err, driver.ErrNoteNeeded) {
		t.Errorf("Replay returned the error %v, want %v", err, driver.ErrNoteNeeded)
	}
	wantOutcome(t, l, "bad", committed)
	wantEffects(t, l, "bad")
	replay.Note = driver.NoteTxEnded
	if _, err := in.Replay(t.Context(), replay); err != nil {
		t.Fatal(err)
	}
	again := committed
	again.Generation = 1
	wantOutcome(t, l, "bad", again)
	wantEffects(t, l, "bad", "bad")
}

// On PostgreSQL a handler can commit and begin another transaction on its connection, which looks like
// the first one.
func TestHandlerCommitsAndBegins(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"COMMIT AND CHAIN", "COMMIT; BEGIN; SAVEPOINT hookonce_handlers"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			l := onPGX(t)
			mux := &hookonce.Mux[pgx.Tx]{}
			hookonce.Handle(mux, "gh", "push", ending(l, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Conn().PgConn().Exec(ctx, statement).ReadAll()
				return err
			}))
			in := inbox(t, l, mux, nil)
			deliverAll(t, in, "a", "b", "bad", "c", "d")
			run(t, in)
			wantOutcome(t, l, "bad", committed)
			for _, id := range []string{"a", "b", "c", "d"} {
				wantOutcome(t, l, id, done)
			}
			wantEffects(t, l, "a", "b", "bad", "c", "d")
		})
	}
}

// The commit includes the effects of the handlers before it, so their events must be done. The
// handlers after it run later.
func handlerCommitsInBatch[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", ending(l, l.commit))
	in := inbox(t, l, mux, nil)
	deliverAll(t, in, "a", "b", "bad", "c", "d")
	run(t, in)
	wantOutcome(t, l, "bad", committed)
	for _, id := range []string{"a", "b", "c", "d"} {
		wantOutcome(t, l, id, done)
	}
	wantEffects(t, l, "a", "b", "bad", "c", "d")
}

func handlerRollsBack[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", ending(l, l.rollback))
	in := inbox(t, l, mux, nil)
	deliverAll(t, in, "a", "bad", "b")
	run(t, in)
	wantOutcome(t, l, "bad", outcome{State: "dead", Attempts: 3, LastError: "rolled the transaction back by itself"})
	wantOutcome(t, l, "a", done)
	wantOutcome(t, l, "b", done)
	wantEffects(t, l, "a", "b")
}

func ignoredError[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if l.fail(ctx, tx) == nil {
			return errors.New("the database accepted a statement that it must refuse")
		}
		return nil
	})
	in := inbox(t, l, mux, nil)
	deliverAll(t, in, "1")
	run(t, in)
	if l.swallows {
		wantOutcome(t, l, "1", done)
		wantEffects(t, l, "1")
		return
	}
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 3, LastError: "a statement had failed"})
	wantEffects(t, l)
}

func tooLong[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(context.WithoutCancel(ctx), tx, ev.ID); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.HandlerTimeout, c.Retry.Attempts = 300*time.Millisecond, 2
	})
	deliverAll(t, in, "slow")
	run(t, in)
	wantOutcome(t, l, "slow", outcome{State: "dead", Attempts: 2, LastError: "the handler used up its timeout of 300ms"})
	wantEffects(t, l)
}

func neverReturns[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(context.WithoutCancel(ctx), tx, ev.ID); err != nil {
			return err
		}
		<-release
		return nil
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.HandlerTimeout, c.Retry.Attempts, c.Workers = 200*time.Millisecond, 2, 1
	})
	deliverAll(t, in, "hangs")
	run(t, in)
	wantOutcome(t, l, "hangs", outcome{State: "dead", Attempts: 2, LastError: "the handler did not return"})
	wantEffects(t, l)
}

func onlyRegistered[T any](t *testing.T, l *library[T]) {
	mux, other := &hookonce.Mux[T]{}, &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "pull_*", effectOf(l))
	hookonce.Handle(other, "gh", "push", effectOf(l))
	consume := func(c *hookonce.Config) { c.Sources[0].Consume = hookonce.ConsumeSQL }
	in := inbox(t, l, mux, consume)
	run(t, in)
	pull := delivery("2", "{}")
	pull.Header.Set("X-GitHub-Event", "pull_request")
	deliverAll(t, in, "1")
	if got := deliver(in, pull); got != ok {
		t.Fatalf("delivery: %+v, want ok", got)
	}
	wantOutcome(t, l, "2", done)
	if ev, err := l.db.Event(t.Context(), "gh", "1"); err != nil || ev.State != "pending" || ev.Attempts != 0 {
		t.Fatalf("the event without a handler here: %+v, error %v; want pending", ev, err)
	}
	run(t, inbox(t, l, other, consume))
	wantOutcome(t, l, "1", done)
	wantEffects(t, l, "1", "2")
}

func wrongJSON[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event, _ struct{ ID int }) error {
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, nil)
	run(t, in)
	deliverAll(t, in, "x")
	wantOutcome(t, l, "x", outcome{State: "dead", Attempts: 1, LastError: "decoding the body"})
	wantEffects(t, l)
}

// When Run stops, a running handler finishes. An event that did not start is pending again, without
// an attempt.
func stopping[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	began, release := make(chan string, 10), make(chan struct{})
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		began <- ev.ID
		<-release
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers = 1 })
	deliverAll(t, in, "first", "second")
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- in.Run(ctx) }()
	if id := <-began; id != "first" {
		t.Errorf("%s ran first, want first", id)
	}
	stop()
	close(release)
	if err := <-over; err != nil {
		t.Error(err)
	}
	wantOutcome(t, l, "first", done)
	ev, err := l.db.Event(t.Context(), "gh", "second")
	if err != nil || ev.State != "pending" || ev.Attempts != 0 {
		t.Errorf("the event that did not start: %+v, error %v; want pending without attempts", ev, err)
	}
	wantEffects(t, l, "first")
}

func replayedAsNew[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	var mu sync.Mutex
	keys := make(map[int]string)
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		mu.Lock()
		keys[ev.Generation] = ev.IdempotencyKey("x")
		mu.Unlock()
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, nil)
	run(t, in)
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", done)
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1", Mode: driver.ReplayAsNew}); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 1, Generation: 1})
	wantEffects(t, l, "1", "1")
	mu.Lock()
	defer mu.Unlock()
	if keys[0] == keys[1] || keys[0] == "" {
		t.Errorf("keys %q and %q of two generations, want two different ones", keys[0], keys[1])
	}
}

// A dead event that is reopened or replayed keeps its idempotency key, so another service does not
// repeat its work for it.
func keyAfterDeath[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	keys := make(chan string, 10)
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		keys <- ev.IdempotencyKey("charge")
		if ev.Generation < 2 {
			return hookonce.Permanent(errors.New("after the charge"))
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, nil)
	run(t, in)
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "after the charge"})
	if got, want := deliver(in, delivery("1", "{}")), (result{Code: 200, Status: "duplicate", Reopened: true}); got != want {
		t.Fatalf("delivering the dead event: %+v, want %+v", got, want)
	}
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, Generation: 1, LastError: "after the charge"})
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"}); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 1, Generation: 2})
	first, second, third := <-keys, <-keys, <-keys
	if first == "" || first != second || second != third {
		t.Errorf("keys %q, %q and %q, want three equal ones", first, second, third)
	}
}
