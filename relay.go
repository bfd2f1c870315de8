package hookonce

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// pollInterval is the floor under the wake-ups: retries that came due,
	// leases that ran out, and messages that another process wrote.
	pollInterval = time.Second
	// leaseMargin is how much longer than its send a lease holds: the time to
	// record the outcome.
	leaseMargin = 5 * time.Second
	// drainTimeout bounds the sends that are under way when Run is to end.
	drainTimeout = 10 * time.Second
	relayTimeout = 10 * time.Second // for one statement
	warnInterval = 30 * time.Second // between two lines about a database that is down
	// gatherSends is how long free slots wait for more of them, and outcomes for others,
	// while there is more to send: a statement for one message costs the database almost
	// what one for dozens does.
	gatherSends = 5 * time.Millisecond
	maxRetryMax = 366 * 24 * time.Hour
)

// relay sends the messages of one destination. Each destination has its own,
// so that a dead one holds up nobody else.
type relay struct {
	in    *Engine
	store driver.Store
	log   *slog.Logger
	dest  *destination

	circuit  *circuit
	woken    chan struct{}
	slots    chan struct{} // one for each send under way, until its outcome is handed on
	freed    chan struct{} // tells that a slot is free again
	behind   bool          // the last lease was full: there may be more
	sending  sync.WaitGroup
	underWay atomic.Int64 // sends that have begun and not ended; none that waits for its turn
	finished chan ending
}

// newRelay returns the relay of dest. What it needs of in is known before in is set
// up: but for the rules of its sources, which it looks up for each message.
func newRelay(in *Engine, dest *destination) *relay {
	return &relay{
		in:       in,
		store:    in.store,
		log:      in.log.With(slog.String("destination", dest.Name)),
		dest:     dest,
		circuit:  newCircuit(dest.Retry),
		woken:    make(chan struct{}, 1),
		slots:    make(chan struct{}, dest.Concurrency),
		freed:    make(chan struct{}, 1),
		finished: make(chan ending, dest.Concurrency),
	}
}

// wake says that there may be something to send. It never blocks.
func (r *relay) wake() { signal(r.woken) }

// signal puts something into c, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run leases and sends until ctx ends, then finishes what is under way: as long
// as that takes, or once whole, the context of all relays, has ended, for
// drainTimeout. Every lease it took is completed or, at worst, runs out.
func (r *relay) run(ctx, whole context.Context) {
	sendCtx, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	draining := context.AfterFunc(whole, func() { time.AfterFunc(drainTimeout, stopSending) })
	defer draining()
	var completing sync.WaitGroup
	completing.Go(func() { r.completeAll(whole) })

	r.loop(ctx, sendCtx)

	r.sending.Wait()
	close(r.finished)
	completing.Wait()
}

func (r *relay) loop(ctx, sendCtx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	var warned time.Time
	for {
		next, err := r.step(ctx, sendCtx)
		if err != nil && ctx.Err() == nil && time.Since(warned) > warnInterval {
			r.log.Warn("leasing messages failed, and is tried again every second", slog.Any("error", err))
			warned = time.Now()
		}
		poll.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
		case <-poll.C:
		}
	}
}

// step waits for free slots, leases as many messages as may be sent, and
// starts sending them. It returns when to come again if nothing wakes the relay:
// at once if there may be more to lease.
func (r *relay) step(ctx, sendCtx context.Context) (next time.Duration, err error) {
	free := r.awaitSlots(ctx)
	if free == 0 {
		return 0, nil // ctx has ended
	}
	r.behind = false
	want, kind, wait := r.circuit.allow(free, time.Now())
	if want == 0 {
		return soonest(wait), nil
	}
	messages, next, err := r.leaseWithinRate(ctx, want, kind == probeUntried)
	if kind == probeUntried && len(messages) == 0 && err == nil {
		messages, next, err = r.leaseWithinRate(ctx, want, false) // all that is due was tried
	}
	stopped := ctx.Err() != nil
	if kind != noProbe && (stopped || len(messages) == 0) {
		r.circuit.dismiss()
	}
	if err != nil {
		return pollInterval, err
	}
	if stopped {
		return 0, r.giveBack(ctx, messages)
	}
	lined, err := r.lineUp(ctx, messages, kind != noProbe)
	if err != nil {
		for range messages {
			r.unsent(kind != noProbe)
		}
		return pollInterval, errors.Join(err, r.giveBack(ctx, messages))
	}
	for _, s := range lined {
		r.slots <- struct{}{}
		r.sending.Go(func() {
			defer func() {
				<-r.slots
				signal(r.freed)
			}()
			r.dispatch(ctx, sendCtx, s)
		})
	}
	r.behind = next == 0
	return next, nil
}

