package hooksql_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestPostgresWork runs the conformance suite of handlers' transactions.
func TestPostgresWork(t *testing.T) {
	t.Parallel()
	harness := postgresHarness(withSearchPath)
	harness.Transport = true
	storetest.ExerciseWork(t, harness)
}

// postgresHarness returns the harness of stores on the DSN that reach makes of the server's, in whose
// sessions the tables of a schema are found.
func postgresHarness(reach func(t testing.TB, dsn, schema string) string) storetest.Harness[*sql.Tx] {
	// Interrupted runs hold their connections, although they are closed, so no pool is limited.
	connect := func(t testing.TB, dsn, schema string) *postgresWorld {
		return newPostgres(t, dsn, openPool(t, dsn, 0), &hooksql.PostgresOptions{Schema: schema})
	}
	var worlds sync.Map // driver.Driver[*sql.Tx] to *postgresWorld
	worldOf := func(d driver.Driver[*sql.Tx]) *postgresWorld {
		w, ok := worlds.Load(d)
		if !ok {
			panic("unknown driver")
		}
		return w.(*postgresWorld)
	}
	keep := func(w *postgresWorld) driver.Driver[*sql.Tx] {
		worlds.Store(driver.Driver[*sql.Tx](w.PostgresStore), w)
		return w.PostgresStore
	}
	return storetest.Harness[*sql.Tx]{
		Open: func(t *testing.T) driver.Driver[*sql.Tx] {
			return keep(openApplicationOn(t, reach, connect))
		},
		Second: func(t *testing.T, d driver.Driver[*sql.Tx]) driver.Driver[*sql.Tx] {
			w := worldOf(d)
			return keep(connect(t, w.dsn, w.schema))
		},
		Effect: postgresEffect,
		Fail: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "SELECT 1/0")
			return err
		},
		Commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		Begin: func(t *testing.T, d driver.Driver[*sql.Tx]) (tx *sql.Tx, commit, rollback func() error) {
			tx, err := worldOf(d).db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return tx, tx.Commit, func() error {
				if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
					return err
				}
				return nil
			}
		},
		Effects: func(t *testing.T, d driver.Driver[*sql.Tx]) map[string]int { return worldOf(d).effects(t) },
		Interrupt: func(t *testing.T, d driver.Driver[*sql.Tx], run driver.Run[*sql.Tx]) {
			if _, err := run.Tx().ExecContext(t.Context(), "SELECT 1"); !errors.Is(err, sql.ErrTxDone) {
				worldOf(d).terminate(t, run.Tx())
			}
			t.Cleanup(func() { _ = run.Abandon(context.WithoutCancel(t.Context())) }) // it may have ended long ago
		},
		Drop: func(t *testing.T, d driver.Driver[*sql.Tx], table string, key driver.Key) {
			trigger, _ := storetest.DropRow(table, key)
			worldOf(d).exec(t, trigger)
		},
		Refuse: func(t *testing.T, d driver.Driver[*sql.Tx], table string, key driver.Key) (allow func()) {
			return worldOf(d).refuse(t, table, key)
		},
	}
}

// openApplication returns a migrated store whose schema also holds a table of the application.
func openApplication(t *testing.T, connect func(t testing.TB, dsn, schema string) *postgresWorld) *postgresWorld {
	t.Helper()
	return openApplicationOn(t, withSearchPath, connect)
}

func withSearchPath(t testing.TB, dsn, schema string) string {
	t.Helper()
	return withParameter(t, dsn, "search_path", schema)
}

func openApplicationOn(t *testing.T, reach func(t testing.TB, dsn, schema string) string, connect func(t testing.TB, dsn, schema string) *postgresWorld) *postgresWorld {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	w := connect(t, reach(t, dsn, schema), schema)
	w.exec(t, "CREATE TABLE {schema}.effects (name text)")
	return w
}

func postgresEffect(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES ($1)", name)
	return err
}

// effects counts the committed rows of the table effects by their name.
func (w *postgresWorld) effects(t testing.TB) map[string]int {
	t.Helper()
	return countEffects(t, w.db, w.sql("SELECT name, count(*) FROM {schema}.effects GROUP BY name"))
}

// terminate ends the session of a transaction, like the end of its process.
func (w *postgresWorld) terminate(t testing.TB, tx *sql.Tx) {
	t.Helper()
	var pid int
	if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	var gone bool
	if err := w.db.QueryRowContext(t.Context(), "SELECT pg_terminate_backend($1::int, 30000)", pid).Scan(&gone); err != nil || !gone {
		t.Fatalf("ending the session of a run: %v, %v", gone, err)
	}
}

