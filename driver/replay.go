package driver

import "time"

// ReplayMode says whether a replay keeps the ids of an event's messages.
type ReplayMode int

// The modes of a replay.
const (
	// ReplayPlain keeps the ids. A replay of an event that is neither dead nor skipped is refused
	// with ErrModeNeeded: a destination may already have accepted the event, so the caller must
	// choose.
	ReplayPlain ReplayMode = iota
	// ReplayAsNew gives every message a new id: the destination does the work again. The replaced
	// dead messages are skipped, with NoteReplacedByNew.
	ReplayAsNew
	// ReplaySameID keeps the ids: a destination that dedupes may skip the work.
	ReplaySameID
	// ReplayReroute makes the messages of an event those that its routes would make now, in any state of
	// the event. Missing ones are added. Open and dead ones that no route makes become skipped, with
	// NoteRerouted; sent ones get the note, and later replays leave them alone. Others stay. While a message that
	// no route makes is being sent, the error matches ErrSending. Done twice, it changes nothing.
	ReplayReroute
	// ReplayTo sends an event to the destination ReplayParams.To, in any state of the event. There is one
	// such message for each destination and replay as new: done twice, it sends one. A dead or skipped
	// one is due again.
	ReplayTo
)

// ReplayParams are the parameters of Store.Replay.
type ReplayParams struct {
	Key  Key
	Mode ReplayMode
	// Note is the note that the caller names. A replay of an event that is dead with NoteTxEnded, or
	// was when it was discarded, is refused with ErrNoteNeeded unless it names that note. Other notes
	// need not be named.
	Note string
	To   string // of ReplayTo: the name of a destination
	// Routes are the messages that a claim of the event would write now. Their ids are ignored.
	// They are used only by ReplayReroute, for an event that had no messages and no queued work when it
	// was claimed, and for an undecided one.
	Routes []NewMessage
	// Undecided says that Routes are not known, because a condition was not decided. Then the error
	// matches ErrUndecided where Routes would be used.
	Undecided bool
	// Unknown says that the caller knows neither routes nor handlers of the source. Then the error
	// matches ErrNoRoute where Routes would be used.
	Unknown bool
	// Stale allows to send a message of a line although a higher version was sent. Without it, the error matches
	// ErrPassed then.
	Stale bool
	// RequestID makes a repeated request for the same event do nothing and return the first result,
	// even if the event has changed since. The same RequestID in another mode, or to another destination,
	// is refused with ErrRequestReused. "" disables this. At most 255 bytes of valid UTF-8 without NUL.
	RequestID string
	Now       time.Time // tests only; zero means the database's clock
}

// Replayed is the result of a replay.
type Replayed struct {
	Generation int  // the event's new generation
	Messages   int  // number of messages that are due again or new
	Skipped    int  // of ReplayReroute: messages that became skipped; 0 if Repeated
	Stayed     bool // of ReplayReroute and ReplayTo: the event is as wanted, and its messages stay as they are
	Repeated   bool // nothing was done: the request had already been carried out
}

// EventParts are the parts of an event that a replay is about.
type EventParts struct {
	Key        Key
	BodyPruned bool
	// State is the state of the event's own row, "" if it has none.
	State      string
	Note       string // of the event's own row
	Generation int    // of the event's own row
	AsNew      int    // generation of the last replay as new
	Undecided  bool   // it was claimed before its messages were known
	Ended      bool   // discarded, after its handler had ended its transaction
	Queued     bool   // for an undecided event: its claim would have queued it
	Messages   []EventPart
}

// EventPart is a message of an event, not one that its handler enqueued.
type EventPart struct {
	ID          string
	Route       string // "" for a message of ReplayTo
	Destination string
	State       string
	Note        string
	Generation  int
	Leased      bool // it is being sent, and its lease has not run out
}

// DeadLetterRef names a dead letter.
type DeadLetterRef struct {
	Key       Key
	MessageID string // "" for an event that is dead itself
}

// Place returns the id of the letter in a line: that of the message, or the EventPlace of the event.
func (l *DeadLetterRef) Place() string {
	if l.MessageID == "" {
		return EventPlace(l.Key)
	}
	return l.MessageID
}

// DeadLetterParams are the parameters of Store.ReplayDead and Store.Discard.
type DeadLetterParams struct {
	Letters []DeadLetterRef
	// Operation is the id of the request, for the history; Jobs.Undiscard needs it. "" or at most 255
	// bytes of valid UTF-8 without NUL.
	Operation string
	Now       time.Time // tests only; zero means the database's clock
}

// RetryMessageParams are the parameters of Store.RetryMessage.
type RetryMessageParams struct {
	ID  string
	Now time.Time // tests only; zero means the database's clock
}

// Actions of a HistoryEntry: changes of an event other than deliveries and attempts.
const (
	ActionReplayed       = "replayed"         // under the old ids, because it was dead or skipped; also by RetryMessage
	ActionReplayedAsNew  = "replayed_as_new"  // ReplayAsNew
	ActionReplayedSameID = "replayed_same_id" // ReplaySameID
	ActionRerouted       = "rerouted"         // ReplayReroute
	ActionSentTo         = "sent_to"          // ReplayTo; the entry has the id of the message
	ActionReopened       = "reopened"         // a delivery of the dead event
	ActionRetried        = "retried"          // a pending message was made due at once
	ActionDiscarded      = "discarded"        // an operator gave up a dead letter
	ActionUndone         = "undone"           // an operator took a discard back
	ActionRedacted       = "redacted"         // an operator removed the payload
)

// HistoryEntry is one change of an event other than a delivery or an attempt. A replay and a
// reopening are one entry for the whole event. Each change of a dead letter, or of one message, is
// an entry of its own.
type HistoryEntry struct {
	At         time.Time
	Action     string // one of the Action constants
	Generation int    // of the event or message, after the change
	MessageID  string // "" if the entry concerns the whole event
	RequestID  string // of ReplayParams; DeadLetterParams.Operation; the id of a job; else ""
}
