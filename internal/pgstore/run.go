package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Run implements all of [driver.Run] except Tx, whose type depends on the client library. Its
// methods must not be called concurrently, except for Sever, Refuse and Note.
//
// A run is a transaction that locks the state rows of its events, and a record in the table run
// that another connection writes. Handlers work behind a savepoint, so that their writes can be
// undone while the locks stay. Outcomes are recorded under those locks, or under the lock of the
// record if the transaction is gone. A sweep takes only records that are locked by neither.
//
// A run of TakeClaim has no record: if its transaction is gone, so is its claim.
type Run struct {
	store *Store
	tx    Tx
	claim bool // of TakeClaim
	// standbys says that the server has synchronous standbys. It is set in a run of TakeClaim, whose
	// commit is an acknowledgement.
	standbys bool
	events   []driver.TakenEvent
	beside   bool // see driver.TakeParams
	ordered  bool // events may be in lines, which go on when the run ends, in any way
	found    int  // events that are locked, with those that are too many bytes

	xid  int64  // of the transaction; the id of the record
	home string // where xid is the number of that transaction
	pid  int32  // of the session
	role string // at the beginning of the transaction
	// bounds sets the time-outs of statements as they were at the beginning.
	bounds string
	// lockable are objects that have rows since this run has looked for them.
	lockable []driver.Key

	begunCommit bool // the commit may be in progress
	givenUp     bool // the transaction is over as far as we can end it
	ended       bool // the run is over too
	severed     atomic.Bool
	mu          sync.Mutex
	refused     *refusedCallError // guarded by mu: the first refused call of a handler
	noted       error             // guarded by mu: the first error of a statement of the present handler
}

const (
	// savepoint is a name that no handler uses. It is constant, so that statistics grouped by
	// statement text do not fill up.
	savepoint      = "hookonce_handlers"
	cleanUpTimeout = 5 * time.Second
)

var (
	errRunEnded   = errors.New("the run has ended")
	errSevered    = errors.New("the transaction was cut off")
	errRecordGone = errors.New("the record of the run is gone")
)

// Tx returns the transaction of the run, on the work pool.
func (r *Run) Tx() Tx { return r.tx }

// PID returns the number of the server's process that the transaction runs in.
func (r *Run) PID() int32 { return r.pid }

// Events implements [driver.Run].
func (r *Run) Events() []driver.TakenEvent { return r.events }

func (r *Run) keys() []driver.Key {
	keys := make([]driver.Key, len(r.events))
	for i := range r.events {
		keys[i] = r.events[i].Key
	}
	return keys
}

// Sever implements [driver.Run].
func (r *Run) Sever() {
	r.severed.Store(true)
	r.tx.Sever()
}

// usable returns nil while we can send statements in the transaction.
func (r *Run) usable() error {
	switch {
	case r.ended, r.givenUp:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, errRunEnded)
	case r.severed.Load():
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, errSevered)
	}
	return nil
}

// Finish implements [driver.Run].
func (r *Run) Finish(ctx context.Context, p *driver.FinishParams) error {
	checkResults(p.Results)
	failed := hasFailure(p.Results)
	if failed && len(p.Results) > 1 {
		panic("pgstore: a failure is not the only result")
	}
	if r.claim && !r.ended && (failed || len(p.Results) == 0) {
		r.end(ctx)
		return nil
	}
	err := r.finish(ctx, p, failed)
	switch {
	case err == nil:
		return nil
	case !r.begunCommit && !r.givenUp && r.lostConnection(ctx):
		r.giveUp(ctx) // so that a sweep can take the record if no call settles the run
	}
	return fmt.Errorf("finishing a run: %w", err)
}

