// Package claims turns deliveries into committed claims. Deliveries wait in a bounded queue, which
// the sources share; flushers claim them in batches, one commit each, and hand every delivery its
// results. The package also counts repeated deliveries and writes the counts in groups.
package claims

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
)

// Bounds of one batch, which one statement carries.
const (
	MaxBatch = 512     // claims
	MaxBytes = 8 << 20 // of headers and bodies
)

// MaxLockWait bounds the wait for a key that another session is about to claim.
const MaxLockWait = time.Second

// Errors of Queue.Claim. ErrFull, ErrClosed and ErrAbandoned say that nothing was claimed.
var (
	ErrFull      = errors.New("the queue is full")
	ErrClosed    = errors.New("draining")
	ErrAbandoned = errors.New("the answer's deadline passed before the claim began")
)

// errEnded is the result of claims whose flusher ended before it had their results.
var errEnded = errors.New("the claim's goroutine was ended by a callback, such as an Observer: it must return")

// Store is the part of driver.Store that claims need.
type Store interface {
	Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error)
	Reopen(ctx context.Context, p *driver.ReopenParams) (reopened, held []driver.Key, err error)
	CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error
	ClaimConcurrency() int
}

// Options are the settings and callbacks of a Queue. Flushers call the callbacks concurrently.
type Options struct {
	MaxUnits int // units that may wait, of all sources together
	// AllowUnsafe names the settings of the database that may be weak.
	AllowUnsafe []string
	Log         *slog.Logger
	Claimed     func([]*driver.Claim) // after the commit of new claims
	// Reserve returns room for a message that is about to be claimed, or nil; nil reserves nothing. The
	// claim leases the messages with a reservation.
	Reserve  func(*driver.Message) Reservation
	Reopened func() // after the commit of reopened events
	// Counted gets n deliveries of an event that was claimed before, after their count is written.
	Counted func(e driver.CountedEvent, n int)
	Observe func(size int, took time.Duration, err error)
}

// Reservation is the room of one message. The queue calls one of Send and Cancel, once.
type Reservation interface {
	LeaseFor() time.Duration
	// Send says that the message is claimed, and leased under token.
	Send(token int64, receivedAt time.Time)
	// Cancel says that the message is not leased, or that this is not known.
	Cancel()
}

// Unit is one delivery in the queue. One flusher claims its events, and they are answered
// together.
type Unit struct {
	Claims  []driver.Claim
	Results []Result // in the order of Claims; final once Queue.Claim has returned nil

	reopen   bool
	bytes    int
	deadline time.Time
	taken    bool          // by a flusher; guarded by the queue's lock
	evicted  bool          // for a unit of another source; guarded by the queue's lock until done is closed
	done     chan struct{} // closed once Results are final
}

// Result is the outcome of one claim of a unit. ClaimResult is settled if Err is nil.
type Result struct {
	driver.ClaimResult
	Err error
}

// NewUnit returns a unit of claims. reopen says that a dead event is reopened. The delivery must be
// answered before deadline.
func NewUnit(claims []driver.Claim, reopen bool, deadline time.Time) *Unit {
	u := &Unit{
		Claims: claims, Results: make([]Result, len(claims)),
		reopen: reopen, deadline: deadline, done: make(chan struct{}),
	}
	for i := range claims {
		u.bytes += claimBytes(&claims[i])
	}
	return u
}

// source returns the source of u, whose claims are all of one source.
func (u *Unit) source() string {
	if len(u.Claims) == 0 {
		return ""
	}
	return u.Claims[0].Source
}

// finish makes the results of u final. Claims without a result get err.
func (u *Unit) finish(err error) {
	for i := range u.Results {
		if r := &u.Results[i]; r.Err == nil && !r.Settled() {
			r.Err = err
		}
	}
	close(u.done)
}

func claimBytes(c *driver.Claim) int { return len(c.Body) + len(c.Headers) }

// Queue collects deliveries and claims them in batches. While one batch commits, the next one
// gathers; further flushers keep a slow commit or a locked key from delaying the other deliveries. A lone
// delivery is claimed at once, see lead. Flushers run only while there is work. A Queue is safe for
// concurrent use.
type Queue struct {
	store      Store
	o          Options
	counts     *counts
	fresh      freshener
	flushers   int // at most
	background sync.WaitGroup
	storm      atomic.Bool // most of the last batch were duplicates
	heldWaits  atomic.Int64

	mu       sync.Mutex
	waiting  lanes
	pace     pace
	claiming map[driver.Key]bool // keys that a flusher is claiming
	active   int                 // flushers, and callers of lead
	alone    *flusher            // the caller of lead; nil if there is none
	late     int                 // flushers whose batch is late
	usual    time.Duration       // of a batch
	closed   bool
}

// New returns an empty queue.
func New(store Store, o Options) *Queue {
	return &Queue{
		store: store, o: o, counts: newCounts(store, o.Log, o.Counted),
		flushers: store.ClaimConcurrency(), claiming: make(map[driver.Key]bool), waiting: newLanes(), pace: pace{limit: MaxBatch},
	}
}

// Full reports whether the queue would refuse another unit of source. A full queue takes a unit of a
// source with few waiting units, and refuses one of the source with the most in its place.
func (q *Queue) Full(source string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.units >= q.o.MaxUnits && q.waiting.victim(source) == nil
}

// Waiting returns the number of units that no flusher has taken yet.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.units
}

