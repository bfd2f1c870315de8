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
	"github.com/hookonce/hookonce/internal/work"
)

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

// traceLines bounds the log lines about a failing Tracer in a second.
const traceLines = 100

func newTracing(t Tracer, log *slog.Logger) *tracing {
	if t == nil {
		return nil
	}
	return &tracing{t, log, limit.New(traceLines, time.Second)}
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
