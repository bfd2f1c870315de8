package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// maxLockWait is Store.lockWait.
	maxLockWait = 30 * time.Second
	// busyPause keeps a writer whose busy timeout is 0 from spinning.
	busyPause = time.Millisecond
)

// lockWaitError says how long a writer waited for another one.
type lockWaitError time.Duration

// Error implements error.
func (e lockWaitError) Error() string {
	return fmt.Sprintf("another writer held the database for %v", time.Duration(e))
}

// Code returns the result code of SQLite for a file that another connection has locked.
func (lockWaitError) Code() int { return codeBusy }

// writeTx is a transaction that holds the write lock.
type writeTx struct {
	store  *Store
	conn   *sql.Conn // nil in a caller's transaction
	apart  *apart    // nil if the transaction runs in the caller's goroutine
	tx     *sql.Tx
	stmts  map[string]*sql.Stmt // by their texts; nil in a caller's transaction
	bound  map[string]*sql.Stmt // those that this transaction has run
	leases bool                 // messages that ask for a lease get one
	// Called before and after the connection is released; nil except in a run.
	ending func(*sql.Conn)
	ended  func()
	// caller is the context of the call. Statements do not run under it: each takes microseconds,
	// and the driver needs a goroutine per statement with a context. alive checks it between rows
	// instead.
	caller context.Context
	// inner is caller without its end.
	inner context.Context
	now   int64 // microseconds, see writeEach and inTx
}

// write runs work in one transaction and commits it. It waits for the writer's connection, for the
// write lock and for the commit until ctx ends. It rolls back if work fails or panics.
func (s *Store) write(ctx context.Context, op string, work func(t *writeTx) error) error {
	return s.writeIn(ctx, nil, op, work)
}

// writeIn is write in the caller's goroutine, or in the one of a.
func (s *Store) writeIn(ctx context.Context, a *apart, op string, work func(t *writeTx) error) error {
	t, err := s.begin(ctx, context.WithoutCancel(ctx), a)
	if err != nil {
		return s.failed(ctx, op, err)
	}
	t.caller = ctx
	open := true
	defer func() {
		if open { // work panicked
			t.rollback()
		}
	}()
	err = work(t)
	if err == nil {
		err = t.alive()
	}
	open = false
	if err != nil {
		// First, because classifying the error may look at the schema.
		t.rollback()
		return s.failed(ctx, op, err)
	}
	return t.commit(op)
}

// writeEach runs one step for each of n items, in one transaction; for n = 0 it does nothing. The
// steps share one reading of the clock, made under the write lock, so that times grow with the
// order of the commits. at overrides the clock.
func (s *Store) writeEach(ctx context.Context, op string, at time.Time, n int, step func(t *writeTx, i int) error) error {
	if n == 0 {
		return nil
	}
	return s.write(ctx, op, allSteps(at, n, step))
}

func allSteps(at time.Time, n int, step func(t *writeTx, i int) error) func(t *writeTx) error {
	return func(t *writeTx) error {
		t.now = clock(at)
		return t.each(n, step)
	}
}

func (t *writeTx) each(n int, step func(t *writeTx, i int) error) error {
	for i := range n {
		if err := t.alive(); err != nil {
			return err
		}
		if err := step(t, i); err != nil {
			return err
		}
	}
	return nil
}

// inTx runs one step for each of n items in a caller's transaction, which the caller ends. The
// transaction may have begun without the write lock, and on another pool.
func (s *Store) inTx(ctx context.Context, tx *sql.Tx, op string, at time.Time, n int, step func(t *writeTx, i int) error) error {
	// An interrupted INSERT undoes the whole transaction without database/sql knowing, so no
	// statement runs under the caller's context here either.
	t := &writeTx{store: s, tx: tx, caller: ctx, inner: context.WithoutCancel(ctx), now: clock(at)}
	err := s.flushOld(t.inner, tx)
	if err == nil {
		err = s.place.inPlace(nil)
	}
	if err == nil {
		err = t.each(n, step)
	}
	switch code := fullCode(err); {
	case err == nil:
		return nil
	case code == codeBusySnapshot:
		return fmt.Errorf("%s: %w: %w", op, driver.ErrSerialization, err)
	}
	return s.failed(ctx, op, err)
}

// begin takes the writer's connection and the write lock. SQLite does not queue connections that
// wait for its lock: they poll, at growing intervals. So the writer has a short busy timeout, and
// begin polls again until the context ends.
//
// The transaction is rolled back when under ends.
func (s *Store) begin(ctx, under context.Context, a *apart) (*writeTx, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.lockWait, lockWaitError(s.lockWait))
	defer cancel()
	stmts := s.statements(ctx)
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for the writer: %w: %w", driver.ErrUnavailable, cmp.Or(context.Cause(ctx), err))
	}
	t := &writeTx{store: s, conn: conn, apart: a, stmts: stmts, inner: context.WithoutCancel(under)}
	if err := s.flushOld(ctx, conn); err != nil {
		t.release(nil)
		return nil, err
	}
	for {
		left, err := t.tryBegin(ctx, under)
		if left {
			return nil, lockWaitEnded(ctx)
		}
		if err == nil {
			if err := s.place.inPlace(t.conn); err != nil {
				t.rollback()
				return nil, err
			}
			return t, nil
		}
		if !IsBusy(err) {
			t.release(nil)
			return nil, err
		}
		if !sleep(ctx, busyPause) {
			t.release(nil)
			return nil, lockWaitEnded(ctx)
		}
	}
}

