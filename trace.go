package hookonce

import (
	"context"
	"fmt"
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
// A panic, and a traceparent that is none, are logged and have no other effect.
//
// The spans are SpanReceive with its children SpanVerify and SpanClaim, then SpanAttempt or SpanHandle
// for each attempt, and SpanReplay. The traceparent of SpanReceive is stored with the event, so that
// attempts continue its trace, also after a restart.
type Tracer interface {
	// Start starts a span, and returns ctx with the span in it. A handler gets that context, so the spans
	// that it makes are children of SpanHandle. For other spans ctx holds nothing.
	Start(ctx context.Context, s SpanStart) (context.Context, Span)
}

// Span is a span that was started.
type Span interface {
	// Traceparent returns the id of the span in its trace, and whether it is sampled; "" stands for none.
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

func (t *tracing) start(s SpanStart) *span {
	_, out := t.startIn(context.Background(), s)
	return out
}

// startIn starts a span, and returns ctx with it.
func (t *tracing) startIn(ctx context.Context, s SpanStart) (in context.Context, out *span) {
	if t == nil {
		return ctx, nil
	}
	in = ctx // unless Start returns
	defer t.recover()
	started, made := t.tracer.Start(ctx, s)
	out = &span{t, made, made.Traceparent()}
	if out.traceparent != "" && !send.ValidTraceparent(out.traceparent) {
		t.failed(fmt.Errorf("the traceparent of a span is %q, which is not a valid one of version 00", out.traceparent))
		out.traceparent = ""
	}
	return started, out
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
	if v := recover(); v != nil {
		t.failed(guard.Loggable(guard.Recovered(v)))
	}
}

func (t *tracing) failed(err error) {
	if t.lines.Take(time.Now()) == 0 {
		t.log.Error("a Tracer failed", slog.Any("error", err))
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

// handlerSpan is the span of one run of a handler. It implements work.Span.
type handlerSpan struct{ *span }

// startHandler starts the span of a run of a handler, and returns the handler's context with it.
func (t *tracing) startHandler(ctx context.Context, ev *work.Event) (context.Context, work.Span) {
	ctx, s := t.startIn(ctx, SpanStart{Name: SpanHandle, At: time.Now(), Parent: send.Traceparent(ev.Header)})
	if s == nil {
		return ctx, nil
	}
	return ctx, handlerSpan{s}
}

// End implements work.Span.
func (s handlerSpan) End(at time.Time, a *work.Observed) {
	s.end(SpanEnd{At: at, Err: a.Err, Attributes: []slog.Attr{
		slog.String("source", a.Event.Source), slog.String("event_id", a.Event.EventID), slog.Int("attempt", a.Attempt), slog.String("outcome", a.Outcome),
	}})
}

// handled returns the trace id of the span of a handler, if it is sampled.
func (t *tracing) handled(a *work.Observed) string {
	s, _ := a.Span.(handlerSpan)
	return s.sampled()
}
