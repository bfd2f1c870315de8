package hooksql_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestReceivingWaitsForARun: there is one writer. A claim whose deadline passes writes nothing. A
// claim that can wait succeeds when the run has ended.
func TestReceivingWaitsForARun(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	another := open(t, r.path)
	run := r.take(1)
	r.run(run, `INSERT INTO effects VALUES ('evt_1')`)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	stores := []*hooksql.Store{r.store, another}
	var group sync.WaitGroup
	for i, store := range stores {
		group.Go(func() {
			if err := claim(ctx, store, fmt.Sprint("during-", i)); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("claim: got the error %v, want %v", err, driver.ErrUnavailable)
			}
		})
	}
	group.Wait()
	// Reading goes on, and sees nothing of the run except that it is running.
	if got := r.event("evt_1"); got.State != driver.StateRunning {
		t.Errorf("the event is %s, want it running", got.State)
	}
	r.wantEffects(map[string]int{})
	for i, store := range stores {
		group.Go(func() {
			if err := claim(t.Context(), store, fmt.Sprint("after-", i)); err != nil {
				t.Errorf("claim: %v", err)
			}
		})
	}
	r.succeed(run)
	group.Wait()
	for id, want := range map[string]bool{"during-0": false, "during-1": false, "after-0": true, "after-1": true} {
		if has(t, r.store, id) != want {
			t.Errorf("event %q: exists is %v, want %v", id, !want, want)
		}
	}
	r.wantEffects(map[string]int{"evt_1": 1})
}

// TestTakeGivesUpWaiting: an application holds the write lock. Events of a run that cannot begin
// are neither lost nor taken for interrupted.
func TestTakeGivesUpWaiting(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	tx, err := openPlain(t, r.path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if run, err := takeFrom(ctx, r.store, 1); run != nil || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Take: got %v and the error %v, want %v", run, err, driver.ErrUnavailable)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	run := r.take(1)
	if e := run.Events()[0]; e.Crashes != 0 || e.Attempts != 0 {
		t.Errorf("took %+v, want it untried", e)
	}
	r.succeed(run)
}

// endless is a statement that writes, and does not end by itself. Its argument is a name for awaitEndless.
const endless = `INSERT INTO effects
	WITH RECURSIVE n(i) AS (SELECT hookonce_test_began(?) UNION ALL SELECT i + 1 FROM n) SELECT 'endless' FROM n WHERE i < 0`

// began holds the names of the endless statements that have begun.
var began sync.Map

func init() {
	sqlite.MustRegisterScalarFunction("hookonce_test_began", 1, func(_ *sqlite.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
		began.Store(args[0], nil)
		return int64(1), nil
	})
}

func awaitEndless(t *testing.T, name string) {
	t.Helper()
	eventually.True(t, "the statement begins", func() bool { _, ok := began.Load(name); return ok })
}

// TestSeverUnderAStatement cuts a transaction off while a statement runs under another context than
// the handler's, which nothing can interrupt. The run waits, and goes on when the statement has
// ended.
func TestSeverUnderAStatement(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	run := r.take(1)
	r.run(run, `INSERT INTO effects VALUES ('evt_1')`)
	own, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() {
		_, err := run.Tx().ExecContext(own, endless, r.path)
		ended <- err
	}()
	awaitEndless(t, r.path)
	run.Sever()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	settled := run.Settle(ctx, outcomes(run, driver.WorkRetry))
	stop()
	if err := <-ended; err == nil {
		t.Error("the statement has ended by itself")
	}
	if !errors.Is(settled, driver.ErrUnavailable) {
		t.Errorf("Settle: got the error %v, want %v", settled, driver.ErrUnavailable)
	}
	if err := run.Settle(t.Context(), outcomes(run, driver.WorkRetry)); err != nil {
		t.Errorf("Settle after the statement had ended: %v", err)
	}
	if err := effect(t.Context(), run.Tx(), "late"); err == nil {
		t.Error("the transaction could be used after Sever")
	}
	r.wantEffects(map[string]int{})
	if got := r.event("evt_1"); got.State != driver.StatePending || got.Attempts != 1 {
		t.Errorf("the event is %+v, want it pending after one attempt", got.Event)
	}
}

// TestSeverBesideEveryMethod is for the race detector.
func TestSeverBesideEveryMethod(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	for i, method := range []func(run driver.Run[*sql.Tx]) error{
		func(run driver.Run[*sql.Tx]) error { return run.Check(t.Context(), nil) },
		func(run driver.Run[*sql.Tx]) error {
			return run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded))
		},
		func(run driver.Run[*sql.Tx]) error { return run.Settle(t.Context(), outcomes(run, driver.WorkRetry)) },
		func(run driver.Run[*sql.Tx]) error { return run.Abandon(t.Context()) },
	} {
		for n := range 10 {
			r.queue(fmt.Sprint("evt_", i, "_", n))
			run := r.take(1)
			var group sync.WaitGroup
			group.Go(run.Sever)
			group.Go(func() { _ = method(run) })
			group.Wait()
			if err := run.Settle(t.Context(), outcomes(run, driver.WorkFailed)); err != nil && !errors.Is(err, driver.ErrNotFound) {
				t.Fatalf("Settle: %v", err)
			}
			if lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{Now: time.Now().Add(time.Hour)}); err != nil || len(lost) > 0 {
				t.Fatalf("the sweep found %+v, error %v", lost, err)
			}
			for {
				rest, err := takeFrom(t.Context(), r.store, 10)
				if err != nil {
					t.Fatal(err)
				}
				if rest == nil {
					break
				}
				r.succeed(rest)
			}
		}
	}
}

// TestClaimTxOfADeferredTransaction: a transaction that read before another one wrote cannot write
// any more. The error tells the caller to begin again.
func TestClaimTxOfADeferredTransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	tx, err := openDSN(t, "file:"+path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `SELECT count(*) FROM hookonce_event`); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, store, "evt_1")
	c := newClaim("evt_2")
	c.Work = driver.WorkDone
	if _, err := store.ClaimTx(t.Context(), tx, &driver.ClaimParams{Claims: []driver.Claim{c}}); !errors.Is(err, driver.ErrSerialization) {
		t.Errorf("ClaimTx: got the error %v, want %v", err, driver.ErrSerialization)
	}
	messages := []driver.OutboxMessage{{ID: "m1", Destination: "d", Body: []byte("{}"), Headers: []byte("{}")}}
	if err := store.EnqueueTx(t.Context(), tx, messages); !errors.Is(err, driver.ErrSerialization) {
		t.Errorf("EnqueueTx: got the error %v, want %v", err, driver.ErrSerialization)
	}
}
