// Package tell reports the work of an engine to the Observer and the Tracer of its settings, the figures,
// the list of refused requests, the live feed and the log.
package tell

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/figures"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/observe"
)

// Store is the part of driver.Store that keeps the reports.
type Store interface {
	figures.Store
	figures.RefusedStore
	feed.Writer
}

// Options say whom to tell.
type Options struct {
	Log      *slog.Logger
	Observer *observe.Observer          // nil for none
	Tracer   observe.Tracer             // nil for none
	Gateway  string                     // the name of this host
	Client   func(*http.Request) string // the address of the client of a request
}

// lines bounds the log lines of a kind in a second: neither forgers nor a stopped database nor failing
// user code may fill the disk with them.
const lines = 100

// Teller reports the work of an engine. Its methods may be called concurrently. Run and the Write methods
// bring the reports into the store.
type Teller struct {
	o        Options
	observer *observe.Observer
	log      *slog.Logger
	figures  *figures.Sums
	refused  *figures.Refused
	feed     *feed.Collector
	refusals refusals
	claims   *limit.Bucket // log lines about claims and handshakes
	failures *limit.Bucket // log lines about the Observer and the Tracer

	unavailable atomic.Int64
}

// Unavailable returns how many deliveries were answered 503.
func (t *Teller) Unavailable() int64 { return t.unavailable.Load() }

// New returns a Teller.
func New(store Store, o *Options) *Teller {
	observer := o.Observer
	if observer == nil {
		observer = &observe.Observer{}
	}
	return &Teller{
		o: *o, observer: observer, log: o.Log,
		figures:  figures.New(store, o.Log),
		refused:  figures.NewRefused(store, o.Log),
		feed:     feed.NewCollector(store, o.Log, o.Gateway),
		refusals: refusals{lines: limit.New(lines, time.Second)},
		claims:   limit.New(lines, time.Second),
		failures: limit.New(lines, time.Second),
	}
}

// Gateway returns the name of this host; "" if it is unknown.
func (t *Teller) Gateway() string { return t.o.Gateway }

// Run writes the live feed until ctx ends.
func (t *Teller) Run(ctx context.Context) { t.feed.Run(ctx) }

// WriteFigures adds the figures to the store.
func (t *Teller) WriteFigures(ctx context.Context) error { return t.figures.Write(ctx) }

// WriteRefused stores the refused requests.
func (t *Teller) WriteRefused(ctx context.Context) error { return t.refused.Write(ctx) }

// Refused lists refused requests: those of the store, and those of this process that wait to be written.
func (t *Teller) Refused(ctx context.Context, f *driver.RefusedFilter) (*driver.RefusedPage, error) {
	return t.refused.List(ctx, f)
}

// Write writes the figures and the refused requests.
func (t *Teller) Write(ctx context.Context) error {
	return errors.Join(t.WriteFigures(ctx), t.WriteRefused(ctx))
}

// Remote returns the address of the client of r, without a port, as the evidence shows it.
func (t *Teller) Remote(r *http.Request) string { return Text(limit.Address(t.o.Client(r))) }

// Text returns the beginning of s, as every database takes it.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s[:min(len(s), driver.MaxFigureText)], ""), "\x00", "")
}

// Claimed counts new claims.
func (t *Teller) Claimed(claims ...*driver.Claim) {
	now := time.Now()
	for _, c := range claims {
		t.figures.Event(now, c.Source, c.Type)
	}
}

// Copies counts n deliveries of an event that was claimed before.
func (t *Teller) Copies(e driver.CountedEvent, n int) {
	t.figures.Duplicates(time.Now(), e.Source, e.ReceivedAt, n)
}

// Backlog keeps a sample of the work that waits.
func (t *Teller) Backlog(b *driver.Backlog) { t.figures.Backlog(b) }

// Batch observes a batch of claims.
func (t *Teller) Batch(size int, took time.Duration, err error) {
	call(t, t.observer.Claim, observe.Claim{Size: size, Took: took, Err: err})
}

// Handled tells of a run of a handler.
func (t *Teller) Handled(a *work.Observed) {
	t.feedHandled(a)
	if t.observer.Attempt != nil {
		call(t, t.observer.Attempt, observe.Attempt{
			Kind: "handler", Source: a.Event.Source, EventID: a.Event.EventID, Type: a.Event.Type,
			Outcome: a.Outcome, Attempt: a.Attempt, Took: a.Took, Err: a.Err, TraceID: traceID(a),
		})
	}
}

// Attempt tells of an attempt to send a message.
func (t *Teller) Attempt(a *relay.Observed) {
	t.figures.Attempt(time.Now(), a.Message.Destination, a.Outcome, a.Took)
	t.feedAttempt(a)
	if m := a.Message; t.observer.Attempt != nil {
		call(t, t.observer.Attempt, observe.Attempt{
			Kind: "message", Source: m.Source, EventID: m.EventID, Type: m.Type, Destination: m.Destination,
			Outcome: a.Outcome, Attempt: m.Attempt, StatusCode: a.StatusCode, Took: a.Took, Err: a.Err,
			TraceID: send.SampledTrace(a.Traceparent),
		})
	}
}

// The actions of operators.
const (
	Replayed  = "replayed"
	Discarded = "discarded"
	Retried   = "retried" // for the live feed alone
)

// Operated observes that an operator replayed or discarded a number of things of a source.
func (t *Teller) Operated(action, source string, count int) {
	call(t, t.observer.Operated, observe.Operated{Action: action, Source: source, Count: count})
}

// Pruned observes that rows were pruned.
func (t *Teller) Pruned(p *driver.PruneResult) {
	call(t, t.observer.Pruned, observe.Pruned{Events: p.Events, Bodies: p.Bodies, Quarantined: p.Quarantined})
}

// Reconciled observes a page of a provider's list, or its end.
func (t *Teller) Reconciled(r observe.Reconciled) { call(t, t.observer.Reconciled, r) }

// Barred tells that a destination loses its kept connections.
func (t *Teller) Barred(destination, reason string) {
	t.log.Warn("the destination broke the rules for kept connections; for an hour each attempt has a connection of its own",
		slog.String("destination", destination), slog.String("reason", reason))
	call(t, t.observer.Barred, destination)
}

// RowRefused observes that the database refused to change the row of an event of a source, or of a message to a destination.
func (t *Teller) RowRefused(source, destination string) {
	call(t, t.observer.RowRefused, observe.RowRefused{Source: source, Destination: destination})
}
