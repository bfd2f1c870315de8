// Package relay sends messages to destinations. Each destination has its own relay, so that a dead
// one delays no other. A relay leases due messages, sends them and records the outcomes; a lease
// carries a fencing token, so that a relay that lost a lease changes nothing.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/refusals"
	"github.com/hookonce/hookonce/internal/send"
)

const (
	// pollInterval is the longest time between two looks for due messages.
	pollInterval = time.Second
	// idle stands for the delay of a relay that found nothing due: the group wakes it.
	idle = time.Duration(math.MaxInt64)
	// drainTimeout bounds the sends in progress when the process stops.
	drainTimeout = 10 * time.Second
	warnInterval = 30 * time.Second // between two log lines about a failing database
	// gatherTime is how long free slots wait for more free slots while there is more to send, and outcomeTime
	// how long outcomes wait for more outcomes: a statement for one message costs the database almost as much
	// as one for dozens. Nothing waits for an outcome, except for messages about the same object.
	gatherTime  = 5 * time.Millisecond
	outcomeTime = 20 * time.Millisecond
)

// Store is the part of driver.Store that relays need.
type Store interface {
	DueDestinations(ctx context.Context, destinations []string) ([]string, error)
	Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error)
	Release(ctx context.Context, p *driver.ReleaseParams) error
	Complete(ctx context.Context, p *driver.CompleteParams) ([]bool, error)
	Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error)
	Admit(ctx context.Context, p *driver.AdmitParams) ([]driver.Admission, error)
	SettleLines(ctx context.Context, ids []string) error
}

// Destination is a destination ready to send to. It does not change; Rate and Circuit hold state
// that outlives a relay.
type Destination struct {
	Name        string
	Timeout     time.Duration // of one attempt
	Retry       driver.Retry
	Concurrency int           // sends at a time
	Rate        *limit.Bucket // of attempts
	Circuit     *Circuit
	HTTP        send.Target // unless Sender is set
	// Sender sends a message by other means than HTTP. header is the stored header, and httpHeader that of
	// a request with the message.
	Sender func(ctx context.Context, m *driver.Message, header, httpHeader http.Header) error
}

// Options are what all relays of a process share. Relays call the callbacks concurrently.
type Options struct {
	HTTP *send.Sender
	Log  *slog.Logger
	// MayBeStale reports whether a stale rule may match a message, or its route has an order. It does not read the body.
	MayBeStale func(m *driver.Message) bool
	// ObjectOf returns the object and version that a message is about, if a stale rule of its
	// source matches it.
	ObjectOf func(m *driver.Message) (driver.ObjectVersion, bool)
	// Ordered reports whether there may be messages in lines. If not, messages are sent as they are leased. nil means no.
	Ordered func() bool
	// OrderOf returns the place of a message in a line, if its route has an order.
	OrderOf func(m *driver.Message) *driver.Order
	Observe func(*Observed)
	Refused func(destination string) // the database refused to change the row of a message
	// Trace starts the span of an attempt to send m, whose stored header is header. It returns the
	// traceparent of the span, and a function that ends it; nil traces nothing.
	Trace func(m *driver.Message, header http.Header, at time.Time) (traceparent string, end func(*Observed))
}

// The values of Observed.Outcome.
const (
	sent    = "sent"
	retry   = "retry"
	dead    = "dead"
	skipped = "skipped"
)

// Observed is one attempt, a message that was skipped because it is stale, or one that is dead
// because its last lease expired.
type Observed struct {
	Message    *driver.Message
	Outcome    string        // "sent", "retry", "dead" or "skipped"
	StatusCode int           // of the destination's answer; 0 without one
	Took       time.Duration // 0 if nothing was sent
	Err        error
	// Traceparent is that of the span; "" without one.
	Traceparent string
}

// relay sends the messages of one destination.
type relay struct {
	store Store
	o     *Options
	log   *slog.Logger
	dest  *Destination
	turns *turns

	places   *places // of the messages that it holds
	woken    chan struct{}
	idle     atomic.Bool     // waits to be woken
	behind   bool            // of loop: the last lease was full, so there may be more
	caughtUp atomic.Bool     // the last lease left no due message
	leased   chan []*sending // from loop and reservations to feed
	hands    chan *sending   // from feed to a goroutine that has sent a message before
	sending  sync.WaitGroup
	active   atomic.Int64          // attempts in progress, without messages that wait for their turn
	finished chan ending           // to completeAll
	refusals refusals.Rows[string] // ids of messages
}

func newRelay(store Store, o *Options, turns *turns, dest *Destination) *relay {
	return &relay{
		store:    store,
		o:        o,
		log:      o.Log.With(slog.String("destination", dest.Name)),
		dest:     dest,
		turns:    turns,
		places:   newPlaces(dest.Concurrency),
		woken:    make(chan struct{}, 1),
		leased:   make(chan []*sending, (1+maxAhead)*dest.Concurrency), // as many as may wait, so step never blocks
		hands:    make(chan *sending),
		finished: make(chan ending, (1+maxAhead)*dest.Concurrency),
	}
}