func (r *Run) finish(ctx context.Context, p *driver.FinishParams, failed bool) error {
	if err := r.usable(); err != nil {
		return err
	}
	prepare := r.release
	if failed {
		prepare = r.undo
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	if err := r.record(ctx, p); err != nil {
		return err
	}
	if len(p.Results) < len(r.events) {
		defer r.dueAgain()
	}
	return r.commit(ctx)
}

// dueAgain says that events of the run may be due that were passed over because it had locked them.
// It is called when they are unlocked.
func (r *Run) dueAgain() {
	if r.claim {
		return
	}
	for i := range r.events {
		if i == 0 || r.events[i].Source != r.events[i-1].Source {
			r.store.marks.lower(r.events[i].Source, r.events[i].DueAt)
		}
	}
}

func hasFailure(results []driver.WorkResult) bool {
	for i := range results {
		if results[i].Outcome == driver.WorkRetry || results[i].Outcome == driver.WorkFailed {
			return true
		}
	}
	return false
}

// end rolls back an open transaction, and ends the run.
func (r *Run) end(ctx context.Context) {
	r.ended = true
	r.giveUp(ctx)
}

// release keeps the handlers' writes. It checks deferred constraints first, while the writes can
// still be undone without losing the locks. It fails if a handler ended the transaction, because
// that ended the savepoint too. It restores the role and the time-outs for our own statements.
func (r *Run) release(ctx context.Context) error {
	if err := r.Check(ctx, nil); err != nil {
		return err
	}
	err := r.tx.Script(ctx, r.bounds+"SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT "+savepoint+"; SET LOCAL ROLE "+quoteRole(r.role))
	switch SQLState(err) {
	case "":
		return r.failure(err)
	case codeNoTransaction, codeNoSavepoint:
		return r.endedByHandler(ctx)
	}
	return r.failureAtCommit(err)
}

// undo undoes the handlers' writes. It works only in the transaction that made the savepoint.
func (r *Run) undo(ctx context.Context) error {
	if r.tx.Status(ctx) == TxEnded {
		return r.endedByHandler(ctx)
	}
	err := r.tx.Script(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
	switch SQLState(err) {
	case codeNoTransaction, codeNoSavepoint:
		return r.endedByHandler(ctx)
	}
	return r.failure(err)
}

// record writes outcomes in the transaction of the run, and deletes its record.
func (r *Run) record(ctx context.Context, p *driver.FinishParams) error {
	sql, args := r.store.text(finishSQL), outcomeArgs(p)
	if r.claim {
		sql = r.store.text(finishClaimSQL)
	}
	var changed, gone, xid int64
	err := scan(ctx, r.tx, func(rows Rows) error {
		return rows.Scan(&changed, &gone, &xid)
	}, sql, append(args, r.xid)...)
	switch {
	case err != nil:
		return r.failureOfRecord(err)
	case xid != r.xid:
		err := r.endedByHandler(ctx)
		r.giveUp(ctx) // the other transaction has locked the record
		return err
	case r.claim:
		return nil
	case gone != 1 || changed != int64(len(p.Results)):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, errRecordGone)
	}
	if err := r.settleLines(ctx, r.tx, p); err != nil {
		return r.failureOfRecord(err)
	}
	return nil
}

// settleLines lets the lines of all events of the run go on, also of those without an outcome.
func (r *Run) settleLines(ctx context.Context, conn Conn, p *driver.FinishParams) error {
	if !r.ordered {
		return nil
	}
	return r.store.settleEvents(ctx, conn, r.keys(), p)
}

// commit ends the run unless it fails.
func (r *Run) commit(ctx context.Context) error {
	r.begunCommit = true
	err := r.tx.Commit(ctx)
	if err == nil {
		r.ended = true
		return r.confirm(ctx)
	}
	class := driver.ErrCommitUnknown
	switch r.store.pools.Work.Outcome(err) {
	case NotSent:
		class = driver.ErrAway
	case Refused:
		return fmt.Errorf("committing: %w", r.failureAtCommit(err))
	case Unknown:
	}
	return fmt.Errorf("committing: %w: %w", class, err)
}

// confirm waits for the synchronous standbys by the receiving pool: the connection of the run may be
// one that does not show a cancelled wait.
func (r *Run) confirm(ctx context.Context) error {
	if !r.standbys {
		return nil
	}
	if err := r.store.Confirm(ctx); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrCommitUnknown, err)
	}
	return nil
}

