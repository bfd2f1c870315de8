package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestHandlerEndsTransaction has handlers that end their transaction in ways that only the server
// sees. Finish must record nothing as done, and must tell whether the handlers' writes are
// committed.
func TestHandlerEndsTransaction(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sql       string
		seen      bool // by Check
		committed bool
	}{
		{"COMMIT", true, true},
		{"ROLLBACK", true, false},
		{"COMMIT AND CHAIN", true, true},
		{"ROLLBACK AND CHAIN", true, false},
		{"COMMIT; BEGIN", true, true},
		{"COMMIT; BEGIN; SAVEPOINT hookonce_handlers", true, true},
		{"ROLLBACK; BEGIN; SAVEPOINT hookonce_handlers", true, false},
		{"COMMIT; BEGIN; SAVEPOINT hookonce_handlers; SAVEPOINT mine", true, true},
		{"RELEASE SAVEPOINT hookonce_handlers", false, false}, // the transaction goes on, but cannot be trusted
		{"PREPARE TRANSACTION 'mine'", true, false},           // the server is not set up for it, and rolls back
	} {
		t.Run(test.sql, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			run := w.takeOne(t, "evt_1")
			mustDo(t, run, "INSERT INTO effects VALUES ('evt_1')")
			_, sqlErr := run.Tx().Conn().PgConn().Exec(t.Context(), test.sql).ReadAll()
			if (sqlErr != nil) != strings.HasPrefix(test.sql, "PREPARE") {
				t.Fatal(sqlErr)
			}
			if err := run.Check(t.Context(), errors.New("mine")); test.seen {
				wantEnded(t, "Check", err, test.committed)
			}
			wantEnded(t, "Finish", run.Finish(t.Context(), succeeded(run)), test.committed)
			last := driver.WorkFailed
			if test.committed {
				last = driver.WorkEnded
			}
			if err := run.Settle(t.Context(), outcome(run, last, "it ended the transaction")); err != nil {
				t.Errorf("Settle: %v", err)
			}
			w.wantEvent(t, "evt_1", driver.StateDead, 1)
			w.wantSwept(t, 0)
			if test.committed {
				w.wantEffects(t, "evt_1")
			} else {
				w.wantEffects(t)
			}
			again := w.takeOne(t, "evt_2") // on the same connection, if the pool kept it
			if err := again.Finish(t.Context(), succeeded(again)); err != nil {
				t.Error(err)
			}
		})
	}
}

func wantEnded(t *testing.T, what string, err error, committed bool) {
	t.Helper()
	ended, ok := errors.AsType[*driver.TxEndedError](err)
	if !ok || ended.Committed != committed || !errors.Is(err, driver.ErrTxEnded) {
		t.Errorf("%s: got the error %v, want that the handler ended the transaction, committed %v", what, err, committed)
	}
}

// TestSweepAfterAHandlerCommitted has a process die after its handler committed by itself. The
// events would take effect again, so they are dead.
func TestSweepAfterAHandlerCommitted(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.queue(t, "evt_1", "evt_2")
	run := w.take(t, 2, false)
	mustDo(t, run, "INSERT INTO effects VALUES ('evt_1')")
	mustDo(t, run, "COMMIT")
	w.kill(t, run)
	second := w.second(t)
	if lost, err := second.SweepRuns(t.Context(), sweepOf()); err != nil || len(lost) > 0 {
		t.Errorf("SweepRuns: got %+v and the error %v, want nothing while its process may know more", lost, err)
	}
	p := sweepOf()
	p.Now = time.Now().Add(time.Hour)
	lost, err := second.SweepRuns(t.Context(), p)
	if err != nil || len(lost) != 2 || !lost[0].Dead || !lost[1].Dead {
		t.Errorf("SweepRuns: got %+v and the error %v, want both dead", lost, err)
	}
	for _, id := range []string{"evt_1", "evt_2"} {
		w.wantEvent(t, id, driver.StateDead, 1)
		detail, err := w.Event(t.Context(), "stripe", id)
		if want := (&driver.TxEndedError{Committed: true}).Error(); err != nil || detail.LastError != want {
			t.Errorf("the event is %+v with the error %v, want the last error %q", detail, err, want)
		}
	}
}

// TestSweepPassesOverASettlingRun has another session settle the run that a sweep finds
// interrupted. The sweep leaves the run alone and does not wait.
func TestSweepPassesOverASettlingRun(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	run := w.takeOne(t, "evt_1")
	w.kill(t, run)
	settling, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = settling.Rollback(context.Background()) }()
	var id int64
	lock := strings.ReplaceAll("SELECT id FROM {schema}.run FOR UPDATE", "{schema}", w.schema)
	if err := settling.QueryRow(t.Context(), lock).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if lost, err := w.SweepRuns(eventually.Context(t), sweepOf()); err != nil || len(lost) != 0 {
		t.Errorf("SweepRuns: got %+v and the error %v, want nothing at once", lost, err)
	}
	if err := settling.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantSwept(t, 1)
}

