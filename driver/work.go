package driver

import (
	"context"
	"time"
)

// Driver is a Store whose transactions are of type T: pgx.Tx or *sql.Tx. It is
// what takes events and claims into a transaction in which the user's code works
// too. All methods may be called concurrently.
type Driver[T any] interface {
	Store

	// Take begins a transaction and takes into it up to p.Limit due events that
	// wait for a handler, those that became due first, so that nobody else takes
	// them while it lasts. It returns nil where it found none. Events that other
	// transactions have taken are passed over; and so is what is in a run that
	// was interrupted, until SweepRuns has dealt with it.
	//
	// The run is on record, in a commit of its own, before Take returns: whatever
	// becomes of the process, SweepRuns finds out. The caller must end the run by
	// Finish, Settle or Abandon.
	Take(ctx context.Context, p *TakeParams) (Run[T], error)

	// TakeClaim begins a transaction and claims one event in it, whose Work is
	// WorkDone. Where it is claimed, or was dead and is reopened, the run holds
	// it, and nothing is committed before Finish. For any other duplicate the run
	// is nil. It waits up to p.LockTimeout for another session that is about to
	// claim it. Such a run is not on record: where the process ends, the claim is
	// undone with it.
	TakeClaim(ctx context.Context, p *ClaimParams) (Run[T], ClaimResult, error)

	// ClaimTx is Claim in the caller's transaction, which the caller commits. Each
	// claim's Work is WorkDone or WorkNone. A dead event is reopened, as done, if
	// p.Reopen says so. No setting of the transaction is left changed. After an
	// error of PostgreSQL the transaction can only be rolled back.
	ClaimTx(ctx context.Context, tx T, p *ClaimParams) ([]ClaimResult, error)

	// EnqueueTx writes messages in the caller's transaction. A message whose ID
	// was enqueued before, while its row is kept, is passed over. No setting of
	// the transaction is left changed.
	EnqueueTx(ctx context.Context, tx T, messages []OutboxMessage) error

	// WorkLimits tells what suits the database.
	WorkLimits() WorkLimits
}

// WorkLimits are the limits of handlers that suit a database.
type WorkLimits struct {
	// Transactions is how many transactions of handlers at a time are worth
	// beginning.
	Transactions int
	// HandlerTimeout is the default time-out of one handler; MaxHandlerTimeout
	// the largest that the store can keep its word for.
	HandlerTimeout, MaxHandlerTimeout time.Duration
	// BatchTime is how long a transaction may last before no further handler is
	// begun in it.
	BatchTime time.Duration
}

// Run is one transaction in which handlers run. Its methods must not be called
// concurrently, except for Sever.
type Run[T any] interface {
	// Tx is the transaction, for the handlers. It must not be used after the run
	// has ended.
	Tx() T

	// Events are the events of the run, in the order in which they were due.
	Events() []TakenEvent

	// Check says what became of the transaction under a handler that returned
	// handlerErr. nil means that it is as it was. The error matches
	//
	//   - ErrTxEnded where the handler committed or rolled back (TxEndedError tells
	//     which),
	//   - ErrTxAborted where a statement had failed, and PostgreSQL takes no other,
	//   - ErrSerialization where the database gave up in favour of a concurrent
	//     transaction: that is not the handler's fault,
	//   - ErrUnavailable where the connection is lost, or the database is full,
	//     busy or shutting down: that is not its fault either.
	//
	// Where handlerErr is not nil, nil means that the failure is the handler's own.
	Check(ctx context.Context, handlerErr error) error

	// Versions locks what is known of objects until the run ends, in an order
	// that keeps runs from deadlocking, and returns their versions; nil for an
	// object that nothing was applied of. It is called at most once, before the
	// first handler.
	Versions(ctx context.Context, objects []Key) (map[Key]ObjectVersion, error)

	// Finish records outcomes and commits, all in the transaction of the run.
	// Events without an outcome are released: it costs them nothing. Where the
	// outcome is a failure it must be the only one, and what the handler wrote is
	// undone. After an error nothing was committed, unless it matches
	// ErrCommitUnknown; it matches what Check returns, or ErrBadRow where the
	// database refused at the commit what the handlers wrote. The run has not
	// ended then: Settle or Abandon must follow.
	Finish(ctx context.Context, p *FinishParams) error

	// Settle rolls back, if there is still something to roll back, and records
	// outcomes in a transaction of its own. It does nothing, and returns
	// ErrNotFound, where the record of the run is gone: then the run had been
	// committed, or was taken for interrupted. An error leaves the events to
	// SweepRuns.
	Settle(ctx context.Context, p *FinishParams) error

	// Abandon rolls back and removes the record of the run: it costs the events
	// nothing. It may be called after Finish, and does nothing after a success.
	// Where the database cannot be reached, the record stays for SweepRuns.
	Abandon(ctx context.Context) error

	// Sever cuts the transaction off from under a handler that does not return.
	// It may be called while the handler uses the transaction. Settle or Abandon
	// must follow.
	Sever()
}

