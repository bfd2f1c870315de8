package driver

import (
	"context"
	"time"
)

// Driver is a Store whose transactions are of type T: pgx.Tx or *sql.Tx. It takes events and claims
// into a transaction that the user's code shares. All methods may be called concurrently.
type Driver[T any] interface {
	Store

	// Take begins a transaction and takes into it up to p.Limit due events that wait for a handler,
	// the longest due first. No other transaction can take them while it lasts. Take returns nil if
	// it found none. It skips events that other transactions have taken, and events of an
	// interrupted run until SweepRuns has dealt with them.
	//
	// Before Take returns, the run is on record in a commit of its own. So if the process ends,
	// SweepRuns notices. The caller must end the run by Finish, Settle or Abandon.
	Take(ctx context.Context, p *TakeParams) (Run[T], error)

	// TakeClaim begins a transaction and claims one event in it, whose Work is WorkDone. If it
	// claims the event, or reopens a dead one, the run holds the event, and nothing is committed
	// before Finish. For any other duplicate the run is nil. It waits up to p.LockTimeout for
	// another session that is about to claim the event. Such a run is not on record: if the process
	// ends, the claim is undone with it.
	TakeClaim(ctx context.Context, p *ClaimParams) (Run[T], ClaimResult, error)

	// ClaimTx is Claim in the caller's transaction, which the caller commits. The Work of each
	// claim is WorkDone or WorkNone. If p.Reopen is set, a dead event is reopened, as done. ClaimTx
	// leaves no setting of the transaction changed, except that it raises a synchronous_commit that
	// could lose the claims. After an error of PostgreSQL the transaction
	// can only be rolled back.
	ClaimTx(ctx context.Context, tx T, p *ClaimParams) ([]ClaimResult, error)

	// EnqueueTx writes messages in the caller's transaction. It skips a message while the row of an
	// earlier message with its ID is kept, with one exception: if that row is finished and has a lower
	// CauseGeneration, it becomes due again with full attempts in a new generation, which the history
	// records. If its body was pruned, it gets the body and headers of the new message. Of the settings
	// of the transaction EnqueueTx may raise synchronous_commit.
	EnqueueTx(ctx context.Context, tx T, messages []OutboxMessage) error

	// CheckHandlers returns an error if the store cannot keep handlers' writes in their
	// transactions. It returns nil if the database does not answer.
	CheckHandlers(ctx context.Context) error

	// WorkLimits returns the limits that suit the database.
	WorkLimits() WorkLimits
}

// WorkLimits are the limits of handlers that suit a database.
type WorkLimits struct {
	// Transactions is the useful number of concurrent transactions of queued handlers.
	Transactions int
	// MaxTransactions is the largest number of concurrent transactions of handlers of all kinds that
	// leaves connections for leases, outcomes and upkeep. 0 means any number. If it is negative, the
	// pool has no room for handlers.
	MaxTransactions int
	// HandlerTimeout is the default timeout of one handler. MaxHandlerTimeout is the largest
	// timeout that the store can guarantee.
	HandlerTimeout, MaxHandlerTimeout time.Duration
	// BatchTime is the maximum age of a transaction when a handler begins in it.
	BatchTime time.Duration
}

// Run is one transaction with its handlers. Its methods must not be called concurrently, except for
// Sever.
type Run[T any] interface {
	// Tx is the transaction for the handlers. It must not be used after the end of the run.
	Tx() T

	// Events are the events of the run, the longest due first.
	Events() []TakenEvent

	// Check returns the state of the transaction after a handler returned handlerErr. nil means
	// that the transaction is intact. The error matches
	//
	//   - ErrTxEnded if the handler committed or rolled back (TxEndedError tells them apart),
	//   - ErrTxAborted if a statement failed, and PostgreSQL accepts no other,
	//   - ErrSerialization if the database aborted in favour of a concurrent transaction: not the
	//     handler's fault,
	//   - ErrUnavailable if the connection is lost, or the database is full, busy or shutting down:
	//     not its fault either.
	//
	// If handlerErr is not nil, a nil result means that the failure is the handler's own.
	Check(ctx context.Context, handlerErr error) error

	// Next says that the handler of the event key is about to begin. done holds the outcomes since
	// the last call, which are successes or stale events, and the versions that they apply. A store
	// records them in the transaction if that costs no round trip. Then SweepRuns can tell the
	// events of a run apart if a handler commits by itself and the process ends. Finish and Settle
	// get all outcomes and versions in any case.
	Next(ctx context.Context, key Key, done *FinishParams) error

	// Versions locks the version rows of objects until the run ends, without waiting for other runs.
	// It returns the applied versions; nil for an object without one. busy are the objects that other
	// runs hold: their events must not be handled now. Call it before the first handler, and again
	// for busy objects.
	Versions(ctx context.Context, objects []Key) (applied map[Key]ObjectVersion, busy []Key, err error)

	// Finish records outcomes and commits, all in the transaction of the run. Events without an
	// outcome are released and lose no attempt. An outcome that is a failure must be the only
	// outcome; the handler's writes are then undone.
	//
	// After an error nothing was committed, unless the error matches ErrCommitUnknown. The error
	// matches one of Check's, or ErrBadRow if the database refused the handlers' writes at the
	// commit. The run has not ended then: call Settle or Abandon.
	Finish(ctx context.Context, p *FinishParams) error

	// Settle rolls back, if there is still something to roll back, and records outcomes in a
	// transaction of its own. If the record of the run is gone, it does nothing and returns
	// ErrNotFound: the run was committed, or was treated as interrupted.
	//
	// The outcomes must fit the end of the transaction: one is WorkEnded if and only if a handler
	// committed it. Then the others may be successes with their versions, stale or postponed
	// events; otherwise they are failures. If they do not fit, Settle records nothing and returns a TxEndedError: call it
	// again. After any other error it may be called again too, or SweepRuns deals with the events.
	Settle(ctx context.Context, p *FinishParams) error

	// Abandon rolls back and removes the record of the run; its events lose no attempt. It may be
	// called after Finish, and does nothing after a success. If a handler committed the
	// transaction, it records nothing and returns a TxEndedError: call Settle. If the database
	// cannot be reached, the record stays for SweepRuns.
	Abandon(ctx context.Context) error

	// Sever cuts the transaction off while a handler that does not return may still use it. Call
	// Settle or Abandon afterwards.
	Sever()
}

