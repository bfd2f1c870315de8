package hooksql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// postgresCleanUp bounds the end of a transaction that is given up, whatever has
// become of its context.
const postgresCleanUp = 5 * time.Second

// maxBrokenConns is how many connections that broke while they were kept begin
// passes over: after a restart of the server a pool may be full of them.
const maxBrokenConns = 8

// postgresDB is a pgstore.DB on a pool.
//
// Every statement runs on a *sql.Conn or a *sql.Tx. On a *sql.DB, database/sql
// runs a statement again when the driver says that the connection was bad, and
// pgx says so also of a connection whose reply to a commit was lost: what had
// been committed would be done twice. On a connection nothing is run again.
type postgresDB struct {
	pool *sql.DB
	// cut is the pool by which transactions are severed.
	cut *sql.DB
	// level is what is known of the default isolation level of the sessions.
	level atomic.Int32
}

var _ pgstore.DB = (*postgresDB)(nil)

const (
	levelUnknown int32 = iota
	levelReadCommitted
	levelOther
)

// notSentError is a failure that precedes the statement: nothing of it was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// conn takes a connection out of the pool.
func (d *postgresDB) conn(ctx context.Context) (*sql.Conn, error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, notSentError{err}
	}
	return conn, nil
}

// Query implements pgstore.Conn.
func (d *postgresDB) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	conn, err := d.conn(ctx)
	if err != nil {
		return nil, err
	}
	level, err := d.levelOf(ctx, conn)
	if err != nil {
		giveBack(conn)
		return nil, err
	}
	if level != levelReadCommitted {
		giveBack(conn)
		return d.queryAtLevel(ctx, query, args)
	}
	rows, err := queryOn(ctx, conn, query, args) //nolint:rowserrcheck // who reads them does
	if err != nil {
		giveBack(conn)
		return nil, err
	}
	return &postgresRows{Rows: rows, end: func(error) error { giveBack(conn); return nil }}, nil
}