// wake says that a message may be due. It never blocks.
func (r *relay) wake() { signal(r.woken) }

// signal sends on c unless c is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run leases and sends until ctx ends, then finishes the sends in progress. When process, the
// context of all relays, has ended too, these have drainTimeout left. Every lease is completed or,
// at worst, expires.
func (r *relay) run(ctx, process context.Context) {
	sendCtx, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	draining := context.AfterFunc(process, func() { time.AfterFunc(drainTimeout, stopSending) })
	defer draining()
	var feeding, completing sync.WaitGroup
	feeding.Go(func() { r.feed(ctx, sendCtx) })
	completing.Go(func() { r.completeAll(process) })
	r.places.setOpen(true)

	r.loop(ctx)

	r.places.close()
	close(r.leased)
	feeding.Wait()
	r.sending.Wait()
	close(r.finished)
	completing.Wait()
}

func (r *relay) loop(ctx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	var warned time.Time
	for {
		next, err := r.step(ctx)
		if err != nil && ctx.Err() == nil && time.Since(warned) > warnInterval {
			r.log.Warn("leasing messages failed; retrying every second", slog.Any("error", err))
			warned = time.Now()
		}
		poll.Reset(next)
		r.idle.Store(next == idle)
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
		case <-poll.C:
		}
		r.idle.Store(false)
	}
}

// step waits for room, leases as many messages as may be sent, and hands them to feed. It returns the
// delay before the next step if nothing wakes the relay earlier: 0 if more messages may be due, and
// idle if none was.
func (r *relay) step(ctx context.Context) (next time.Duration, err error) {
	held := r.awaitRoom(ctx)
	if held == 0 {
		return 0, nil // ctx has ended
	}
	lined, next, err := r.leaseForSends(ctx, held)
	if unused := held - len(lined); unused > 0 {
		r.places.giveBack(unused, 0)
	}
	if len(lined) > 0 {
		r.leased <- lined
	}
	r.caughtUp.Store(next == idle && err == nil)
	r.behind = next == 0
	return next, err
}

// leaseForSends leases up to free messages and puts them in line. next is the delay before the next step.
func (r *relay) leaseForSends(ctx context.Context, free int) (lined []*sending, next time.Duration, err error) {
	want, kind, wait := r.dest.Circuit.allow(free, time.Now())
	if want == 0 {
		return nil, soonest(wait), nil
	}
	began := time.Now()
	messages, next, err := r.leaseWithinRate(ctx, want, kind == probeUntried)
	if kind == probeUntried && len(messages) == 0 && err == nil {
		messages, next, err = r.leaseWithinRate(ctx, want, false) // every due message was tried before
	}
	stopped := ctx.Err() != nil
	if kind != noProbe && (stopped || len(messages) == 0) {
		r.dest.Circuit.dismiss()
	}
	if err != nil {
		return nil, pollInterval, err
	}
	if stopped {
		return nil, 0, r.giveBack(ctx, messages)
	}
	leased, err := r.admit(ctx, messages, kind != noProbe, began)
	if err == nil {
		lined, err = r.lineUp(ctx, leased)
	}
	if err != nil {
		messages = messagesOf(leased, messages)
		for range messages {
			r.unsent(kind != noProbe)
		}
		return nil, pollInterval, errors.Join(err, r.giveBack(ctx, messages))
	}
	return lined, next, nil
}

// awaitRoom waits for room, takes it, and returns for how many messages; 0 if ctx ended. While the relay is caught
// up it leaves a half to reservations: few messages are due then. Without room the relay is not caught up. While there is more to send it waits until half of the room is free, for gatherTime at most.
func (r *relay) awaitRoom(ctx context.Context) int {
	enough := 1
	if r.behind {
		enough = max(1, r.places.room()/2)
	}
	var late <-chan time.Time
	for ctx.Err() == nil {
		held, free := r.places.take(enough, r.caughtUp.Load())
		if held > 0 {
			return held
		}
		r.caughtUp.Store(false)
		if free > 0 && late == nil {
			timer := time.NewTimer(gatherTime)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-r.places.freed:
		case <-late:
			enough = 1
		case <-ctx.Done():
		}
	}
	return 0
}

// soonest returns wait, at most the poll interval. A wait of 0 means the poll interval.
func soonest(wait time.Duration) time.Duration {
	if wait == 0 {
		return pollInterval
	}
	return min(wait, pollInterval)
}

func (r *relay) logOf(m *driver.Message) *slog.Logger {
	return r.log.With(slog.String("source", m.Source), slog.String("event_id", m.EventID),
		slog.String("message_id", m.ID), slog.Int("attempt", m.Attempt))
}
