package inbox_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
)

// Two batches that lock the user's rows in different orders deadlock. No attempt is counted for
// that, and each event takes effect once.
func TestDeadlockBetweenBatches(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	mux := &hookonce.Mux[pgx.Tx]{}
	const lock = "SELECT pg_advisory_xact_lock(hashtext(current_setting('application_name') || $1), $2)"
	var calls atomic.Int32
	// The first two handlers run in different batches. Each takes one of two locks, waits until the
	// other has the other lock, and then asks for that one.
	var bothLocked sync.WaitGroup
	bothLocked.Add(2)
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		n := calls.Add(1)
		locks := []int{1, 2}
		if n%2 == 0 {
			slices.Reverse(locks)
		}
		if _, err := tx.Exec(ctx, lock, t.Name(), locks[0]); err != nil {
			return err
		}
		if n <= 2 {
			bothLocked.Done()
			bothLocked.Wait()
		}
		if _, err := tx.Exec(ctx, lock, t.Name(), locks[1]); err != nil {
			return err
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers, c.Batch = 2, 3 })
	deliverAll(t, in, ids(6)...)
	run(t, in)
	for _, id := range ids(6) {
		wantOutcome(t, l, id, done)
	}
	wantEffects(t, l, ids(6)...)
	if n := calls.Load(); n <= 6 {
		t.Errorf("the handlers were called %d times for 6 events: there was no deadlock", n)
	}
}

// One event ends its connection or makes the database give up, each time it runs. It uses up its
// attempts as with any other failure, and the other events of its batch are done.
func TestEventThatBreaksItsTransaction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, says string }{
		"connection ended":      {"SELECT pg_terminate_backend(pg_backend_pid())", "57P01"},
		"full disk":             {"DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '53100'; END $$", "made up"},
		"serialization failure": {"DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '40001'; END $$", "made up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := onPGX(t)
			mux := &hookonce.Mux[pgx.Tx]{}
			hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
				if ev.ID == "e03" {
					_, err := tx.Exec(ctx, c.sql)
					return err
				}
				return l.insert(ctx, tx, ev.ID)
			})
			in := inbox(t, l, mux, nil)
			deliverAll(t, in, ids(6)...)
			run(t, in)
			wantOutcome(t, l, "e03", outcome{State: "dead", Attempts: 3, LastError: c.says})
			var good []string
			for _, id := range ids(6) {
				if id != "e03" {
					good = append(good, id)
					wantOutcome(t, l, id, done)
				}
			}
			wantEffects(t, l, good...)
		})
	}
}
