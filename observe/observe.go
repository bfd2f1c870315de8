// Package observe has the functions that an engine calls for metrics and traces. See Config.Observer and Config.Tracer of package
// hookonce. Package hookmetrics has an Observer that counts for Prometheus.
package observe

import "time"

// Observer is called for metrics. Each function may be nil. The functions are called
// concurrently and in the middle of the work: they must be fast, and must return. If one panics or
// ends its goroutine, that is logged and has no other effect.
type Observer struct {
	// Direct calls the functions in the goroutine that does the work, instead of one of their own for
	// each call. That is cheaper. A panic still has no effect; but no function may end its goroutine,
	// as runtime.Goexit and FailNow of a test do, because the work would end with it.
	Direct bool
	// Delivery is called when a delivery was answered.
	Delivery func(Delivery)
	// Claim is called after each attempt to claim a batch of events.
	Claim func(Claim)
	// Attempt is called when a handler has run, or a message was sent.
	Attempt func(Attempt)
	// Operated is called when an operator replayed or discarded something through this engine.
	Operated func(Operated)
	// Pruned is called when something was pruned.
	Pruned func(Pruned)
	// Barred is called when a destination broke the rules for kept connections: for an hour each
	// attempt has a connection of its own.
	Barred func(destination string)
	// RowRefused is called when the database refused to change the row of a message or an event, as a trigger of its owner may.
	// The row rests for a while, and the others go on.
	RowRefused func(RowRefused)
	// Reconciled is called after each page of the provider's list that Engine.Reconcile or PlanReconcile has read, and
	// at the end.
	Reconciled func(Reconciled)
}

// Delivery is an answered delivery.
type Delivery struct {
	Source string // "" if there is no such source
	Status int    // of the answer
	// Outcome is "ok", "duplicate", "reopened", "malformed", "handshake" for an answered handshake,
	// "refused" for any other 4xx, "failed" for a failed Inline handler, or "unavailable".
	Outcome string
	// Reason is that of a refusal, such as "signature_wrong"; "" unless Outcome is "refused".
	Reason string
	// Took is the time from the first byte of the request to the answer; 0 if Engine.Refuse got an error
	// that is not from Verify or ClaimTx.
	Took     time.Duration
	TraceID  string // of its span, if that is sampled; otherwise ""
	Events   int    // number of its durable events
	Unrouted int    // number of new events without a handler, route or consumer
	// Unordered is the number of new messages of routes, and events of handlers, with an order whose key or version is missing.
	Unordered int
	Reopened  int // number of dead events that are due again
	// OtherBodies is the number of duplicates whose body differs from the first one.
	OtherBodies int
	// Undecided is the number of new events that are dead because the condition of a route was
	// undecided.
	Undecided int
}

// Claim is a batch of claims in one statement.
type Claim struct {
	Size int           // number of events
	Took time.Duration // of the commit
	Err  error         // nil if the batch was claimed
}

// Attempt is one attempt of a handler, or to send a message.
type Attempt struct {
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

// Operated counts dead letters, or one event, of a source.
type Operated struct {
	Action string // "replayed" or "discarded"
	Source string
	Count  int
}

// Pruned counts pruned rows.
type Pruned struct {
	Events, Bodies, Quarantined int64
}

// RowRefused is a row that the database refused to change.
type RowRefused struct {
	Source      string // of an event; "" for a message
	Destination string // of a message; "" for an event
}

// Reconciled is one page of the events that a provider's API lists, or the end of the list.
type Reconciled struct {
	Source                 string
	Plan                   bool // nothing is claimed
	Seen, Missing, Claimed int  // of this page, as in hookonce.Reconciled; 0 at the end
	Ended                  bool
	Err                    error // that ended it; nil if all pages were read
}