// MaxTakeBytes is the default of TakeParams.Bytes and ReserveParams.Bytes.
const MaxTakeBytes = 32 << 20

// TakeParams are the parameters of Driver.Take.
type TakeParams struct {
	Source string
	// Types are the types of events to take: exact, or with '*' for any text. The pattern "*" also
	// takes events without a type.
	Types []string
	Limit int // at least 1
	// Bytes bounds the headers and bodies of the events together, as stored. The first event is
	// taken in any case; others that do not fit stay due. 0 means MaxTakeBytes.
	Bytes int64
	// Tried takes only events that have a failed attempt or an interrupted run in their generation.
	// Otherwise only events without either are taken.
	Tried bool
	// Suspects says whether events with an interrupted run are taken.
	Suspects Suspects
	// Keys, if not empty, takes the pending events among them, whether or not they are due. Types,
	// Tried and Suspects are then ignored.
	Keys []Key
	// Lines, if not empty, are the lines of Keys that Store.Admit has admitted, one for each; a zero key stands for none.
	// Take leaves an event if another one of its line was admitted since.
	Lines []Key
	// Beside says that handlers of other runs may work in this process at the same time. If the
	// process ends, nothing tells which run was at fault: an interrupted run of one event counts
	// no attempt then, as one of several events.
	Beside bool
	// HandlerTimeout is the time limit of a handler. The store allows some more before it cuts a
	// silent process off.
	HandlerTimeout time.Duration
	// Skip and Refused are like those of ReserveParams, for a store that changes rows to take events.
	Skip    []Key
	Refused func(RefusedEvent)
	// Retry is the schedule of the handlers. It is recorded with the run, because SweepRuns in
	// another process counts the attempt if the run is interrupted.
	Retry Retry
	Now   time.Time // tests only; zero means the database's clock
}

// Suspects selects events by their interrupted runs: an event that had one in its generation may be
// the reason.
type Suspects int

const (
	// AlsoSuspects selects events with and without an interrupted run.
	AlsoSuspects Suspects = iota
	// NoSuspects selects events without an interrupted run.
	NoSuspects
	// OnlySuspects selects events with an interrupted run.
	OnlySuspects
)

// TakenEvent is an event in a run.
type TakenEvent struct {
	Key        Key
	Source     string
	EventID    string
	Type       string
	OccurredAt time.Time // zero if the sender did not say
	ReceivedAt time.Time
	Headers    []byte
	Body       []byte
	Generation int
	// KeyGeneration is the generation of the last replay as new; 0 if there was none.
	KeyGeneration int
	Attempts      int  // counted so far in this generation; of TakeClaim, the InlineFailures
	Crashes       int  // interrupted runs in this generation
	Replayed      bool // an operator replayed it, so it is applied even if stale
	// DueAt is when it was due, or the end of its reservation, to the microsecond. It differs after
	// another caller has reserved, postponed or failed the event. It is zero in a run of TakeClaim.
	DueAt time.Time
	// Unreadable is why the database cannot read Headers and Body, which are nil then. Otherwise it is nil.
	Unreadable error
}

// WorkOutcome is the outcome of running a handler.
type WorkOutcome int

const (
	// WorkSucceeded: the event is done.
	WorkSucceeded WorkOutcome = iota + 1
	// WorkStale: the event is skipped, with NoteStale; no attempt is counted.
	WorkStale
	// WorkRetry: a failed attempt; the event is due again after RetryIn.
	WorkRetry
	// WorkFailed: a failed attempt, and the event is dead.
	WorkFailed
	// WorkPostponed: the event was not handled, and no attempt is counted; it is due again after
	// RetryIn. Not for a run of TakeClaim.
	WorkPostponed
	// WorkEnded: the handler committed the transaction by itself, so the event is dead with
	// NoteTxEnded. For Run.Settle only.
	WorkEnded
)

