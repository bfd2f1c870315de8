package hookpgx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// session returns a transaction of another session, open until the test ends it.
func (w *world) session(t *testing.T) pgx.Tx {
	t.Helper()
	conn, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tx.Rollback(context.Background()) // it may have ended
		conn.Release()
	})
	return tx
}

func (w *world) in(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	tag, err := tx.Exec(t.Context(), strings.ReplaceAll(sql, "{schema}", w.schema), args...)
	if err != nil {
		t.Fatal(err)
	}
	if tag.RowsAffected() == 0 {
		t.Fatalf("%s changed nothing", sql)
	}
}

// awaitWaiting waits until a statement on the world's tables waits for a lock.
func (w *world) awaitWaiting(t *testing.T) {
	t.Helper()
	w.awaitWaitingFor(t, 1)
}

// awaitWaitingFor waits until n statements wait for a lock.
func (w *world) awaitWaitingFor(t *testing.T, n int) {
	t.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0"
	eventually.True(t, fmt.Sprintf("%d statements wait for a lock", n), func() bool { return w.number(t, waiting, w.schema) >= n })
}

func sortedClaims(claims ...driver.Claim) []driver.Claim {
	return slices.SortedFunc(slices.Values(claims), func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
}

// TestStuckKey has a key that another session has inserted and not committed.
func TestStuckKey(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	stuck := newClaim("stuck", "billing")
	other := w.session(t)
	w.in(t, other, "INSERT INTO {schema}.event (key, source, event_id, type, body_sha256, work) VALUES ($1, 'stripe', 'stuck', '', $2, 0)",
		stuck.Key[:], stuck.BodyHash[:])
	batch := sortedClaims(newClaim("a", "billing"), stuck, newClaim("b", "billing"), newClaim("c"))
	for _, test := range []struct {
		bound time.Duration
		want  error
	}{
		{time.Millisecond, driver.ErrLockTimeout},
		{0, driver.ErrLockTimeout},
		// Longer than the sessions' own bounds of 1 s for a lock and 2 s for a statement. The
		// second bound ends it, so the claim has replaced the first.
		{eventually.Bound, driver.ErrUnavailable},
	} {
		_, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: batch, LockTimeout: test.bound})
		if !errors.Is(err, test.want) || errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("Claim of a batch with a stuck key, bounded by %v: got the error %v, want %v", test.bound, err, test.want)
		}
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.event") + w.number(t, "SELECT count(*) FROM {schema}.message"); n != 0 {
		t.Errorf("the refused batches left %d rows", n)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mustClaim(t, true, stuck)
}

// TestWorkDoesNotHoldUpDuplicates keeps every row that work on an event locks or changes in an open
// transaction. A duplicate's claim must not wait.
func TestWorkDoesNotHoldUpDuplicates(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	c := newClaim("evt_1", "billing")
	c.Work = driver.WorkQueued
	w.mustClaim(t, true, c)
	for _, sql := range []string{
		"UPDATE {schema}.message SET state = 1, attempts = attempts + 1 WHERE event_key = $1",
		"SELECT FROM {schema}.message WHERE event_key = $1 FOR UPDATE",
		"UPDATE {schema}.event_state SET state = 1 WHERE key = $1",
		"SELECT FROM {schema}.event_state WHERE key = $1 FOR UPDATE",
		"SELECT FROM {schema}.event WHERE key = $1 FOR UPDATE",
		"SELECT FROM {schema}.event WHERE key = $1 FOR NO KEY UPDATE",
		"INSERT INTO {schema}.delivery_count VALUES ($1, 1, 1, 1, now())",
		"UPDATE {schema}.event SET body = NULL WHERE key = $1", // retention; the check before the insert avoids the wait
	} {
		t.Run(sql, func(t *testing.T) {
			other := w.session(t)
			w.in(t, other, sql, c.Key[:])
			got, err := w.Claim(t.Context(), &driver.ClaimParams{
				Claims: sortedClaims(c, newClaim("new "+sql)), LockTimeout: time.Millisecond,
			})
			if err != nil {
				t.Fatalf("Claim: %v", err)
			}
			for i, claim := range sortedClaims(c, newClaim("new "+sql)) {
				if got[i].Claimed != (claim.EventID != "evt_1") {
					t.Errorf("claim of %s: got %+v", claim.EventID, got[i])
				}
			}
		})
	}
}

