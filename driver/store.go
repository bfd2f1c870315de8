package driver

import (
	"context"
	"crypto/sha256"
	"math"
	"time"
)

// Store is a database that hookonce works on. All methods may be called
// concurrently, from any number of processes. Every method honours the
// deadline of its context; it never outlives it by more than it takes to give
// the connection up.
type Store interface {
	Migrator

	// Claim inserts the events of p that are not in the store yet, each with
	// the state row and the messages it owes, in one commit, and tells for
	// each what it found. It returns as many results as p has claims, in the
	// same order. On any error nothing was claimed, unless the error matches
	// ErrCommitUnknown.
	Claim(ctx context.Context, p *ClaimParams) ([]ClaimResult, error)

	// ClaimConcurrency is how many calls of Claim at a time are worth making.
	ClaimConcurrency() int

	// Reopen gives those of the keys whose events are dead a new generation
	// and full attempts, and returns their keys. It skips what another
	// session has locked and what is not dead. Of a routed event only its
	// dead messages are reopened, under the ids they had.
	Reopen(ctx context.Context, p *ReopenParams) ([]Key, error)

	// CountDeliveries adds to the counts of duplicate deliveries.
	// Keys without an event are ignored.
	CountDeliveries(ctx context.Context, p *CountDeliveriesParams) error

	// Quarantine keeps verified requests that are not usable as events. A
	// body of one source that is there already is counted, not stored again.
	Quarantine(ctx context.Context, p *QuarantineParams) error

	// Lease takes up to p.Limit due messages of one destination, oldest due
	// first, or as p.Untried says, counts an attempt on each and gives it a
	// token that is higher than any it had before, also before its event was
	// pruned and claimed again. A message whose lease ran out is due again. One
	// whose attempts are used up, because its last lease ran out or because
	// p.MaxAttempts was lowered, is made dead instead of leased; where it finds
	// nothing but such ones it looks again, MaxLeaseRounds times in all. Whoever
	// is told of buried messages alone asks again at once: there may be more, and
	// others behind them. Messages that other sessions have locked are skipped.
	//
	// An attempt whose lease ran out is recorded, when that is found, among the
	// attempts of its message: as "retry" with ErrorLeaseRanOut, or as "dead"
	// with ErrorLastLeaseRanOut if it was the last one. The latter becomes the
	// last error of the message too.
	Lease(ctx context.Context, p *LeaseParams) (*Leased, error)

	// Complete records what came of leased messages and tells for each
	// whether the lease was still held: where it was not, nothing was
	// changed for that message. A lease that ran out and that nobody took
	// over is still held.
	Complete(ctx context.Context, p *CompleteParams) ([]bool, error)

	// Release gives leases back without having sent: the messages are due at
	// once and the attempt is not counted. Lost leases are ignored.
	Release(ctx context.Context, p *ReleaseParams) error

	// Replay makes a finished event owed again, with a new generation and full
	// attempts: what of it is dead; or, if nothing is, what was done; or, if all
	// of it was skipped, all. Of messages with one route only that of the
	// highest generation counts. It is one transaction, which first locks the
	// event, so that of concurrent calls one wins and pruning keeps off. The
	// error matches ErrNotFound, ErrRequestReused, ErrOpen, ErrBodyPruned,
	// ErrModeNeeded, ErrNoRoute or ErrLockTimeout, in this order of precedence;
	// then nothing was changed, and a RequestID is not remembered.
	Replay(ctx context.Context, p *ReplayParams) (*Replayed, error)

	// ReplayDead makes dead letters due again under the ids they had, with a new
	// generation and full attempts, whether or not others of their event are
	// open. It tells for each whether it was: those that are not dead any more,
	// and those that other sessions have locked, are left alone. One that is
	// named twice is replayed once.
	ReplayDead(ctx context.Context, p *DeadLetterParams) ([]bool, error)

	// Discard makes dead letters skipped, with NoteDiscarded, in the generation
	// they have, and tells for each whether it did, as ReplayDead does.
	Discard(ctx context.Context, p *DeadLetterParams) ([]bool, error)

	// RetryMessage makes a pending message due at once, with the attempts and
	// the generation it has, and a dead or skipped one due again as ReplayDead
	// does. The error matches ErrNotFound, ErrOpen for one that is being sent,
	// ErrSent, ErrBodyPruned or ErrLockTimeout.
	RetryMessage(ctx context.Context, p *RetryMessageParams) error

	// DeadLetters lists dead letters, in the order of MessageCursor.
	DeadLetters(ctx context.Context, f *MessageFilter) (*DeadLetterPage, error)

	// Messages lists messages, in the order of MessageCursor.
	Messages(ctx context.Context, f *MessageFilter) (*MessagePage, error)

	// Quarantined lists the quarantine, what came last first.
	Quarantined(ctx context.Context, f *QuarantineFilter) (*QuarantinePage, error)

	// Stats counts what waits and what is stuck.
	Stats(ctx context.Context) (*Stats, error)

	// Events lists events, newest first.
	Events(ctx context.Context, f *EventFilter) (*EventPage, error)

	// Event returns one event with all that is known of it, by its source and
	// its id as it is shown. The error matches ErrNotFound when there is none.
	Event(ctx context.Context, source, eventID string) (*EventDetail, error)

	// DueSources tells which of the sources have events due for handlers. It is
	// cheap, whatever waits for others.
	DueSources(ctx context.Context, sources []string) ([]DueSource, error)

	// Reserve keeps due events from being taken for a time, and returns them: for
	// what has to be done before the transaction begins. If they are not taken by
	// then, by Keys, they are due again. It counts no attempt.
	Reserve(ctx context.Context, p *ReserveParams) ([]TakenEvent, error)

	// RecordReserved records outcomes of reserved events that were not run. Those
	// that are not pending any more are passed over.
	RecordReserved(ctx context.Context, p *FinishParams) error

	// SweepRuns finds runs that were interrupted, because their process ended or
	// lost its connection. An event that was alone in its run has an attempt
	// counted, with ErrorRunInterrupted, and is due again with backoff, or dead if
	// it was the last. The others of a run may be innocent: they are only
	// remembered as tried, and are due at once. It returns what it found.
	SweepRuns(ctx context.Context, p *SweepRunsParams) ([]LostRun, error)

	// Versions returns what is known to be applied of objects, without locking.
	Versions(ctx context.Context, objects []Key) (map[Key]ObjectVersion, error)

	// CountInlineFailure counts a failed run of an event that is not claimed, and
	// keeps its body. The one that is the last, or says so, files the dead letter:
	// the event is claimed, with the messages that it owes, dead, and its attempts are
	// the failures. Where the event is claimed by now, nothing is counted.
	CountInlineFailure(ctx context.Context, p *InlineFailure) (*InlineFailed, error)

	// FileInlineFailures files dead letters for events whose runs failed and that
	// were not delivered again for long, and returns how many.
	FileInlineFailures(ctx context.Context, p *FileFailuresParams) (int, error)

	// Arm lets a source take one secret that its provider hands over, until p.For has
	// passed by the store's clock; before, it forgets how the source was armed. It
	// returns what LearnedSecrets does. The error matches ErrTooManySecrets where the
	// source has MaxLearnedSecrets and p does not replace them.
	Arm(ctx context.Context, p *ArmParams) (*SourceSecrets, error)

	// LearnSecret keeps a secret, if the source is armed, and disarms it, in one commit:
	// of concurrent calls one returns true. Where that commit made the source forget
	// others, as ArmParams.Replace says, they are gone.
	LearnSecret(ctx context.Context, p *LearnParams) (bool, error)

	// LearnedSecrets returns what is known of each of the sources, in their order.
	LearnedSecrets(ctx context.Context, sources []string) ([]SourceSecrets, error)

	// Prune removes, in chunks of at most p.Chunk rows and one short
	// transaction each, the bodies past their retention, and the identities
	// past their window together with everything that belongs to them.
	// Whatever is owed (pending, running, dead) stays. With an error comes what was
	// removed before it, unless the parameters are at fault.
	Prune(ctx context.Context, p *PruneParams) (*PruneResult, error)

	// Weaknesses reads the database's durability settings and returns those
	// under which an acknowledged event could be lost.
	Weaknesses(ctx context.Context) ([]Weakness, error)

	// Now returns the database's clock. It is also the cheapest proof that
	// the database can be reached.
	Now(ctx context.Context) (time.Time, error)

	// Close releases what the store opened itself.
	Close() error
}

