package hookonce

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// Bounds of one batch: what one statement carries.
const (
	maxBatchClaims = 512
	maxBatchBytes  = 8 << 20
)

// Waits for a key that another session is about to claim. The first is what
// product and database can bear; the second finds the stuck ones among many.
const (
	firstLockTimeout = time.Second
	splitLockTimeout = 100 * time.Millisecond
)

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
	bytes    int64
	deadline time.Time

	taken   atomic.Bool   // by the flusher, or by a waiter that gives up
	done    chan struct{} // closed once results are final
	results []claimResult
}

// claimResult is what became of one claim of a unit.
type claimResult struct {
	driver.ClaimResult
	reopened bool
	err      error
}

func newClaimUnit(in *Inbox, d *delivery, events []provider.Event, deadline time.Time) *claimUnit {
	u := &claimUnit{source: d.source, deadline: deadline, done: make(chan struct{})}
	for i := range events {
		claim := in.claimFor(d, &events[i])
		u.bytes += int64(len(claim.Body) + len(claim.Headers))
		u.claims = append(u.claims, claim)
	}
	u.results = make([]claimResult, len(u.claims))
	return u
}

// wait returns when the results are final, or with an error when ctx ended.
// It does not listen to the client: one that hangs up changes nothing.
func (u *claimUnit) wait(ctx context.Context) error {
	select {
	case <-u.done:
		return nil
	case <-ctx.Done():
		if u.taken.CompareAndSwap(false, true) {
			return errAbandoned // it will not be claimed
		}
		return context.Cause(ctx) // it may yet be
	}
}

// claimQueue collects deliveries and claims them in batches: while one batch
// is being committed, the next one gathers. A lone delivery does not wait for
// company. Flushers run only while there is work.
type claimQueue struct {
	store      driver.Store
	counts     *deliveryCounts
	claimed    func([]driver.NewMessage) // wakes the relays
	reopened   func()
	maxUnits   int
	flushers   int
	background sync.WaitGroup

	mu       sync.Mutex
	waiting  []*claimUnit
	claiming map[driver.Key]bool // by a flusher, now
	active   int                 // flushers
	closed   bool
}

func (q *claimQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) >= q.maxUnits
}

// submit queues u, or refuses it at once.
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
	if q.active < q.flushers {
		q.active++
		q.background.Go(q.run)
	}
	return nil
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
	for {
		units := q.take()
		if units == nil {
			return
		}
		q.flush(units)
		q.release(units)
	}
}

// take takes all that waits, up to what one batch carries; nil ends the flusher
// that called it. Copies of an event that is being claimed are left to the
// flusher that claims it: behind the same lock they would only hold up a second
// batch, and everybody in it.
func (q *claimQueue) take() []*claimUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	var units, left []*claimUnit
	claims, size := 0, int64(0)
	for i, u := range q.waiting {
		if len(units) > 0 && (claims+len(u.claims) > maxBatchClaims || size+u.bytes > maxBatchBytes) {
			left = append(left, q.waiting[i:]...)
			break
		}
		if slices.ContainsFunc(u.claims, func(c driver.Claim) bool { return q.claiming[c.Key] }) {
			left = append(left, u)
			continue
		}
		units = append(units, u)
		claims += len(u.claims)
		size += u.bytes
	}
	q.waiting = left
	if len(units) == 0 {
		q.active--
		return nil
	}
	for _, u := range units {
		for i := range u.claims {
			q.claiming[u.claims[i].Key] = true
		}
	}
	return units
}

// release lets copies of what was claimed be taken, by the flusher that calls it.
func (q *claimQueue) release(units []*claimUnit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range units {
		for i := range u.claims {
			delete(q.claiming, u.claims[i].Key)
		}
	}
}

// flush claims the events of what was taken and makes their results final.
func (q *claimQueue) flush(taken []*claimUnit) {
	units := make([]*claimUnit, 0, len(taken))
	for _, u := range taken {
		if u.taken.CompareAndSwap(false, true) { // else its waiter has given up
			units = append(units, u)
		}
	}
	if len(units) == 0 {
		return
	}
	b := newBatch(units)
	ctx, cancel := context.WithDeadline(context.Background(), b.deadline)
	defer cancel()
	b.claim(ctx, q.store, b.entries, firstLockTimeout)
	b.reopen(ctx, q.store)
	b.settle(q.counts)
	for _, u := range units {
		close(u.done)
	}
	q.claimed(b.messages())
	if b.anyReopened {
		q.reopened()
	}
}

