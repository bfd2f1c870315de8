package driver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Store is a database for hookonce. All methods may be called concurrently, from any number of
// processes. Every method honours the deadline of its context; it returns later only by the time
// that giving up the connection takes.
type Store interface {
	Migrator
	Meter
	Figures
	RefusedRequests
	Feed
	DestinationControl
	Evidence
	ErrorGroups
	Jobs
	DeadNews
	OrderControl
	Reconciling

	// Claim inserts those events of p that are not in the store yet, each with its state row and
	// its messages, in one commit. It returns one result for each claim of p, in the same order. It
	// leases messages with NewMessage.LeaseFor in the same commit. It refuses a database whose
	// settings could lose the claims, unless p.AllowUnsafe names them.
	//
	// After an error nothing was claimed, unless the error matches ErrCommitUnknown. If ctx ends, the
	// store may read p for a while longer.
	//
	// A result may be unsettled if the event was neither inserted nor found. The error matches
	// ErrNotStored if the database accepted an event and dropped one of its other rows.
	Claim(ctx context.Context, p *ClaimParams) ([]ClaimResult, error)

	// Prove shows that the database does the things that hookonce relies on. It claims an event twice and takes it back, in one
	// commit; if that fails, so would Claim. On PostgreSQL two sessions also try a unique key, locks and
	// the ends of transactions, on rows that no other method sees. Prove returns the things that it could not
	// test, each with the reason. The error is a *ServerError if the database lacks one.
	Prove(ctx context.Context) (skipped []string, err error)

	// Server identifies the running server: it returns another text after a restart or a failover. It
	// returns "" if there is no server, or it does not tell.
	Server(ctx context.Context) (string, error)

	// ClaimConcurrency returns the useful number of concurrent calls of Claim.
	ClaimConcurrency() int

	// Reopen gives those keys whose events are dead a new generation and full attempts, and returns
	// these keys. It skips events that are not dead, that are undecided or that have NoteTxEnded. For a
	// routed event it reopens only the dead messages, under their old ids.
	//
	// held are the keys of events that it would reopen, but that another session has locked for
	// ReopenParams.Wait or longer. Their deliveries must not be answered 2xx.
	Reopen(ctx context.Context, p *ReopenParams) (reopened, held []Key, err error)

	// CountDeliveries adds to the counts of duplicate deliveries, and stores the newest of them and
	// the first other body. It ignores keys without an event.
	CountDeliveries(ctx context.Context, p *CountDeliveriesParams) error

	// Quarantine stores verified requests that are not usable as events. A body that the source has
	// already sent is counted, not stored again. ErrNotStored means that the database dropped one.
	Quarantine(ctx context.Context, p *QuarantineParams) error

	// SettleQuarantined removes a request from the quarantine or, if p.Reason is not "", gives it
	// that reason. It reports whether the request was there.
	SettleQuarantined(ctx context.Context, p *SettleQuarantinedParams) (bool, error)

	// Lease takes up to p.Limit due messages of one destination, oldest due first unless p.Untried
	// is set. It counts an attempt on each and gives each a token that is higher than all its
	// earlier ones, even those from before its event was pruned and claimed again. A message with
	// an expired lease is due again. Messages that other sessions have locked are skipped, and so are
	// those of a paused destination.
	//
	// A message without attempts left is made dead instead of leased: its last lease expired, or
	// p.MaxAttempts was lowered. A round that finds only such messages is repeated, up to
	// MaxLeaseRounds rounds in all. A caller that gets only buried messages calls again at once:
	// there may be more of them, and others behind them.
	//
	// When Lease finds an expired lease, it records that attempt of the message: as "retry" with
	// ErrorLeaseRanOut, or, for the last attempt, as "dead" with ErrorLastLeaseRanOut, which then
	// also becomes the message's last error.
	Lease(ctx context.Context, p *LeaseParams) (*Leased, error)

	// Complete records the outcomes of leased messages. For each it returns whether the lease was
	// still held; if not, that message was not changed. An expired lease is still held until
	// another session takes the message over.
	Complete(ctx context.Context, p *CompleteParams) ([]bool, error)

	// Release gives leases back without a send: the messages are due at once and the attempt is not
	// counted. Lost leases are ignored.
	Release(ctx context.Context, p *ReleaseParams) error

	// Replay makes a finished event due again, with a new generation and full attempts. It replays
	// the dead parts of the event. If none is dead, it replays the done parts; if all are skipped,
	// it replays all. Among messages of one route and destination only the one with the highest
	// generation counts, and messages with NoteRerouted count only if there are no others.
	//
	// Replay is one transaction and locks the event first, so one of several concurrent calls wins,
	// and pruning skips the event. The error matches ErrNotFound, ErrRequestReused, ErrOpen,
	// ErrBodyPruned, ErrNoteNeeded, ErrModeNeeded, ErrUndecided, ErrNoRoute or ErrLockTimeout, in
	// this order of precedence; ErrSending, see ReplayReroute, and ErrPassed come last. After such an error nothing was changed, and the RequestID is not
	// remembered.
	Replay(ctx context.Context, p *ReplayParams) (*Replayed, error)

	// ReplayDead makes dead letters due again under their old ids, with a new generation and full
	// attempts. It does so even if other messages of their event are open. For each letter it
	// returns whether it was replayed. It skips letters that are no longer dead or that another
	// session has locked, and events that are undecided or have NoteTxEnded. A letter
	// that is listed twice is replayed once.
	ReplayDead(ctx context.Context, p *DeadLetterParams) ([]bool, error)

	// Discard makes dead letters skipped, with NoteDiscarded, in their current generation, also
	// events that are undecided or have NoteTxEnded. Otherwise its result and its exceptions are
	// those of ReplayDead.
	Discard(ctx context.Context, p *DeadLetterParams) ([]bool, error)

	// RetryMessage makes a pending message due at once, with its attempts and generation, and a
	// dead or skipped one due again as ReplayDead does. The error matches ErrNotFound, ErrOpen for
	// a message that is being sent, ErrSent, ErrBodyPruned or ErrLockTimeout.
	RetryMessage(ctx context.Context, p *RetryMessageParams) error

	// DeadLetters lists dead letters, in the order of Cursor.
	DeadLetters(ctx context.Context, f *MessageFilter) (*DeadLetterPage, error)

	// Messages lists messages, in the order of Cursor.
	Messages(ctx context.Context, f *MessageFilter) (*MessagePage, error)

	// Quarantined lists the quarantine, latest arrival first.
	Quarantined(ctx context.Context, f *QuarantineFilter) (*QuarantinePage, error)

	// QuarantinedRequest returns one request of the quarantine. The error matches ErrNotFound if
	// there is none.
	QuarantinedRequest(ctx context.Context, key Key) (*QuarantinedRequest, error)

	// Stats counts waiting and stuck work.
	Stats(ctx context.Context) (*Stats, error)

	// Events lists events, newest first.
	Events(ctx context.Context, f *EventFilter) (*EventPage, error)

	// Event returns one event with all its details, by its source and its id as it is shown. The
	// error matches ErrNotFound if there is none.
	Event(ctx context.Context, source, eventID string) (*EventDetail, error)

	// EventParts returns the parts of up to MaxLimit events, for the plan of a replay. It leaves out
	// those that do not exist.
	EventParts(ctx context.Context, keys []Key) ([]EventParts, error)

	// DueDestinations returns those of the destinations that have due messages and are not paused.
	// It is cheap, however many messages wait.
	DueDestinations(ctx context.Context, destinations []string) ([]string, error)

	// DueSources returns those of the sources that have due events for handlers. It is cheap,
	// however many events wait for other consumers.
	DueSources(ctx context.Context, sources []string) ([]DueSource, error)

	// Reserve returns due events and keeps them from being taken for a time, so that the caller can
	// prepare them before a transaction begins. The caller then takes them by Keys, and compares
	// their DueAt; otherwise they are due again after that time. It counts no attempt.
	Reserve(ctx context.Context, p *ReserveParams) ([]TakenEvent, error)

	// RecordReserved records outcomes of reserved events that were not run. It skips events that
	// are no longer pending, and events that were due again meanwhile and are reserved, postponed
	// or tried since.
	RecordReserved(ctx context.Context, p *FinishParams) error

	// SweepRuns finds runs of all sources that were interrupted because their process ended or lost
	// its connection, and returns them. An event that was alone in its run has an attempt counted,
	// with ErrorRunInterrupted; it is then due again with the backoff of TakeParams.Retry, or dead
	// after its last attempt. Events of a larger run, and of a run with TakeParams.Beside, may be
	// innocent: they are only marked as tried, and are due at once. The record of a run in another
	// database, which a restore brought here, is removed without an attempt.
	//
	// If a handler had committed the transaction by itself, its event is dead with NoteTxEnded. If
	// Run.Next was recorded, the events before it are done, and those after it are only marked as
	// tried. Otherwise all events of the run are dead with that note.
	SweepRuns(ctx context.Context, p *SweepRunsParams) ([]LostRun, error)

	// Versions returns the applied versions of objects, without locking.
	Versions(ctx context.Context, objects []Key) (map[Key]ObjectVersion, error)

	// CountInlineFailure counts a failed run of an event that is not claimed, and keeps its body.
	// The failure files the dead letter if it reaches p.Limit or has p.Dead: the event is claimed
	// as dead, with its messages, and its attempts are the failures. If the event is already
	// claimed, nothing is counted.
	CountInlineFailure(ctx context.Context, p *InlineFailure) (*InlineFailed, error)

	// FileInlineFailures files dead letters for events whose last failure is older than
	// p.OlderThan, and returns how many. Such events were not delivered again.
	FileInlineFailures(ctx context.Context, p *FileFailuresParams) ([]FiledFailure, error)

	// Arm lets a source take one secret from its provider until p.For has passed by the store's
	// clock. It replaces an earlier arming. The result is that of LearnedSecrets. The error matches
	// ErrTooManySecrets if the source has MaxLearnedSecrets and p does not replace them.
	Arm(ctx context.Context, p *ArmParams) (*SourceSecrets, error)

	// LearnSecret stores a secret and disarms the source in one commit, if the source is armed.
	// Only one of several concurrent calls returns true. The commit also deletes the older secrets
	// if ArmParams.Replace was set.
	LearnSecret(ctx context.Context, p *LearnParams) (bool, error)

	// LearnedSecrets returns the learned secrets of the sources, in their order.
	LearnedSecrets(ctx context.Context, sources []string) ([]SourceSecrets, error)

	// RegisterWindows stores the windows of p and the present time, for Prune in every process. It
	// commits before it returns. Call it before the first claim, and again within WindowsHold.
	RegisterWindows(ctx context.Context, p *PruneParams) error

	// Prune removes bodies past their retention, and identities past their window with all their
	// rows, as of its start. For each source it follows the longest windows among those of p and
	// those that any process registered in the last WindowsHold; see Windows. It works in chunks of
	// at most p.Chunk rows, each in a short transaction. Unfinished and dead work stays, and an event that was discarded stays,
	// with its body, while that can be undone: for UndoTime after the last discard of the operation. Figures are
	// kept as long as Resolution.Kept says, refused requests as long as bodies, and rows of the feed for
	// FeedKept; none of them are counted. An error comes with the counts of the rows already removed, unless the parameters are invalid.
	//
	// One call of all processes prunes at a time. A call waits for its turn and looks at everything,
	// unless p.Background is set. A process that stops during its turn loses it within a minute, and
	// removes nothing afterwards: its call ends with ErrTurnLost.
	Prune(ctx context.Context, p *PruneParams) (*PruneResult, error)

	// PullBack makes work due that a step of the database's clock left due too far ahead: farther
	// than p.Ahead, and farther than the wait that its last failed attempt set. That wait begins
	// again; without a failed attempt the work is due at once. A lease that ends later than LongestLease
	// from now ends then. A source is armed for at most the time that Arm was given, from now on. PullBack
	// returns the numbers of events and messages, at most p.Limit of each for each name.
	PullBack(ctx context.Context, p *PullBackParams) (events, messages int, err error)

	// Weaknesses reads the database's durability settings and returns those that could lose an
	// acknowledged event.
	Weaknesses(ctx context.Context) ([]Weakness, error)

	// ForeignTriggers names the triggers and rules on the store's tables that are not part of its
	// schema. They may drop or change rows.
	ForeignTriggers(ctx context.Context) ([]string, error)

	// Confirm returns nil once every commit before the call is durable, also one on a connection
	// whose settings the store does not know. The error matches ErrCommitUnknown if the server
	// stopped waiting for its synchronous standbys, or the files of the database are not in their
	// place.
	Confirm(ctx context.Context) error

	// Now returns the database's clock. It is also the cheapest check that the database can be
	// reached.
	Now(ctx context.Context) (time.Time, error)

	// Close releases only resources that the store itself opened.
	Close() error
}

