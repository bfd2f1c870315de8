package work_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/work"
)

// database is a real SQLite file with a table of effects, which has no unique constraint. Its
// functions replace calls of the store or fail them; they are nil unless a test sets them.
type database struct {
	driver.Driver[*sql.Tx]
	effects *sql.DB // for reading

	beforeTake  func() error
	beforeClaim func() error // TakeClaim
	beforeSweep func() error
	beforeCount func() error // CountInlineFailure
	finish      func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error
	check       func() error  // a verdict ahead of that of Check
	severed     atomic.Int64  // runs
	batchTime   time.Duration // a minute unless set, so that a busy machine cuts no batch short
}

func openDatabase(t *testing.T) *database {
	t.Helper()
	store := rig.OpenSQLite(t)
	if _, err := store.Writer().ExecContext(t.Context(), "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return &database{Driver: store, effects: store.Reader(), batchTime: time.Minute}
}

func (db *database) WorkLimits() driver.WorkLimits {
	limits := db.Driver.WorkLimits()
	limits.BatchTime = db.batchTime
	return limits
}

// before calls f unless it is nil.
func before(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (db *database) Take(ctx context.Context, p *driver.TakeParams) (driver.Run[*sql.Tx], error) {
	if err := before(db.beforeTake); err != nil {
		return nil, err
	}
	return db.wrap(db.Driver.Take(ctx, p))
}

func (db *database) TakeClaim(ctx context.Context, p *driver.ClaimParams) (driver.Run[*sql.Tx], driver.ClaimResult, error) {
	if err := before(db.beforeClaim); err != nil {
		return nil, driver.ClaimResult{}, err
	}
	run, result, err := db.Driver.TakeClaim(ctx, p)
	run, err = db.wrap(run, err)
	return run, result, err
}

func (db *database) wrap(run driver.Run[*sql.Tx], err error) (driver.Run[*sql.Tx], error) {
	if run == nil {
		return nil, err
	}
	return &faultRun{run, db}, err
}

func (db *database) SweepRuns(ctx context.Context, p *driver.SweepRunsParams) ([]driver.LostRun, error) {
	if err := before(db.beforeSweep); err != nil {
		return nil, err
	}
	return db.Driver.SweepRuns(ctx, p)
}

func (db *database) CountInlineFailure(ctx context.Context, f *driver.InlineFailure) (*driver.InlineFailed, error) {
	if err := before(db.beforeCount); err != nil {
		return nil, err
	}
	return db.Driver.CountInlineFailure(ctx, f)
}

// faultRun is a real run with the faults of its database.
type faultRun struct {
	driver.Run[*sql.Tx]
	db *database
}

func (r *faultRun) Check(ctx context.Context, handlerErr error) error {
	if err := before(r.db.check); err != nil {
		return err
	}
	return r.Run.Check(ctx, handlerErr)
}

func (r *faultRun) Sever() {
	r.db.severed.Add(1)
	r.Run.Sever()
}

func (r *faultRun) Finish(ctx context.Context, p *driver.FinishParams) error {
	if r.db.finish == nil {
		return r.Run.Finish(ctx, p)
	}
	return r.db.finish(ctx, r.Run, p)
}

// enqueue enqueues a message about ev in the transaction of its handler.
func (db *database) enqueue(ctx context.Context, tx *sql.Tx, ev *work.Event, destination string) error {
	enqueued := ctx.Value(enqueuedKey{}).(*[]string)
	*enqueued = append(*enqueued, destination)
	return db.EnqueueTx(ctx, tx, []driver.OutboxMessage{{
		ID: "about-" + ev.EventID, Destination: destination, Source: ev.Source, EventID: ev.EventID, Cause: ev.Key,
		Headers: []byte("{}"), Body: ev.Body,
	}})
}

// enqueuedKey is the context key of the destinations that a handler enqueued messages to.
type enqueuedKey struct{}

// names returns the effects, sorted.
func (db *database) names(t *testing.T) (names []string) {
	t.Helper()
	rows, err := db.effects.QueryContext(t.Context(), "SELECT name FROM effects ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
