package hooksql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// runs is a store whose events wait for handlers, and its file.
type runs struct {
	*testing.T
	store *hooksql.Store
	*workFile
}

func newRuns(t *testing.T, ids ...string) *runs {
	files := &workFiles{}
	r := &runs{T: t, store: files.create(t)}
	r.workFile = files.of(r.store)
	r.queue(ids...)
	return r
}

func (r *runs) queue(ids ...string) {
	r.Helper()
	for _, id := range ids {
		if err := queueEvent(r.Context(), r.store, id); err != nil {
			r.Fatal(err)
		}
	}
}

// queueMany queues n events, and returns their expected effects.
func (r *runs) queueMany(n int) (effects map[string]int) {
	r.Helper()
	effects = map[string]int{}
	for i := range n {
		id := fmt.Sprint("evt_", i)
		r.queue(id)
		effects[id] = 1
	}
	return effects
}

func queueEvent(ctx context.Context, s driver.Store, id string) error {
	c := newClaim(id)
	c.Work, c.Messages = driver.WorkQueued, nil
	_, err := s.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{c}})
	return err
}

// takeFrom takes up to limit events that were never tried.
func takeFrom(ctx context.Context, s *hooksql.Store, limit int) (driver.Run[*sql.Tx], error) {
	return s.Take(ctx, &driver.TakeParams{
		Source: "stripe", Types: []string{"*"}, Limit: limit, HandlerTimeout: s.WorkLimits().HandlerTimeout,
	})
}

// take takes n events.
func (r *runs) take(n int) driver.Run[*sql.Tx] {
	r.Helper()
	run, err := takeFrom(r.Context(), r.store, n)
	if err != nil || run == nil || len(run.Events()) != n {
		r.Fatalf("Take: %v and the error %v, want %d events", run, err, n)
	}
	r.Cleanup(func() {
		if r.Failed() { // so that the file can be closed
			_ = run.Abandon(context.Background())
		}
	})
	return run
}

func outcomes(run driver.Run[*sql.Tx], outcome driver.WorkOutcome) *driver.FinishParams {
	p := &driver.FinishParams{}
	for _, e := range run.Events() {
		p.Results = append(p.Results, driver.WorkResult{Key: e.Key, Outcome: outcome})
	}
	return p
}

func (r *runs) succeed(run driver.Run[*sql.Tx]) {
	r.Helper()
	if err := run.Finish(r.Context(), outcomes(run, driver.WorkSucceeded)); err != nil {
		r.Fatalf("Finish: %v", err)
	}
}

func (r *runs) run(run driver.Run[*sql.Tx], query string, args ...any) {
	r.Helper()
	if _, err := run.Tx().ExecContext(r.Context(), query, args...); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
}

func (r *runs) wantEffects(want map[string]int) {
	r.Helper()
	if diff := cmp.Diff(want, r.effects(r.T)); diff != "" {
		r.Errorf("effects (-want +got):\n%s", diff)
	}
}

func (r *runs) event(id string) *driver.EventDetail {
	r.Helper()
	e, err := r.store.Event(r.Context(), "stripe", id)
	if err != nil {
		r.Fatal(err)
	}
	return e
}

// TestHandlerEndsTheTransactionInSQL has handlers that run COMMIT and ROLLBACK as text, which
// database/sql does not notice, and then write more.
func TestHandlerEndsTheTransactionInSQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		statement string
		want      error
		committed bool
		effects   map[string]int
	}{
		{"COMMIT", driver.ErrTxEnded, true, map[string]int{"before": 1}},
		{"ROLLBACK", driver.ErrTxAborted, false, map[string]int{}},
	} {
		t.Run(c.statement, func(t *testing.T) {
			t.Parallel()
			r := newRuns(t, "evt_1")
			run := r.take(1)
			r.run(run, `INSERT INTO effects VALUES ('before')`)
			r.run(run, c.statement)
			if err := effect(t.Context(), run.Tx(), "after"); err == nil {
				t.Error("a statement after the end of the transaction was committed")
			}
			for what, err := range map[string]error{
				"Check":  run.Check(t.Context(), nil),
				"Finish": run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded)),
			} {
				ended, isEnded := errors.AsType[*driver.TxEndedError](err)
				if !errors.Is(err, c.want) || isEnded != c.committed || isEnded && !ended.Committed {
					t.Errorf("%s: got the error %v, want %v", what, err, c.want)
				}
			}
			r.wantEffects(c.effects)
			last := driver.WorkFailed
			if c.committed {
				last = driver.WorkEnded
			}
			if err := run.Settle(t.Context(), outcomes(run, last)); err != nil {
				t.Fatal(err)
			}
			if got := r.event("evt_1"); got.State != driver.StateDead {
				t.Errorf("the event is %s, want it dead", got.State)
			}
			// The connection can commit again.
			r.queue("evt_2")
			run = r.take(1)
			r.run(run, `INSERT INTO effects VALUES ('evt_2')`)
			r.succeed(run)
			c.effects["evt_2"] = 1
			r.wantEffects(c.effects)
		})
	}
}

