package tell

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/observe"
)

// Delivery describes an answered delivery. Delivered fills in Source, Took and TraceID, and Outcome if the status decides.
type Delivery struct {
	observe.Delivery
	Began time.Time // arrival of the request; zero if unknown
	Seen  []Seen    // its events, while the live feed keeps rows

	// Of a verified delivery.
	Span    *Span
	EventID string // of its only event; "" if it is not known, or for several

	// Of a refusal.
	ErrorID string
	Why     string
	Err     error
	Body    *Sample  // nil if the body was not read
	Shown   []string // headers whose values the operator may see
}

// Seen is an event of a delivery, for the live feed.
type Seen struct{ EventID, Type, Outcome string }

// Sample is the beginning of a body, and the size of all of it.
type Sample struct {
	Begin []byte
	Size  int
}

// Delivered tells of a delivery r that was answered at a time.
func (t *Teller) Delivered(r *http.Request, source string, d *Delivery, now time.Time) {
	span := t.receiving(r, d)
	d.Source, d.TraceID = source, span.sampled()
	if !d.Began.IsZero() {
		d.Took = now.Sub(d.Began)
	}
	if d.ErrorID != "" {
		t.logRefusal(r, d)
	}
	d.settle()
	if d.Outcome == Unavailable {
		t.unavailable.Add(1)
	}
	t.figures.Delivery(now, source, d.Outcome, d.Reason, d.Took)
	if d.ErrorID != "" && (d.Reason != "" || d.Outcome == Unavailable) {
		t.refused.Offer(source, func() driver.RefusedRequest { return t.describe(r, d, now) })
	}
	t.feedDelivery(r, d, now)
	span.endDelivery(d, now)
	call(t, t.observer.Delivery, d.Delivery)
}

// settle fills in the outcome that the status decides. Only a refusal has a reason.
func (d *Delivery) settle() {
	switch {
	case d.Outcome != "":
	case d.Status >= http.StatusInternalServerError:
		d.Outcome = Unavailable
	default:
		d.Outcome = Refused
	}
	if d.Outcome != Refused {
		d.Reason = ""
	}
}

// Received notes the body of an unverified request to a source in d, its refusal. It keeps the beginning,
// unless the body may hold a credential.
func (t *Teller) Received(d *Delivery, source string, body []byte, secret bool) {
	d.Body = &Sample{Size: len(body)}
	if d.Reason != "" && !secret && t.refused.Room(source) {
		d.Body.Begin = slices.Clone(body[:min(len(body), driver.MaxRefusedBody)])
	}
}

// describe returns the refused request r for the operator.
func (t *Teller) describe(r *http.Request, d *Delivery, at time.Time) driver.RefusedRequest {
	refused := driver.RefusedRequest{
		ErrorID: d.ErrorID, At: at.Truncate(time.Microsecond), Source: d.Source, Reason: cmp.Or(d.Reason, Unavailable), Status: d.Status, Method: Text(r.Method),
		Remote: t.Remote(r), Gateway: t.o.Gateway, Headers: wire.RefusedHeader(r.Header, d.Shown, driver.MaxRefusedHeaders), BodySize: -1,
	}
	if d.Body != nil {
		refused.Body, refused.BodySize = d.Body.Begin, int64(d.Body.Size)
	}
	return refused
}

// refusals bounds the log of refusals, and counts the lines that are left out.
type refusals struct {
	lines   *limit.Bucket
	skipped atomic.Int64
}

func (t *Teller) logRefusal(r *http.Request, d *Delivery) {
	l := &t.refusals
	if l.lines.Take(time.Now()) > 0 {
		l.skipped.Add(1)
		return
	}
	level := slog.LevelInfo
	if d.Status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.Int("status", d.Status), slog.String("why", d.Why), slog.String("source", d.Source),
		slog.String("remote", t.o.Client(r)), slog.String("error_id", d.ErrorID),
	}
	if d.Err != nil {
		attrs = append(attrs, slog.Any("error", d.Err))
	}
	if d.EventID != "" {
		attrs = append(attrs, slog.String("event_id", d.EventID))
	}
	if d.TraceID != "" {
		attrs = append(attrs, slog.String("trace_id", d.TraceID))
	}
	if n := l.skipped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", n))
	}
	t.log.LogAttrs(context.WithoutCancel(r.Context()), level, "refused", attrs...)
}

// feedDelivery adds a delivery to the live feed: a row for each of its events, or one if none is known.
func (t *Teller) feedDelivery(r *http.Request, d *Delivery, now time.Time) {
	if !t.feed.Holds() {
		t.feed.Miss()
		return
	}
	row := feed.Row{At: now, Kind: driver.FeedDelivery, Source: d.Source, Outcome: d.Outcome, Details: feed.Details{
		Status: d.Status, TookSeconds: d.Took.Seconds(), Reason: d.Reason, Remote: t.Remote(r), ErrorID: d.ErrorID, Error: d.Why,
	}}
	if d.Outcome == Refused {
		row.Kind, row.Error = driver.FeedRefused, "" // the reason says it
	}
	if len(d.Seen) == 0 {
		t.feed.Add(row)
	}
	for _, one := range d.Seen {
		row.EventID, row.Type, row.Outcome = one.EventID, one.Type, one.Outcome
		t.feed.Add(row)
	}
}

// Claim logs the final claim of a delivery. Remarkable ones are rate-limited: a captured delivery can be
// replayed without limit.
func (t *Teller) Claim(claim *driver.Claim, result *claims.Result) {
	level, msg := slog.LevelDebug, "duplicate"
	switch {
	case result.Reopened:
		level, msg = slog.LevelInfo, "dead event reopened by a delivery"
	case result.RepeatOf != "" && result.Claimed:
		level, msg = slog.LevelWarn, "claimed, though the body was seen before under another event id"
	case result.RepeatOf != "" && claim.BodyGuard == driver.BodyRefuse:
		level, msg = slog.LevelWarn, "refused: the body was seen before under another event id"
	case result.Claimed:
		msg = "claimed"
	case result.OtherBody:
		level, msg = slog.LevelWarn, "duplicate with another body"
	}
	if level > slog.LevelDebug && t.claims.Take(time.Now()) > 0 {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !t.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("source", claim.Source), slog.String("event_id", claim.EventID),
		slog.String("type", claim.Type), slog.Int("messages", len(claim.Messages)),
	}
	if result.RepeatOf != "" {
		attrs = append(attrs, slog.String("first_event_id", result.RepeatOf))
	}
	t.log.LogAttrs(ctx, level, msg, attrs...)
}

// Handshake logs an answered handshake. It is rate-limited: for some handshakes anybody may ask.
func (t *Teller) Handshake(source, handshake string) {
	if t.claims.Take(time.Now()) == 0 {
		t.log.Info("handshake answered", slog.String("source", source), slog.String("handshake", handshake))
	}
}
