package pgsession

import (
	"context"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// sessionRows release their connection when they are closed.
type sessionRows struct {
	pgstore.Rows
	session Session // nil once released
}

// Close implements pgstore.Rows.
func (r *sessionRows) Close() {
	r.Rows.Close()
	if r.session != nil {
		spoil(r.session, r.Rows.Err())
		r.session.Release()
		r.session = nil
	}
}

// committingRows commit their transaction when they have been read to the end. They roll it back
// when they fail or are closed earlier.
type committingRows struct {
	pgstore.Rows
	ctx context.Context
	tx  Tx // nil once the transaction has ended
	err error
}

// Next implements pgstore.Rows.
func (r *committingRows) Next() bool {
	if r.tx == nil {
		return false
	}
	if r.Rows.Next() {
		return true
	}
	r.Rows.Close()
	if r.err = r.Rows.Err(); r.err == nil {
		r.err = r.tx.Commit(r.ctx)
	} else {
		r.tx.Rollback(r.ctx)
	}
	spoil(r.tx, r.err)
	r.release()
	return false
}

// Err implements pgstore.Rows.
func (r *committingRows) Err() error { return r.err }

// Close implements pgstore.Rows.
func (r *committingRows) Close() {
	r.Rows.Close()
	if r.tx != nil {
		r.tx.Rollback(r.ctx)
		r.release()
	}
}

func (r *committingRows) release() {
	r.tx.Release()
	r.tx = nil
}

// watchedRows spoil the connection of their transaction if the server turns out to be out of
// service.
type watchedRows struct {
	pgstore.Rows
	tx Spoiler
}

// Close implements pgstore.Rows.
func (r *watchedRows) Close() {
	r.Rows.Close()
	spoil(r.tx, r.Rows.Err())
}
