package hookonce

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// Observer is called for metrics. Each function may be nil. The functions are called
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
	TraceID  string // of its span, if that is sampled; otherwise ""
	Events   int    // number of its durable events
	Unrouted int    // number of new events without a handler, route or consumer
	Reopened int    // number of dead events that are due again
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
func (o *observers) handler(a *work.Observed, traceID string) {
	if o != nil {
		tell(o, o.observer.Attempt, AttemptObserved{
			Kind: "handler", Source: a.Event.Source, EventID: a.Event.EventID, Type: a.Event.Type,
			Outcome: a.Outcome, Attempt: a.Attempt, Took: a.Took, Err: a.Err, TraceID: traceID,
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
			TraceID: send.SampledTrace(a.Traceparent),
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
func (o *observers) delivery(source string, a *answer, took time.Duration, traceID string) {
	if o == nil {
		return
	}
	outcome, reason := a.observed()
	tell(o, o.observer.Delivery, DeliveryObserved{
		Source: source, Status: a.status, Outcome: outcome, Reason: reason, Took: took, Events: a.events, Unrouted: a.unrouted,
		Reopened: a.reopened, OtherBodies: a.otherBodies, Undecided: a.undecided, TraceID: traceID,
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

// Tracer makes the spans of a trace, for Config.Tracer. A traceparent is that of W3C Trace Context,
// version 00. The methods are called concurrently and in the middle of the work: they must be fast.
// A panic is logged and has no other effect.
//
// The spans are SpanReceive with its children SpanVerify and SpanClaim, then SpanAttempt or SpanHandle
// for each attempt, and SpanReplay. The traceparent of SpanReceive is stored with the event, so that
// attempts continue its trace, also after a restart.
type Tracer interface {
	Start(SpanStart) Span
}

// Span is a span that was started.
type Span interface {
	// Traceparent returns the id of the span in its trace, and whether it is sampled.
	Traceparent() string
	// End ends the span. It is called at most once.
	End(SpanEnd)
}

// SpanStart describes a span at its start.
type SpanStart struct {
	Name   string
	At     time.Time
	Parent string // a traceparent; "" begins a trace
	Link   string // the traceparent of a related span; "" for none
}

// SpanEnd describes a span at its end. It holds no body and no secret.
type SpanEnd struct {
	At         time.Time
	Err        error // nil if it succeeded
	Attributes []slog.Attr
}

// The values of SpanStart.Name.
const (
	SpanReceive = "receive" // a delivery, from its first byte to its answer
	SpanVerify  = "verify"  // its signature, with the fetching of keys
	SpanClaim   = "claim"   // its claim, with the wait for the batch
	SpanAttempt = "attempt" // an attempt to send a message
	SpanHandle  = "handle"  // a run of a handler
	SpanReplay  = "replay"  // a replay of an event by an operator, with a link to its delivery
)

// tracing calls a Tracer. A nil *tracing, and a nil *span, do nothing.
type tracing struct {
	tracer Tracer
	log    *slog.Logger
	lines  *limit.Bucket
}

func newTracing(t Tracer, log *slog.Logger) *tracing {
	if t == nil {
		return nil
	}
	return &tracing{t, log, refusalRate.bucket()}
}

// span is a span in progress.
type span struct {
	of          *tracing
	span        Span
	traceparent string
}

func (t *tracing) start(s SpanStart) (out *span) {
	if t == nil {
		return nil
	}
	defer t.recover()
	started := t.tracer.Start(s)
	return &span{t, started, started.Traceparent()}
}

func (s *span) end(e SpanEnd) {
	if s != nil {
		defer s.of.recover()
		s.span.End(e)
	}
}

// sampled returns the trace id of a sampled span, otherwise "".
func (s *span) sampled() string {
	if s == nil {
		return ""
	}
	return send.SampledTrace(s.traceparent)
}

func (t *tracing) recover() {
	if v := recover(); v != nil && t.lines.Take(time.Now()) == 0 {
		t.log.Error("a Tracer failed", slog.Any("error", guard.Loggable(guard.Recovered(v))))
	}
}

// startDelivery starts the span of a verified delivery that arrived at a time, in the trace that its
// sender names, and stores it with the events.
func (t *tracing) startDelivery(d *delivery, arrived, verifying time.Time) {
	if t == nil {
		return
	}
	d.span = t.start(SpanStart{Name: SpanReceive, At: arrived, Parent: send.Traceparent(d.header)})
	if d.span == nil {
		return
	}
	t.start(SpanStart{Name: SpanVerify, At: verifying, Parent: d.span.traceparent}).end(SpanEnd{At: time.Now()})
	d.visible = d.visible.Clone()
	send.SetTraceparent(d.visible, d.span.traceparent)
}

// startClaim starts the span of the claim of d.
func (t *tracing) startClaim(d *delivery) *span {
	if d.span == nil {
		return nil
	}
	return t.start(SpanStart{Name: SpanClaim, At: time.Now(), Parent: d.span.traceparent})
}

// ofAnswer returns the span of a delivery that was answered with a. Without one, the delivery was not
// verified: it must not continue the trace that it names, so it only has a link to it.
func (t *tracing) ofAnswer(r *http.Request, a *answer) *span {
	if t == nil || a.span != nil {
		return a.span
	}
	at := a.began
	if at.IsZero() {
		at = time.Now()
	}
	return t.start(SpanStart{Name: SpanReceive, At: at, Link: send.Traceparent(r.Header)})
}

// endDelivery ends the span of a delivery that was answered with a.
func (s *span) endDelivery(source string, a *answer, outcome, reason string, at time.Time) {
	if s == nil {
		return
	}
	end := SpanEnd{At: at, Attributes: []slog.Attr{
		slog.String("source", source), slog.Int("status", a.status), slog.String("outcome", outcome), slog.Int("events", a.events),
	}}
	if a.eventID != "" {
		end.Attributes = append(end.Attributes, slog.String("event_id", a.eventID))
	}
	if reason != "" {
		end.Attributes = append(end.Attributes, slog.String("reason", reason))
	}
	if a.errorID != "" {
		end.Attributes = append(end.Attributes, slog.String("error_id", a.errorID))
	}
	if a.status >= http.StatusInternalServerError {
		end.Err = unavailableError(a.why)
	}
	s.end(end)
}

// unavailableError is why a delivery was not accepted.
type unavailableError string

func (e unavailableError) Error() string { return string(e) }

// startAttempt starts the span of an attempt to send m, in the trace of the stored header.
func (t *tracing) startAttempt(m *driver.Message, header http.Header, at time.Time) (traceparent string, end func(*relay.Observed)) {
	s := t.start(SpanStart{Name: SpanAttempt, At: at, Parent: send.Traceparent(header)})
	if s == nil {
		return "", func(*relay.Observed) {}
	}
	return s.traceparent, func(o *relay.Observed) {
		s.end(SpanEnd{At: time.Now(), Err: o.Err, Attributes: []slog.Attr{
			slog.String("source", m.Source), slog.String("event_id", m.EventID), slog.String("message_id", m.ID),
			slog.String("destination", m.Destination), slog.Int("attempt", m.Attempt), slog.String("outcome", o.Outcome),
			slog.Int("status", o.StatusCode),
		}})
	}
}

// handled makes the span of a handler that ran, and returns its trace id if it is sampled.
func (t *tracing) handled(a *work.Observed) string {
	if t == nil || a.Outcome == "skipped" {
		return ""
	}
	now := time.Now()
	s := t.start(SpanStart{Name: SpanHandle, At: now.Add(-a.Took), Parent: send.Traceparent(a.Event.Header)})
	s.end(SpanEnd{At: now, Err: a.Err, Attributes: []slog.Attr{
		slog.String("source", a.Event.Source), slog.String("event_id", a.Event.EventID), slog.Int("attempt", a.Attempt), slog.String("outcome", a.Outcome),
	}})
	return s.sampled()
}

// replayed makes the span of a replay that began at a time.
func (t *tracing) replayed(r *ReplayRequest, stored []byte, replayed *driver.Replayed, began time.Time) {
	if t == nil {
		return
	}
	header, _ := wire.ParseHeader(stored) // a damaged one only lacks its link
	t.start(SpanStart{Name: SpanReplay, At: began, Link: send.Traceparent(header)}).end(SpanEnd{At: time.Now(), Attributes: []slog.Attr{
		slog.String("source", r.Source), slog.String("event_id", r.EventID), slog.Int("generation", replayed.Generation),
		slog.Int("messages", replayed.Messages),
	}})
}