// Claim queues u, or claims it at once, and blocks until its results are final. It returns an error if ctx
// ends before: then the claim may still be made, unless the error is one of this package. Pass a context
// with the deadline of the answer, not the request's: a client that hangs up must not end a claim.
func (q *Queue) Claim(ctx context.Context, u *Unit) error {
	if !q.lead(ctx, u) {
		if err := q.submit(u); err != nil {
			return err
		}
	}
	select {
	case <-u.done:
		if u.evicted {
			return ErrFull
		}
		return nil
	case <-ctx.Done():
		if q.abandon(u) {
			return ErrAbandoned
		}
		return context.Cause(ctx)
	}
}

func (q *Queue) submit(u *Unit) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if q.waiting.units >= q.o.MaxUnits {
		victim := q.waiting.victim(u.source())
		if victim == nil {
			return ErrFull
		}
		q.waiting.remove(victim)
		victim.evicted = true
		victim.finish(ErrFull)
	}
	q.waiting.add(u)
	q.startFlusher()
	q.watchAlone()
	return nil
}

// abandon takes u out of the queue. It returns false if a flusher has taken u.
func (q *Queue) abandon(u *Unit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u.taken {
		return false
	}
	if !u.evicted {
		q.waiting.remove(u)
	}
	return true
}

// Close refuses new units and blocks until the queued ones are final.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.background.Wait()
}

// Count counts a delivery whose claim has a result; the queue counts its own units by itself.
func (q *Queue) Count(claim *driver.Claim, result *Result) { q.counts.add(claim, result) }

// WriteCounts writes the counted deliveries. Counts that certainly were not written are kept for
// the next call.
func (q *Queue) WriteCounts(ctx context.Context) error { return q.counts.flush(ctx) }

// FreshCounts writes the counts of the deliveries before the call, and blocks until they are written
// or ctx ends, for at most freshWait: then the write goes on. It writes at most once in freshEvery;
// calls in between share a write. Without counts it returns at once.
func (q *Queue) FreshCounts(ctx context.Context) error {
	if q.counts.idle() {
		return nil
	}
	f := q.freshWrite()
	if f == nil {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run flushes batches, after the batch before, until only keys of other flushers wait. If a callback
// ends the goroutine, another one takes over.
func (q *Queue) run(f *flusher, before []*Unit) {
	units := before
	defer func() {
		if units != nil {
			q.background.Go(func() { q.run(f, units) })
		}
	}()
	for units = q.next(f, units); units != nil; units = q.next(f, units) {
		q.flush(context.Background(), units)
	}
}

// next releases the keys of the batch before and takes the next batch. It returns nil when the
// calling flusher has nothing to do and must end.
//
// Copies of an event that is being claimed stay in the queue: behind the same lock they would only
// delay a second batch. Copies with another body stay for the next batch, because the store's
// verdict on one body need not hold for the other.
func (q *Queue) next(f *flusher, before []*Unit) []*Unit {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(f)
	for _, u := range before {
		q.release(u)
	}
	units := q.waiting.take(newPicker(q.pace.limit, q.claiming))
	for _, u := range units {
		q.hold(u)
	}
	if len(units) == 0 {
		q.active--
	} else {
		q.begin(f)
	}
	return units
}

// hold marks u as taken, and its keys as being claimed. The caller holds the lock.
func (q *Queue) hold(u *Unit) {
	u.taken = true
	for i := range u.Claims {
		q.claiming[u.Claims[i].Key] = true
	}
}

// release undoes hold for the keys of u. The caller holds the lock.
func (q *Queue) release(u *Unit) {
	for i := range u.Claims {
		delete(q.claiming, u.Claims[i].Key)
	}
}

// batchLimit returns the largest number of claims for a statement now.
func (q *Queue) batchLimit() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pace.limit
}

// adapt adapts the size of the next batches to the statements of b since its last call.
func (q *Queue) adapt(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pace.after(b)
	b.timedOut, b.failed = 0, false
}

// flush claims the events of units, before their deadlines and while ctx lasts. It makes their results
// final in any case, also if the store or a callback panics or ends the goroutine, because callers wait
// for them.
func (q *Queue) flush(ctx context.Context, units []*Unit) {
	b := newBatch(units, q.o.Observe)
	b.mostlyKnown, b.allowUnsafe = q.storm.Load(), q.o.AllowUnsafe
	var apart map[*Unit]bool // their results come later
	defer func() {
		err := errEnded
		if v := recover(); v != nil {
			err = guard.Recovered(v)
			q.o.Log.Error("panic while claiming", slog.Any("error", err))
		}
		b.endReservations()
		for _, u := range units {
			if !apart[u] {
				u.finish(err)
			}
		}
	}()
	if q.o.Reserve != nil && !b.mostlyKnown {
		b.reserve(q.o.Reserve)
	}
	ctx, cancel := context.WithDeadline(ctx, b.deadline)
	defer cancel()
	for entries := b.entries; len(entries) > 0; {
		n := chunk(entries, q.batchLimit())
		b.claim(ctx, q.store, entries[:n], b.firstLockWait())
		entries = entries[n:]
		q.adapt(b)
	}
	b.endReservations()
	held := b.reopen(ctx, q.store, b.entries, 0)
	settled := b.entries
	if len(held) > 0 {
		settled = slices.DeleteFunc(slices.Clone(settled), func(e *entry) bool { return slices.Contains(held, e) })
	}
	settle(settled, q.counts)
	q.storm.Store(b.mostlyDuplicates())
	q.o.Claimed(b.claimed())
	if b.anyReopened {
		q.o.Reopened()
	}
	if len(held) > 0 {
		apart = unitsOf(held)
		q.waitForHeld(b.deadline, held, apart)
	}
}
