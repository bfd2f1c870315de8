package driver

import "time"

// The states of an event.
const (
	StatePending = "pending"
	StateRunning = "running"
	StateDone    = "done"
	StateDead    = "dead"
	StateSkipped = "skipped"
)

// The states of a message; pending, dead and skipped are as above.
const (
	StateSending = "sending"
	StateSent    = "sent"
)

// Notes that explain a state.
const (
	// NoteNoRoute: no route and no handler matched when the event was claimed.
	NoteNoRoute = "no route"
	// NoteDiscarded: an operator gave the dead letter up.
	NoteDiscarded = "discarded"
	// NoteReplacedByNew: the message was dead, and was replayed as new.
	NoteReplacedByNew = "replayed as new"
	// NoteRerouted: a replay found that no route makes the message any more. A sent message has it, too.
	NoteRerouted = "rerouted"
	// NoteTxEnded: the handler committed its transaction by itself, so the event may have taken
	// effect. No delivery reopens it, and only a replay that names this note runs it again.
	NoteTxEnded = "ended its transaction"
	// NoteStale: a newer version was already applied to the same object; the last error has the
	// details.
	NoteStale = "stale"
	// NoteUndecided begins the note of an event that is dead because the condition of a route was
	// not decided within its bounds. The name of the route follows.
	NoteUndecided = "where undecided: "
)

// Recorded errors of attempts that ended without an outcome.
const (
	// ErrorLeaseRanOut: the message is due again, with attempts left.
	ErrorLeaseRanOut = "the lease ran out before an outcome was recorded"
	// ErrorLastLeaseRanOut: it was the last attempt, so the message is dead.
	ErrorLastLeaseRanOut = "the lease of the last attempt ran out before an outcome was recorded"
	// ErrorTokenUsedUp: the message is dead without an attempt.
	ErrorTokenUsedUp = "the row of the message was changed by hand: its fencing token cannot grow"
)

// EventStates lists the states of an event. The index of each is its number in the
// tables of both databases.
func EventStates() []string {
	return []string{StatePending, StateRunning, StateDone, StateDead, StateSkipped}
}

// EventFilter selects events. Zero fields select all.
type EventFilter struct {
	Source string
	Type   string
	State  string // one of EventStates
	Note   string
	ID     string // the event id as it is shown
	// Sources are sources that may have ID, if Source is "". The store adds the sources of its
	// windows and figures.
	Sources []string
	Text    string // a substring of the event id, the type or the body
	TraceID string // of the header traceparent: 32 lower-case hex digits
	// Destination is that of a message of the event, or of one that its handler enqueued.
	Destination string
	Since       time.Time // received at or after
	Until       time.Time // received before
	Limit       int       // 1 to 200; 0 means 50
	Scan        int       // the most rows to look at; 0, or more than the bound of the page, means that bound
	After       Cursor    // continue after this event

	Destinations bool // sets Event.Destinations
}

// Limits of EventFilter.Limit.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// PageSize returns the number of rows of a page, for the Limit of a filter.
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return min(limit, MaxLimit)
}

// EventPage is one page of a listing.
type EventPage struct {
	Events []Event
	Next   Cursor // zero on the last page
	// SearchedUntil is zero, unless the page ended at a bound: all events that were received later
	// were looked at.
	SearchedUntil time.Time
}

// Event is an event in a listing.
type Event struct {
	Key         Key
	Source      string
	EventID     string
	Type        string
	State       string
	Waiting     bool   // without a handler: messages wait, and none is being sent
	Note        string // explains the state, where there is more to say
	Attempts    int    // of a routed event: the highest of its messages
	Generation  int    // the highest of the event and its messages
	Duplicates  int64  // deliveries after the first
	ReceivedAt  time.Time
	OccurredAt  time.Time // zero if the sender did not say
	ProcessedAt time.Time // zero unless done
	FailedAt    time.Time // zero unless dead
	LastError   string
	Reconciled  bool // claimed from the list of its provider's API; no delivery had brought it

	Destinations []string // of its messages, sorted; nil unless EventFilter.Destinations asks for them
}

// EventDetail is one event with its body, headers, deliveries, messages, attempts and history.
type EventDetail struct {
	Event
	Headers    []byte // JSON object of name to list of values; nil past retention
	Body       []byte // nil past retention
	BodySHA256 [32]byte
	BodyPruned bool // the body was removed by retention
	Deliveries Deliveries
	Recent     []Delivery      // the newest MaxRecent deliveries, the first one among them; newest first
	OtherBody  *OtherBody      // nil if there is none, and past retention
	Messages   []MessageDetail // by route name, then id
	Tries      []Attempt       // oldest first
	History    []HistoryEntry  // oldest first
}

// Deliveries summarises the deliveries of an event.
type Deliveries struct {
	Count   int64 // at least 1
	FirstAt time.Time
	LastAt  time.Time
	// FirstRemote and FirstGateway are those of the first delivery, as in Delivery.
	FirstRemote, FirstGateway string
	OtherBodies               int64  // deliveries whose body differed from the first
	RepeatOf                  string // event id that brought the same body before; "" if none, or if bodies are not watched
	Repeats                   int64  // deliveries of this body under other event ids
}

// MessageDetail is a message with its state and last outcome.
type MessageDetail struct {
	ID          string
	Route       string
	Destination string
	State       string
	Note        string // explains the state, where there is more to say
	Generation  int
	Attempts    int
	StatusCode  int // of the last answer; 0 if none
	LastError   string
	DueAt       time.Time // zero unless pending
	LeasedUntil time.Time // zero unless sending
	CreatedAt   time.Time
	SentAt      time.Time // zero unless sent
	FailedAt    time.Time // zero unless dead
}

// Attempt is one outcome of sending a message or of running a handler. For handlers only failed
// attempts are kept.
type Attempt struct {
	MessageID  string // "" for a handler
	Generation int
	Number     int    // from 1
	Outcome    string // "sent", "retry" or "dead"
	StatusCode int
	Error      string
	At         time.Time // time of recording
	Took       time.Duration
	// Response and ResponseType are those of the Completion. They are kept for the first failed
	// attempt of a message and for the last one, until retention removes the body of the event.
	Response     []byte
	ResponseType string
}