// WorkResult is the outcome of one event.
type WorkResult struct {
	Key     Key
	Outcome WorkOutcome
	RetryIn time.Duration // for WorkRetry and WorkPostponed
	Error   string        // of a failure, or the reason of WorkStale; valid UTF-8 without NUL
	Took    time.Duration // duration of the handler
	// ReservedUntil is the DueAt of a reserved event; only for RecordReserved.
	ReservedUntil time.Time
	// Line is the event's line, with its version; nil: it is in none. The line keeps the version of an event that
	// succeeded, and goes on in the same commit.
	Line *ObjectVersion
}

// FinishParams are the parameters of Run.Finish and Run.Settle.
type FinishParams struct {
	Results []WorkResult
	// Versions are the applied object versions. Each is stored if it is higher than the stored
	// version. Settle stores them only together with WorkEnded, and without waiting for other runs: it
	// leaves out the versions of objects that they hold.
	Versions []ObjectVersion
	Now      time.Time // tests only; zero means the database's clock
}

// ObjectVersion is a version of an object that a source's events describe.
type ObjectVersion struct {
	Object  Key    // see ObjectKey
	Source  string // determines how long it is kept
	Version []byte // compared as bytes; at most 255 bytes
	Shown   string // readable form; at most 255 bytes
}

// ObjectKey returns the key for the versions of an object. scope is "" for handlers, and the
// route's name for messages.
func ObjectKey(source, scope, object string) Key {
	return hashStrings("object", []string{source, scope, object})
}

// DueSource is a source that has events due for handlers.
type DueSource struct {
	Source string
	// It has due events that were never tried, that have a failed attempt and no interrupted run,
	// and that have an interrupted run.
	Fresh, Tried, Suspect bool
}

// ReserveParams are the parameters of Store.Reserve.
type ReserveParams struct {
	Source string
	Types  []string // like TakeParams.Types
	Limit  int
	Bytes  int64 // like TakeParams.Bytes
	// Suspects is like TakeParams.Suspects.
	Suspects Suspects
	For      time.Duration // duration of the reservation
	Skip     []Key         // events to leave out
	// Refused, unless it is nil, is called for due events that are passed over, because the database refuses to change their rows.
	Refused func(RefusedEvent)
	Now     time.Time // tests only; zero means the database's clock
}

// Unreserved returns the outcome of a reserved event that is due again at once.
func Unreserved(e *TakenEvent) *FinishParams {
	return &FinishParams{Results: []WorkResult{{Key: e.Key, Outcome: WorkPostponed, ReservedUntil: e.DueAt}}}
}

// RefusedEvent is an event whose row the database refuses to change, as a trigger of its owner may.
type RefusedEvent struct {
	Key     Key
	EventID string
	Err     error
}

// SweepRunsParams are the parameters of Store.SweepRuns.
type SweepRunsParams struct {
	Now time.Time // tests only; zero means the database's clock
}

// LostRun is an event whose run was interrupted.
type LostRun struct {
	Key      Key
	Source   string
	EventID  string
	Type     string
	Attempts int
	Alone    bool // the only event of its run, without TakeParams.Beside, so an attempt was counted
	Dead     bool // it was its last attempt, or Ended
	Ended    bool // a handler of its run committed the transaction by itself
	// Elsewhere means that the record of the run came from another database, by a restore or a
	// replication. Nothing ran here, so no attempt was counted, and the event is due as before.
	Elsewhere bool
}

// ErrorRunInterrupted is the recorded error of an attempt whose run was interrupted.
const ErrorRunInterrupted = "the process that ran the handler ended, was stopped or lost its connection before an outcome was recorded"

// InlineFailure is a failed run of an event whose claim was rolled back with it.
type InlineFailure struct {
	Claim Claim
	Error string // valid UTF-8 without NUL
	// Dead files the dead letter regardless of the number of failures.
	Dead bool
	// Limit is the number of failures that files the dead letter otherwise; at least 1.
	Limit int
	Now   time.Time // tests only; zero means the database's clock
}

// InlineFailed is the result of Store.CountInlineFailure.
type InlineFailed struct {
	Failures int  // so far
	Dead     bool // the event is now claimed and dead
}

// FiledFailure is an event that Store.FileInlineFailures made a dead letter.
type FiledFailure struct {
	Source, EventID, Type string
	Failures              int
	Error                 string // of the last failure
}

// FileFailuresParams are the parameters of Store.FileInlineFailures.
type FileFailuresParams struct {
	OlderThan time.Duration // minimum age of the last failure; must be positive
	Limit     int           // maximum number of dead letters in one call
	Now       time.Time     // tests only; zero means the database's clock
}
