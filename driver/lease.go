package driver

import (
	"fmt"
	"time"
)

// MaxLeaseRounds is the number of rounds in one call of Store.Lease. Each round looks at as many
// messages as the limit.
const MaxLeaseRounds = 10

const (
	// LongestTimeout is the longest timeout of a destination.
	LongestTimeout = time.Hour
	// LeaseMargin is how much longer than its timeout a message is leased: the time to record the outcome.
	LeaseMargin = 5 * time.Second
	// LongestLease is the longest lease of a message.
	LongestLease = LongestTimeout + LeaseMargin
)

// LeaseParams are the parameters of Store.Lease.
type LeaseParams struct {
	Destination string
	Limit       int
	For         time.Duration // duration of the lease
	MaxAttempts int           // at least 1
	// Untried takes only messages without an attempt in their generation, the latest due first. The
	// circuit probes with these when tried messages keep it open.
	Untried bool
	Skip    []string  // ids of messages to leave out
	Now     time.Time // tests only; zero means the database's clock
}

// Leased is the result of Store.Lease.
type Leased struct {
	Messages []Message
	// Buried are the messages that were made dead because they had no attempts left. They come
	// without token, headers and body; Attempt is the number of the last attempt.
	Buried []Message
	// Refused are due messages whose rows the database refuses to change. They are neither leased nor buried.
	Refused []RefusedMessage
	// More says that fewer messages than the limit allows were leased although more may be due.
	More bool
}

// RefusedMessage is a message whose row the database refuses to change, as a trigger of its owner may.
type RefusedMessage struct {
	ID  string
	Err error
}

// Message is a leased message.
type Message struct {
	ID          string
	Key         Key
	Token       int64 // fencing token of this lease
	Attempt     int   // from 1
	Expired     bool  // the previous lease expired; its holder may have sent the message
	Generation  int   // 0 unless replayed or reopened
	Source      string
	EventID     string
	Type        string
	Route       string
	Destination string
	ReceivedAt  time.Time
	Replayed    bool   // an operator replayed it, so it is sent even if stale, unless it is in a line
	Headers     []byte // the event's, or the message's own
	Body        []byte // the event's, or the message's own
	// Unreadable is why the database cannot read the headers and the body, which are nil then. Otherwise it is nil.
	Unreadable error
}

// MessageOutcome is the outcome of an attempt to send.
type MessageOutcome int

const (
	// MessageSent: the destination accepted it.
	MessageSent MessageOutcome = iota + 1
	// MessageRetry: due again after Completion.RetryIn.
	MessageRetry
	// MessageDead: out of attempts, or failed for good.
	MessageDead
	// MessageStale: not sent, because a newer version was sent. The message is skipped with
	// NoteStale, and the attempt is not counted.
	MessageStale
)

// Bounds of the response in a Completion.
const (
	MaxResponse     = 4 << 10 // bytes
	MaxResponseType = 255     // bytes of its content type
)

// Completion is the outcome of one leased message.
type Completion struct {
	ID         string
	Token      int64
	Outcome    MessageOutcome
	RetryIn    time.Duration // for MessageRetry
	StatusCode int           // the destination's answer; 0 if there was none
	Error      string        // valid UTF-8 without NUL; "" for MessageSent; the reason for MessageStale
	Took       time.Duration // duration of the attempt
	// Response is the beginning of the destination's answer to a failed attempt, at most MaxResponse
	// bytes, without our secrets; nil if there was no answer. ResponseType is its content type, at
	// most MaxResponseType bytes of valid UTF-8 without NUL. A message keeps the response of its
	// first failed attempt and that of its last one.
	Response     []byte
	ResponseType string
	// Applied is the object version that a MessageSent delivered, where a stale rule watches the
	// object. It is stored if it is higher than the stored version.
	Applied *ObjectVersion
	// Line is that of Admission, of a message that was admitted or passed. The same commit makes the next message of
	// the line due, and stores the version of a MessageSent if it is higher than the stored one.
	Line *ObjectVersion
}

// CheckResponse returns an error that matches ErrBadRow if a store cannot store the response of c.
func (c *Completion) CheckResponse() error {
	if len(c.Response) > MaxResponse || len(c.ResponseType) > MaxResponseType || !IsText(c.ResponseType) {
		return fmt.Errorf("%w: the response to message %s has %d bytes and the content type %.300q, "+
			"want at most %d bytes, and valid UTF-8 without NUL of at most %d bytes",
			ErrBadRow, c.ID, len(c.Response), c.ResponseType, MaxResponse, MaxResponseType)
	}
	return nil
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
