package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	opFinish  = "finishing a run"
	opSettle  = "settling a run"
	opAbandon = "abandoning a run"
)

// severWait bounds how long Sever waits for the end of the transaction.
const severWait = time.Second

var (
	errWriterWait = errors.New("another writer held the database for too long to begin the handlers' transaction")
	errRecordGone = fmt.Errorf("%w: the record of the run is gone", driver.ErrNotFound)
	errOver       = errors.New("it was committed or undone")
	errSevered    = errors.New("it was cut off from a handler that did not return")
)

// Only two savepoints tell whether the transaction is still the one that was begun: SQLite undoes
// it by itself if a statement that writes is interrupted or finds the disk full, and a handler may
// send COMMIT as text. Releasing the inner savepoint fails if the transaction is gone. A failed
// handler is rolled back to the outer one.
const (
	setOuter     = `SAVEPOINT hookonce_run`
	setInner     = `SAVEPOINT hookonce_check`
	releaseInner = `RELEASE hookonce_check`
	undoHandlers = `ROLLBACK TO hookonce_run`
	noStatement  = `SELECT 1 WHERE FALSE`
)

// run is the transaction of handlers. It holds the writer's connection, so every other write of the
// store waits for it.
type run struct {
	store    *Store
	t        *writeTx
	cancel   context.CancelFunc
	token    int64
	ofClaim  bool // of TakeClaim: it has no record
	ordered  bool // events may be in lines, which go on when the run ends, in any way
	taken    []takenEvent
	finished bool
	sent     bool                // our COMMIT, which Finish sends
	begun    *takenEvent         // whose handler began last
	recorded map[driver.Key]bool // by Next

	severed atomic.Bool
	guard   guard
	ending  atomic.Bool   // the transaction is ending or has ended
	ended   chan struct{} // closed when the connection is released
}

func (s *Store) newRun() *run { return &run{store: s, ended: make(chan struct{})} }

var _ driver.Run[*sql.Tx] = (*run)(nil)

// marker returns the number of an event whose handler has begun.
func (r *run) marker() int64 { return r.token | 1 }

func (r *run) fence() fence { return fence{state: stateRunning, token: r.token, marker: r.marker()} }

// begin begins the transaction, and keeps the events that still belong to this run. It waits for
// the writer until wait ends.
func (r *run) begin(wait, caller context.Context) error {
	under, cancel := context.WithCancel(context.WithoutCancel(caller))
	t, err := r.store.begin(wait, under, nil)
	if err != nil {
		cancel()
		return err
	}
	t.caller, t.ending = caller, r.guard.leave
	t.ended = func() {
		cancel()
		close(r.ended)
	}
	r.t, r.cancel = t, cancel
	if err := r.guard.watch(t.conn); err != nil {
		return err
	}
	if err := r.keepOurs(); err != nil {
		return err
	}
	if err := r.setSavepoints(); err != nil || len(r.taken) != 1 {
		return err
	}
	return r.setBegun(&r.taken[0])
}

func (r *run) setSavepoints() error {
	for _, query := range []string{setOuter, setInner} {
		if _, err := r.t.tx.ExecContext(r.t.inner, query); err != nil {
			return err
		}
	}
	return nil
}

// Tx implements driver.Run.
func (r *run) Tx() *sql.Tx { return r.t.tx }

// Events implements driver.Run.
func (r *run) Events() []driver.TakenEvent { return eventsOf(r.taken) }

// Versions implements driver.Run. The write lock is the lock on the objects, so none is busy.
func (r *run) Versions(_ context.Context, objects []driver.Key) (applied map[driver.Key]driver.ObjectVersion, busy []driver.Key, err error) {
	found, err := versions(r.t.inner, r.t.tx, objects)
	if err != nil {
		return nil, nil, r.store.failed(r.t.inner, "locking versions", err)
	}
	return found, nil, nil
}