// Next implements [driver.Run]. It records nothing, because that would cost a round trip to the
// server for each handler.
func (r *Run) Next(context.Context, driver.Key, *driver.FinishParams) error { return nil }

// Settle implements [driver.Run]. For a run of TakeClaim it only rolls back, which undoes the
// claim, unless the handler committed.
func (r *Run) Settle(ctx context.Context, p *driver.FinishParams) error {
	checkResults(p.Results)
	switch ended := hasEnded(p.Results); {
	case r.ended:
		return fmt.Errorf("settling a run: %w", driver.ErrNotFound)
	case r.claim:
		return r.settleClaim(ctx, p, ended)
	case ended:
		return r.settleBeside(ctx, p, true)
	}
	p = &driver.FinishParams{Results: p.Results, Now: p.Now}
	if r.undoable(ctx) {
		err := r.record(ctx, p)
		if err == nil {
			if err = r.commit(ctx); err == nil || errors.Is(err, driver.ErrCommitUnknown) {
				r.end(ctx)
				return err
			}
		}
	}
	return r.settleBeside(ctx, p, false)
}

// hasEnded reports whether a result says that a handler committed the transaction by itself.
func hasEnded(results []driver.WorkResult) bool {
	return slices.ContainsFunc(results, func(r driver.WorkResult) bool { return r.Outcome == driver.WorkEnded })
}

// undoable undoes the handlers' writes, and reports whether the transaction is open and as it was
// before the handlers.
func (r *Run) undoable(ctx context.Context) bool {
	if r.begunCommit || r.givenUp || r.severed.Load() {
		return false
	}
	if status := r.tx.Status(ctx); status != TxOpen && status != TxFailed && status != TxDoubtful {
		return false
	}
	return r.undo(ctx) == nil
}

// settleBeside records outcomes in another transaction, under a lock on the record of the run. It
// takes that lock before it gives up the locks of the run, so that no sweep takes the run for
// interrupted. It does not wait for objects that other runs hold. ended says that a handler is known
// to have committed the run; if that is wrong, settleBeside records nothing.
func (r *Run) settleBeside(ctx context.Context, p *driver.FinishParams, ended bool) error {
	if r.begunCommit {
		r.giveUp(ctx) // the transaction may lock the record
	}
	defer r.giveUp(ctx)
	err := transact(ctx, r.store.pools.Receive, "settling a run", func(conn Conn) error {
		var found int64
		if err := scan(ctx, conn, func(rows Rows) error { return rows.Scan(&found) }, r.store.text(lockRunSQL), r.xid); err != nil {
			return err
		}
		r.giveUp(ctx)
		if found == 0 {
			return refusedError{driver.ErrNotFound}
		}
		if err := r.checkEnd(ctx, conn, ended); err != nil {
			return err
		}
		if err := scan(ctx, conn, noRows, r.store.text(settleSQL), append(outcomeArgs(p), r.xid)...); err != nil {
			return err
		}
		return r.settleLines(ctx, conn, p)
	})
	if err == nil || errors.Is(err, driver.ErrNotFound) {
		r.ended = true
	}
	return err
}

// checkEnd returns an error unless the transaction, which is over, was committed or not as the
// caller says.
func (r *Run) checkEnd(ctx context.Context, conn Conn, committed bool) error {
	var status string
	if err := scan(ctx, conn, func(rows Rows) error { return rows.Scan(&status) }, r.store.text(outcomeSQL), r.xid, r.home); err != nil {
		return err
	}
	switch {
	case status == txInProgress:
		return refusedError{fmt.Errorf("%w: the transaction of the run goes on", driver.ErrUnavailable)}
	case (status == txCommitted) != committed:
		return refusedError{&driver.TxEndedError{Committed: !committed}}
	}
	return nil
}

