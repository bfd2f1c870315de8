package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// runOf claims an event over a driver with faults, which has no hooks, and takes it.
func runOf(t *testing.T, s *Store) driver.Run[*sql.Tx] {
	t.Helper()
	c := newClaim("evt_1")
	c.Work, c.Messages = driver.WorkQueued, nil
	if _, err := s.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
		t.Fatal(err)
	}
	run, err := s.Take(t.Context(), &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Second})
	if err != nil || run == nil {
		t.Fatalf("Take: %v, %v", run, err)
	}
	return run
}

func outcome(run driver.Run[*sql.Tx], o driver.WorkOutcome) *driver.FinishParams {
	return &driver.FinishParams{Results: []driver.WorkResult{{Key: run.Events()[0].Key, Outcome: o}}}
}

func wantState(t *testing.T, s *Store, state string, attempts int) {
	t.Helper()
	if got, err := s.Event(t.Context(), "stripe", "evt_1"); err != nil || got.State != state || got.Attempts != attempts {
		t.Errorf("the event is %+v with the error %v, want it %s after %d attempts", got, err, state, attempts)
	}
}

// TestFinishOutlivesItsCaller: the COMMIT goes on after the deadline. Settle waits for it and
// changes nothing.
func TestFinishOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	run := runOf(t, store)
	started, goOn := f.hangCommit()
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan error)
	go func() { finished <- run.Finish(ctx, outcome(run, driver.WorkSucceeded)) }()
	<-started
	cancel()
	if err := <-finished; !errors.Is(err, driver.ErrCommitUnknown) {
		t.Errorf("Finish: got the error %v, want %v", err, driver.ErrCommitUnknown)
	}
	settled := make(chan error)
	go func() { settled <- run.Settle(t.Context(), outcome(run, driver.WorkFailed)) }()
	f.onCommit(func(real func() error) error { return real() })
	close(goOn)
	if err := <-settled; !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Settle: got the error %v, want %v", err, driver.ErrNotFound)
	}
	wantState(t, store, driver.StateDone, 1)
}

// TestFinishFails: a run that was not committed can be settled, and a committed one stays as it is.
func TestFinishFails(t *testing.T) {
	t.Parallel()
	foreignKey := badWrite{"foreign key", "", false, codeConstraint | 3<<8, driver.ErrBadRow}
	for ends, statement := range map[driver.WorkOutcome]string{driver.WorkSucceeded: recordDone, driver.WorkRetry: insertTry} {
		for _, b := range append(badWrites(statement), foreignKey) {
			t.Run(fmt.Sprint(b.name, " ", ends), func(t *testing.T) {
				t.Parallel()
				var f faults
				store := storeWith(t, &f)
				if _, err := store.writer.ExecContext(t.Context(), `CREATE TABLE effects (name TEXT)`); err != nil {
					t.Fatal(err)
				}
				run := runOf(t, store)
				if _, err := run.Tx().ExecContext(t.Context(), `INSERT INTO effects VALUES ('one')`); err != nil {
					t.Fatal(err)
				}
				b.begin(&f, 1)
				if err := run.Finish(t.Context(), outcome(run, ends)); !errors.Is(err, b.want) {
					t.Errorf("Finish: got the error %v, want %v", err, b.want)
				}
				f.end()
				if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry)); errors.Is(err, driver.ErrNotFound) != b.committed || err != nil && !b.committed {
					t.Errorf("Settle: %v", err)
				}
				state, effects := driver.StatePending, 0
				if b.committed && ends == driver.WorkSucceeded {
					state, effects = driver.StateDone, 1
				}
				wantState(t, store, state, 1)
				var got int
				if err := store.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM effects`).Scan(&got); err != nil || got != effects {
					t.Errorf("%d effects, error %v; want %d", got, err, effects)
				}
			})
		}
	}
}

// TestTakeWhoseCommitIsUnknown releases events that may be marked: no handler has run.
func TestTakeWhoseCommitIsUnknown(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	run := runOf(t, store)
	if err := run.Abandon(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.onCommit(func(real func() error) error {
		f.onCommit(func(real func() error) error { return real() })
		return errors.Join(real(), code(codeIOErr|4<<8))
	})
	p := &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Second}
	if run, err := store.Take(t.Context(), p); run != nil || !errors.Is(err, driver.ErrCommitUnknown) {
		t.Fatalf("Take: got %v and the error %v, want %v", run, err, driver.ErrCommitUnknown)
	}
	store.detached.Wait()
	wantState(t, store, driver.StatePending, 0)
}

// TestRolledBackUnderTheHandler: the store notices the rollback without the driver's help.
func TestRolledBackUnderTheHandler(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	run := runOf(t, store)
	if _, err := run.Tx().ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{run.Check(t.Context(), nil), run.Finish(t.Context(), outcome(run, driver.WorkSucceeded))} {
		if !errors.Is(err, driver.ErrTxAborted) {
			t.Errorf("got the error %v, want %v", err, driver.ErrTxAborted)
		}
	}
	if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry)); err != nil {
		t.Fatal(err)
	}
	wantState(t, store, driver.StatePending, 1)
}