// TestHandlerCommittedAndDied: a handler committed by itself, and its process died before it could
// record that. The sweep sees it, and keeps the event from taking effect again.
func TestHandlerCommittedAndDied(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	run := r.take(1)
	r.run(run, `INSERT INTO effects VALUES ('evt_1')`)
	if err := run.Tx().Commit(); err != nil {
		t.Fatal(err)
	}
	run.Sever()
	r.interrupted(t, run)
	lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{})
	want := []driver.LostRun{{Key: run.Events()[0].Key, Source: "stripe", EventID: "evt_1", Type: "invoice.paid", Attempts: 1, Alone: true, Dead: true, Ended: true}}
	if diff := cmp.Diff(want, lost); diff != "" || err != nil {
		t.Errorf("SweepRuns returned the error %v (-want +got):\n%s", err, diff)
	}
	if got := r.event("evt_1"); got.State != driver.StateDead || got.LastError != (&driver.TxEndedError{Committed: true}).Error() {
		t.Errorf("the event is %+v, want it dead because it had committed", got.Event)
	}
	r.wantEffects(map[string]int{"evt_1": 1})
}

// TestSweepOfExtremeNumbers sweeps a run with the largest values that somebody can write, next to
// another one.
func TestSweepOfExtremeNumbers(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"attempts", "crashes", "run_retry_in"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s of a run of %d", column, n), func(t *testing.T) {
				t.Parallel()
				r := newRuns(t, "evt_1", "evt_2")
				run := r.take(n)
				run.Sever()
				r.interrupted(t, run)
				r.exec(t, "UPDATE hookonce_event_state SET "+column+" = 9223372036854775807 WHERE state = 1")
				before := time.Now()
				if lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{}); err != nil || len(lost) != n {
					t.Errorf("SweepRuns: got %+v and the error %v, want %d events", lost, err, n)
				}
				var early int
				if err := r.db.QueryRow(`SELECT count(*) FROM hookonce_event_state WHERE due_at < ? AND attempts > 0`, before.UnixMicro()).Scan(&early); err != nil || early > 0 {
					t.Errorf("%d tried events are due before the sweep, error %v; want none", early, err)
				}
			})
		}
	}
}

// interruptedInsert runs a statement that its context interrupts. SQLite then undoes the whole
// transaction.
func interruptedInsert(r *runs, run driver.Run[*sql.Tx]) error {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := run.Tx().ExecContext(ctx, endless, r.path)
		ended <- err
	}()
	awaitEndless(r.T, r.path)
	cancel()
	err := <-ended
	if err == nil {
		r.Fatal("the endless statement has ended")
	}
	return err
}

// TestSQLiteRolledBack: a handler ignores an error that made SQLite undo its transaction. It
// commits nothing, neither its writes before the error nor those after it.
func TestSQLiteRolledBack(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	run := r.take(1)
	r.run(run, `INSERT INTO effects VALUES ('before')`)
	failure := interruptedInsert(r, run)
	if err := effect(t.Context(), run.Tx(), "after"); err == nil {
		t.Error("a statement after the end of the transaction was committed")
	}
	if err := run.Check(t.Context(), nil); !errors.Is(err, driver.ErrTxAborted) || errors.Is(err, driver.ErrTxEnded) {
		t.Errorf("Check: got the error %v, want %v", err, driver.ErrTxAborted)
	}
	if err := run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded)); !errors.Is(err, driver.ErrTxAborted) {
		t.Errorf("Finish: got the error %v, want %v", err, driver.ErrTxAborted)
	}
	// A handler that returns the error has failed, and the failure can be recorded.
	if err := run.Check(t.Context(), failure); err != nil {
		t.Errorf("Check of the handler's error: got the error %v, want none", err)
	}
	if err := run.Finish(t.Context(), outcomes(run, driver.WorkRetry)); err != nil {
		t.Errorf("Finish with a failure: %v", err)
	}
	r.wantEffects(map[string]int{})
	if got := r.event("evt_1"); got.State != driver.StatePending || got.Attempts != 1 {
		t.Errorf("the event is %+v, want it pending after one attempt", got.Event)
	}
}