// take queues an event, takes it alone and does its work.
func (w *postgresWorld) take(t testing.TB, id string) driver.Run[*sql.Tx] {
	t.Helper()
	w.mustClaim(t, true, queued(id))
	return w.takeAgain(t, id, false)
}

func (w *postgresWorld) takeAgain(t testing.TB, id string, tried bool) driver.Run[*sql.Tx] {
	t.Helper()
	run, err := w.Take(t.Context(), takeOne(tried))
	if err != nil || run == nil || len(run.Events()) != 1 || run.Events()[0].EventID != id {
		t.Fatalf("Take: got %v and the error %v, want %s", run, err, id)
	}
	if err := postgresEffect(t.Context(), run.Tx(), id); err != nil {
		t.Fatal(err)
	}
	return run
}

func takeOne(tried bool) *driver.TakeParams {
	return &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1, Tried: tried, HandlerTimeout: time.Minute}
}

func outcome(run driver.Run[*sql.Tx], outcome driver.WorkOutcome) *driver.FinishParams {
	result := driver.WorkResult{Key: run.Events()[0].Key, Outcome: outcome}
	if outcome != driver.WorkSucceeded {
		result.Error = "no such order"
	}
	return &driver.FinishParams{Results: []driver.WorkResult{result}}
}

// wantEnd fails unless the event is in the state after so many attempts, with so many effects, and
// no connection is held.
func (w *postgresWorld) wantEnd(t testing.TB, id, state string, attempts, effects int) {
	t.Helper()
	got, err := w.Event(t.Context(), "stripe", id)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != state || got.Attempts != attempts {
		t.Errorf("%s is %s after %d attempts, want %s after %d", id, got.State, got.Attempts, state, attempts)
	}
	if n := w.effects(t)[id]; n != effects {
		t.Errorf("the effect of %s took place %d times, want %d", id, n, effects)
	}
	eventually.True(t, "no connection is in use", func() bool {
		_ = w.db.PingContext(t.Context())
		return w.db.Stats().InUse == 0
	})
}

// TestPostgresEndedBySQL has handlers that end their transaction with a statement, unknown to
// database/sql.
func TestPostgresEndedBySQL(t *testing.T) {
	t.Parallel()
	for statement, committed := range map[string]bool{
		"COMMIT": true, "COMMIT AND CHAIN": true, "COMMIT; BEGIN; SAVEPOINT hookonce": true, "ROLLBACK": false, "ROLLBACK; BEGIN": false,
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			w := openApplication(t, connectPostgres)
			run := w.take(t, "evt_1")
			if _, err := run.Tx().ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"Check": run.Check(t.Context(), nil), "Finish": run.Finish(t.Context(), outcome(run, driver.WorkSucceeded))} {
				ended, ok := errors.AsType[*driver.TxEndedError](err)
				if !ok || ended.Committed != committed {
					t.Errorf("%s: got the error %v, want a TxEndedError with Committed %v", what, err, committed)
				}
			}
			last := map[bool]driver.WorkOutcome{true: driver.WorkEnded, false: driver.WorkFailed}[committed]
			if err := run.Settle(t.Context(), outcome(run, last)); err != nil {
				t.Fatalf("Settle: %v", err)
			}
			w.wantEnd(t, "evt_1", driver.StateDead, 1, map[bool]int{true: 1}[committed])
		})
	}
}

// TestPostgresRowsLeftOpen has a handler that does not close its rows. The attempt fails, and the
// next one gets a clean connection.
func TestPostgresRowsLeftOpen(t *testing.T) {
	t.Parallel()
	w := openApplication(t, connectPostgres)
	run := w.take(t, "evt_1")
	rows, err := run.Tx().QueryContext(t.Context(), "SELECT n FROM generate_series(1, 100000) AS s (n)") //nolint:sqlclosecheck,rowserrcheck // that is the point
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	if err := run.Check(t.Context(), nil); !errors.Is(err, driver.ErrTxAborted) {
		t.Errorf("Check: got the error %v, want %v", err, driver.ErrTxAborted)
	}
	if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry)); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	w.wantEnd(t, "evt_1", driver.StatePending, 1, 0)
	run = w.takeAgain(t, "evt_1", true)
	if err := run.Finish(t.Context(), outcome(run, driver.WorkSucceeded)); err != nil {
		t.Fatalf("Finish: %v", err)
	}
	w.wantEnd(t, "evt_1", driver.StateDone, 2, 1)
}