// Work is the work of an event besides its messages.
type Work int

const (
	// WorkNone: the event's state is derived from its messages; without messages it is done, with
	// the note NoteNoRoute.
	WorkNone Work = iota
	// WorkQueued: the event gets a state row and is pending until a handler or an SQL consumer
	// takes it.
	WorkQueued
	// WorkDone: the event gets a state row and is done, because the claim's transaction contains
	// the work. Only for Driver.TakeClaim and Driver.ClaimTx.
	WorkDone
)

// BodyGuard says how a store treats a body that the same source has already sent under another
// event id.
type BodyGuard int

const (
	// BodyIgnore: bodies are not compared. For signed ids.
	BodyIgnore BodyGuard = iota
	// BodyWatch: the event is claimed, and ClaimResult.RepeatOf names the first event with that
	// body.
	BodyWatch
	// BodyRefuse: the event is not claimed, and is reported as Duplicate with ClaimResult.RepeatOf
	// set.
	BodyRefuse
)

// Claim is one event to claim.
type Claim struct {
	Key        Key
	Source     string    // name of the source
	EventID    string    // as shown; valid UTF-8 without control characters
	Type       string    // "" if the provider has none
	OccurredAt time.Time // as the sender says; zero if unknown
	Headers    []byte    // JSON object of header name to list of values
	Body       []byte    // as received, byte for byte
	// BodyHash is NoBodyHash if the bodies of later deliveries are not compared with this one.
	BodyHash  [sha256.Size]byte
	BodyGuard BodyGuard
	// Remote is the client's address, of at most MaxFigureText bytes; RemoteReconcile for an event that was fetched from
	// its provider's API; "" if it is not known.
	Remote   string
	Gateway  string // the name of the host that received it, of at most MaxFigureText bytes
	Work     Work
	Messages []NewMessage // one for each matched route
	// Order is the place of the event in a line; nil: it is in none. Only for WorkQueued.
	Order *Order
	// Unordered says that its handler has an order, and the event lacks the key or the version. Stores ignore it.
	Unordered bool
	// Undecided, if not "", is NoteUndecided and the name of a route: it is not known which messages
	// the event has. The event gets a state row and is dead, with Undecided as its note and its last
	// error. Only Store.Replay makes it due again; that decides its messages, and queues it if Work
	// is WorkQueued.
	Undecided string
}

