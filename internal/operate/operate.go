// Package operate is the operator's side of an engine, beside the API of package hookonce: bulk jobs,
// their undoing, and questions of the admin API and the gateway.
package operate

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/deadnews"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/tell"
)

// Engine holds the questions of operators that the engine answers.
type Engine struct {
	// Sources and Destinations return those of the settings by name, Routes in the order of the settings.
	Sources      func() []SourceStatus
	Destinations func() []DestinationStatus
	Routes       func() []RouteStatus
	// CanLearn reports whether the provider of a source hands secrets over.
	CanLearn func(source string) bool
	// FreshCounts writes the counts of duplicate deliveries, which wait for up to a second, so that a
	// listing of events that follows shows the deliveries before the call. It returns when they are
	// written or ctx ends, after 2 s at most. It writes at most ten times a second, and nothing if no
	// counts wait. After an error a listing may lack the deliveries of the last second.
	FreshCounts func(context.Context) error
	// Clock compares this machine's clock with the database's. skew is positive if this machine's clock
	// is ahead. limit is the largest skew of a ready engine, half of the smallest tolerance of the
	// sources: beyond it, authentic timestamps may look stale. It is 0 if no source has a tolerance.
	Clock func(context.Context) (skew, limit time.Duration, err error)
	// Weaknesses reads the durability settings of the database. It returns the weak ones; those allowed
	// are named in the settings, or lose nothing on the platform of the server.
	Weaknesses func(context.Context) (refused, allowed []driver.Weakness, err error)
	// RetryQuarantined reads a quarantined request again with the present settings of its source, claims its
	// events, and removes it from the quarantine. The request was verified when it was stored. The error
	// matches driver.ErrNotFound, ErrUnknownSource or ErrHandledElsewhere, or, as an *UnreadableError, says
	// why the request stays. After any error it is still there, and a repetition is safe: events that were
	// claimed are duplicates then.
	RetryQuarantined func(context.Context, driver.Key) (*RetriedRequest, error)
	// CheckDurability reads the durability settings of the database, and returns a hookonce.UnsafeError
	// if a weak one is not allowed. From then on deliveries are answered 503, until the next look finds
	// it mended. A running engine looks every 30 s, and whenever it is asked whether it is ready.
	CheckDurability func(context.Context) error
	// Outage returns since when this process cannot claim deliveries, and how many it answered 503
	// since; zero while it can.
	Outage func() (since time.Time, answered503 int64)
}

// Options are the parts of an engine that an Operator needs.
type Options struct {
	Log   *slog.Logger
	Tell  *tell.Teller
	Owner string // names the process, for operators
	// Decide fills in the messages that a claim would write now, for driver.ReplayReroute, and for an event that
	// matched no route or is undecided.
	Decide func(*driver.ReplayParams, *driver.EventDetail) error
	// Conditional reports whether Decide needs the body and the headers of events of a source.
	Conditional func(source string) bool
	Wake        func() // called after work became due
	Relays      *relay.Group
	Knows       func(destination string) bool // whether it is in the settings
	// Watches returns which dead letters each destination is told of now.
	Watches func() []deadnews.Watch
	Engine  Engine
}

// Operator changes the stored events and messages of an engine, for its operators. Its methods may be called concurrently.
type Operator struct {
	Engine
	opts     *Options
	store    driver.Store
	log      *slog.Logger
	jobs     *jobs.Runner
	deadNews *deadnews.Teller
}

// New returns the Operator of an engine.
func New(store driver.Store, o *Options) *Operator {
	out := &Operator{Engine: o.Engine, opts: o, store: store, log: o.Log, deadNews: deadnews.New(store)}
	out.jobs = jobs.New(store, jobs.Options{
		Replay: out.replayForJob, Pace: pace, Worked: out.workedForJob, Owner: o.Owner, Log: o.Log,
	})
	return out
}

// FeedWatched makes the engine fill the live feed at once, for a first viewer in this process.
func (o *Operator) FeedWatched(since time.Time) { o.opts.Tell.FeedWatched(since) }

// Refused lists refused requests, as driver.Store does, and those of this process that are not stored yet.
func (o *Operator) Refused(ctx context.Context, f *driver.RefusedFilter) (*driver.RefusedPage, error) {
	return o.opts.Tell.Refused(ctx, f)
}

// Run works on jobs until ctx ends. Then it gives them back, and other processes go on with them.
func (o *Operator) Run(ctx context.Context) { o.jobs.Run(ctx) }

// TellOfDead enqueues summaries of new dead letters. It must not be called concurrently.
func (o *Operator) TellOfDead(ctx context.Context) error {
	targets, err := o.deadNews.Tell(ctx, o.opts.Watches())
	for _, target := range targets {
		o.opts.Relays.Wake(target)
	}
	return err
}

// ErrRequestID is the error for an invalid request id.
var ErrRequestID = errors.New("hookonce: a request id has at most 255 bytes of UTF-8 without control characters")

// CheckRequestID returns ErrRequestID for an invalid request id.
func CheckRequestID(id string) error {
	const maxRequestID = 255
	if len(id) > maxRequestID || !utf8.ValidString(id) {
		return ErrRequestID
	}
	for _, c := range id {
		if unicode.IsControl(c) {
			return ErrRequestID
		}
	}
	return nil
}

// MaxArmed is the longest time that a source can be armed.
const MaxArmed = 24 * time.Hour

// Errors of an engine that only its operators tell apart.
var (
	// ErrNoSecretDelivered means that a provider does not hand secrets over: copy the secret into the
	// settings.
	ErrNoSecretDelivered = errors.New("its provider does not hand its secret over: put it into the settings")
	// ErrUnknownSource is the error of the retry of a quarantined request whose source is not in the
	// settings.
	ErrUnknownSource = errors.New("its source is not in the settings")
	// ErrHandledElsewhere is the error of the retry of a quarantined request that another process received
	// for its handlers, or for the caller of Verify, if this process has no handlers for the source. A
	// claim here would leave the events without that work.
	ErrHandledElsewhere = errors.New("another program handles the events of its source, and this one has no handlers for them")
)

// UnreadableError is the error of the retry of a request that stays in the quarantine, because it still
// cannot be read or the database still refuses its events.
type UnreadableError struct {
	Reason string // as the quarantine shows it now
}

// Error returns the reason.
func (e *UnreadableError) Error() string { return "still unreadable: " + e.Reason }
