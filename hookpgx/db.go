package hookpgx

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// execMode describes a statement once for each connection and sends it
// unnamed from then on. It works behind poolers, and each execution is planned
// for the sizes its tables have by then; a plan that was kept from when they
// were empty would read them whole.
const execMode = pgx.QueryExecModeCacheDescribe

// cleanUpTimeout bounds a rollback; its transaction's context may have ended.
const cleanUpTimeout = 5 * time.Second

// db is a pgstore.DB on a pool.
type db struct {
	pool *pgxpool.Pool
	// readCommitted is true for pools whose sessions are pinned to that level.
	readCommitted bool
	// level is what is known of the default level of the sessions of other
	// pools.
	level atomic.Int32
}

var _ pgstore.DB = (*db)(nil)

const (
	levelUnknown int32 = iota
	levelReadCommitted
	levelOther
)

// notSentError is the failure to get a connection: no statement was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// acquire takes a connection, whose failure certainly precedes the statement.
// What pgconn.SafeToRetry says of an error is never looked at: since pgx 5.9 it
// calls a lost reply to COMMIT safe.
func (d *db) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, notSentError{err}
	}
	return conn, nil
}

// Query implements pgstore.Conn.
func (d *db) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	level, err := d.levelOf(ctx, conn)
	if err != nil {
		conn.Release()
		return nil, err
	}
	if level != levelReadCommitted {
		conn.Release()
		return d.queryAtLevel(ctx, sql, args)
	}
	rows, err := conn.Query(ctx, sql, withMode(args)...)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &pooledRows{Rows: rows, conn: conn}, nil
}

// levelOf returns at which level a statement on conn commits by itself.
func (d *db) levelOf(ctx context.Context, conn *pgxpool.Conn) (int32, error) {
	if d.readCommitted {
		return levelReadCommitted, nil
	}
	if level := d.level.Load(); level != levelUnknown {
		return level, nil
	}
	var name string
	err := conn.QueryRow(ctx, "SELECT current_setting($1::text)", execMode, "default_transaction_isolation").Scan(&name)
	if err != nil {
		return levelUnknown, notSentError{err} // of the statement itself
	}
	level := levelOther
	if name == "read committed" || name == "read uncommitted" { // the same thing to PostgreSQL
		level = levelReadCommitted
	}
	d.level.Store(level)
	return level, nil
}

// queryAtLevel runs a statement in a transaction of its own, because the
// sessions of this pool have another isolation level.
func (d *db) queryAtLevel(ctx context.Context, sql string, args []any) (pgstore.Rows, error) {
	conn, tx, err := d.begin(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, withMode(args)...)
	if err != nil {
		rollBack(ctx, tx)
		conn.Release()
		return nil, err
	}
	return &committingRows{Rows: rows, ctx: ctx, tx: tx, conn: conn}, nil
}

// maxBroken is how many connections that broke while they were kept begin passes
// over: after a restart of the server a pool may be full of them.
const maxBroken = 8

// begin begins a transaction on a connection of the pool. Where BEGIN finds the
// connection broken nothing was done, and another one does as well. Its errors
// say of what the transaction is for that it was not sent.
func (d *db) begin(ctx context.Context, options pgx.TxOptions) (*pgxpool.Conn, pgx.Tx, error) {
	for try := 0; ; try++ {
		conn, err := d.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		tx, err := conn.BeginTx(ctx, options)
		if err == nil {
			return conn, tx, nil
		}
		broken := conn.Conn().IsClosed()
		conn.Release()
		if !broken || try == maxBroken || ctx.Err() != nil {
			return nil, nil, notSentError{err}
		}
	}
}

// rollBack ends a transaction whose context may have ended: pgx does not do it
// by itself.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // a connection that fails at it is closed
}

func withMode(args []any) []any { return append([]any{execMode}, args...) }

// Script implements pgstore.Conn.
func (d *db) Script(ctx context.Context, sql string) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return script(ctx, conn.Conn(), sql)
}

func script(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// Transaction implements pgstore.DB.
func (d *db) Transaction(ctx context.Context, level pgstore.Isolation, f func(pgstore.Conn) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	if level == pgstore.Snapshot {
		options = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	}
	conn, tx, err := d.begin(ctx, options)
	if err != nil {
		return err
	}
	defer conn.Release()
	committed := false
	defer func() {
		if !committed {
			rollBack(ctx, tx)
		}
	}()
	if err := f(txConn{tx}); err != nil {
		return err
	}
	err = tx.Commit(ctx)
	committed = err == nil
	return err
}

// Outcome implements pgstore.DB. Only an error of severity ERROR that the
// server sent says that the statement is undone: FATAL ones, lost connections
// and deadlines may come after the commit, and so may what the server says
// about connections (class 08) and its own end (57P0x).
func (d *db) Outcome(err error) pgstore.Outcome {
	var notSent notSentError
	if errors.As(err, &notSent) {
		return pgstore.NotSent
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return pgstore.Refused
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return pgstore.Unknown
	}
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity
	}
	if severity != "ERROR" || strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P0") {
		return pgstore.Unknown
	}
	return pgstore.Refused
}

// txConn is a pgstore.Conn in a transaction.
type txConn struct{ tx pgx.Tx }

// Query implements pgstore.Conn.
func (c txConn) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	return c.tx.Query(ctx, sql, withMode(args)...) //nolint:sqlclosecheck // the caller closes them
}

// Script implements pgstore.Conn.
func (c txConn) Script(ctx context.Context, sql string) error {
	return script(ctx, c.tx.Conn(), sql)
}

// pooledRows give their connection back when they are closed.
type pooledRows struct {
	pgx.Rows
	conn *pgxpool.Conn
}

// Close implements pgstore.Rows.
func (r *pooledRows) Close() {
	r.Rows.Close()
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
}

// committingRows commit their transaction when they have been read to the end,
// and roll it back when they are closed before that.
type committingRows struct {
	pgx.Rows
	ctx  context.Context
	tx   pgx.Tx
	conn *pgxpool.Conn // nil once the transaction has ended
	err  error
}

// Next implements pgstore.Rows.
func (r *committingRows) Next() bool {
	if r.conn == nil {
		return false
	}
	if r.Rows.Next() {
		return true
	}
	if r.err = r.Rows.Err(); r.err == nil {
		r.err = r.tx.Commit(r.ctx)
	}
	if r.err != nil {
		rollBack(r.ctx, r.tx)
	}
	r.conn.Release()
	r.conn = nil
	return false
}

// Err implements pgstore.Rows.
func (r *committingRows) Err() error { return r.err }

// Close implements pgstore.Rows.
func (r *committingRows) Close() {
	r.Rows.Close()
	if r.conn != nil {
		rollBack(r.ctx, r.tx)
		r.conn.Release()
		r.conn = nil
	}
}