// NoBodyHash stands for the hash of a body that is compared with none: that of an event from its provider's API,
// which writes the same JSON in other bytes.
var NoBodyHash [sha256.Size]byte

// RemoteReconcile is the Remote of an event that was fetched from its provider's API. No delivery has it: it is no
// address.
const RemoteReconcile = "reconcile"

// OtherBody reports whether the body of c, a duplicate, differs from that of its event, whose stored hash is stored.
func (c *Claim) OtherBody(stored []byte) bool {
	return !bytes.Equal(stored, NoBodyHash[:]) && c.BodyHash != NoBodyHash && !bytes.Equal(stored, c.BodyHash[:])
}

// NewMessage is a message of a new claim. Its body and headers are the event's.
type NewMessage struct {
	ID          string // that of MessageID; a store may refuse another one with ErrBadRow
	Route       string
	Destination string
	// LeaseFor, if not 0, leases the message to the caller of Store.Claim for this time, as its first
	// attempt, unless the destination is paused. ClaimResult.Leases tells. Other methods ignore it.
	LeaseFor time.Duration
	// Order is the place of the message in a line; nil: it is in none. LeaseFor is 0 with it. Store.Replay
	// ignores it: a message joins its line by Store.Admit at the latest.
	Order *Order
	// Unordered says that its route has an order, and the event lacks the key or the version. Stores ignore it.
	Unordered bool
}