// TestStricterDefaultIsolation works on a database whose default level would fail a batch because
// of one key that is claimed concurrently, and every lease that meets another one.
func TestStricterDefaultIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			dsn, schema := dbtest.Postgres(t)
			config, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			w := connectWith(t, config, schema, nil)
			if _, err := w.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			var all []driver.Claim
			for i := range 20 {
				all = append(all, newClaim(fmt.Sprint("evt_", i), "billing"))
			}
			all = sortedClaims(all...)
			claimed := make([]int, len(all))
			var mu sync.Mutex
			concurrently(t, 8, func(me int) error {
				got, err := w.Claim(t.Context(), claimOf(all...))
				mu.Lock()
				defer mu.Unlock()
				for i := range got {
					if got[i].Claimed {
						claimed[i]++
					}
				}
				return err
			})
			for i, n := range claimed {
				if n != 1 {
					t.Errorf("%s was claimed %d times", all[i].EventID, n)
				}
			}
			sent := map[string]int{}
			concurrently(t, 8, func(me int) error {
				for {
					leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 3, For: time.Hour, MaxAttempts: 3})
					if err != nil || len(leased.Messages) == 0 {
						return err
					}
					if _, err := w.Complete(t.Context(), allSent(leased)); err != nil {
						return err
					}
					mu.Lock()
					for _, m := range leased.Messages {
						sent[m.EventID]++
					}
					mu.Unlock()
				}
			})
			// Messages that every lease passed over as locked are still due.
			if n := w.number(t, "SELECT count(*) FROM {schema}.message WHERE state = 2"); n != len(sent) {
				t.Errorf("%d messages have the state sent, and %d were sent", n, len(sent))
			}
			for id, n := range sent {
				if n != 1 {
					t.Errorf("the message of %s was leased %d times", id, n)
				}
			}
		})
	}
}

// concurrently runs n calls of f that begin together, numbered from 0.
func concurrently(t *testing.T, n int, f func(me int) error) {
	t.Helper()
	start := make(chan struct{})
	failed := make(chan error, n)
	for me := range n {
		go func() {
			<-start
			failed <- f(me)
		}()
	}
	close(start)
	for range n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// second returns another store on the schema of w, like that of another process.
func (w *world) second(t *testing.T) *world {
	t.Helper()
	schema := strings.Trim(w.schema, `"`)
	return connectWith(t, w.pool.Config().Copy(), schema, nil)
}

// TestHotKeys claims overlapping batches with few keys, by the plain statement and, with body guards, by
// the claim function, on its own server, whose count of deadlocks must stay 0.
func TestHotKeys(t *testing.T) {
	t.Parallel()
	w := private(t, migrated(t))
	stores := []*world{w, connect(t, w.pool.Config().ConnString(), hookpgx.DefaultSchema, nil)}
	concurrently(t, 8, func(me int) error {
		for round := range group.Rounds(15, 40) {
			var batch []driver.Claim
			for i := range 12 {
				c := newQueued(fmt.Sprint("evt_", (round*5+i*(me%3+1))%60))
				if me%2 == 0 {
					c = newClaim(c.EventID, "billing")
					c.BodyGuard = driver.BodyGuard(i % 3)
				}
				batch = append(batch, c)
			}
			batch = slices.CompactFunc(sortedClaims(batch...), func(a, b driver.Claim) bool { return a.Key == b.Key })
			if _, err := stores[me/2%2].Claim(t.Context(), &driver.ClaimParams{Claims: batch, LockTimeout: eventually.Bound}); err != nil {
				return fmt.Errorf("worker %d, round %d: %w", me, round, err)
			}
		}
		return nil
	})
	if n := w.number(t, "SELECT count(*) FROM {schema}.event"); n != 60 {
		t.Errorf("%d events, want 60", n)
	}
	if n := w.number(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
