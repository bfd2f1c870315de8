package hookonce

import (
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/work"
)

// Observer is called for metrics. Each function may be nil. The functions are called
// concurrently and in the middle of the work: they must be fast, and must return. If one panics or
// ends its goroutine, that is logged and has no other effect.
type Observer struct {
	// Direct calls the functions in the goroutine that does the work, instead of one of their own for
	// each call. That is cheaper. A panic still has no effect; but no function may end its goroutine,
	// as runtime.Goexit and FailNow of a test do, because the work would end with it.
	Direct bool
	// Delivery is called when a delivery was answered.
	Delivery func(DeliveryObserved)
	// Claim is called after each attempt to claim a batch of events.
	Claim func(ClaimObserved)
	// Attempt is called when a handler has run, or a message was sent.
	Attempt func(AttemptObserved)
	// Operated is called when an operator replayed or discarded something through this Engine.
	Operated func(OperatedObserved)
	// Pruned is called when something was pruned.
	Pruned func(PrunedObserved)
	// Barred is called when a destination broke the rules for kept connections: for an hour each
	// attempt has a connection of its own.
	Barred func(destination string)
}

// DeliveryObserved is an answered delivery.
type DeliveryObserved struct {
	Source string // "" if there is no such source
	Status int    // of the answer
	// Outcome is "ok", "duplicate", "reopened", "malformed", "handshake" for an answered handshake,
	// "refused" for any other 4xx, "failed" for a failed Inline handler, or "unavailable".
	Outcome string
	// Reason is that of a refusal, such as "signature_wrong"; "" unless Outcome is "refused".
	Reason string
	// Took is the time from the first byte of the request to the answer; 0 if Refuse got an error
	// that is not from Verify or ClaimTx.
	Took     time.Duration
	TraceID  string // of its span, if that is sampled; otherwise ""
	Events   int    // number of its durable events
	Unrouted int    // number of new events without a handler, route or consumer
	// Unordered is the number of new messages of routes with Order whose events lack the key or the version.
	Unordered int
	Reopened  int // number of dead events that are due again
	// OtherBodies is the number of duplicates whose body differs from the first one.
	OtherBodies int
	// Undecided is the number of new events that are dead because the condition of a route was
	// undecided.
	Undecided int
}

// ClaimObserved is a batch of claims in one statement.
type ClaimObserved struct {
	Size int           // number of events
	Took time.Duration // of the commit
	Err  error         // nil if the batch was claimed
}

// AttemptObserved is one attempt of a handler, or to send a message.
type AttemptObserved struct {
	Kind        string // "handler" or "message"
	Source      string
	EventID     string
	Type        string
	Destination string // of a message
	Outcome     string // "done", "sent", "skipped", "retry" or "dead"
	Attempt     int    // from 1
	StatusCode  int    // of the destination's answer; 0 without one
	// Took is 0 for "skipped", and for a message that is dead because its last lease expired.
	Took    time.Duration
	Err     error
	TraceID string // of its span, if that is sampled; otherwise ""
}

// OperatedObserved counts dead letters, or one event, of a source.
type OperatedObserved struct {
	Action string // "replayed" or "discarded"
	Source string
	Count  int
}

// PrunedObserved counts pruned rows.
type PrunedObserved struct {
	Events, Bodies, Quarantined int64
}

// functions returns the functions of o, which may be nil, as a Teller calls them.
func (o *Observer) functions() tell.Observer {
	if o == nil {
		return tell.Observer{}
	}
	return tell.Observer{
		Direct: o.Direct, Barred: o.Barred,
		Delivery: after(deliveryObserved, o.Delivery),
		Claim:    after(func(b tell.Batch) ClaimObserved { return ClaimObserved(b) }, o.Claim),
		Handler:  after(handlerObserved, o.Attempt),
		Message:  after(messageObserved, o.Attempt),
		Operated: after(func(of tell.Operated) OperatedObserved { return OperatedObserved(of) }, o.Operated),
		Pruned: after(func(p *driver.PruneResult) PrunedObserved {
			return PrunedObserved{Events: p.Events, Bodies: p.Bodies, Quarantined: p.Quarantined}
		}, o.Pruned),
	}
}

// after returns a function that calls f with the result of convert; nil for a nil f.
func after[A, B any](convert func(A) B, f func(B)) func(A) {
	if f == nil {
		return nil
	}
	return func(a A) { f(convert(a)) }
}

func deliveryObserved(d *tell.Delivery) DeliveryObserved {
	return DeliveryObserved{
		Source: d.Source, Status: d.Status, Outcome: d.Outcome, Reason: d.Reason, Took: d.Took, Events: d.Events, Unrouted: d.Unrouted, Unordered: d.Unordered,
		Reopened: d.Reopened, OtherBodies: d.OtherBodies, Undecided: d.Undecided, TraceID: d.TraceID,
	}
}

func handlerObserved(a *work.Observed) AttemptObserved {
	return AttemptObserved{
		Kind: "handler", Source: a.Event.Source, EventID: a.Event.EventID, Type: a.Event.Type,
		Outcome: a.Outcome, Attempt: a.Attempt, Took: a.Took, Err: a.Err, TraceID: tell.TraceID(a),
	}
}

func messageObserved(a *relay.Observed) AttemptObserved {
	m := a.Message
	return AttemptObserved{
		Kind: "message", Source: m.Source, EventID: m.EventID, Type: m.Type, Destination: m.Destination,
		Outcome: a.Outcome, Attempt: m.Attempt, StatusCode: a.StatusCode, Took: a.Took, Err: a.Err,
		TraceID: send.SampledTrace(a.Traceparent),
	}
}
