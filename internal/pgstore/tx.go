package pgstore

import "context"

// Tx is an open transaction on a connection of its own, at the isolation level READ COMMITTED. Its
// methods must not be called concurrently, except for Sever.
type Tx interface {
	Conn
	// Commit commits and releases the connection; see DB.Outcome for the meaning of errors. If ctx
	// has ended before, Commit does nothing and fails.
	Commit(ctx context.Context) error
	// Rollback rolls back, even if ctx has ended, and releases the connection, or closes it if it
	// may not be clean. It does nothing if the transaction is over.
	Rollback(ctx context.Context)
	// Status returns the state of the transaction as the server reported it last. It asks the
	// server only if the client library does not know.
	Status(ctx context.Context) TxStatus
	// Sever breaks the connection, also while a statement runs on it. It may be called concurrently
	// with every method.
	Sever()
}

// TxStatus is the state of a transaction.
type TxStatus int

const (
	// TxOpen: the transaction accepts statements.
	TxOpen TxStatus = iota
	// TxFailed: a statement failed, and the transaction accepts no other. It may be another one than
	// was begun.
	TxFailed
	// TxEnded: the transaction was committed or rolled back, but not by Commit or Rollback.
	TxEnded
	// TxBusy: the results of a statement are still open, and the transaction accepts no other.
	TxBusy
	// TxLost: the connection is closed.
	TxLost
	// TxDoubtful: the transaction accepts statements, but it may be another one than was begun.
	TxDoubtful
)
