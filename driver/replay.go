package driver

import "time"

// ReplayMode says under which ids an event is replayed.
type ReplayMode int

// The modes of a replay.
const (
	// ReplayPlain keeps the ids. It is refused with ErrModeNeeded where that
	// is not obviously right: for what is neither dead nor skipped, because a
	// destination may have taken the event already.
	ReplayPlain ReplayMode = iota
	// ReplayAsNew gives every message a new id: the destination does the work
	// again. Dead messages that are replaced are skipped, with NoteReplacedByNew.
	ReplayAsNew
	// ReplaySameID keeps the ids: a destination that dedupes may skip the work.
	ReplaySameID
)

// ReplayParams are the parameters of Store.Replay.
type ReplayParams struct {
	Key  Key
	Mode ReplayMode
	// Routes are what the event would owe if it were claimed now; their ids
	// are not looked at. They count only for an event that owed nothing when it
	// was claimed.
	Routes []NewMessage
	// RequestID, if it is not "", makes a repetition of the same request for
	// the same event do nothing and return what the first one did, whatever
	// became of the event since. In another mode it is another request, which
	// is refused with ErrRequestReused. At most 255 bytes of valid UTF-8
	// without NUL.
	RequestID string
	Now       time.Time // tests only; zero means the database's clock
}

// Replayed is what a replay did.
type Replayed struct {
	Generation int  // of the event from now on
	Messages   int  // how many messages are due again, or new
	Repeated   bool // nothing was done: the request had been carried out before
}

// DeadLetterRef names a dead letter.
type DeadLetterRef struct {
	Key       Key
	MessageID string // "" for an event that is dead itself
}

// DeadLetterParams are the parameters of Store.ReplayDead and Store.Discard.
type DeadLetterParams struct {
	Letters []DeadLetterRef
	Now     time.Time // tests only; zero means the database's clock
}

// RetryMessageParams are the parameters of Store.RetryMessage.
type RetryMessageParams struct {
	ID  string
	Now time.Time // tests only; zero means the database's clock
}

// What happened to an event besides deliveries and attempts, as HistoryEntry
// tells it.
const (
	ActionReplayed       = "replayed"         // under the ids it had, because it was dead or skipped; also by RetryMessage
	ActionReplayedAsNew  = "replayed_as_new"  // ReplayAsNew
	ActionReplayedSameID = "replayed_same_id" // ReplaySameID
	ActionReopened       = "reopened"         // a delivery of the dead event
	ActionRetried        = "retried"          // a pending message was made due at once
	ActionDiscarded      = "discarded"        // a dead letter was given up
)

// HistoryEntry is one thing that happened to an event besides deliveries and
// attempts. A replay and a reopening are one entry for the whole event; what
// happened to a dead letter, or to one message, is an entry of its own.
type HistoryEntry struct {
	At         time.Time
	Action     string // one of the Action constants
	Generation int    // of the event, or of the message, after it
	MessageID  string // "" if it concerned the whole event
	RequestID  string // of ReplayParams; else ""
}
