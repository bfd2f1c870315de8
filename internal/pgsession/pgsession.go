// Package pgsession runs hookonce's statements and transactions on PostgreSQL sessions, independent
// of the client library. It is the common part of hookpgx and hooksql: the isolation level of
// statements, the retry of broken connections, the meaning of errors, and the end of transactions
// and runs.
//
// A client library implements [Client], [Session], [Tx] and [RunTx]. [New] makes a pgstore.DB from a
// Client, and [NewStore] adds the transaction type that handlers see.
package pgsession

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// CleanUpTimeout bounds the end of a transaction whose context may have ended already.
const CleanUpTimeout = 5 * time.Second

// Client is a pool of connections of a client library.
type Client interface {
	// Acquire takes a connection out of the pool. It sends no statement of the caller.
	Acquire(ctx context.Context) (Session, error)
	// Begin begins a transaction on a connection of its own. The transaction may end with ctx. On
	// failure the connection is back in the pool or closed, and broken reports that it was lost, so
	// that another one may do: after a restart of the server a pool may be full of lost connections.
	Begin(ctx context.Context, level pgstore.Isolation) (tx Tx, broken bool, err error)
	// BeginRun is like Begin at the level ReadCommitted, except that the transaction outlives ctx.
	BeginRun(ctx context.Context) (tx RunTx, broken bool, err error)
	// Refused reports whether err is an answer of the server that undid the statement. See Undone.
	Refused(err error) bool
}

// Session is a connection outside of a transaction: each statement commits by itself. The client
// library must never send a statement twice.
type Session interface {
	pgstore.Conn
	// Release returns the connection to the pool.
	Release()
	Spoiler
}

// BinarySession is a Session whose client library sends parameters that are encoded already.
type BinarySession interface {
	Session
	// QueryBinary implements pgstore.BinaryDB. It marks errors before the statement by NotSent, unless
	// the server refused to prepare it.
	QueryBinary(ctx context.Context, s *pgstore.Statement, encode func(*pgstore.Parameters), row func(values [][]byte) error) error
}

// Spoiler is a connection whose server may have gone out of service.
type Spoiler interface {
	// Spoil makes Release close the connection. The client also closes the idle connections of the
	// store's pools, which most likely lead to the same server: each would fail once otherwise.
	// Spoil does not block.
	Spoil()
}

// Tx is an open transaction.
type Tx interface {
	pgstore.Conn
	// Commit commits. The transaction is over, even if Commit fails.
	Commit(ctx context.Context) error
	// Rollback rolls back, even if ctx has ended, and closes a connection that it cannot clean. The
	// context of Begin or CleanUpTimeout bounds it.
	Rollback(ctx context.Context)
	// Release returns the connection to the pool, after Commit or Rollback.
	Release()
	Spoiler
}

// RunTx is an open transaction of handlers. A goroutine that a handler left behind may
// use the connection at any time.
type RunTx interface {
	Tx
	// Status returns the state of the transaction. It asks the server only if the client library
	// does not know.
	Status(ctx context.Context) pgstore.TxStatus
	// Cut breaks the connection without waiting for the statement that may be running. It may be
	// called more than once, and concurrently with every method but Release. After Cut, Rollback
	// may do nothing, and Release does not block: it takes the connection out of the pool.
	Cut()
}