func lockWaitEnded(ctx context.Context) error {
	return fmt.Errorf("waiting for the write lock: %w: %w", driver.ErrUnavailable, context.Cause(ctx))
}

// tryBegin begins once. If ctx ends first it reports left; the connection is released, without a
// transaction, as soon as SQLite lets go of it.
func (t *writeTx) tryBegin(ctx, under context.Context) (left bool, err error) {
	if t.apart != nil {
		t.tx, err = t.conn.BeginTx(under, nil)
		return false, err
	}
	begun := make(chan error, 1)
	t.store.detached.Go(func() {
		tx, err := t.conn.BeginTx(under, nil)
		t.tx = tx
		begun <- err
	})
	select {
	case err := <-begun:
		return false, err
	case <-ctx.Done():
	}
	t.store.detached.Go(func() {
		if err := <-begun; err != nil {
			t.release(nil)
			return
		}
		t.rollback()
	})
	return true, nil
}

// sleep waits for d. It reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// commit ends the transaction. If the caller's context ends first, the COMMIT goes on without the
// caller, and releases the connection itself.
func (t *writeTx) commit(op string) error {
	if t.apart != nil {
		if !t.apart.commits() {
			t.rollback()
			return fmt.Errorf("%s: %w: %w", op, driver.ErrUnavailable, context.Cause(t.caller))
		}
		return t.commitNow(op)
	}
	done := make(chan error, 1)
	t.store.detached.Go(func() { done <- t.commitNow(op) })
	select {
	case err := <-done:
		return err
	case <-t.caller.Done():
		return leftCommit(t.caller, op, done)
	}
}

// leftCommit returns the result of a commit whose caller's context has ended. It is unknown, unless done has it.
func leftCommit(ctx context.Context, op string, done <-chan error) error {
	select {
	case err := <-done: // both were ready
		return err
	default:
		return fmt.Errorf("%s: committing: %w: %w", op, driver.ErrCommitUnknown, context.Cause(ctx))
	}
}

// commitNow commits, however long it takes, and releases the connection.
func (t *writeTx) commitNow(op string) error {
	err := t.tx.Commit()
	var moved error
	if err == nil {
		moved = t.store.place.check(t.conn) // no other connection may have put a new log in the place of a lost one
	}
	t.release(err)
	if err == nil {
		err = moved
		t.store.watchLog()
	}
	if err == nil {
		return nil
	}
	return commitError(op, err)
}

// rollback undoes the transaction. SQLite may have done so itself, and then refuses. A connection
// whose ROLLBACK failed is closed in any case, because the next COMMIT on it could bring the lost
// rows back.
func (t *writeTx) rollback() { t.release(t.tx.Rollback()) }

// release returns the connection to the pool, or closes it if err is not nil.
func (t *writeTx) release(err error) {
	if t.ending != nil {
		t.ending(t.conn)
	}
	if err != nil {
		// Raw closes the connection if the callback returns ErrBadConn, and returns that error.
		_ = t.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	// Close fails only if the connection is closed already.
	_ = t.conn.Close()
	if t.ended != nil {
		t.ended()
	}
}

// alive returns an error once the caller's context has ended.
func (t *writeTx) alive() error {
	if t.caller.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(t.caller))
	}
	return nil
}

// exec runs a prepared statement and returns how many rows it changed.
func (t *writeTx) exec(query string, args ...any) (int64, error) {
	result, err := t.run(query, args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// execID is exec for an INSERT of one row. It returns the number of the row, too.
func (t *writeTx) execID(query string, args ...any) (changed, id int64, err error) {
	result, err := t.run(query, args)
	if err != nil {
		return 0, 0, err
	}
	if id, err = result.LastInsertId(); err != nil {
		return 0, 0, err
	}
	changed, err = result.RowsAffected()
	return changed, id, err
}

func (t *writeTx) run(query string, args []any) (sql.Result, error) {
	stmt, err := t.stmt(query) //nolint:sqlclosecheck // the transaction closes it
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(t.inner, args...)
}

// queryRow runs a prepared statement that returns at most one row.
func (t *writeTx) queryRow(query string, args ...any) *sql.Row {
	stmt, err := t.stmt(query) //nolint:sqlclosecheck // the transaction closes it
	if err != nil {
		return t.tx.QueryRowContext(t.inner, query, args...) // it meets the same error
	}
	return stmt.QueryRowContext(t.inner, args...)
}

// query runs a prepared statement that returns rows.
func (t *writeTx) query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.stmt(query) //nolint:sqlclosecheck // the transaction closes it
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(t.inner, args...)
}

// stmt returns a statement, which the transaction closes.
func (t *writeTx) stmt(query string) (stmt *sql.Stmt, err error) {
	if stmt, ok := t.bound[query]; ok {
		return stmt, nil
	}
	if prepared := t.stmts[query]; prepared != nil {
		stmt = t.tx.StmtContext(t.inner, prepared)
	} else if stmt, err = t.tx.PrepareContext(t.inner, query); err != nil {
		return nil, err
	} else if t.conn != nil {
		t.store.stmts.want(query)
	}
	if t.bound == nil {
		t.bound = make(map[string]*sql.Stmt, 8)
	}
	t.bound[query] = stmt
	return stmt, nil
}
