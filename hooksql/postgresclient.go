package hooksql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// postgresClient is a pgsession.Client on a pool.
//
// Every statement runs on a *sql.Conn or a *sql.Tx. On a *sql.DB, database/sql repeats a statement when
// the driver says that the connection was bad, and pgx says so also when the reply to a commit was
// lost: a committed statement would be done twice. On a connection database/sql repeats nothing.
type postgresClient struct {
	pool *sql.DB
	// cut is the pool through which transactions are severed.
	cut  *sql.DB
	link *postgresLink
	// unconfirmed is PostgresOptions.Unconfirmed.
	unconfirmed func(driverConn any) bool
}

var _ pgsession.Client = (*postgresClient)(nil)

// Acquire implements pgsession.Client.
func (c *postgresClient) Acquire(ctx context.Context) (pgsession.Session, error) {
	conn, err := c.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	_ = c.confirmed(conn, nil) // forgets earlier commits
	return &postgresSession{postgresHold{conn: conn, client: c}}, nil
}

// errUnconfirmed is the error of a commit that may be on the primary alone. Its outcome is unknown,
// because a failover would lose it.
var errUnconfirmed = errors.New("the server stopped waiting for its synchronous standbys: a failover would lose the commit")

// confirmed returns the error of a commit on conn whose error so far is err.
func (c *postgresClient) confirmed(conn *sql.Conn, err error) error {
	if err != nil || c.unconfirmed == nil {
		return err
	}
	return conn.Raw(func(driverConn any) error {
		if c.unconfirmed(driverConn) {
			return errUnconfirmed
		}
		return nil
	})
}

// Begin implements pgsession.Client. database/sql rolls the transaction back when ctx ends.
func (c *postgresClient) Begin(ctx context.Context, level pgstore.Isolation) (pgsession.Tx, bool, error) {
	options := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if level == pgstore.Snapshot {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	tx, broken, err := c.begin(ctx, options)
	if err != nil {
		return nil, broken, err
	}
	return &tx, false, nil
}

func (c *postgresClient) begin(ctx context.Context, options *sql.TxOptions) (tx postgresTx, broken bool, err error) {
	conn, err := c.pool.Conn(ctx)
	if err != nil {
		return postgresTx{}, false, err
	}
	_ = c.confirmed(conn, nil) // forgets earlier commits
	began, err := conn.BeginTx(ctx, options)
	switch {
	case err == nil:
		return postgresTx{postgresConn{began}, postgresHold{conn: conn, client: c}}, false, nil
	case c.Refused(err):
		giveBack(conn)
		return postgresTx{}, false, err
	}
	discard(conn)
	return postgresTx{}, true, err
}

// Refused implements pgsession.Client. Neither pgx nor lib/pq tells the severity of an error by a
// method.
func (c *postgresClient) Refused(err error) bool { return pgsession.Undone(pgstore.SQLState(err), "") }

// giveBack returns a connection to its pool, which checks it before the next use. It waits until a
// transaction whose context has ended is rolled back.
func giveBack(conn *sql.Conn) { _ = conn.Close() }

// discard closes a connection that must not be used again.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	giveBack(conn) // Raw does nothing if the connection was closed meanwhile
}

// querier is a *sql.Conn or a *sql.Tx; it must not be a *sql.DB, see postgresClient.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func queryOn(ctx context.Context, on querier, query string, args []any) (pgstore.Rows, error) {
	args, err := postgresArgs(args)
	if err != nil {
		return nil, pgsession.NotSent(err)
	}
	rows, err := on.QueryContext(ctx, query, args...) //nolint:rowserrcheck // the reader of the rows checks it
	if err != nil {
		return nil, err
	}
	return &postgresRows{Rows: rows}, nil
}

// script runs several statements. Without arguments drivers send a text as it is, in one message of
// the simple query protocol.
func script(ctx context.Context, on querier, text string) error {
	_, err := on.ExecContext(ctx, text)
	return err
}

// postgresSession is a pgsession.Session.
type postgresSession struct{ postgresHold }

// Query implements pgstore.Conn.
func (s *postgresSession) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	rows, err := queryOn(ctx, s.conn, query, args)
	if err != nil || s.client.unconfirmed == nil {
		return rows, err
	}
	return committedRows{rows, s}, nil
}

// committedRows are the rows of a statement that commits by itself. The commit is over when they have
// been read to their end.
type committedRows struct {
	pgstore.Rows
	session *postgresSession
}

// Err implements pgstore.Rows.
func (r committedRows) Err() error { return r.session.client.confirmed(r.session.conn, r.Rows.Err()) }

// Script implements pgstore.Conn.
func (s *postgresSession) Script(ctx context.Context, text string) error {
	return script(ctx, s.conn, text)
}

// postgresConn is a pgstore.Conn in a transaction.
type postgresConn struct{ tx *sql.Tx }

// Query implements pgstore.Conn.
func (c postgresConn) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	return queryOn(ctx, c.tx, query, args)
}

// Script implements pgstore.Conn.
func (c postgresConn) Script(ctx context.Context, text string) error { return script(ctx, c.tx, text) }

// postgresTx is a pgsession.Tx.
type postgresTx struct {
	postgresConn
	postgresHold
}

// Commit implements pgsession.Tx.
func (t *postgresTx) Commit(context.Context) error { return t.client.confirmed(t.conn, t.tx.Commit()) }

// Rollback implements pgsession.Tx. If it fails the driver closes the connection, which would be of
// no use with a transaction open.
func (t *postgresTx) Rollback(context.Context) { _ = t.tx.Rollback() }

// postgresRows are pgstore.Rows.
type postgresRows struct {
	*sql.Rows
	fault error // of a driver that panicked
}

// Next implements pgstore.Rows. A goroutine that a handler left behind may use the transaction while
// rows are read: pgx can panic then, and must not take the process with it.
func (r *postgresRows) Next() (more bool) {
	defer func() {
		if fault := recover(); fault != nil {
			more = false
			r.fault = fmt.Errorf("the driver panicked while reading rows: %v", fault)
		}
	}()
	return r.Rows.Next()
}

// Scan implements pgstore.Rows.
func (r *postgresRows) Scan(dest ...any) error {
	cloned := false
	for i := range dest {
		list, ok := dest[i].(*[][]byte)
		if !ok {
			continue
		}
		if !cloned { // the caller may scan the next row into the same targets
			dest, cloned = slices.Clone(dest), true
		}
		dest[i] = byteaArray{list}
	}
	return r.Rows.Scan(dest...)
}

// Err implements pgstore.Rows.
func (r *postgresRows) Err() error {
	if r.fault != nil {
		return r.fault
	}
	return r.Rows.Err()
}

// Close implements pgstore.Rows.
func (r *postgresRows) Close() { _ = r.Rows.Close() }