// Check implements driver.Run.
//
// BUSY and LOCKED are the handler's own failure: the run holds the only write lock, so another
// connection of the handler is in its way, and would be on the next attempt too.
func (r *run) Check(ctx context.Context, handlerErr error) error {
	gone := r.probe()
	if r.severed.Load() {
		return fmt.Errorf("%w: %w", driver.ErrTxAborted, errSevered)
	}
	if gone != nil {
		committed, err := r.committed(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%w: asking for the outcome of the transaction: %w", driver.ErrUnavailable, err)
		case committed:
			return &driver.TxEndedError{Committed: true}
		case errors.Is(gone, sql.ErrTxDone) && !isTrouble(handlerErr):
			return &driver.TxEndedError{Committed: false}
		}
	}
	switch {
	case isTrouble(handlerErr):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, handlerErr)
	case gone == nil:
		return nil
	case isTrouble(gone):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, gone)
	case handlerErr != nil:
		return nil // SQLite rolled back because of it, and Finish settles
	}
	return fmt.Errorf("%w: it was rolled back under the handler: %w", driver.ErrTxAborted, gone)
}

// probe returns an error if the transaction is not the one that was begun.
func (r *run) probe() error {
	if r.guard.over.Load() {
		// A handler may have begun another transaction with the same savepoints.
		_, err := r.t.tx.ExecContext(r.t.inner, noStatement)
		return cmp.Or(err, errOver)
	}
	_, err := r.t.tx.ExecContext(r.t.inner, releaseInner)
	switch {
	case resultCode(err) == codeBusy:
		return nil // the savepoint exists, under open rows of an INSERT … RETURNING
	case err != nil:
		return err
	}
	_, err = r.t.tx.ExecContext(r.t.inner, setInner)
	return err
}

// isTrouble reports whether the database or its disk is at fault.
func isTrouble(err error) bool {
	switch resultCode(err) {
	case codeNoMem, codeReadOnly, codeIOErr, codeCorrupt, codeFull, codeCantOpen:
		return true
	}
	return false
}

// Finish implements driver.Run.
func (r *run) Finish(ctx context.Context, p *driver.FinishParams) error {
	if err := checkResults(p); err != nil {
		return fmt.Errorf("%s: %w", opFinish, err)
	}
	failed := slices.ContainsFunc(p.Results, func(r driver.WorkResult) bool { return isFailure(r.Outcome) })
	if failed && len(p.Results) > 1 {
		return fmt.Errorf("%s: a failure must be the only outcome, because it undoes the writes of the others", opFinish)
	}
	if gone := r.probe(); gone != nil {
		var handlerErr error
		if failed {
			handlerErr = errors.New(p.Results[0].Error)
		}
		if err := r.Check(ctx, handlerErr); err != nil {
			return fmt.Errorf("%s: %w", opFinish, err)
		}
		return r.Settle(ctx, p) // the handler's writes are undone
	}
	if r.ofClaim && (failed || len(p.Results) == 0) {
		return r.rollBack(ctx) // the claim is undone
	}
	r.t.caller, r.t.now = ctx, clock(p.Now)
	if err := r.record(p, failed); err != nil {
		return r.store.failed(ctx, opFinish, err)
	}
	if !r.ending.CompareAndSwap(false, true) {
		return fmt.Errorf("%s: %w: %w", opFinish, driver.ErrTxAborted, errSevered)
	}
	r.sent = true
	if err := r.t.commit(opFinish); err != nil {
		return err
	}
	r.finished = true
	return nil
}

// record records the outcomes in the transaction of the run.
func (r *run) record(p *driver.FinishParams, failed bool) error {
	if failed {
		if _, err := r.t.exec(undoHandlers); err != nil {
			return err
		}
	}
	if failed {
		r.recorded = nil // undone too
	}
	recorded, err := r.t.recordRun(r, p, true)
	switch {
	case err != nil:
		return err
	case recorded+len(r.recorded) != len(r.taken):
		return fmt.Errorf("%w: a handler changed the rows of its own events in hookonce_event_state", driver.ErrBadRow)
	}
	if err := r.t.keepVersions(p.Versions); err != nil {
		return err
	}
	if err := r.t.settleRun(r, p.Results); err != nil {
		return err
	}
	return r.t.alive()
}

func (t *writeTx) keepVersions(versions []driver.ObjectVersion) error {
	for i := range versions {
		if err := t.keepVersion(&versions[i]); err != nil {
			return err
		}
	}
	return nil
}

