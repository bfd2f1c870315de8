package tell

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/observe"
)

// Span is a span in progress. A nil *Span does nothing.
type Span struct {
	of          *Teller
	span        observe.Span
	traceparent string
}

// start starts a span, and returns ctx with it. It returns nil without a Tracer.
func (t *Teller) start(ctx context.Context, name string, at time.Time, parent, link string) (in context.Context, out *Span) {
	if t.o.Tracer == nil {
		return ctx, nil
	}
	in = ctx // unless the Tracer returns
	defer t.recoverTracer()
	started, span := t.o.Tracer.Start(ctx, observe.SpanStart{Name: name, At: at, Parent: parent, Link: link})
	out = &Span{t, span, span.Traceparent()}
	if out.traceparent != "" && !send.ValidTraceparent(out.traceparent) {
		t.tracerFailed(fmt.Errorf("the traceparent of a span is %q, which is not a valid one of version 00", out.traceparent))
		out.traceparent = ""
	}
	return started, out
}

func (s *Span) end(at time.Time, err error, attributes ...slog.Attr) {
	if s != nil {
		defer s.of.recoverTracer()
		s.span.End(observe.SpanEnd{At: at, Err: err, Attributes: attributes})
	}
}

// sampled returns the trace id of a sampled span, otherwise "".
func (s *Span) sampled() string {
	if s == nil {
		return ""
	}
	return send.SampledTrace(s.traceparent)
}

func (t *Teller) recoverTracer() {
	if v := recover(); v != nil {
		t.tracerFailed(guard.Loggable(guard.Recovered(v)))
	}
}

func (t *Teller) tracerFailed(err error) {
	if t.failures.Take(time.Now()) == 0 {
		t.log.Error("a Tracer failed", slog.Any("error", err))
	}
}

// Verified starts the span of a verified delivery that arrived at a time, in the trace that its header
// names. It returns visible, the header to store, with the traceparent of the span.
func (t *Teller) Verified(header, visible http.Header, arrived, verifying time.Time) (*Span, http.Header) {
	_, span := t.start(context.Background(), observe.SpanReceive, arrived, send.Traceparent(header), "")
	if span == nil {
		return nil, visible
	}
	_, verify := t.start(context.Background(), observe.SpanVerify, verifying, span.traceparent, "")
	verify.end(time.Now(), nil)
	visible = visible.Clone()
	send.SetTraceparent(visible, span.traceparent)
	return span, visible
}

// Claiming starts the span of the claim of a delivery, whose span is s.
func (s *Span) Claiming() *Span {
	if s == nil {
		return nil
	}
	_, claim := s.of.start(context.Background(), observe.SpanClaim, time.Now(), s.traceparent, "")
	return claim
}

// EndClaim ends the span of a claim of a number of events.
func (s *Span) EndClaim(events int, err error) {
	if s != nil {
		s.end(time.Now(), err, slog.Int("events", events))
	}
}

// receiving returns the span of an answered delivery. Without one, the delivery was not verified: it
// must not continue the trace that it names, so it only has a link to it.
func (t *Teller) receiving(r *http.Request, d *Delivery) *Span {
	if d.Span != nil || t.o.Tracer == nil {
		return d.Span
	}
	at := d.Began
	if at.IsZero() {
		at = time.Now()
	}
	_, span := t.start(context.Background(), observe.SpanReceive, at, "", send.Traceparent(r.Header))
	return span
}

// endDelivery ends the span of an answered delivery.
func (s *Span) endDelivery(d *Delivery, at time.Time) {
	if s == nil {
		return
	}
	attributes := []slog.Attr{
		slog.String("source", d.Source), slog.Int("status", d.Status), slog.String("outcome", d.Outcome), slog.Int("events", d.Events),
	}
	for _, one := range []struct{ name, value string }{{"event_id", d.EventID}, {"reason", d.Reason}, {"error_id", d.ErrorID}} {
		if one.value != "" {
			attributes = append(attributes, slog.String(one.name, one.value))
		}
	}
	var err error
	if d.Status >= http.StatusInternalServerError {
		err = unavailableError(d.Why)
	}
	s.end(at, err, attributes...)
}

// unavailableError is why a delivery was not accepted.
type unavailableError string

func (e unavailableError) Error() string { return string(e) }

// TracesAttempts returns what starts the spans of attempts to send a message, in the trace of its stored
// header; nil without a Tracer.
func (t *Teller) TracesAttempts() func(m *driver.Message, header http.Header, at time.Time) (string, func(*relay.Observed)) {
	if t.o.Tracer == nil {
		return nil
	}
	return func(m *driver.Message, header http.Header, at time.Time) (string, func(*relay.Observed)) {
		_, s := t.start(context.Background(), observe.SpanAttempt, at, send.Traceparent(header), "")
		if s == nil {
			return "", func(*relay.Observed) {}
		}
		return s.traceparent, func(o *relay.Observed) {
			s.end(time.Now(), o.Err,
				slog.String("source", m.Source), slog.String("event_id", m.EventID), slog.String("message_id", m.ID),
				slog.String("destination", m.Destination), slog.Int("attempt", m.Attempt), slog.String("outcome", o.Outcome),
				slog.Int("status", o.StatusCode))
		}
	}
}

// handlerSpan is the span of one run of a handler. It implements work.Span.
type handlerSpan struct{ *Span }

// TracesHandlers returns what starts the spans of handlers, and returns the handler's context with it; nil
// without a Tracer.
func (t *Teller) TracesHandlers() func(context.Context, *work.Event) (context.Context, work.Span) {
	if t.o.Tracer == nil {
		return nil
	}
	return func(ctx context.Context, ev *work.Event) (context.Context, work.Span) {
		ctx, s := t.start(ctx, observe.SpanHandle, time.Now(), send.Traceparent(ev.Header), "")
		if s == nil {
			return ctx, nil
		}
		return ctx, handlerSpan{s}
	}
}

// End implements work.Span.
func (s handlerSpan) End(at time.Time, a *work.Observed) {
	s.end(at, a.Err, slog.String("source", a.Event.Source), slog.String("event_id", a.Event.EventID),
		slog.Int("attempt", a.Attempt), slog.String("outcome", a.Outcome))
}

// traceID returns the trace id of the span of a run of a handler, if it is sampled; otherwise "".
func traceID(a *work.Observed) string {
	s, _ := a.Span.(handlerSpan)
	return s.sampled()
}

// EventReplayed tells of a replay of an event that began at a time. header is the event's in its stored
// form.
func (t *Teller) EventReplayed(d *driver.EventDetail, replayed *driver.Replayed, began time.Time) {
	t.Operated(Replayed, d.Source, 1)
	t.Changed(Replayed, d.Source, d.EventID, d.Type, "", "")
	if t.o.Tracer == nil {
		return
	}
	header, _ := wire.ParseHeader(d.Headers) // a damaged one only lacks its link
	_, span := t.start(context.Background(), observe.SpanReplay, began, "", send.Traceparent(header))
	span.end(time.Now(), nil, slog.String("source", d.Source), slog.String("event_id", d.EventID),
		slog.Int("generation", replayed.Generation), slog.Int("messages", replayed.Messages))
}