// Work is what an event owes besides messages.
type Work int

const (
	// WorkNone: the event's state is that of its messages; without any it is
	// done, with the note NoteNoRoute.
	WorkNone Work = iota
	// WorkQueued: the event gets a state row and waits as pending for a
	// handler or an SQL consumer.
	WorkQueued
	// WorkDone: the event gets a state row and is done: the work is in the
	// transaction of the claim. Only for Driver.TakeClaim and Driver.ClaimTx.
	WorkDone
)

// BodyGuard says what a store does with a body that it has seen before, from
// the same source, under another event id.
type BodyGuard int

const (
	// BodyIgnore: bodies are not compared. For ids that are signed.
	BodyIgnore BodyGuard = iota
	// BodyWatch: the event is claimed, and ClaimResult.RepeatOf tells the
	// first event with that body.
	BodyWatch
	// BodyRefuse: the event is not claimed, and reported as Duplicate with
	// ClaimResult.RepeatOf set.
	BodyRefuse
)

// Claim is one event to be claimed.
type Claim struct {
	Key        Key
	Source     string    // name of the source
	EventID    string    // as shown; valid UTF-8 without control characters
	Type       string    // "" where the provider has none
	OccurredAt time.Time // as the sender says; zero if unknown
	Headers    []byte    // JSON object of header name to list of values
	Body       []byte    // as received, byte for byte
	BodyHash   [sha256.Size]byte
	BodyGuard  BodyGuard
	Work       Work
	Messages   []NewMessage // one for each matched route
}

