package driver

import (
	"context"
	"encoding/hex"
	"time"
)

// ParkedUntil is when a message is due that waits for its turn in a line: never. It is due again once
// the messages before it have ended.
var ParkedUntil = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// Order is the place of a message in the line of its object. In a line one message is sent at a time,
// the lowest open version first.
type Order struct {
	// Line is the line in Object, and the place in Version: lower ones come first, and messages of one
	// version in the order of their claims. An empty Version means the order of the claims alone. Such a
	// message is never stale.
	Line ObjectVersion
	// Hold says that the line waits at the message while it is dead. Without it, the line goes on.
	Hold bool
	// Consumer says that an SQL consumer takes the event. Its line then has one due event at a time. SQLite, which
	// has no such consumers, ignores it.
	Consumer bool
}

// EventPlace returns the id of a handler's event in a line. A message stands there under its own id.
func EventPlace(key Key) string { return "\n" + hex.EncodeToString(key[:]) }

// Reserved returns the lease of a reserved event for Store.Admit.
func Reserved(e *TakenEvent) MessageLease {
	return MessageLease{ID: EventPlace(e.Key), Token: e.DueAt.UnixMicro()}
}

// OrderedMessage is a leased message, or a reserved event, that Store.Admit decides about. The lease of an event is that of
// Reserved.
type OrderedMessage struct {
	MessageLease
	// Order is its place; nil if the caller does not know it. Then the message is in the line that it
	// joined earlier, if any.
	Order *Order
}

// AdmitParams are the parameters of Store.Admit.
type AdmitParams struct {
	Messages []OrderedMessage // each id once
	Now      time.Time        // tests only; zero means the database's clock
}

// Verdict is the decision about a leased message.
type Verdict int

const (
	// Unordered: the message is in no line, and may be sent.
	Unordered Verdict = iota
	// Admitted: the message may be sent. Its line waits until an outcome with an answer is recorded.
	Admitted
	// Parked: the message is not leased any more, and its attempt does not count. Another message of its
	// line comes first, or the lease was lost before.
	Parked
	// Passed: a higher version was sent. The lease is kept; complete it with MessageStale, or WorkStale.
	Passed
)

// Admission is the result of Store.Admit for one message.
type Admission struct {
	Verdict Verdict
	// Line is the message's line and version, unless it is Unordered. Shown is that of the caller.
	Line ObjectVersion
	// Newer shows the higher version of a Passed message.
	Newer string
}

// OrderControl keeps the lines of ordered messages.
type OrderControl interface {
	// Admit decides which of some leased messages may be sent. Messages with an Order join their lines. One that is
	// in another line stays there until its turn, and then joins the new one. Of each line Admit admits one message,
	// if none is being sent: the lowest open one. Dead letters with Hold count as open. A message that was admitted,
	// and whose lease ran out or whose attempt got no answer, may have arrived: it is admitted again before all
	// others. Admit returns one result for each message of p, in their order, and its commit is durable.
	//
	// An event of a handler keeps its reservation. It holds its line only from Take, by TakeParams.Lines, to the outcome of
	// that run. Until then another event of the line may be admitted, which is lower; Take leaves the first one then.
	Admit(ctx context.Context, p *AdmitParams) ([]Admission, error)

	// SettleLines settles the lines of messages and events that ended otherwise than by Complete or an outcome with
	// WorkResult.Line: it makes the next one of each line due. It ignores messages that are in no line.
	SettleLines(ctx context.Context, ids []string) error

	// SweepLines settles up to limit lines that come after a key, in their order, as SettleLines
	// does. It returns how many it saw, and the last one. A zero key stands before all. If the database refuses to
	// change rows of some lines, it passes over these, and returns ErrBadRow beside the other results.
	SweepLines(ctx context.Context, after Key, limit int) (seen int, last Key, err error)

	// WaitingBehind returns how many wait behind a dead message or, by its EventPlace, a dead event, at most MaxWaiting; 0 if no line waits at it.
	WaitingBehind(ctx context.Context, messageID string) (int, error)
}

// MaxWaiting bounds OrderControl.WaitingBehind: so many, or more.
const MaxWaiting = 1000
