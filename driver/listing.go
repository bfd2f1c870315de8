package driver

import "time"

// MessageStates lists the states of a message. The index of each is its number in the
// tables of both databases.
func MessageStates() []string {
	return []string{StatePending, StateSending, StateSent, StateDead, StateSkipped}
}

// MessageFilter selects messages or dead letters by their own fields and by those of their event.
// Zero fields select all.
type MessageFilter struct {
	Source      string
	Type        string   // of the event
	EventID     string   // as shown
	Sources     []string // like EventFilter.Sources
	MessageID   string
	Destination string
	State       string    // one of MessageStates; Store.DeadLetters ignores it
	Note        string    // of the message; Store.DeadLetters: of the dead letter
	Signature   string    // of a dead letter, see ErrorSignature; Store.Messages ignores it
	Text        string    // like EventFilter.Text
	Since       time.Time // the event was received at or after
	Until       time.Time // the event was received before
	Limit       int       // 1 to 200; 0 means 50
	Scan        int       // like EventFilter.Scan
	After       Cursor
}

// ListedMessage is a message in a listing.
type ListedMessage struct {
	Key        Key // of the event
	Source     string
	EventID    string
	Type       string
	ReceivedAt time.Time
	MessageDetail
}

// MessagePage is one page of a listing of messages.
type MessagePage struct {
	Messages      []ListedMessage
	Next          Cursor    // zero on the last page
	SearchedUntil time.Time // like EventPage.SearchedUntil
}

// DeadLetter is an event or a message that is out of attempts or has failed for good.
type DeadLetter struct {
	Key        Key
	Source     string
	EventID    string
	Type       string
	ReceivedAt time.Time
	// MessageID, Route and Destination are "" for an event that is dead itself.
	MessageID   string
	Route       string
	Destination string
	Attempts    int
	Generation  int
	StatusCode  int // of the last answer; 0 if there was none
	LastError   string
	Signature   string // see ErrorSignature
	FailedAt    time.Time
}

// DeadLetterPage is one page of a listing of dead letters.
type DeadLetterPage struct {
	DeadLetters   []DeadLetter
	Next          Cursor    // zero on the last page
	SearchedUntil time.Time // like EventPage.SearchedUntil
}

// QuarantineFilter selects quarantined requests. Zero fields select all.
type QuarantineFilter struct {
	Source string
	Limit  int // 1 to 200; 0 means 50
	After  Cursor
}

// QuarantinedRequest is a verified request without a usable event, in a listing.
type QuarantinedRequest struct {
	Key        Key // BodyKey of source and body
	Source     string
	BodySHA256 [32]byte
	Part       Part
	Headers    []byte // JSON object of name to list of values
	Body       []byte
	Reason     string
	Handled    bool  // see Quarantined
	Count      int64 // number of arrivals; at least 1
	FirstAt    time.Time
	LastAt     time.Time
}

// QuarantinePage is one page of quarantined requests, latest arrival first. Its Cursor holds LastAt
// and Key.
type QuarantinePage struct {
	Requests []QuarantinedRequest
	Next     Cursor // zero on the last page
}

// Stats counts waiting and stuck work, up to CountLimit: a number that is CountLimit stands for that
// many or more. So the cost does not depend on the size of the backlog.
type Stats struct {
	EventsPending   int64              // events that wait for a handler or an SQL consumer
	OldestPendingAt time.Time          // due time of the oldest of them; zero if there is none
	DeadLetters     int64              // dead messages, and events that are dead themselves
	Quarantined     int64              // requests in the quarantine
	Destinations    []DestinationStats // every destination with open or dead messages, by the bytes of the name
}

// DestinationStats counts the messages of one destination.
type DestinationStats struct {
	Destination string
	Pending     int64
	Sending     int64
	Dead        int64
	OldestDueAt time.Time // earliest due time of a pending message that is not parked; zero if there is none
	HeldLines   int64     // lines that wait at a dead letter, see Order.Hold
}