// TestFullInARun fills the file in a handler. That is not the handler's fault.
func TestFullInARun(t *testing.T) {
	t.Parallel()
	store, writer, _ := onOwnPools(t)
	for _, query := range []string{`CREATE TABLE effects (name TEXT NOT NULL) STRICT`, `PRAGMA max_page_count = 200`} {
		if _, err := writer.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if err := queueEvent(t.Context(), store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	run, err := takeFrom(t.Context(), store, 1)
	if err != nil || run == nil {
		t.Fatalf("Take: %v, %v", run, err)
	}
	var failure error
	for failure == nil {
		_, failure = run.Tx().ExecContext(t.Context(), `INSERT INTO effects VALUES (hex(zeroblob(50000)))`)
	}
	if err := run.Check(t.Context(), failure); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrTxEnded) {
		t.Errorf("Check of the error: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	if err := run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded)); err == nil {
		t.Error("Finish returned no error")
	}
	if err := run.Abandon(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := store.Event(t.Context(), "stripe", "evt_1")
	if err != nil || e.State != driver.StatePending || e.Attempts != 0 {
		t.Errorf("the event is %+v with the error %v, want it pending without an attempt", e, err)
	}
}

// TestDeferredForeignKey has a foreign key that fails at the commit.
func TestDeferredForeignKey(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	r.exec(t, `CREATE TABLE orders (id INTEGER PRIMARY KEY) STRICT`)
	r.exec(t, `CREATE TABLE lines (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED) STRICT`)
	writer, reader := ownPools(t, r.path, `foreign_keys(1)`)
	r.store = hooksql.NewSQLite(writer, reader)
	run := r.take(1)
	r.run(run, `INSERT INTO lines (order_id) VALUES (7)`)
	r.run(run, `INSERT INTO effects VALUES ('evt_1')`)
	if err := run.Check(t.Context(), nil); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded)); !errors.Is(err, driver.ErrBadRow) {
		t.Fatalf("Finish: got the error %v, want %v", err, driver.ErrBadRow)
	}
	if err := run.Settle(t.Context(), outcomes(run, driver.WorkFailed)); err != nil {
		t.Fatal(err)
	}
	r.wantEffects(map[string]int{})
	if got := r.event("evt_1"); got.State != driver.StateDead || got.Attempts != 1 {
		t.Errorf("the event is %+v, want it dead after one attempt", got.Event)
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

// TestRowsLeftOpen: a handler that does not close its rows does not fail.
func TestRowsLeftOpen(t *testing.T) {
	t.Parallel()
	for _, outcome := range []driver.WorkOutcome{driver.WorkSucceeded, driver.WorkFailed} {
		r := newRuns(t, "evt_1")
		run := r.take(1)
		rows, err := run.Tx().QueryContext(t.Context(), `INSERT INTO effects VALUES ('a'), ('b') RETURNING name`) //nolint:rowserrcheck // they are left open
		if err != nil || !rows.Next() {
			t.Fatalf("no row, and the error %v", err)
		}
		if err := run.Check(t.Context(), nil); err != nil {
			t.Errorf("Check: %v", err)
		}
		if err := run.Finish(t.Context(), outcomes(run, outcome)); err != nil {
			t.Errorf("Finish: %v", err)
		}
		want := map[string]int{"a": 1, "b": 1}
		if outcome == driver.WorkFailed {
			want = map[string]int{}
		}
		r.wantEffects(want)
		_ = rows.Close() //nolint:sqlclosecheck // later would be too late
	}
}

// TestHandlerLocksItselfOut writes on another connection than the run's, which cannot work. It is
// the handler's own failure, and uses up its attempts.
func TestHandlerLocksItselfOut(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	run := r.take(1)
	_, busy := openPlain(t, r.path).ExecContext(t.Context(), `INSERT INTO effects VALUES ('beside')`)
	if busy == nil {
		t.Fatal("two writers at a time")
	}
	if err := run.Check(t.Context(), busy); err != nil {
		t.Errorf("Check: got the error %v, want none", err)
	}
	if err := run.Finish(t.Context(), outcomes(run, driver.WorkRetry)); err != nil {
		t.Fatal(err)
	}
	if got := r.event("evt_1"); got.Attempts != 1 {
		t.Errorf("%d attempts were counted, want 1", got.Attempts)
	}
}

// ownPools returns pools of the application on a file, with one more setting of the writer.
func ownPools(t *testing.T, path, pragma string) (writer, reader *sql.DB) {
	t.Helper()
	writerDSN, readerDSN, err := hooksql.SQLiteDSN(path)
	if err != nil {
		t.Fatal(err)
	}
	writer, reader = openDSN(t, writerDSN+"&_pragma="+pragma), openDSN(t, readerDSN)
	writer.SetMaxOpenConns(1)
	return writer, reader
}