// TakeParams are the parameters of Driver.Take.
type TakeParams struct {
	Source string
	// Types are the types of events to take: exact, or with '*' for any text. The
	// pattern "*" takes those without a type too.
	Types []string
	Limit int // at least 1
	// Tried takes what has an attempt or an interrupted run behind it, of this
	// generation; otherwise only what has neither is taken.
	Tried bool
	// Keys, if there are any, takes those of these events that are pending,
	// whether or not they are due, and does not look at Types and Tried.
	Keys []Key
	// HandlerTimeout is how long a handler may take; the store allows for more
	// before it cuts a silent process off.
	HandlerTimeout time.Duration
	Now            time.Time // tests only; zero means the database's clock
}

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
	Attempts      int  // counted so far in this generation
	Crashes       int  // runs of this generation that were interrupted
	Replayed      bool // an operator replayed it, so it is applied even if it is stale
}

// WorkOutcome is what came of running a handler.
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
)

// WorkResult is the outcome of one event.
type WorkResult struct {
	Key     Key
	Outcome WorkOutcome
	RetryIn time.Duration // for WorkRetry
	Error   string        // of a failure, or why it is stale; valid UTF-8 without NUL
	Took    time.Duration // how long the handler took
}

// FinishParams are the parameters of Run.Finish and Run.Settle.
type FinishParams struct {
	Results []WorkResult
	// Versions are what was applied; Finish only. A version is kept where it is
	// higher than the one that is there.
	Versions []ObjectVersion
	Now      time.Time // tests only; zero means the database's clock
}

// ObjectVersion is a version of something that a source tells about.
type ObjectVersion struct {
	Object  Key    // see ObjectKey
	Source  string // the source, for its window
	Version []byte // compared as bytes; at most 255 of them
	Shown   string // the version as it is shown; at most 255 bytes
}

// ObjectKey returns the key under which versions of an object are kept. scope is
// "" for handlers, and the name of the route for what is sent.
func ObjectKey(source, scope, object string) Key {
	return hashStrings("object", []string{source, scope, object})
}

// OutboxMessage is a message that is not the claim's: it has a body of its own.
type OutboxMessage struct {
	ID          string // at most 255 bytes of printable ASCII without '.'
	Destination string
	// Source, EventID and Type tell where it comes from; they may be "".
	Source  string
	EventID string
	Type    string
	// Cause is the event whose handler wrote it; zero if there is none.
	Cause   Key
	Headers []byte // JSON object of header name to list of values
	Body    []byte
}

// OutboxKey returns the key of the row that holds what message id carries.
func OutboxKey(id string) Key { return hashStrings("outbox", []string{id}) }

// DueSource is a source that has events due for handlers.
type DueSource struct {
	Source string
	Fresh  bool // there are some that were never tried
	Tried  bool // there are some that were, see TakeParams.Tried
}

// ReserveParams are the parameters of Store.Reserve.
type ReserveParams struct {
	Source string
	Types  []string // as TakeParams.Types
	Limit  int
	For    time.Duration // how long nobody else takes them
	Now    time.Time     // tests only; zero means the database's clock
}

// SweepRunsParams are the parameters of Store.SweepRuns.
type SweepRunsParams struct {
	// Sources are those whose events are looked at; none means all. Whoever runs
	// handlers sweeps for its own sources, whose schedule of retries it knows.
	Sources []string
	// MaxAttempts is how many attempts an event has.
	MaxAttempts int
	// First and Max are the schedule of retries: attempt n+1 follows attempt n
	// after a random time of up to First·2ⁿ⁻¹, and at most Max.
	First, Max time.Duration
	Now        time.Time // tests only; zero means the database's clock
}

// LostRun is an event whose run was interrupted.
type LostRun struct {
	Key      Key
	Source   string
	EventID  string
	Attempts int
	Alone    bool // it was the only event of its run, so an attempt was counted
	Dead     bool // it was its last attempt
}

// ErrorRunInterrupted is what is recorded of an attempt whose run was
// interrupted.
const ErrorRunInterrupted = "the process that ran the handler ended, was stopped or lost its connection before an outcome was recorded"

// InlineFailure is a failed run of an event whose claim was undone with it.
type InlineFailure struct {
	Claim Claim
	Error string // valid UTF-8 without NUL
	// Dead files the dead letter whatever the number of failures.
	Dead bool
	// Limit is how many failures file it otherwise; at least 1.
	Limit int
	Now   time.Time // tests only; zero means the database's clock
}

// InlineFailed is what Store.CountInlineFailure did.
type InlineFailed struct {
	Failures int  // so far
	Dead     bool // the event is claimed by now, and dead
}

// FileFailuresParams are the parameters of Store.FileInlineFailures.
type FileFailuresParams struct {
	OlderThan time.Duration // since the last failure; must be positive
	Limit     int           // at most so many
	Now       time.Time     // tests only; zero means the database's clock
}
