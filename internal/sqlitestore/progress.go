package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Before a handler begins, setBegun gives its event the run's second number, in the transaction of
// the handlers. If a handler commits that transaction by itself, this number tells which one it
// was. The events before it are marked as done in the same commit.
const (
	setBegun = `UPDATE hookonce_event_state SET run = ?1
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?2) AND run <= ?1`

	selectRun = `SELECT state, run FROM hookonce_event_state WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`
)

// keepOurs drops the events that a sweep took meanwhile.
func (r *run) keepOurs() error {
	var ours []takenEvent
	for i := range r.taken {
		row, err := scanRun(r.t.queryRow(selectRun, r.taken[i].Key[:]))
		if err != nil {
			return err
		}
		if row.state == stateRunning && row.run == r.token {
			ours = append(ours, r.taken[i])
		}
	}
	r.taken = ours
	return nil
}

// runRow holds the columns of an event's row that tell its run.
type runRow struct {
	state int
	run   int64
}

// scanRun reads a row of selectRun; it is zero if there is none.
func scanRun(from *sql.Row) (row runRow, err error) {
	err = from.Scan(&row.state, &row.run)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return row, err
}

// Next implements driver.Run. An event that is alone in its run was marked at the beginning.
func (r *run) Next(ctx context.Context, key driver.Key, done *driver.FinishParams) error {
	if r.ofClaim || len(r.taken) == 1 {
		return nil
	}
	r.t.caller, r.t.now = ctx, clock(done.Now)
	err := r.recordSoFar(done)
	if err == nil {
		i := slices.IndexFunc(r.taken, func(e takenEvent) bool { return e.Key == key })
		err = r.setBegun(&r.taken[i])
	}
	if err != nil {
		return r.store.failed(ctx, "beginning a handler", err)
	}
	return nil
}

func (r *run) recordSoFar(done *driver.FinishParams) error {
	if r.recorded == nil {
		r.recorded = make(map[driver.Key]bool, len(r.taken))
	}
	for i := range done.Results {
		result := &done.Results[i]
		held, err := r.t.recordOutcome(result, r.fence())
		if err != nil {
			return err
		}
		r.recorded[result.Key] = held
	}
	return r.t.keepVersions(done.Versions)
}

func (r *run) setBegun(e *takenEvent) error {
	r.begun = e
	_, err := r.t.exec(setBegun, r.marker(), e.Key[:])
	return err
}

// committed reports whether a transaction that is over was committed.
func (r *run) committed(ctx context.Context) (bool, error) {
	if r.begun == nil {
		return false, nil // no handler has begun
	}
	row, err := scanRun(r.store.reader.QueryRowContext(ctx, selectRun, r.begun.Key[:]))
	if err != nil {
		return false, err
	}
	return r.isCommitted(row), nil
}

// isCommitted reports whether a committed row of the event that began last was written in the
// transaction of this run.
func (r *run) isCommitted(row runRow) bool { return row.run == r.marker() }

// begunRow reads the row of the event whose handler began last; zero if there is none.
func (t *writeTx) begunRow(r *run) (runRow, error) {
	if r.begun == nil {
		return runRow{}, nil
	}
	return scanRun(t.queryRow(selectRun, r.begun.Key[:]))
}