// recordRun records outcomes and releases the other events of the run. It returns the number of
// both. It skips the events that Next recorded if the writes of the handlers are kept.
func (t *writeTx) recordRun(r *run, p *driver.FinishParams, kept bool) (recorded int, err error) {
	if r.ofClaim {
		return 1, t.recordClaimed(&p.Results[0], r.taken[0].Attempts)
	}
	outcomes := make(map[driver.Key]*driver.WorkResult, len(p.Results))
	for i := range p.Results {
		outcomes[p.Results[i].Key] = &p.Results[i]
	}
	for i := range r.taken {
		e := &r.taken[i]
		if kept && r.recorded[e.Key] {
			continue
		}
		var held bool
		if result := outcomes[e.Key]; result != nil {
			held, err = t.recordOutcome(result, r.fence())
		} else {
			var changed int64
			changed, err = t.exec(releaseEvent, r.fence().args(e.Key, e.due)...)
			held = changed > 0
		}
		if err != nil {
			return 0, err
		}
		if held {
			recorded++
		}
	}
	return recorded, nil
}

// Settle implements driver.Run.
func (r *run) Settle(ctx context.Context, p *driver.FinishParams) error {
	if err := checkResults(p); err != nil {
		return fmt.Errorf("%s: %w", opSettle, err)
	}
	return r.settle(ctx, opSettle, p)
}

func (r *run) settle(ctx context.Context, op string, p *driver.FinishParams) error {
	if err := r.rollBack(ctx); err != nil {
		return err
	}
	ended := slices.ContainsFunc(p.Results, func(r driver.WorkResult) bool { return r.Outcome == driver.WorkEnded })
	if r.ofClaim && !ended {
		if committed, err := r.committed(ctx); err == nil && committed && !r.sent {
			return fmt.Errorf("%s: %w", op, &driver.TxEndedError{Committed: true})
		}
		return nil
	}
	return r.store.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		row, err := t.begunRow(r)
		committed := r.begun != nil && r.isCommitted(row)
		switch {
		case err != nil:
			return err
		case committed && row.state != stateRunning && !r.ofClaim:
			return errRecordGone
		case committed != ended:
			return &driver.TxEndedError{Committed: committed}
		case r.ofClaim:
			return t.endClaim(&p.Results[0], r.taken[0].Attempts)
		case ended:
			if err := t.keepVersions(p.Versions); err != nil {
				return err
			}
		}
		recorded, err := t.recordRun(r, p, ended)
		if err == nil && recorded == 0 {
			return errRecordGone
		}
		if err == nil {
			err = t.settleRun(r, p.Results)
		}
		return err
	})
}

// Abandon implements driver.Run.
func (r *run) Abandon(ctx context.Context) error {
	if r.finished {
		return nil
	}
	err := r.settle(ctx, opAbandon, &driver.FinishParams{})
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return err
}

// giveBack abandons a run that did not begin, in a goroutine, because the caller's context may have
// ended.
func (r *run) giveBack() {
	r.store.detached.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
		defer cancel()
		// If it fails, SweepRuns finds the events.
		_ = r.Abandon(ctx)
	})
}

// Sever implements driver.Run. It interrupts a statement under the handler's context. A statement
// under another context goes on until it ends.
func (r *run) Sever() {
	r.severed.Store(true)
	r.cancel()
	r.end()
	// Later statements find the transaction gone, unless a statement is still running.
	timer := time.NewTimer(severWait)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
	}
}

// rollBack ends the transaction unless that was done before. It waits for a running statement of
// the handler until ctx ends.
func (r *run) rollBack(ctx context.Context) error {
	if r.t == nil {
		return nil // it never began
	}
	r.end()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rolling a run back: %w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// end rolls back and releases the connection, in a goroutine, unless that was done before.
func (r *run) end() {
	if !r.ending.CompareAndSwap(false, true) {
		return
	}
	r.store.detached.Go(func() {
		if r.severed.Load() {
			// database/sql is rolling back, and does not report the result.
			r.t.release(errSevered)
			return
		}
		r.t.rollback()
	})
}