// NewMessage is a message that a claim owes. Its body and headers are the
// event's.
type NewMessage struct {
	ID          string // see MessageID
	Route       string
	Destination string
}

// ClaimParams are the parameters of Store.Claim.
type ClaimParams struct {
	// Claims are sorted by Key, ascending, without repetition: the order
	// keeps concurrent batches from deadlocking. A store panics on any other
	// order.
	Claims []Claim
	// LockTimeout bounds the wait for a key that another session is about to
	// claim. 0 means 1 s.
	LockTimeout time.Duration
	// MostlyKnown is a hint that changes no result: most of the events are expected to
	// be there already, so that it pays to look before their bodies are sent.
	MostlyKnown bool
	// Reopen reopens dead events; only for Driver.TakeClaim and Driver.ClaimTx.
	Reopen bool
	Now    time.Time // tests only; zero means the database's clock
}

// ClaimResult is what became of one Claim.
type ClaimResult struct {
	// Claimed is true for the one caller who inserted the event, and false
	// for a duplicate.
	Claimed bool
	// OtherBody is true for a duplicate whose body is known to differ from
	// that of the claimed event.
	OtherBody bool
	// Dead is true for a duplicate whose event was dead when it was read.
	Dead bool
	// Reopened is true for a duplicate that was dead and is claimed again in a
	// new generation, as ClaimParams.Reopen asked.
	Reopened bool
	// Generation and KeyGeneration (see TakenEvent) are those of a reopened event;
	// else 0.
	Generation, KeyGeneration int
	// RepeatOf is the id of the event that first brought this body, where
	// BodyGuard asked for it and that event is another one; else "".
	RepeatOf string
	// RepeatOfKey is the key of that event, zero where RepeatOf is "".
	RepeatOfKey Key
}

// ReopenParams are the parameters of Store.Reopen.
type ReopenParams struct {
	Keys []Key
	Now  time.Time // tests only; zero means the database's clock
}

// DeliveryCount is what was counted for one event since the last flush.
type DeliveryCount struct {
	Key         Key
	Duplicates  int // deliveries after the first
	OtherBodies int // those of them whose body differed
	Repeats     int // deliveries of this event's body under other ids
}

// CountDeliveriesParams are the parameters of Store.CountDeliveries.
type CountDeliveriesParams struct {
	Counts []DeliveryCount // sorted by Key, without repetition
	Now    time.Time       // tests only; zero means the database's clock
}

// Quarantined is a verified request without a usable event.
type Quarantined struct {
	Source   string
	BodyHash [sha256.Size]byte
	Headers  []byte // as in Claim
	Body     []byte
	Reason   string // what was wrong, for the operator
}

// QuarantineParams are the parameters of Store.Quarantine.
type QuarantineParams struct {
	Requests []Quarantined
	Now      time.Time // tests only; zero means the database's clock
}

// MaxLeaseRounds is how often one call of Store.Lease looks, each time at as many
// messages as its limit.
const MaxLeaseRounds = 10

// LeaseParams are the parameters of Store.Lease.
type LeaseParams struct {
	Destination string
	Limit       int
	For         time.Duration // how long the lease holds
	MaxAttempts int           // at least 1
	// Untried takes only what was never tried in its generation, and what became
	// due last first: for the probe of a circuit that what was tried keeps open.
	Untried bool
	Now     time.Time // tests only; zero means the database's clock
}

