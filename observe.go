package hookonce

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// Observer is called for metrics and traces. Each function may be nil. The functions are called
// concurrently and in the middle of the work: they must be fast, and must return. If one panics or
// ends its goroutine, that is logged and has no other effect.
type Observer struct {
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
}

// DeliveryObserved is an answered delivery.
type DeliveryObserved struct {
	Source string // "" if there is no such source
	Status int    // of the answer
	// Outcome is "ok", "duplicate", "reopened", "malformed", "handshake" for an answered handshake,
	// "refused" for any other 4xx, "failed" for a failed Inline handler, or "unavailable".
	Outcome string
	// Reason is one of RefusalReasons if Outcome is "refused", and "" otherwise.
	Reason string
	// Took is the time from the first byte of the request to the answer; 0 if Refuse got an error
	// that is not from Verify or ClaimTx.
	Took     time.Duration
	Events   int // number of its durable events
	Unrouted int // number of new events without a handler, route or consumer
	Reopened int // number of dead events that are due again
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
	Took time.Duration
	Err  error
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

// The outcomes of DeliveryObserved.
const (
	deliveryOK          = "ok"
	deliveryDuplicate   = "duplicate"
	deliveryReopened    = "reopened"
	deliveryMalformed   = "malformed"
	deliveryHandshake   = "handshake"
	deliveryRefused     = "refused"
	deliveryFailed      = "failed"
	deliveryUnavailable = "unavailable"
)

// The values of DeliveryObserved.Reason.
const (
	reasonUnknownSource    = "unknown_source"
	reasonMethod           = "method"
	reasonHeaders          = "headers"
	reasonTooLarge         = "too_large"
	reasonEncoding         = "encoding"
	reasonSlowBody         = "slow_body"
	reasonUnreadable       = "unreadable_body"
	reasonSignatureMissing = "signature_missing"
	reasonSignatureWrong   = "signature_wrong" // also repeated and malformed ones
	reasonTooOld           = "too_old"
	reasonTooNew           = "too_new"
	reasonHandshake        = "handshake"
	reasonSecret           = "secret" // one that a provider handed over
	reasonRate             = "rate"
	reasonUnverifiedRate   = "unverified_rate"
)

// DeliveryOutcomes returns all values of DeliveryObserved.Outcome.
func DeliveryOutcomes() []string {
	return []string{
		deliveryOK, deliveryDuplicate, deliveryReopened, deliveryMalformed, deliveryHandshake, deliveryRefused, deliveryFailed,
		deliveryUnavailable,
	}
}

// RefusalReasons returns the values of DeliveryObserved.Reason.
func RefusalReasons() []string {
	return []string{
		reasonUnknownSource, reasonMethod, reasonHeaders, reasonTooLarge, reasonEncoding, reasonSlowBody, reasonUnreadable,
		reasonSignatureMissing, reasonSignatureWrong, reasonTooOld, reasonTooNew, reasonHandshake, reasonSecret,
		reasonRate, reasonUnverifiedRate,
	}
}

// MessageOutcomes returns all values of AttemptObserved.Outcome for messages.
func MessageOutcomes() []string { return []string{"sent", "retry", "dead", "skipped"} }

// observers call an Observer. A nil *observers calls nothing.
type observers struct {
	observer Observer
	log      *slog.Logger
	lines    *limit.Bucket // of the log
}

// newObservers returns nil for a nil o.
func newObservers(o *Observer, log *slog.Logger) *observers {
	if o == nil {
		return nil
	}
	return &observers{observer: *o, log: log, lines: refusalRate.bucket()}
}

func (o *observers) claim(size int, took time.Duration, err error) {
	if o != nil {
		tell(o, o.observer.Claim, ClaimObserved{Size: size, Took: took, Err: err})
	}
}

// handler observes an attempt of a handler.
func (o *observers) handler(a *work.Observed) {
	if o != nil {
		tell(o, o.observer.Attempt, AttemptObserved{
			Kind: "handler", Source: a.Event.Source, EventID: a.Event.EventID, Type: a.Event.Type,
			Outcome: a.Outcome, Attempt: a.Attempt, Took: a.Took, Err: a.Err,
		})
	}
}

// message observes an attempt to send a message.
func (o *observers) message(a *relay.Observed) {
	if o != nil {
		m := a.Message
		tell(o, o.observer.Attempt, AttemptObserved{
			Kind: "message", Source: m.Source, EventID: m.EventID, Type: m.Type, Destination: m.Destination,
			Outcome: a.Outcome, Attempt: m.Attempt, StatusCode: a.StatusCode, Took: a.Took, Err: a.Err,
		})
	}
}

func (o *observers) operated(action, source string, count int) {
	if o != nil {
		tell(o, o.observer.Operated, OperatedObserved{Action: action, Source: source, Count: count})
	}
}

func (o *observers) pruned(p PrunedObserved) {
	if o != nil {
		tell(o, o.observer.Pruned, p)
	}
}

// delivery observes a delivery that was answered with a. source is "" if there is no such source.
func (o *observers) delivery(source string, a *answer, took time.Duration) {
	if o == nil {
		return
	}
	outcome, reason := a.observed()
	tell(o, o.observer.Delivery, DeliveryObserved{
		Source: source, Status: a.status, Outcome: outcome, Reason: reason, Took: took, Events: a.events, Unrouted: a.unrouted,
		Reopened: a.reopened, OtherBodies: a.otherBodies, Undecided: a.undecided,
	})
}

// observed returns the outcome of a delivery that was answered with a, and the reason of a refusal.
func (a *answer) observed() (outcome, reason string) {
	switch {
	case a.outcome != "":
		return a.outcome, ""
	case a.status >= 500:
		return deliveryUnavailable, ""
	}
	return deliveryRefused, a.reason
}

// tell calls f, unless it is nil, in its own goroutine: many callers hold something that a panic or
// an end of the goroutine would leave behind.
func tell[T any](o *observers, f func(T), what T) {
	if f == nil {
		return
	}
	err := <-guard.Call("the Observer", func() error {
		f(what)
		return nil
	})
	if err != nil && o.lines.Take(time.Now()) == 0 {
		o.log.Error("an Observer failed", slog.Any("error", guard.Loggable(err)))
	}
}

// seen is an event of a delivery, for the live feed.
type seen struct {
	id, eventType, outcome string
}

// seenIn returns the events of a unit with final results, and a part without an id for each of the
// malformed ones.
func seenIn(u *claims.Unit, malformed int) []seen {
	all := make([]seen, 0, len(u.Claims)+malformed)
	for i := range u.Results {
		claim, result := &u.Claims[i], &u.Results[i]
		one := seen{claim.EventID, claim.Type, deliveryDuplicate}
		switch {
		case errors.Is(result.Err, driver.ErrBadRow):
			one.outcome = deliveryMalformed
		case result.Err != nil:
			one.outcome = deliveryUnavailable
		case result.Claimed:
			one.outcome = deliveryOK
		case result.Reopened:
			one.outcome = deliveryReopened
		}
		all = append(all, one)
	}
	for range malformed {
		all = append(all, seen{outcome: deliveryMalformed})
	}
	return all
}

// feedDelivery adds a delivery that was answered with a to the live feed: a row for each of its
// events.
func (in *Engine) feedDelivery(r *http.Request, source string, a *answer, now time.Time, took time.Duration) {
	if !in.feed.Watched() {
		return
	}
	outcome, reason := a.observed()
	row := feed.Row{At: now, Kind: driver.FeedDelivery, Source: source, Outcome: outcome, Details: feed.Details{
		Status: a.status, TookSeconds: took.Seconds(), Reason: reason, Remote: in.proxies.Client(r), ErrorID: a.errorID, Error: a.why,
	}}
	if outcome == deliveryRefused {
		row.Kind, row.Error = driver.FeedRefused, "" // the reason says it
	}
	if len(a.seen) == 0 {
		in.feed.Add(row)
		return
	}
	for _, one := range a.seen {
		row.EventID, row.Type, row.Outcome = one.id, one.eventType, one.outcome
		in.feed.Add(row)
	}
}

// feedAttempt adds an attempt to send a message to the live feed.
func (in *Engine) feedAttempt(a *relay.Observed) {
	if !in.feed.Watched() {
		return
	}
	m := a.Message
	in.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedAttempt, Source: m.Source, EventID: m.EventID, Type: m.Type, Outcome: a.Outcome,
		Details: feed.Details{
			Destination: m.Destination, MessageID: m.ID, Attempt: m.Attempt, Status: a.StatusCode, TookSeconds: a.Took.Seconds(),
			Error: errorText(a.Err),
		},
	})
}

// feedHandled adds an attempt of a handler to the live feed.
func (in *Engine) feedHandled(o *work.Observed) {
	if !in.feed.Watched() {
		return
	}
	in.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: o.Event.Source, EventID: o.Event.EventID, Type: o.Event.Type, Outcome: o.Outcome,
		Details: feed.Details{Attempt: o.Attempt, TookSeconds: o.Took.Seconds(), Error: errorText(o.Err)},
	})
}

// feedOperated adds a change by an operator to the live feed. It is about a message if there is a
// message id.
func (in *Engine) feedOperated(action, source, eventID, eventType, destination, messageID string) {
	in.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: source, EventID: eventID, Type: eventType, Outcome: action,
		Details: feed.Details{Destination: destination, MessageID: messageID},
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return wire.ErrorText(err)
}
