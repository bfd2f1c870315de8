package hookonce

import (
	"context"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/internal/tell"
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
	SpanReceive = tell.SpanReceive // "receive": a delivery, from its first byte to its answer
	SpanVerify  = tell.SpanVerify  // "verify": its signature, with the fetching of keys
	SpanClaim   = tell.SpanClaim   // "claim": its claim, with the wait for the batch
	SpanAttempt = tell.SpanAttempt // "attempt": an attempt to send a message
	SpanHandle  = tell.SpanHandle  // "handle": a run of a handler
	SpanReplay  = tell.SpanReplay  // "replay": a replay of an event by an operator, with a link to its delivery
)

// tracerOf returns what starts spans with t; nil if t is nil.
func tracerOf(t Tracer) tell.Tracer {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, name string, at time.Time, parent, link string) (context.Context, tell.Ender) {
		ctx, span := t.Start(ctx, SpanStart{Name: name, At: at, Parent: parent, Link: link})
		return ctx, ender{span}
	}
}

// ender ends a Span. It implements tell.Ender.
type ender struct{ Span }

// End implements tell.Ender.
func (e ender) End(at time.Time, err error, attributes []slog.Attr) {
	e.Span.End(SpanEnd{At: at, Err: err, Attributes: attributes})
}
