package observe

import (
	"context"
	"log/slog"
	"time"
)

// Tracer makes the spans of a trace, for Config.Tracer of package hookonce. A traceparent is that of W3C Trace Context,
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
