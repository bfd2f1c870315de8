package pgsession

import (
	"context"
	"sync/atomic"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// DB is a pgstore.DB on the connections of a client.
type DB struct {
	client Client
	// level is the default isolation level of the sessions; see levelOf.
	level atomic.Int32
}

var _ pgstore.DB = (*DB)(nil)

const (
	levelUnknown int32 = iota
	levelReadCommitted
	levelOther
)

// New returns a DB whose sessions may have any default isolation level. The first statement asks
// the server for it.
func New(client Client) *DB { return &DB{client: client} }

// NewReadCommitted returns a DB whose sessions have the default isolation level READ COMMITTED.
func NewReadCommitted(client Client) *DB {
	d := New(client)
	d.level.Store(levelReadCommitted)
	return d
}

// Query implements pgstore.Conn. At the default level READ COMMITTED the statement runs on its own;
// at any other level it runs in a transaction.
func (d *DB) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	session, err := d.client.Acquire(ctx)
	if err != nil {
		return nil, notSentError{err}
	}
	level, err := d.levelOf(ctx, session)
	if err != nil {
		session.Release()
		return nil, notSentError{err}
	}
	if level != levelReadCommitted {
		session.Release()
		return d.queryInTx(ctx, sql, args)
	}
	rows, err := session.Query(ctx, sql, args...)
	if err != nil {
		spoil(session, err)
		session.Release()
		return nil, err
	}
	return &sessionRows{Rows: rows, session: session}, nil
}

// BinaryDB is a DB whose sessions are BinarySessions at the default isolation level READ COMMITTED.
type BinaryDB struct{ *DB }

var _ pgstore.BinaryDB = (*BinaryDB)(nil)

// NewBinary returns a BinaryDB. The client's sessions must be BinarySessions.
func NewBinary(client Client) *BinaryDB { return &BinaryDB{NewReadCommitted(client)} }

// QueryBinary implements pgstore.BinaryDB.
func (d *BinaryDB) QueryBinary(ctx context.Context, s *pgstore.Statement, encode func(*pgstore.Parameters), row func([][]byte) error) error {
	session, err := d.client.Acquire(ctx)
	if err != nil {
		return notSentError{err}
	}
	defer session.Release()
	err = session.(BinarySession).QueryBinary(ctx, s, encode, row)
	spoil(session, err)
	return err
}

// levelOf returns the default isolation level of the session.
func (d *DB) levelOf(ctx context.Context, session Session) (level int32, err error) {
	if level := d.level.Load(); level != levelUnknown {
		return level, nil
	}
	rows, err := session.Query(ctx, "SELECT current_setting($1::text)", "default_transaction_isolation")
	if err != nil {
		return levelUnknown, err
	}
	defer rows.Close()
	name := ""
	for rows.Next() {
		if err := rows.Scan(&name); err != nil {
			return levelUnknown, err
		}
	}
	if err := rows.Err(); err != nil {
		return levelUnknown, err
	}
	level = levelOther
	if name == "read committed" || name == "read uncommitted" { // PostgreSQL treats them alike
		level = levelReadCommitted
	}
	d.level.Store(level)
	return level, nil
}

func (d *DB) queryInTx(ctx context.Context, sql string, args []any) (pgstore.Rows, error) {
	tx, err := d.begin(ctx, pgstore.ReadCommitted)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		spoil(tx, err)
		tx.Rollback(ctx)
		tx.Release()
		return nil, err
	}
	return &committingRows{Rows: rows, ctx: ctx, tx: tx}, nil
}

// Script implements pgstore.Conn.
func (d *DB) Script(ctx context.Context, sql string) error {
	session, err := d.client.Acquire(ctx)
	if err != nil {
		return notSentError{err}
	}
	defer session.Release()
	err = session.Script(ctx, sql)
	spoil(session, err)
	return err
}

// Transaction implements pgstore.DB.
func (d *DB) Transaction(ctx context.Context, level pgstore.Isolation, f func(pgstore.Conn) error) error {
	tx, err := d.begin(ctx, level)
	if err != nil {
		return err
	}
	defer tx.Release()
	done := false
	defer func() {
		if !done {
			tx.Rollback(ctx) // f failed or panicked
		}
	}()
	if err := f(tx); err != nil {
		spoil(tx, err)
		return err
	}
	done = true
	err = tx.Commit(ctx)
	spoil(tx, err)
	return err
}

func (d *DB) begin(ctx context.Context, level pgstore.Isolation) (Tx, error) {
	return retryBroken(ctx, func() (Tx, bool, error) { return d.client.Begin(ctx, level) })
}

// maxBroken is how many lost connections the beginning of a transaction passes over.
const maxBroken = 8

// retryBroken begins a transaction. It retries on another connection while begin reports a broken
// one. It marks its errors as not sent, because the statements that the transaction is for come
// later.
func retryBroken[T Tx](ctx context.Context, begin func() (T, bool, error)) (tx T, err error) {
	for try := 0; ; try++ {
		began, broken, err := begin()
		if err == nil {
			return began, nil
		}
		if !broken || try == maxBroken || ctx.Err() != nil {
			return tx, notSentError{err}
		}
	}
}