// TestPostgresSessionEnds ends the session in the middle of a handler. It costs the event no
// attempt.
func TestPostgresSessionEnds(t *testing.T) {
	t.Parallel()
	w := openApplication(t, connectPostgres)
	run := w.take(t, "evt_1")
	w.terminate(t, run.Tx())
	failure := postgresEffect(t.Context(), run.Tx(), "evt_1")
	if failure == nil {
		t.Fatal("a statement succeeded in a session that had ended")
	}
	for _, handlerErr := range []error{nil, failure} {
		if err := run.Check(t.Context(), handlerErr); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Check of %v: got the error %v, want %v", handlerErr, err, driver.ErrUnavailable)
		}
	}
	if err := run.Finish(t.Context(), outcome(run, driver.WorkSucceeded)); err == nil || errors.Is(err, driver.ErrCommitUnknown) {
		t.Errorf("Finish: got the error %v, want one that says that nothing was committed", err)
	}
	if err := run.Abandon(t.Context()); err != nil {
		t.Fatalf("Abandon: %v", err)
	}
	w.wantEnd(t, "evt_1", driver.StatePending, 0, 0)
	run = w.takeAgain(t, "evt_1", false)
	if err := run.Finish(t.Context(), outcome(run, driver.WorkSucceeded)); err != nil {
		t.Fatalf("Finish: %v", err)
	}
	w.wantEnd(t, "evt_1", driver.StateDone, 1, 1)
}

// TestPostgresLostReplyOfRun loses the reply to the commit of a run. The outcome is unknown, the
// work takes effect once, and no row is left behind.
func TestPostgresLostReplyOfRun(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]dbtest.Cut{"reset": dbtest.CutReset, "silence": dbtest.CutSilence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, direct, proxy := behindProxy(t, levels[0])
			direct.exec(t, "CREATE TABLE {schema}.effects (name text)")
			run := w.take(t, "evt_1")
			drop := proxy.DropReply(commit, cut)
			wantUnknown(t, "Finish", run.Finish(drop.Context(t), outcome(run, driver.WorkSucceeded)))
			<-drop.Done()
			if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry)); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("Settle after the commit: got the error %v, want %v", err, driver.ErrNotFound)
			}
			if err := run.Abandon(t.Context()); err != nil {
				t.Errorf("Abandon: %v", err)
			}
			lost, err := w.SweepRuns(t.Context(), &driver.SweepRunsParams{})
			if err != nil || len(lost) > 0 {
				t.Errorf("SweepRuns: got %+v and the error %v, want nothing", lost, err)
			}
			for _, tried := range []bool{false, true} {
				if run, err := w.Take(t.Context(), takeOne(tried)); err != nil || run != nil {
					t.Errorf("Take: got %v and the error %v, want nothing", run, err)
				}
			}
			w.wantEnd(t, "evt_1", driver.StateDone, 1, 1)
		})
	}
}

// TestPostgresOnePool runs as many handlers' transactions at once as WorkLimits allows, on one pool
// for everything. Their other calls must find connections.
func TestPostgresOnePool(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	for _, conns := range []int{2, 3, 8} {
		w := openApplication(t, func(t testing.TB, dsn, schema string) *postgresWorld {
			return newPostgres(t, dsn, openPool(t, dsn, conns), &hooksql.PostgresOptions{Schema: schema})
		})
		const events = 24
		for i := range events {
			w.mustClaim(t, true, queued(string(rune('a'+i))))
		}
		ctx := eventually.Context(t)
		var wg sync.WaitGroup
		for range w.WorkLimits().Transactions {
			wg.Go(func() { w.workOff(ctx, t) })
		}
		for range w.ClaimConcurrency() {
			wg.Go(func() {
				for i := range events {
					if err := claim(ctx, w, "beside "+string(rune('a'+i))); err != nil {
						t.Errorf("Claim: %v", err)
					}
				}
			})
		}
		wg.Wait()
		for i := range events {
			w.wantEnd(t, string(rune('a'+i)), driver.StateDone, 1, 1)
		}
	}
}

// workOff takes and works events one by one until there is none.
func (w *postgresWorld) workOff(ctx context.Context, t *testing.T) {
	for {
		run, err := w.Take(ctx, takeOne(false))
		if err != nil {
			t.Errorf("Take: %v", err)
		}
		if err != nil || run == nil {
			return
		}
		err = errors.Join(postgresEffect(ctx, run.Tx(), run.Events()[0].EventID), run.Check(ctx, nil))
		if err == nil {
			err = run.Finish(ctx, outcome(run, driver.WorkSucceeded))
		}
		if err != nil {
			t.Errorf("the run of %s: %v", run.Events()[0].EventID, err)
			return
		}
	}
}