// ClaimParams are the parameters of Store.Claim.
type ClaimParams struct {
	// Claims are sorted by Key, ascending, without duplicates; a store panics otherwise. The order
	// keeps concurrent batches from deadlocking.
	Claims []Claim
	// LockTimeout limits the wait for a key that another session is about to claim. 0 means 1 s.
	LockTimeout time.Duration
	// MostlyKnown is a hint that changes no result: most of the events are probably stored already,
	// so a look-up before sending their bodies pays.
	MostlyKnown bool
	// Reopen reopens dead events; only for Driver.TakeClaim and Driver.ClaimTx.
	Reopen bool
	// AllowUnsafe names the settings that may be weak; see Weakness.Setting.
	AllowUnsafe []string
	Now         time.Time // tests only; zero means the database's clock
}

// ClaimResult is the result of one Claim. The zero value is unsettled: whether the event is in the
// store is unknown, so the answer must not be 2xx.
type ClaimResult struct {
	// Claimed is true for the one caller that inserted the event.
	Claimed bool
	// Duplicate is true if the store has read a row that makes the claim a duplicate: the row of
	// the same event or, under BodyRefuse, that of the event that first brought the body.
	Duplicate bool
	// OtherBody is true for a duplicate if its body is known to differ from that of the claimed
	// event.
	OtherBody bool
	// Dead is true for a duplicate if its event was dead when it was read.
	Dead bool
	// Reopened is true for a duplicate of a dead event that this claim reopened in a new
	// generation, because ClaimParams.Reopen was set.
	Reopened bool
	// Generation and KeyGeneration (see TakenEvent) are those of a reopened event; 0 otherwise.
	Generation, KeyGeneration int
	// RepeatOf is the id of another event that first brought this body, if BodyGuard asked for it;
	// "" otherwise.
	RepeatOf string
	// RepeatOfKey is the key of that event; zero if RepeatOf is "".
	RepeatOfKey Key
	// Leases are the leases of the event's messages that the claim leased; see NewMessage.LeaseFor.
	Leases []MessageLease
	// ReceivedAt is that of the event if there are Leases; otherwise zero.
	ReceivedAt time.Time
}

