package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestWork runs the conformance suite of handlers' transactions.
func TestWork(t *testing.T) {
	t.Parallel()
	var worlds sync.Map // driver.Driver[pgx.Tx] to *world
	worldOf := func(d driver.Driver[pgx.Tx]) *world {
		w, _ := worlds.Load(d)
		return w.(*world)
	}
	storetest.ExerciseWork(t, storetest.Harness[pgx.Tx]{
		Open: func(t *testing.T) driver.Driver[pgx.Tx] {
			w := openWork(t)
			worlds.Store(driver.Driver[pgx.Tx](w.Store), w)
			return w.Store
		},
		Second: func(t *testing.T, d driver.Driver[pgx.Tx]) driver.Driver[pgx.Tx] {
			w := worldOf(d).second(t)
			worlds.Store(driver.Driver[pgx.Tx](w.Store), w)
			return w.Store
		},
		Effect: effect,
		Fail: func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1/0")
			return err
		},
		Commit:   command("COMMIT"),
		Rollback: command("ROLLBACK"),
		Begin: func(t *testing.T, d driver.Driver[pgx.Tx]) (tx pgx.Tx, commit, rollback func() error) {
			tx, err := worldOf(d).pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rollback = func() error {
				err := tx.Rollback(context.WithoutCancel(t.Context()))
				if errors.Is(err, pgx.ErrTxClosed) {
					return nil
				}
				return err
			}
			t.Cleanup(func() { _ = rollback() }) // if the test failed
			return tx, func() error { return tx.Commit(t.Context()) }, rollback
		},
		Effects: func(t *testing.T, d driver.Driver[pgx.Tx]) map[string]int { return worldOf(d).effects(t) },
		Interrupt: func(t *testing.T, d driver.Driver[pgx.Tx], run driver.Run[pgx.Tx]) {
			worldOf(d).kill(t, run)
			hookpgx.GiveBack(t.Context(), run)
		},
		Drop: func(t *testing.T, d driver.Driver[pgx.Tx], table string, key driver.Key) {
			worldOf(d).drop(t, table, key)
		},
		Refuse: func(t *testing.T, d driver.Driver[pgx.Tx], table string, key driver.Key) (allow func()) {
			return worldOf(d).refuse(t, table, key)
		},
	})
}

// openWork returns a migrated store with a table for effects, and a search_path that finds it.
func openWork(t testing.TB) *world {
	t.Helper()
	w := warm(t)
	w.exec(t, "CREATE TABLE {schema}.effects (name text)")
	return w
}

func effect(ctx context.Context, tx pgx.Tx, name string) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", name)
	return err
}

// command returns a function that sends a command as a statement.
func command(sql string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	}
}

// effects counts the committed effects by their name.
func (w *world) effects(t testing.TB) map[string]int {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), strings.ReplaceAll("SELECT name, count(*) FROM {schema}.effects GROUP BY name", "{schema}", w.schema))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		found[name] = n
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// kill ends the server process of a run, and waits until it is gone.
func (w *world) kill(t testing.TB, run driver.Run[pgx.Tx]) {
	t.Helper()
	pid := run.Tx().Conn().PgConn().PID()
	w.broken.Store(true)
	w.exec(t, "SELECT pg_catalog.pg_terminate_backend($1::integer)", pid)
	w.awaitEnd(t, pid)
}

func (w *world) awaitEnd(t testing.TB, pid uint32) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("the server's process %d ends", pid), func() bool {
		return w.number(t, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
	})
}

// queued returns the claim of an event for a handler.
func queued(id string) driver.Claim {
	c := newClaim(id)
	c.Work = driver.WorkQueued
	return c
}

// queue claims events that wait for a handler.
func (w *world) queue(t testing.TB, ids ...string) {
	t.Helper()
	var claims []driver.Claim
	for _, id := range ids {
		claims = append(claims, queued(id))
	}
	if _, err := w.Claim(t.Context(), claimOf(sortedClaims(claims...)...)); err != nil {
		t.Fatal(err)
	}
}

// take takes up to n events, and fails if it finds none.
func (w *world) take(t testing.TB, n int, tried bool) driver.Run[pgx.Tx] {
	t.Helper()
	run, err := w.Take(t.Context(), takeOf(n, tried))
	if err != nil || run == nil {
		t.Fatalf("Take: got %v and the error %v, want a run", run, err)
	}
	t.Cleanup(func() {
		// A run that has not ended would keep the pool from closing.
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
		defer cancel()
		_ = run.Abandon(ctx)
	})
	return run
}

func takeOf(n int, tried bool) *driver.TakeParams {
	return &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: n, Tried: tried, HandlerTimeout: time.Second, Retry: driver.Retry{Attempts: 5}}
}

// takeOne queues an event and takes it.
func (w *world) takeOne(t testing.TB, id string) driver.Run[pgx.Tx] {
	t.Helper()
	w.queue(t, id)
	run := w.take(t, 10, false)
	if events := run.Events(); len(events) != 1 || events[0].EventID != id {
		t.Fatalf("took %+v, want %s", events, id)
	}
	return run
}

// outcome returns the same outcome for all events of a run.
func outcome(run driver.Run[pgx.Tx], o driver.WorkOutcome, text string) *driver.FinishParams {
	p := &driver.FinishParams{}
	for _, e := range run.Events() {
		p.Results = append(p.Results, driver.WorkResult{Key: e.Key, Outcome: o, Error: text})
	}
	return p
}

func succeeded(run driver.Run[pgx.Tx]) *driver.FinishParams {
	return outcome(run, driver.WorkSucceeded, "")
}

func mustDo(t testing.TB, run driver.Run[pgx.Tx], sql string) {
	t.Helper()
	if _, err := run.Tx().Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// wantEvent fails unless an event is in a state after so many attempts.
func (w *world) wantEvent(t testing.TB, id, state string, attempts int) {
	t.Helper()
	got, err := w.Event(t.Context(), "stripe", id)
	if err != nil || got.State != state || got.Attempts != attempts {
		t.Errorf("the event %s is %+v with the error %v, want it %s after %d attempts", id, got, err, state, attempts)
	}
}

// wantEffects fails unless there is one effect of each name and no other.
func (w *world) wantEffects(t testing.TB, names ...string) {
	t.Helper()
	want := map[string]int{}
	for _, name := range names {
		want[name] = 1
	}
	if diff := cmp.Diff(want, w.effects(t)); diff != "" {
		t.Errorf("effects differ (-want +got):\n%s", diff)
	}
}

// wantSwept fails unless a sweep finds so many events.
func (w *world) wantSwept(t testing.TB, n int) {
	t.Helper()
	lost, err := w.SweepRuns(t.Context(), sweepOf())
	if err != nil || len(lost) != n {
		t.Errorf("SweepRuns: got %+v and the error %v, want %d events", lost, err, n)
	}
}

func sweepOf() *driver.SweepRunsParams { return &driver.SweepRunsParams{} }
