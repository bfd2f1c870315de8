package pgstore

import "context"

// Tx is an open transaction, on a connection of its own, at the isolation level
// READ COMMITTED. Its methods must not be called concurrently, except for Sever.
type Tx interface {
	Conn
	// Commit commits; see DB.Outcome for what an error means. The connection is
	// given back.
	Commit(ctx context.Context) error
	// Rollback rolls back and gives the connection back, or closes it where it
	// cannot be known to be clean. It does nothing after Commit, and does not mind
	// that ctx has ended.
	Rollback(ctx context.Context)
	// Status says what state the transaction is in, as the server said last; it
	// asks the server only where the client library does not know.
	Status(ctx context.Context) TxStatus
	// Sever closes the connection, whoever uses it. It may be called concurrently
	// with anything.
	Sever()
}

// TxStatus is the state of a transaction.
type TxStatus int

const (
	// TxOpen: statements are taken.
	TxOpen TxStatus = iota
	// TxFailed: a statement failed, and no other is taken.
	TxFailed
	// TxEnded: it was committed or rolled back by somebody else than Commit and
	// Rollback.
	TxEnded
	// TxBusy: the results of a statement are still being read, and no other is
	// taken.
	TxBusy
	// TxLost: the connection is closed.
	TxLost
)
