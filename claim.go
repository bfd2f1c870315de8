package hookonce

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Bounds of one batch: what one statement carries.
const (
	maxBatchClaims = 512
	maxBatchBytes  = 8 << 20
)

// A second flusher begins beside one that is at it only where so much waits, or for so
// long: two small batches cost the database almost twice what one does.
const (
	enoughUnits = 64
	gatherTime  = 5 * time.Millisecond
)

// maxLockWait bounds the wait for a key that another session is about to claim.
const maxLockWait = time.Second

var (
	errQueueFull = errors.New("the queue is full")
	errDraining  = errors.New("draining")
	errAbandoned = errors.New("the answer's deadline passed before the claim began")
)

// claimUnit is one delivery in the queue: its events are claimed by the same
// flusher and answered together.
type claimUnit struct {
	source   *source
	claims   []driver.Claim
	bytes    int
	deadline time.Time

	taken   bool          // by a flusher; guarded by the queue's lock
	done    chan struct{} // closed once results are final
	results []claimResult
}

// claimResult is what became of one claim of a unit.
type claimResult struct {
	driver.ClaimResult
	reopened bool
	err      error
}

func newClaimUnit(src *source, claims []driver.Claim, deadline time.Time) *claimUnit {
	u := &claimUnit{
		source: src, claims: claims, deadline: deadline,
		done: make(chan struct{}), results: make([]claimResult, len(claims)),
	}
	for i := range claims {
		u.bytes += claimBytes(&claims[i])
	}
	return u
}

// fail gives every claim of u an error, whatever was settled before.
func (u *claimUnit) fail(err error) {
	for i := range u.results {
		u.results[i] = claimResult{err: err}
	}
}

func claimBytes(c *driver.Claim) int { return len(c.Body) + len(c.Headers) }

// claimQueue collects deliveries and claims them in batches: while one batch
// is being committed, the next one gathers, for a short time, so that neither a slow
// commit nor a key that somebody holds keeps the others. A lone delivery does not wait for
// company. Flushers run only while there is work.
type claimQueue struct {
	store      driver.Store
	log        *slog.Logger
	counts     *deliveryCounts
	claimed    func([]*driver.Claim) // wakes who works on them
	reopened   func()
	maxUnits   int
	flushers   int
	background sync.WaitGroup
	observed   *observers
	storm      atomic.Bool // of the last batch most were duplicates

	mu       sync.Mutex
	waiting  []*claimUnit
	claiming map[driver.Key]bool // by a flusher, now
	active   int                 // flushers
	hurrying bool                // a timer runs that calls hurry
	closed   bool
}

func (q *claimQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) >= q.maxUnits
}

// claim queues u and returns when its results are final, or with an error when
// ctx ended before. It does not listen to the client: one that hangs up changes
// nothing.
func (q *claimQueue) claim(ctx context.Context, u *claimUnit) error {
	if err := q.submit(u); err != nil {
		return err
	}
	select {
	case <-u.done:
		return nil
	case <-ctx.Done():
		if q.abandon(u) {
			return errAbandoned // it will not be claimed
		}
		return context.Cause(ctx) // it may yet be
	}
}

func (q *claimQueue) submit(u *claimUnit) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errDraining
	case len(q.waiting) >= q.maxUnits:
		return errQueueFull
	}
	q.waiting = append(q.waiting, u)
	switch {
	case q.active == 0 || len(q.waiting) >= enoughUnits:
		q.startFlusher()
	case !q.hurrying && q.active < q.flushers:
		q.hurrying = true
		time.AfterFunc(gatherTime, q.hurry)
	}
	return nil
}

// startFlusher starts one more, unless there are enough of them. It needs the lock.
func (q *claimQueue) startFlusher() {
	if q.active < q.flushers {
		q.active++
		q.background.Go(q.run)
	}
}

// hurry starts a flusher for what has gathered long enough.
func (q *claimQueue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hurrying = false
	if len(q.waiting) > 0 {
		q.startFlusher()
	}
}

// abandon takes u out of the queue, unless a flusher has it already.
func (q *claimQueue) abandon(u *claimUnit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u.taken {
		return false
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *claimUnit) bool { return w == u })
	return true
}

// close refuses new units and waits until all that were queued are final.
func (q *claimQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.background.Wait()
}

// run flushes until nothing waits that is not another flusher's.
func (q *claimQueue) run() {
	for units := q.next(nil); units != nil; units = q.next(units) {
		q.flush(units)
	}
}

// next lets go of the keys of the batch before, and takes all that waits, up to
// what one batch carries; nil ends the flusher that called it.
//
// Copies of an event that is being claimed are left to the flusher that claims
// it: behind the same lock they would only hold up a second batch, and everybody
// in it. Copies with another body are left for the next batch, because what a
// store says of one body need not hold for the other.
func (q *claimQueue) next(before []*claimUnit) []*claimUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range before {
		for i := range u.claims {
			delete(q.claiming, u.claims[i].Key)
		}
	}
	picker := unitPicker{claiming: q.claiming, bodies: make(map[driver.Key][32]byte), passed: make(map[driver.Key]bool)}
	q.waiting = slices.DeleteFunc(q.waiting, picker.pick)
	for _, u := range picker.units {
		u.taken = true
		for i := range u.claims {
			q.claiming[u.claims[i].Key] = true
		}
	}
	if len(picker.units) == 0 {
		q.active--
	}
	return picker.units
}

// unitPicker picks, in the order of their arrival, the units of one batch.
type unitPicker struct {
	claiming map[driver.Key]bool
	bodies   map[driver.Key][32]byte // of what was picked
	passed   map[driver.Key]bool     // of what was not: later copies must not overtake
	units    []*claimUnit
	claims   int
	bytes    int
	full     bool
}

func (p *unitPicker) pick(u *claimUnit) bool {
	if p.full {
		return false
	}
	if len(p.units) > 0 && (p.claims+len(u.claims) > maxBatchClaims || p.bytes+u.bytes > maxBatchBytes) {
		p.full = true
		return false
	}
	for i := range u.claims {
		c := &u.claims[i]
		body, picked := p.bodies[c.Key]
		if p.claiming[c.Key] || p.passed[c.Key] || picked && body != c.BodyHash {
			p.pass(u)
			return false
		}
	}
	for i := range u.claims {
		p.bodies[u.claims[i].Key] = u.claims[i].BodyHash
	}
	p.units = append(p.units, u)
	p.claims += len(u.claims)
	p.bytes += u.bytes
	return true
}

func (p *unitPicker) pass(u *claimUnit) {
	for i := range u.claims {
		p.passed[u.claims[i].Key] = true
	}
}

// flush claims the events of units and makes their results final, whatever
// happens: somebody waits for each.
func (q *claimQueue) flush(units []*claimUnit) {
	b := newBatch(units, q.observed)
	b.mostlyKnown = q.storm.Load()
	defer func() {
		if v := recover(); v != nil {
			err := panicError(v)
			q.log.Error("panic while claiming", slog.Any("error", err))
			for _, u := range units {
				u.fail(err)
			}
		}
		for _, u := range units {
			close(u.done)
		}
	}()
	ctx, cancel := context.WithDeadline(context.Background(), b.deadline)
	defer cancel()
	for _, chunk := range b.chunks() {
		b.claim(ctx, q.store, chunk, b.firstLockWait())
	}
	b.reopen(ctx, q.store)
	b.settle(q.counts)
	q.storm.Store(b.mostlyDuplicates())
	q.claimed(b.claimed())
	if b.anyReopened {
		q.reopened()
	}
}
