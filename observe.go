package hookonce

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
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
	Barred func(BarredObserved)
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

// BarredObserved is a destination that loses its kept connections.
type BarredObserved struct {
	Destination string
}

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
		observe(o, o.observer.Claim, ClaimObserved{Size: size, Took: took, Err: err})
	}
}

// handler observes an attempt of a handler.
func (o *observers) handler(a *work.Observed, traceID string) {
	if o != nil {
		observe(o, o.observer.Attempt, AttemptObserved{
			Kind: "handler", Source: a.Event.Source, EventID: a.Event.EventID, Type: a.Event.Type,
			Outcome: a.Outcome, Attempt: a.Attempt, Took: a.Took, Err: a.Err, TraceID: traceID,
		})
	}
}

// message observes an attempt to send a message.
func (o *observers) message(a *relay.Observed) {
	if o != nil {
		m := a.Message
		observe(o, o.observer.Attempt, AttemptObserved{
			Kind: "message", Source: m.Source, EventID: m.EventID, Type: m.Type, Destination: m.Destination,
			Outcome: a.Outcome, Attempt: m.Attempt, StatusCode: a.StatusCode, Took: a.Took, Err: a.Err,
			TraceID: send.SampledTrace(a.Traceparent),
		})
	}
}

func (o *observers) operated(action, source string, count int) {
	if o != nil {
		observe(o, o.observer.Operated, OperatedObserved{Action: action, Source: source, Count: count})
	}
}

func (o *observers) pruned(p PrunedObserved) {
	if o != nil {
		observe(o, o.observer.Pruned, p)
	}
}

func (o *observers) barred(destination string) {
	if o != nil {
		observe(o, o.observer.Barred, BarredObserved{Destination: destination})
	}
}

// delivery observes a delivery that was answered with a. source is "" if there is no such source.
func (o *observers) delivery(source string, a *answer, took time.Duration, traceID string) {
	if o == nil {
		return
	}
	outcome, reason := a.observed()
	observe(o, o.observer.Delivery, DeliveryObserved{
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
		return tell.Unavailable, ""
	}
	return tell.Refused, a.reason
}

// observe calls f, unless it is nil. Many callers hold something that a panic or an end of the goroutine
// would leave behind. So f has its own goroutine, unless Observer.Direct says that it never ends it.
func observe[T any](o *observers, f func(T), what T) {
	if f == nil {
		return
	}
	var err error
	if o.observer.Direct {
		err = callDirectly(f, what)
	} else {
		err = <-guard.Call("the Observer", func() error {
			f(what)
			return nil
		})
	}
	if err != nil && o.lines.Take(time.Now()) == 0 {
		o.log.Error("an Observer failed", slog.Any("error", guard.Loggable(err)))
	}
}

// callDirectly calls f, and returns a panic as an error.
func callDirectly[T any](f func(T), what T) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = guard.Recovered(v)
		}
	}()
	f(what)
	return nil
}

// ofAnswer returns the span of a delivery that was answered with a. Without one, the delivery was not
// verified: it must not continue the trace that it names, so it only has a link to it.
func (t *tracing) ofAnswer(r *http.Request, a *answer) *span {
	if t == nil {
		return nil
	}
	if a.delivery != nil && a.delivery.span != nil {
		return a.delivery.span
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
	if id := a.eventID(); id != "" {
		end.Attributes = append(end.Attributes, slog.String("event_id", id))
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
