package hooksql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// postgresTx is a pgstore.Tx. What a driver does when the context of a transaction
// ends is to close its connection, at the latest when a statement that is running
// has ended; so the context is that of the transaction alone.
type postgresTx struct {
	tx     *sql.Tx
	conn   *sql.Conn
	cancel context.CancelFunc // ends the context of the transaction
	over   bool               // by Commit or Rollback

	cut     *sql.DB // by which it is severed
	severed atomic.Bool

	// Which transaction of which session it is, as the server calls them. now()
	// does not change before the transaction has ended.
	pid   int32
	began time.Time
}

var _ pgstore.Tx = (*postgresTx)(nil)

const (
	identifySQL  = "SELECT pg_backend_pid(), now()"
	sameSQL      = "SELECT WHERE now() = $1::timestamptz"
	terminateSQL = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::int AND xact_start = $2::timestamptz`

	codeTxFailed = "25P02"
)

// Begin implements pgstore.DB.
func (d *postgresDB) Begin(ctx context.Context) (pgstore.Tx, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	conn, tx, err := d.begin(lasting, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		stop()
		cancel()
		return nil, notBegun(ctx, err)
	}
	t := &postgresTx{tx: tx, conn: conn, cancel: cancel, cut: d.cut}
	err = tx.QueryRowContext(lasting, identifySQL).Scan(&t.pid, &t.began)
	if !stop() || err != nil {
		t.Rollback(ctx)
		return nil, notBegun(ctx, err)
	}
	return t, nil
}

// notBegun says why a transaction could not be begun: the context of Begin may have
// ended, of which err tells little.
func notBegun(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("beginning a transaction: %w", context.Cause(ctx))
	}
	return notSentError{err}
}

// within severs the transaction when ctx ends before the function it returns is
// called: the driver heeds ctx, but a statement that a handler left running keeps
// it from getting that far. A context that has ended already does no harm.
func (t *postgresTx) within(ctx context.Context) (done func() bool) {
	if ctx.Err() != nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, t.Sever)
}

// Query implements pgstore.Conn.
func (t *postgresTx) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	defer t.within(ctx)()
	return postgresConn{t.tx}.Query(ctx, query, args...)
}

// Script implements pgstore.Conn.
func (t *postgresTx) Script(ctx context.Context, text string) error {
	defer t.within(ctx)()
	return script(ctx, t.tx, text)
}

// Commit implements pgstore.Tx.
func (t *postgresTx) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return notSentError{err}
	}
	t.over = true
	done := t.within(ctx)
	err := t.tx.Commit()
	done()
	t.cancel()
	if t.severed.Load() {
		go giveBack(t.conn) // a statement may still have it
		return err
	}
	giveBack(t.conn)
	return err
}

// Rollback implements pgstore.Tx.
func (t *postgresTx) Rollback(context.Context) {
	if t.over {
		return
	}
	t.over = true
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rollBack(t.tx)
		t.cancel()
		giveBack(t.conn)
	}()
	timeout := time.NewTimer(postgresCleanUp)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		t.Sever() // it ends when it can
	}
}

// Status implements pgstore.Tx. Nothing but the server knows, because a handler may
// have sent COMMIT as a statement. A goroutine that the handler left behind may still
// use the transaction: so the answer is how many rows there are, which comes with the
// statement, and no rows are read meanwhile.
func (t *postgresTx) Status(ctx context.Context) pgstore.TxStatus {
	defer t.within(ctx)()
	var same int64
	result, err := t.tx.ExecContext(ctx, sameSQL, toMicrosecond(t.began))
	if err == nil {
		same, err = result.RowsAffected()
	}
	switch {
	case t.severed.Load():
		return pgstore.TxLost
	case err == nil && same == 1:
		return pgstore.TxOpen
	case err == nil, errors.Is(err, sql.ErrTxDone):
		return pgstore.TxEnded
	case sqlState(err) == codeTxFailed:
		return pgstore.TxFailed
	case t.busy(ctx):
		return pgstore.TxBusy
	}
	return pgstore.TxLost
}

// busy reports whether a handler left the connection in a state in which it takes
// no statement, though it is there: with rows that were not closed. pgx calls a busy
// connection bad when it is to run a statement, and when it is to prepare one only
// where it is closed.
func (t *postgresTx) busy(ctx context.Context) bool {
	stmt, err := t.tx.PrepareContext(ctx, sameSQL)
	if err == nil {
		_ = stmt.Close() //nolint:sqlclosecheck // there is nothing to defer it for
		return false
	}
	return !errors.Is(err, sqldriver.ErrBadConn) && !errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil && sqlState(err) == ""
}

// Sever implements pgstore.Tx. What is begun in the transaction from here on fails.
// Of a statement that is running nobody knows the context, and closing the
// connection would wait for it; so the server is told to end the session.
func (t *postgresTx) Sever() {
	if t.severed.Swap(true) {
		return
	}
	t.cancel()
	go t.terminate()
}

func (t *postgresTx) terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), postgresCleanUp)
	defer cancel()
	conn, err := t.cut.Conn(ctx)
	if err != nil {
		return // its statement, if there is one, ends the session by and by
	}
	defer giveBack(conn)
	_, _ = conn.ExecContext(ctx, terminateSQL, t.pid, toMicrosecond(t.began))
}