// awaitSlots waits for a free slot and returns how many there are; 0 if ctx ended. Where
// there is more to send it waits for half of them, but for gatherSends at most.
func (r *relay) awaitSlots(ctx context.Context) int {
	enough := 1
	if r.behind {
		enough = max(1, cap(r.slots)/2)
	}
	var late <-chan time.Time
	for ctx.Err() == nil {
		free := cap(r.slots) - len(r.slots)
		if free >= enough {
			return free
		}
		if free > 0 && late == nil {
			timer := time.NewTimer(gatherSends)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-r.freed:
		case <-late:
			enough = 1
		case <-ctx.Done():
		}
	}
	return 0
}

// soonest returns wait, or the poll interval where that is less or wait is 0.
func soonest(wait time.Duration) time.Duration {
	if wait == 0 {
		return pollInterval
	}
	return min(wait, pollInterval)
}

// leaseWithinRate leases up to want messages, as far as the rate allows, and
// returns when to come again.
func (r *relay) leaseWithinRate(ctx context.Context, want int, untried bool) ([]driver.Message, time.Duration, error) {
	allowed, wait := r.dest.rate.takeUpTo(want, time.Now())
	if allowed == 0 {
		return nil, soonest(wait), nil // the rate is used up
	}
	leased, err := r.lease(ctx, allowed, untried)
	if err != nil {
		r.dest.rate.giveBack(allowed)
		return nil, 0, err
	}
	r.dest.rate.giveBack(allowed - len(leased.Messages))
	r.logLeased(leased)
	next := pollInterval
	if len(leased.Messages) == allowed || len(leased.Buried) > 0 {
		next = 0 // there may be more behind them
	}
	return leased.Messages, next, nil
}

func (r *relay) logLeased(leased *driver.Leased) {
	for i := range leased.Buried {
		r.logOf(&leased.Buried[i]).Error("dead: its attempts are used up")
	}
	expired := 0
	for i := range leased.Messages {
		if leased.Messages[i].Expired {
			expired++
		}
	}
	if expired > 0 {
		r.log.Warn("leases had run out: their messages are sent again", slog.Int("messages", expired))
	}
}

func (r *relay) logOf(m *driver.Message) *slog.Logger {
	return r.log.With(slog.String("source", m.Source), slog.String("event_id", m.EventID),
		slog.String("message_id", m.ID), slog.Int("attempt", m.Attempt))
}

// lease does not end with ctx: a lease that was committed and not heard of
// would cost its message an attempt and the time until it runs out.
func (r *relay) lease(ctx context.Context, n int, untried bool) (*driver.Leased, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
	defer cancel()
	return r.store.Lease(ctx, &driver.LeaseParams{
		Destination: r.dest.Name,
		Limit:       n,
		For:         r.dest.Timeout + leaseMargin,
		MaxAttempts: r.dest.Retry.Attempts,
		Untried:     untried,
	})
}

// giveBack releases leases that are not going to be used.
func (r *relay) giveBack(ctx context.Context, messages []driver.Message) error {
	if len(messages) == 0 {
		return nil
	}
	leases := make([]driver.MessageLease, len(messages))
	for i := range messages {
		leases[i] = driver.MessageLease{ID: messages[i].ID, Token: messages[i].Token}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
	defer cancel()
	return r.store.Release(ctx, &driver.ReleaseParams{Leases: leases})
}
