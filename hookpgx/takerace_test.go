package hookpgx_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestTakeOfEventsInAnotherRecord has a record of a run appear between the look for due events and the
// take's own record, as when a handler commits the transaction of its run by itself at that moment. The
// event belongs to that run: its handler must not run again.
func TestTakeOfEventsInAnotherRecord(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.queue(t, "a")
	other, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	// The lock holds up writers only.
	if _, err := other.Exec(t.Context(), "LOCK TABLE "+w.schema+".run IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	took := make(chan driver.Run[pgx.Tx], 1)
	failed := make(chan error, 1)
	go func() {
		run, err := w.Take(t.Context(), takeOf(10, false))
		took <- run
		failed <- err
	}()
	eventually.True(t, "Take waits for the table of the runs", func() bool {
		return w.number(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{schema}.run'::regclass") == 1
	})
	key := newClaim("a").Key
	w.in(t, other, "INSERT INTO {schema}.run (id, keys, started_at, home) VALUES (1, ARRAY[$1::bytea], now(), {schema}.run_home())", key[:])
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, err := <-took, <-failed; run != nil || err != nil {
		if run != nil {
			err = run.Abandon(t.Context())
		}
		t.Fatalf("took a run: %t, error %v, want nothing", run != nil, err)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.run"); n != 1 {
		t.Errorf("%d records, want the other one", n)
	}
	w.exec(t, "DELETE FROM {schema}.run")
	run := w.take(t, 10, false)
	if len(run.Events()) != 1 {
		t.Errorf("took %d events afterwards, want 1", len(run.Events()))
	}
}
