package driver

import (
	"errors"
	"fmt"
)

// The errors of a Store match these with errors.Is. All except ErrCommitUnknown mean that nothing
// was written.
var (
	// ErrBadRow means that the database refused the content of a row. The other rows of its batch
	// are fine: split the batch and retry the halves.
	ErrBadRow = errors.New("the database refused the row")

	// ErrNotStored means that the database accepted an event, a message or a replay, and did not
	// store all of its rows. A trigger or a rule on the store's tables does that. The other rows of a
	// batch may be fine.
	ErrNotStored = errors.New("the event or a part of it was not stored: " +
		`a trigger or a rule on hookonce's tables may drop rows; "hookonce doctor" lists them`)

	// ErrLockTimeout means that another session held a key's lock for longer than LockTimeout. The
	// other rows of its batch are fine.
	ErrLockTimeout = errors.New("timed out waiting for another session's lock")

	// ErrSerialization means a deadlock or a serialization failure: the caller may repeat the call
	// at once.
	ErrSerialization = errors.New("the database gave up in favour of a concurrent transaction")

	// ErrUnavailable means that the database could not be reached, was busy, full, read-only or
	// shutting down. Nothing was written.
	ErrUnavailable = errors.New("the database is unavailable")

	// ErrAway means that the connection to the database was lost, or that its server shuts down. It matches ErrUnavailable
	// too.
	ErrAway = fmt.Errorf("%w: the connection was lost", ErrUnavailable)

	// ErrRefused means that the database refused a statement for a reason that may lie in one row, such as a policy or a damaged
	// page, or in all, such as a missing right. It matches ErrUnavailable too. Halves may succeed.
	ErrRefused = fmt.Errorf("%w: it refused the statement", ErrUnavailable)

	// ErrTimedOut means that the database ended a statement because it took too long, or that an
	// operator cancelled it. It matches ErrUnavailable too. Smaller batches may succeed.
	ErrTimedOut = fmt.Errorf("%w: the statement took too long or was cancelled", ErrUnavailable)

	// ErrReadOnly means that a server answered that it accepts no writes. It matches ErrUnavailable too.
	ErrReadOnly = fmt.Errorf("%w: it is read-only or a standby", ErrUnavailable)
	// ErrStandby means that a standby answered. It matches ErrReadOnly too.
	ErrStandby = fmt.Errorf("%w: this server is a standby", ErrReadOnly)
	// ErrReadOnlyRole means that default_transaction_read_only is on for the role, its database or this session alone. It matches ErrReadOnly too.
	ErrReadOnlyRole = fmt.Errorf("%w: the role is read-only", ErrReadOnly)

	// ErrHidden means that the database does not show its state to this role.
	ErrHidden = errors.New("the database hides it from this role")

	// ErrFull means that the disk of the database is full. It matches ErrUnavailable too.
	ErrFull = fmt.Errorf("%w: its disk is full", ErrUnavailable)

	// ErrSearching means that TextSearches searches for a text run already. Another one may succeed
	// within TextTime.
	ErrSearching = fmt.Errorf("%d searches for a text run already", TextSearches)

	// ErrCommitUnknown means that the write may or may not have happened: the connection was lost,
	// or the deadline passed, after the statement had been sent. Never report it as success or as
	// failure.
	ErrCommitUnknown = errors.New("the outcome of the commit is unknown")

	// ErrNotFound means that there is no such event or message.
	ErrNotFound = errors.New("not found")

	// ErrOpen means that an event or message is not finished, so it can be neither replayed nor
	// discarded.
	ErrOpen = errors.New("not finished yet")

	// ErrSending means that a message that no route makes any more is being sent, so that a replay with
	// ReplayReroute has to wait. It matches ErrOpen too.
	ErrSending = fmt.Errorf("%w: a message is being sent that no route makes any more", ErrOpen)

	// ErrPassed means that the line of a message of the event has sent a higher version. A replay must name
	// ReplayParams.Stale.
	ErrPassed = errors.New("a higher version of the object was sent")

	// ErrSent means that a message is already sent, so it cannot be retried by itself.
	ErrSent = errors.New("already sent")

	// ErrModeNeeded means that no part of the event is known to have failed. Its replay must say
	// whether it is as new or under the same id.
	ErrModeNeeded = errors.New("a replay of a done event must say whether it is as new or under the same id")

	// ErrNoteNeeded means that the event is dead with NoteTxEnded, or was when it was discarded, and
	// the replay does not name that note.
	ErrNoteNeeded = errors.New("the event may have taken effect, because its handler ended its transaction: " +
		"its replay must name the note \"" + NoteTxEnded + "\"")

	// ErrRequestReused means that the request id was used before for a replay of the event in
	// another mode, or to another destination, or for another job.
	ErrRequestReused = errors.New("the request id was used for a replay in another mode, or for another job")

	// ErrTooLate means that a discard is older than UndoTime.
	ErrTooLate = errors.New("the discard is too old to be undone")

	// ErrJobEnded means that a job is done or has failed, so it can be neither started nor cancelled.
	ErrJobEnded = errors.New("the job has ended")

	// ErrBodyPruned means that the body is past its retention or redacted.
	ErrBodyPruned = errors.New("the body is past its retention or redacted")

	// ErrRedacted means that an operator removed the payload. It matches ErrBodyPruned too.
	ErrRedacted error = redactedError{}

	// ErrNoRoute means that no route matches the event, so there is nothing to replay.
	ErrNoRoute = errors.New("no route matches the event")

	// ErrUndecided means that the condition of a route is still undecided, so the event was not
	// replayed.
	ErrUndecided = errors.New("the condition of a route was not decided within its bounds")

	// ErrTxAborted means that a statement of a handler failed, so the transaction cannot be
	// committed.
	ErrTxAborted = errors.New("a statement had failed, so the transaction could not be committed")

	// ErrTxEnded means that a handler ended its transaction. The error is a *TxEndedError.
	ErrTxEnded = errors.New("the handler ended the transaction by itself")

	// ErrTurnLost means that another call prunes, because this one had stopped for long or was in the
	// background.
	ErrTurnLost = errors.New("another process prunes now; removed rows stay removed, and the next call goes on")

	// ErrSchema means that the schema is missing, older or newer than this program.
	ErrSchema = errors.New("the database schema does not fit this version of hookonce")
)

// ServerError says why hookonce does not work with a database server.
type ServerError struct {
	Found  string // the server as it is, and the need of hookonce
	Remedy string // one sentence, lower case, without a full stop
}

// Error implements error.
func (e *ServerError) Error() string { return e.Found }

// Hint returns the remedy; the command line prints it after "Try:".
func (e *ServerError) Hint() string { return e.Remedy }

// TxEndedError says how a handler ended its transaction. It matches ErrTxEnded.
type TxEndedError struct {
	// Committed is false only if the handlers' writes are known to be undone.
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

type redactedError struct{}

func (redactedError) Error() string        { return "the payload was redacted" }
func (redactedError) Is(target error) bool { return target == ErrBodyPruned }

// FaultOfRows reports whether err is, or may be, the fault of single rows of a statement and nothing was
// written. The statement may succeed for halves of its rows.
func FaultOfRows(err error) bool {
	return errors.Is(err, ErrBadRow) || errors.Is(err, ErrNotStored) || errors.Is(err, ErrLockTimeout) ||
		errors.Is(err, ErrSerialization) || errors.Is(err, ErrRefused)
}