// levelOf returns at which level a statement on conn commits by itself.
func (d *postgresDB) levelOf(ctx context.Context, conn *sql.Conn) (int32, error) {
	if level := d.level.Load(); level != levelUnknown {
		return level, nil
	}
	var name string
	err := conn.QueryRowContext(ctx, "SELECT current_setting($1::text)", "default_transaction_isolation").Scan(&name)
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

// queryAtLevel runs a statement in a transaction of its own, because the sessions
// of this pool have another isolation level.
func (d *postgresDB) queryAtLevel(ctx context.Context, query string, args []any) (pgstore.Rows, error) {
	conn, tx, err := d.begin(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	end := func(err error) error {
		if err == nil {
			err = tx.Commit()
		}
		rollBack(tx)
		giveBack(conn)
		return err
	}
	rows, err := queryOn(ctx, tx, query, args) //nolint:rowserrcheck // who reads them does
	if err != nil {
		return nil, end(err)
	}
	return &postgresRows{Rows: rows, end: end}, nil
}

// begin begins a transaction that lasts no longer than ctx, on a connection of its
// own. Where BEGIN finds the connection broken nothing was done, and another one
// does as well. Its errors say of what the transaction is for that it was not sent.
func (d *postgresDB) begin(ctx context.Context, options *sql.TxOptions) (*sql.Conn, *sql.Tx, error) {
	for try := 0; ; try++ {
		conn, err := d.conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		tx, err := conn.BeginTx(ctx, options)
		if err == nil {
			return conn, tx, nil
		}
		if d.Outcome(err) == pgstore.Refused {
			giveBack(conn)
			return nil, nil, notSentError{err}
		}
		discard(conn)
		if try == maxBrokenConns || ctx.Err() != nil {
			return nil, nil, notSentError{err}
		}
	}
}

// giveBack returns a connection to its pool, which looks at it before it is used
// again. It waits for a transaction whose context has ended to be rolled back.
func giveBack(conn *sql.Conn) { _ = conn.Close() }

// discard closes a connection that must not be used again.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	giveBack(conn) // where somebody else was faster
}

// rollBack ends a transaction. It does nothing after a commit. Where it fails the
// driver closes the connection, which would be of no use with a transaction open.
func rollBack(tx *sql.Tx) { _ = tx.Rollback() }

// Script implements pgstore.Conn.
func (d *postgresDB) Script(ctx context.Context, text string) error {
	conn, err := d.conn(ctx)
	if err != nil {
		return err
	}
	defer giveBack(conn)
	return script(ctx, conn, text)
}

// Transaction implements pgstore.DB.
func (d *postgresDB) Transaction(ctx context.Context, level pgstore.Isolation, f func(pgstore.Conn) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if level == pgstore.Snapshot {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	conn, tx, err := d.begin(ctx, options)
	if err != nil {
		return err
	}
	defer giveBack(conn)
	defer rollBack(tx)
	if err := f(postgresConn{tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// Outcome implements pgstore.DB. Only an error that the server sent says that the
// statement is undone, and not one about connections (class 08) or its own end
// (57P0x), nor any that it may die of, after the commit was written: of resources
// (53), the system (58) and itself (XX). pgx and lib/pq do not tell by a method
// which severity an error has.
func (d *postgresDB) Outcome(err error) pgstore.Outcome {
	var notSent notSentError
	if errors.As(err, &notSent) {
		return pgstore.NotSent
	}
	state := sqlState(err)
	for _, class := range []string{"08", "53", "57P0", "58", "XX"} {
		if state == "" || strings.HasPrefix(state, class) {
			return pgstore.Unknown
		}
	}
	return pgstore.Refused
}

// sqlState returns the code of an error that the server sent; "" for others.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return ""
	}
	return state.SQLState()
}

// querier is a *sql.Conn or a *sql.Tx: not a *sql.DB, see postgresDB.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func queryOn(ctx context.Context, on querier, query string, args []any) (*sql.Rows, error) {
	args, err := postgresArgs(args)
	if err != nil {
		return nil, notSentError{err}
	}
	return on.QueryContext(ctx, query, args...)
}

// script runs several statements. Without arguments drivers send a text as it is,
// in one message of the simple query protocol.
func script(ctx context.Context, on querier, text string) error {
	_, err := on.ExecContext(ctx, text)
	return err
}

// postgresConn is a pgstore.Conn in a transaction.
type postgresConn struct{ tx *sql.Tx }

// Query implements pgstore.Conn.
func (c postgresConn) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	rows, err := queryOn(ctx, c.tx, query, args) //nolint:rowserrcheck // who reads them does
	if err != nil {
		return nil, err
	}
	return &postgresRows{Rows: rows}, nil
}

// Script implements pgstore.Conn.
func (c postgresConn) Script(ctx context.Context, text string) error { return script(ctx, c.tx, text) }

// errNotRead is what ended rows that were closed before their end.
var errNotRead = errors.New("the rows were not read to their end")

// postgresRows are rows whose statement has ended when they have been read to
// their end or closed.
type postgresRows struct {
	*sql.Rows
	// end is called once, with what came of the rows. It returns what came of the
	// statement.
	end   func(err error) error
	ended bool
	err   error
}

// Next implements pgstore.Rows. A goroutine that a handler left behind may use the
// transaction while rows are read: pgx can panic then, and must not take the process
// with it.
func (r *postgresRows) Next() (more bool) {
	defer func() {
		if fault := recover(); fault != nil {
			more = false
			r.finish(fmt.Errorf("the driver panicked while reading rows: %v", fault))
		}
	}()
	if r.Rows.Next() {
		return true
	}
	r.finish(r.Rows.Err())
	return false
}

// Scan implements pgstore.Rows.
func (r *postgresRows) Scan(dest ...any) error {
	targets := slices.Clone(dest)
	for i := range targets {
		if list, ok := targets[i].(*[][]byte); ok {
			targets[i] = byteaArray{list}
		}
	}
	return r.Rows.Scan(targets...)
}

// Err implements pgstore.Rows.
func (r *postgresRows) Err() error { return r.err }

// Close implements pgstore.Rows.
func (r *postgresRows) Close() { r.finish(errNotRead) }

func (r *postgresRows) finish(err error) {
	if r.ended {
		return
	}
	r.ended = true
	_ = r.Rows.Close()
	if r.end != nil {
		if ended := r.end(err); err == nil {
			err = ended
		}
	}
	r.err = err
}
