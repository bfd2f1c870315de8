package hooksql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// postgresRunTx is a pgsession.RunTx. When the context of a transaction ends, a driver closes the
// connection, at the latest after a running statement; so the transaction has a context of its own.
type postgresRunTx struct {
	postgresTx
	cancel   context.CancelFunc // ends the context of the transaction
	released bool               // by Rollback

	through *sql.DB // the pool for Cut
	cut     atomic.Bool

	// The server's names of the session and of its transaction: now() does not change
	// before the transaction has ended.
	pid   int32
	began time.Time
}

var _ pgsession.RunTx = (*postgresRunTx)(nil)

const (
	identifySQL  = "SELECT pg_backend_pid(), now()"
	sameSQL      = "SELECT WHERE now() = $1::timestamptz"
	terminateSQL = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::int AND xact_start = $2::timestamptz`
)

// BeginRun implements pgsession.Client.
func (c *postgresClient) BeginRun(ctx context.Context) (pgsession.RunTx, bool, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, broken, err := c.begin(lasting, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		stop()
		cancel()
		return nil, broken, notBegun(ctx, err)
	}
	t := &postgresRunTx{postgresTx: tx, cancel: cancel, through: c.cut}
	err = t.tx.QueryRowContext(lasting, identifySQL).Scan(&t.pid, &t.began)
	if !stop() || err != nil {
		t.Rollback(ctx)
		t.Release()
		return nil, false, notBegun(ctx, err)
	}
	return t, false, nil
}

// notBegun returns why a transaction could not be begun. If the context of Begin has ended, err says
// little about it.
func notBegun(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("beginning a transaction: %w", context.Cause(ctx))
	}
	return err
}

// within cuts the transaction when ctx ends before the caller calls done: the driver heeds ctx, but
// a statement that a handler left running keeps it from getting that far. A context that has ended
// already does no harm.
func (t *postgresRunTx) within(ctx context.Context) (done func() bool) {
	if ctx.Err() != nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, t.Cut)
}

// Query implements pgstore.Conn.
func (t *postgresRunTx) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	defer t.within(ctx)()
	return queryOn(ctx, t.tx, query, args)
}

// Script implements pgstore.Conn.
func (t *postgresRunTx) Script(ctx context.Context, text string) error {
	defer t.within(ctx)()
	return script(ctx, t.tx, text)
}

// Commit implements pgsession.Tx.
func (t *postgresRunTx) Commit(ctx context.Context) error {
	done := t.within(ctx)
	err := t.client.confirmed(t.conn, t.tx.Commit())
	done()
	t.cancel()
	return err
}

// Rollback implements pgsession.Tx. It releases the connection too, since only that tells when
// a transaction that was cut has ended.
func (t *postgresRunTx) Rollback(context.Context) {
	t.released = true
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = t.tx.Rollback()
		t.cancel()
		t.postgresHold.Release()
	}()
	timeout := time.NewTimer(pgsession.CleanUpTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		t.Cut() // ends the statement that the rollback waits for
	}
}

// Release implements pgsession.Tx.
func (t *postgresRunTx) Release() {
	switch {
	case t.released:
	case t.cut.Load():
		go t.postgresHold.Release() // waits for a statement that may still have the connection
	default:
		t.postgresHold.Release()
	}
}

// Status implements pgsession.RunTx. Only the server knows, because a handler may have sent COMMIT as
// a statement. A goroutine that the handler left behind may still use the transaction, so the answer
// is the number of rows: it comes with the statement, and no rows have to be read.
func (t *postgresRunTx) Status(ctx context.Context) pgstore.TxStatus {
	defer t.within(ctx)()
	var same int64
	result, err := t.tx.ExecContext(ctx, sameSQL, toMicrosecond(t.began))
	if err == nil {
		same, err = result.RowsAffected()
	}
	switch {
	case t.cut.Load():
		return pgstore.TxLost
	case err == nil && same == 1:
		return pgstore.TxOpen
	case err == nil, errors.Is(err, sql.ErrTxDone):
		return pgstore.TxEnded
	case pgstore.SQLState(err) == pgstore.CodeTxAborted:
		return pgstore.TxFailed
	case t.busy(ctx):
		return pgstore.TxBusy
	}
	return pgstore.TxLost
}

// busy reports whether the connection is there and takes no statement, because a handler left rows
// open. pgx calls a busy connection bad when it is to run a statement, but when it is to prepare one
// only if the connection is closed.
func (t *postgresRunTx) busy(ctx context.Context) bool {
	stmt, err := t.tx.PrepareContext(ctx, sameSQL)
	if err == nil {
		_ = stmt.Close() //nolint:sqlclosecheck // there is nothing to defer it for
		return false
	}
	return !errors.Is(err, sqldriver.ErrBadConn) && !errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil && pgstore.SQLState(err) == ""
}

// Cut implements pgsession.RunTx. Every later statement of the transaction fails. The context of a
// running statement is unknown, and closing the connection would wait for the statement; so the
// server is asked to end the session.
func (t *postgresRunTx) Cut() {
	if t.cut.Swap(true) {
		return
	}
	t.cancel()
	go t.terminate()
}

func (t *postgresRunTx) terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), pgsession.CleanUpTimeout)
	defer cancel()
	conn, err := t.through.Conn(ctx)
	if err != nil {
		return // the session ends later, with its statement
	}
	defer giveBack(conn)
	_, _ = conn.ExecContext(ctx, terminateSQL, t.pid, toMicrosecond(t.began))
}