// TestRefusedCommit has handlers that call Commit or Rollback of their transaction. The call only
// makes the run fail, even if the handler ignores the error.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	for method, call := range map[string]func(context.Context, pgx.Tx) error{
		"Commit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"Rollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			run := w.takeOne(t, "evt_1")
			mustDo(t, run, "INSERT INTO effects VALUES ('evt_1')")
			told := call(t.Context(), run.Tx())
			if told == nil || !strings.Contains(told.Error(), method) || !strings.Contains(told.Error(), "return") {
				t.Fatalf("%s returned the error %v, want one that says what to do instead", method, told)
			}
			mustDo(t, run, "SELECT 1") // the transaction goes on
			if err := run.Check(t.Context(), nil); !errors.Is(err, driver.ErrTxAborted) || errors.Is(err, driver.ErrTxEnded) || err.Error() != told.Error() {
				t.Errorf("Check of a handler that passed it over: got the error %v, want %v", err, told)
			}
			_ = call(t.Context(), run.Tx())
			if err := run.Check(t.Context(), told); err != nil {
				t.Errorf("Check of a handler that returned it: got the error %v, want none: it is the handler's failure", err)
			}
			_ = call(t.Context(), run.Tx())
			if err := run.Finish(t.Context(), succeeded(run)); !errors.Is(err, driver.ErrTxAborted) {
				t.Errorf("Finish: got the error %v, want %v", err, driver.ErrTxAborted)
			}
			if err := run.Finish(t.Context(), outcome(run, driver.WorkRetry, "refused")); err != nil {
				t.Errorf("Finish of the failure: %v", err)
			}
			w.wantEffects(t)
			w.wantEvent(t, "evt_1", driver.StatePending, 1)
		})
	}
}

// TestNestedTransactions: nested transactions are savepoints, and a handler may commit or roll them
// back.
func TestNestedTransactions(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	run := w.takeOne(t, "evt_1")
	if err := pgx.BeginFunc(t.Context(), run.Tx(), func(tx pgx.Tx) error { return effect(t.Context(), tx, "kept") }); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("undo it")
	if err := pgx.BeginFunc(t.Context(), run.Tx(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT 1/0"); err == nil {
			t.Error("a division by zero succeeded")
		}
		return failure
	}); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	open, err := run.Tx().Begin(t.Context()) // never ended
	if err != nil {
		t.Fatal(err)
	}
	if err := effect(t.Context(), open, "open"); err != nil {
		t.Fatal(err)
	}
	if err := run.Check(t.Context(), nil); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Errorf("Finish: %v", err)
	}
	w.wantEffects(t, "kept", "open")
}

// TestSwallowedErrors has handlers that ignore the error of a statement. Check must return that
// error.
func TestSwallowedErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler func(context.Context, pgx.Tx) error
		want    error
		text    string
	}{
		"Exec": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "INSERT INTO nothing VALUES (1)")
			return nil
		}, driver.ErrTxAborted, `"nothing" does not exist`},
		"QueryRow": {func(ctx context.Context, tx pgx.Tx) error {
			_ = tx.QueryRow(ctx, "SELECT 1/0").Scan(new(int))
			return nil
		}, driver.ErrTxAborted, "division by zero"},
		"Query": {func(ctx context.Context, tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, "SELECT 1/0")
			rows.Close()
			return nil
		}, driver.ErrTxAborted, ""},
		"a deadlock": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '40P01'; END $$")
			return nil
		}, driver.ErrSerialization, "made up"},
		"a full disk": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '53100'; END $$")
			return nil
		}, driver.ErrUnavailable, "made up"},
		"open rows": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Query(ctx, "SELECT generate_series(1, 1000)") //nolint:sqlclosecheck // that is the point
			return nil
		}, driver.ErrTxAborted, "close them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			run := w.takeOne(t, "evt_1")
			mustDo(t, run, "INSERT INTO effects VALUES ('evt_1')")
			if err := test.handler(t.Context(), run.Tx()); err != nil {
				t.Fatal(err)
			}
			err := run.Check(t.Context(), nil)
			if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.text) {
				t.Errorf("Check: got the error %v, want %v and %q", err, test.want, test.text)
			}
			if err := run.Finish(t.Context(), succeeded(run)); err == nil {
				t.Error("Finish committed although a handler had failed")
			}
			if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry, "failed")); err != nil {
				t.Errorf("Settle: %v", err)
			}
			w.wantEffects(t)
			w.wantEvent(t, "evt_1", driver.StatePending, 1)
			w.wantSwept(t, 0)
		})
	}
}

// A transaction's number says nothing in another cluster. There, no one takes a handler's own commit for one that he
// knows.
func TestOutcomeElsewhere(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	run := w.takeOne(t, "evt_1")
	mustDo(t, run, "COMMIT")
	w.exec(t, "CREATE OR REPLACE FUNCTION {schema}.run_home() RETURNS text LANGUAGE sql AS $$ SELECT '1.1.1' $$")
	if err := run.Check(t.Context(), nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Check: got the error %v, want that the server does not say how it ended", err)
	}
}