// settleClaim ends a run of TakeClaim, which has no record. ended says that its handler is known to
// have committed it. The claim is then committed too, and the event becomes dead.
func (r *Run) settleClaim(ctx context.Context, p *driver.FinishParams, ended bool) error {
	intact := !r.givenUp && !r.severed.Load() && r.tx.Status(ctx) == TxOpen
	r.giveUp(ctx)
	switch {
	case ended:
		err := transact(ctx, r.store.pools.Receive, "settling a claim", func(conn Conn) error {
			if err := r.checkEnd(ctx, conn, true); err != nil {
				return err
			}
			return scan(ctx, conn, noRows, r.store.text(endClaimSQL), append(outcomeArgs(p)[:6], int32(r.events[0].Generation))...)
		})
		r.ended = err == nil
		return err
	case !intact && !r.begunCommit && r.outcome(ctx) == txCommitted:
		return fmt.Errorf("settling a claim: %w", &driver.TxEndedError{Committed: true})
	}
	r.ended = true
	return nil
}

// lockRunSQL locks the record of a run, and bounds how long a process that has stopped keeps the
// lock.
var lockRunSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT set_config('lock_timeout', '1s', true) AS bound, set_config('idle_in_transaction_session_timeout', '5s', true)
), found AS MATERIALIZED (
	SELECT r.id
	FROM setting
	CROSS JOIN LATERAL (
		SELECT r.id FROM {schema}.run r WHERE r.id = $1::bigint AND setting.bound <> '' FOR UPDATE
	) r
)
SELECT count(*) FROM found`)

// giveUp ends the transaction of the run. The server may not know that a connection is lost or cut
// off; giveUp then ends the session and waits until the locks are free.
func (r *Run) giveUp(ctx context.Context) {
	if r.givenUp {
		return
	}
	r.givenUp = true
	defer r.dueAgain()
	lost := r.begunCommit || r.lostConnection(ctx)
	r.tx.Rollback(ctx)
	if !lost || r.pid == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	// If these fail, statements that need the locks fail too and report the error.
	db := r.store.pools.Admin
	_ = read(ctx, db, "ending a lost transaction", noRows, terminateSQL, r.pid, r.xid)
	_ = write(ctx, db, "waiting for the end of a lost transaction", noRows, r.store.text(waitSQL), keyArgs(r.keys()))
}

// lostConnection reports whether the connection of the run cannot tell the server to end the
// transaction.
func (r *Run) lostConnection(ctx context.Context) bool {
	if r.severed.Load() {
		return true
	}
	status := r.tx.Status(ctx)
	return status == TxLost || status == TxBusy
}

// waitSQL waits until the rows of events are not locked.
var waitSQL = statement(`
SELECT FROM {schema}.event_state s
CROSS JOIN set_config('lock_timeout', '1s', true)
WHERE s.key = ANY ($1::bytea[])
FOR KEY SHARE OF s`)

// terminateSQL ends the server process $1 if it is still in the transaction $2. backend_xid holds
// the lower half of the number.
const terminateSQL = `
SELECT pg_terminate_backend(a.pid)
FROM pg_stat_activity a
WHERE a.pid = $1::int AND a.backend_xid::text = ($2::bigint % 4294967296)::text`

// unmarkOwnSQL deletes the record of a run in its own transaction.
var unmarkOwnSQL = statement(`DELETE FROM {schema}.run WHERE id = $1::bigint AND id = txid_current() RETURNING id`)

// Abandon implements [driver.Run].
func (r *Run) Abandon(ctx context.Context) error {
	switch {
	case r.ended:
		return nil
	case r.claim:
		return r.settleClaim(ctx, &driver.FinishParams{}, false)
	case r.undoable(ctx):
		// Under the locks of the run, so that no sweep takes it for interrupted.
		defer r.dueAgain()
		found := false
		err := scan(ctx, r.tx, func(Rows) error {
			found = true
			return nil
		}, r.store.text(unmarkOwnSQL), r.xid)
		if err == nil && found {
			err = r.settleLines(ctx, r.tx, &driver.FinishParams{})
		}
		if err == nil && found && r.commit(ctx) == nil {
			return nil
		}
	}
	err := r.settleBeside(ctx, &driver.FinishParams{}, false)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return err
}