// Leased is what a lease found.
type Leased struct {
	Messages []Message
	// Buried are the messages that were made dead because their attempts were
	// used up; without token, headers and body. Attempt is that of the last one.
	Buried []Message
}

// Message is a leased message.
type Message struct {
	ID          string
	Key         Key
	Token       int64 // fencing token of this lease
	Attempt     int   // from 1
	Expired     bool  // the lease before this one ran out: who had it may have sent it
	Generation  int   // 0 unless replayed or reopened
	Source      string
	EventID     string
	Type        string
	Route       string
	Destination string
	ReceivedAt  time.Time
	Replayed    bool   // an operator replayed it, so it is sent even if it is stale
	Headers     []byte // the event's, or the message's own
	Body        []byte // the event's, or the message's own
}

// MessageOutcome is what came of an attempt to send.
type MessageOutcome int

const (
	// MessageSent: the destination took it.
	MessageSent MessageOutcome = iota + 1
	// MessageRetry: due again after Completion.RetryIn.
	MessageRetry
	// MessageDead: out of attempts, or failed for good.
	MessageDead
	// MessageStale: not sent, because it is older than what was sent; it is
	// skipped, with NoteStale, and the attempt is not counted.
	MessageStale
)

// Completion is the outcome of one leased message.
type Completion struct {
	ID         string
	Token      int64
	Outcome    MessageOutcome
	RetryIn    time.Duration // for MessageRetry
	StatusCode int           // the destination's answer; 0 if there was none
	Error      string        // valid UTF-8 without NUL; "" for MessageSent; why it is stale
	Took       time.Duration // how long the attempt took
	// Applied is what the destination has with MessageSent, where that is
	// watched. It is kept where it is higher than what is there.
	Applied *ObjectVersion
}

// CompleteParams are the parameters of Store.Complete.
type CompleteParams struct {
	Completions []Completion
	Now         time.Time // tests only; zero means the database's clock
}

// ReleaseParams are the parameters of Store.Release.
type ReleaseParams struct {
	Leases []MessageLease
	Now    time.Time // tests only; zero means the database's clock
}

// MessageLease names a lease.
type MessageLease struct {
	ID    string
	Token int64
}

// PruneParams are the parameters of Store.Prune.
//
// A window that is not positive is an error, so that a forgotten one does not
// mean "keep nothing"; in Sources it stands for that of all sources.
type PruneParams struct {
	DedupeWindow time.Duration            // how long an identity is kept after the event was received
	Retention    time.Duration            // how long bodies and headers are kept
	Sources      map[string]SourceWindows // sources that differ
	// QuarantineRows is how many quarantined requests are kept of each
	// source, those seen last; 0 keeps all within Retention.
	QuarantineRows int
	Chunk          int // rows removed in one step, at most; 0 means a number that suits the store
	// Rest is how long to rest after each step, in multiples of how long it took; 0
	// does not rest.
	Rest float64
	Now  time.Time // tests only; zero means the database's clock
}

// Pause rests as p.Rest says after a step that began at began. Stores call it between two
// steps, outside any transaction. The error is that of ctx, if it ended.
func (p *PruneParams) Pause(ctx context.Context, began time.Time) error {
	rest := min(p.Rest*float64(time.Since(began)), math.MaxInt64/2)
	timer := time.NewTimer(time.Duration(rest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SourceWindows are the windows of one source.
type SourceWindows struct {
	DedupeWindow time.Duration
	Retention    time.Duration
}

// PruneResult tells what Prune removed.
type PruneResult struct {
	Events      int64 // identities, with all that belongs to them
	Bodies      int64 // bodies and headers of events whose identity is kept
	Quarantined int64
}

// Weakness is a durability setting under which a commit can be lost.
type Weakness struct {
	Setting string // the name to allow it by, as "fsync"
	Value   string // what it is set to
	Effect  string // what can happen, one sentence
	Remedy  string // what to do, one sentence
}

// Migration is one step of the schema.
type Migration struct {
	Version int // from 1, without gaps
	Name    string
	SQL     string
}

// Migrator is what package hookmigrate needs of a store.
type Migrator interface {
	// Migrations returns the steps that this program knows, in order.
	Migrations() []Migration
	// Applied returns the versions that the database has, in order; none for
	// an empty database.
	Applied(ctx context.Context) ([]int, error)
	// Apply brings the database to the newest version in one transaction,
	// under a lock that makes concurrent callers wait, and returns the steps
	// it took. Steps that are already there are left alone.
	Apply(ctx context.Context) ([]Migration, error)
}