// Settled reports whether the result says that the event is in the store, or was refused for its
// body.
func (r *ClaimResult) Settled() bool { return r.Claimed || r.Duplicate }

// ReopenParams are the parameters of Store.Reopen.
type ReopenParams struct {
	Keys []Key
	Wait time.Duration // for events that other sessions have locked
	Now  time.Time     // tests only; zero means the database's clock
}

// reopenWait is how long the delivery of a dead event waits for another session that has locked the event.
const reopenWait = time.Second

// ReopenOne reopens one event for its delivery, by Store.Reopen. It waits for a second at most for another session that has
// locked the event, and then fails with ErrLockTimeout.
func ReopenOne(ctx context.Context, s interface {
	Reopen(ctx context.Context, p *ReopenParams) (reopened, held []Key, err error)
}, key Key,
) (bool, error) {
	reopened, held, err := s.Reopen(ctx, &ReopenParams{Keys: []Key{key}, Wait: reopenWait})
	if len(held) > 0 {
		err = ErrLockTimeout
	}
	return len(reopened) > 0, err
}

// Quarantined is a verified request without a usable event.
type Quarantined struct {
	Source   string
	BodyHash [sha256.Size]byte
	Part     Part
	Headers  []byte // as in Claim
	Body     []byte
	Reason   string // the fault, for the operator
	Handled  bool   // by a handler, an SQL consumer or the receiving program; it stays true once it was
}

// Part is the part of a delivery that a quarantined body holds. The databases store its number.
type Part int

const (
	// PartRequest: the whole body of the request, as received.
	PartRequest Part = iota
	// PartItem: one item of a batch.
	PartItem
	// PartEntry: an element of a batch that should hold items and does not.
	PartEntry
)

// QuarantineParams are the parameters of Store.Quarantine.
type QuarantineParams struct {
	Requests []Quarantined
	Now      time.Time // tests only; zero means the database's clock
}

// SettleQuarantinedParams are the parameters of Store.SettleQuarantined.
type SettleQuarantinedParams struct {
	Key    Key
	Reason string // why the request stays; "" removes it
}

// Weakness is a durability setting that can lose a commit.
type Weakness struct {
	Setting string // the name that allows it, such as "fsync"
	Value   string // the current value
	Effect  string // the possible loss, one sentence
	Remedy  string // the action to take, one sentence
	// Platform is the managed platform that always has the setting so, and loses nothing by it: Effect then says why, and
	// Remedy is "". Otherwise it is "".
	Platform string
}

// String returns the weakness as a sentence, with its effect and remedy.
func (w Weakness) String() string {
	if w.Platform != "" {
		return fmt.Sprintf("%s: %s is %s, as always there; %s", w.Platform, w.Setting, w.Value, w.Effect)
	}
	return fmt.Sprintf("%s is %s: %s %s", w.Setting, w.Value, w.Effect, w.Remedy)
}
