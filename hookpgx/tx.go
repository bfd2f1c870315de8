package hookpgx

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// poolTx is a pgstore.Tx on a connection of a pool.
type poolTx struct {
	tx     pgx.Tx
	conn   *pgxpool.Conn
	socket net.Conn // of conn

	mu      sync.Mutex
	over    bool // guarded by mu: conn is given back, and may be another's by now
	severed bool // guarded by mu: conn may be in use by a handler that does not return
}

var _ pgstore.Tx = (*poolTx)(nil)

var (
	errOver    = errors.New("the transaction is over")
	errSevered = errors.New("the connection was cut off")
)

// Begin implements pgstore.DB.
func (d *db) Begin(ctx context.Context) (pgstore.Tx, error) {
	conn, tx, err := d.begin(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	return &poolTx{tx: tx, conn: conn, socket: conn.Conn().PgConn().Conn()}, nil
}

// usable returns nil where the connection may be used.
func (t *poolTx) usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return notSentError{errOver}
	case t.severed:
		return notSentError{errSevered}
	}
	return nil
}

// Query implements pgstore.Conn.
func (t *poolTx) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	return txConn{t.tx}.Query(ctx, sql, args...)
}

// Script implements pgstore.Conn.
func (t *poolTx) Script(ctx context.Context, sql string) error {
	if err := t.usable(); err != nil {
		return err
	}
	return script(ctx, t.tx.Conn(), sql)
}

// Commit implements pgstore.Tx.
func (t *poolTx) Commit(ctx context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	err := t.tx.Commit(ctx)
	t.giveBack()
	return err
}

// Rollback implements pgstore.Tx.
func (t *poolTx) Rollback(ctx context.Context) {
	switch err := t.usable(); {
	case errors.Is(err, errOver):
		return
	case err == nil:
		rollBack(ctx, t.tx)
	}
	t.giveBack()
}

// giveBack gives the connection back to its pool. One that was cut off is not looked
// at again: it only leaves the pool.
func (t *poolTx) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.severed {
		t.conn.Hijack()
		return
	}
	t.conn.Release()
}

// Status implements pgstore.Tx.
func (t *poolTx) Status(context.Context) pgstore.TxStatus {
	if t.usable() != nil {
		return pgstore.TxLost
	}
	conn := t.tx.Conn().PgConn()
	switch {
	case conn.IsClosed():
		return pgstore.TxLost
	case conn.IsBusy():
		return pgstore.TxBusy
	}
	switch conn.TxStatus() {
	case 'T':
		return pgstore.TxOpen
	case 'E':
		return pgstore.TxFailed
	}
	return pgstore.TxEnded
}

// Sever implements pgstore.Tx. Closing the socket is all that can be done to a
// connection that others use: they find it closed.
func (t *poolTx) Sever() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.severed = true
	socket := t.socket
	if secure, ok := socket.(*tls.Conn); ok {
		socket = secure.NetConn() // its own Close waits for who writes
	}
	_ = socket.Close() // it may be closed already
}

// handlerTx is the transaction of a run as its handlers get it. What ends a
// transaction does nothing but make the run fail; and what a statement failed of is
// noted, to be told where the handler passes over it.
type handlerTx struct {
	pgx.Tx
	run *pgstore.Run
}

// Commit implements pgx.Tx.
func (t *handlerTx) Commit(context.Context) error { return t.run.Refuse("Commit") }

// Rollback implements pgx.Tx.
func (t *handlerTx) Rollback(context.Context) error { return t.run.Refuse("Rollback") }

// Exec implements pgx.Tx.
func (t *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := t.Tx.Exec(ctx, sql, args...)
	t.run.Note(err)
	return tag, err
}

// Query implements pgx.Tx.
func (t *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := t.Tx.Query(ctx, sql, args...)
	t.run.Note(err)
	return rows, err
}

// QueryRow implements pgx.Tx.
func (t *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return notingRow{t.Tx.QueryRow(ctx, sql, args...), t.run}
}

// notingRow is a row that notes what it fails of.
type notingRow struct {
	pgx.Row
	run *pgstore.Run
}

// Scan implements pgx.Row.
func (r notingRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if !errors.Is(err, pgx.ErrNoRows) {
		r.run.Note(err)
	}
	return err
}