// batch is what one flush works on: the claims of its units, sorted by key,
// copies of one event coalesced.
type batch struct {
	entries     []*entry
	deadline    time.Time
	anyReopened bool
}

// entry is one key of a batch with everyone who waits for it. The first waiter
// is the one whose claim is made.
type entry struct {
	claim   *driver.Claim
	waiters []waiter
	result  claimResult
}

type waiter struct {
	unit  *claimUnit
	index int // into the unit's claims
}

func newBatch(units []*claimUnit) *batch {
	b := &batch{}
	byKey := make(map[driver.Key]*entry)
	for _, u := range units {
		if u.deadline.After(b.deadline) {
			b.deadline = u.deadline
		}
		for i := range u.claims {
			e := byKey[u.claims[i].Key]
			if e == nil {
				e = &entry{claim: &u.claims[i]}
				byKey[e.claim.Key] = e
				b.entries = append(b.entries, e)
			}
			e.waiters = append(e.waiters, waiter{u, i})
		}
	}
	// One order for all: unsorted batches that share keys deadlock.
	slices.SortFunc(b.entries, func(x, y *entry) int { return bytes.Compare(x.claim.Key[:], y.claim.Key[:]) })
	return b
}

// claim claims entries in one commit. Where a row or a key spoils that, it
// splits them and tries the halves, so that only the spoiler fails.
func (b *batch) claim(ctx context.Context, store driver.Store, entries []*entry, lockTimeout time.Duration) {
	claims := make([]driver.Claim, len(entries))
	for i, e := range entries {
		claims[i] = *e.claim
	}
	params := &driver.ClaimParams{Claims: claims, LockTimeout: lockTimeout}
	results, err := store.Claim(ctx, params)
	if errors.Is(err, driver.ErrSerialization) {
		results, err = store.Claim(ctx, params)
	}
	switch {
	case err == nil:
		for i, e := range entries {
			e.result.ClaimResult = results[i]
		}
	case len(entries) > 1 && ctx.Err() == nil && splits(err):
		half := len(entries) / 2
		b.claim(ctx, store, entries[:half], splitLockTimeout)
		b.claim(ctx, store, entries[half:], splitLockTimeout)
	default:
		for _, e := range entries {
			e.result.err = err
		}
	}
}

// splits reports whether err is the fault of single entries, and nothing was
// written.
func splits(err error) bool {
	return errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrLockTimeout) || errors.Is(err, driver.ErrSerialization)
}

// reopen gives dead events a new generation where their source wants that.
func (b *batch) reopen(ctx context.Context, store driver.Store) {
	dead := make(map[driver.Key]*entry)
	var keys []driver.Key
	for _, e := range b.entries {
		if e.result.err == nil && e.result.Dead && e.waiters[0].unit.source.Redelivery == RedeliveryReopen {
			dead[e.claim.Key] = e
			keys = append(keys, e.claim.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	reopened, err := store.Reopen(ctx, &driver.ReopenParams{Keys: keys})
	if err != nil {
		// The sender's word that it wants this event again must not be lost.
		for _, e := range dead {
			e.result.err = err
		}
		return
	}
	for _, key := range reopened {
		dead[key].result.reopened = true
		b.anyReopened = true
	}
}

// settle hands each waiter its result: the first one that of the database, the
// others that of a copy.
func (b *batch) settle(counts *deliveryCounts) {
	for _, e := range b.entries {
		for i, w := range e.waiters {
			result := e.result
			claim := &w.unit.claims[w.index]
			if i > 0 && result.err == nil {
				result.Claimed = false
				result.OtherBody = result.OtherBody || claim.BodyHash != e.claim.BodyHash
			}
			w.unit.results[w.index] = result
			if result.err == nil {
				counts.add(claim, &result)
			}
		}
	}
}

// messages returns the messages that this batch made.
func (b *batch) messages() []driver.NewMessage {
	var out []driver.NewMessage
	for _, e := range b.entries {
		if e.result.err == nil && e.result.Claimed {
			out = append(out, e.claim.Messages...)
		}
	}
	return out
}
