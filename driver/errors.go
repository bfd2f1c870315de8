package driver

import "errors"

// What a Store's errors match with errors.Is. All but ErrCommitUnknown say
// that nothing was written.
var (
	// ErrBadRow means that the database refused a row for what it holds.
	// Its batch-mates are fine: split the batch and try the halves.
	ErrBadRow = errors.New("the database refused the row")

	// ErrLockTimeout means that a key stayed locked by another session for
	// longer than LockTimeout. Its batch-mates are fine.
	ErrLockTimeout = errors.New("timed out waiting for another session's lock")

	// ErrSerialization means a deadlock or a serialization failure: the same
	// call may be made again at once.
	ErrSerialization = errors.New("the database gave up in favour of a concurrent transaction")

	// ErrUnavailable means that the database could not be reached, was busy,
	// full, read-only or shutting down, and that nothing was written.
	ErrUnavailable = errors.New("the database is unavailable")

	// ErrCommitUnknown means that the write may or may not have happened: the
	// connection was lost, or the deadline passed, after the statement had
	// been sent. It must never be reported as success nor as failure.
	ErrCommitUnknown = errors.New("the outcome of the commit is unknown")

	// ErrNotFound means that there is no such event or message.
	ErrNotFound = errors.New("not found")

	// ErrOpen means that an event or message is not finished, so that it can
	// neither be replayed nor discarded.
	ErrOpen = errors.New("not finished yet")

	// ErrSent means that a message was sent, so that it is not retried by
	// itself.
	ErrSent = errors.New("sent already")

	// ErrModeNeeded means that nothing of the event is known to have failed, so
	// that its replay must say whether it is as new or under the same id.
	ErrModeNeeded = errors.New("a replay of what was done must say whether it is as new or under the same id")

	// ErrRequestReused means that a request id was used before for a replay of
	// the event in another mode.
	ErrRequestReused = errors.New("the request id was used for a replay in another mode")

	// ErrBodyPruned means that the body is past its retention.
	ErrBodyPruned = errors.New("the body is past its retention")

	// ErrNoRoute means that no route matches the event, so that there is
	// nothing to replay.
	ErrNoRoute = errors.New("no route matches the event")

	// ErrTxAborted means that a statement of a handler had failed, so that the
	// transaction cannot be committed.
	ErrTxAborted = errors.New("a statement had failed, so the transaction could not be committed")

	// ErrTxEnded means that a handler ended the transaction that it was given.
	// The error is a *TxEndedError.
	ErrTxEnded = errors.New("the handler ended the transaction by itself")

	// ErrSchema means that the schema is missing, older or newer than this
	// program.
	ErrSchema = errors.New("the database schema does not fit this version of hookonce")
)

// TxEndedError says how a handler ended the transaction that it was given. It
// matches ErrTxEnded.
type TxEndedError struct {
	// Committed is true unless what the handlers wrote is known to be undone.
	Committed bool
}

// Error implements error.
func (e *TxEndedError) Error() string {
	if e.Committed {
		return "the handler committed the transaction by itself, or may have: return nil instead, and hookonce commits"
	}
	return "the handler rolled the transaction back by itself: return an error instead, and hookonce rolls back"
}

// Is reports whether target is ErrTxEnded.
func (e *TxEndedError) Is(target error) bool { return target == ErrTxEnded }
