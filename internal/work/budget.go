package work

import (
	"context"
	"slices"
	"sync"
	"time"
)

// budget bounds the transactions of handlers of all kinds, queued, Inline and suspects, so that they
// leave connections for leases, outcomes and upkeep. Waiting callers are served in the order of
// their arrival. All methods may be called concurrently.
type budget struct {
	most int // transactions at a time
	// inline reports whether one transaction is kept for Inline handlers. If there is only one, all
	// kinds of handlers take turns.
	inline func() bool

	mu      sync.Mutex
	running int       // transactions
	queued  int       // transactions that are not Inline
	waiting []*caller // callers of acquire
	gate    *gate     // closed for the one caller of acquireAll; nil if it is open
}

// caller is a caller of acquire.
type caller struct {
	inline   bool
	admitted chan struct{} // closed once it has room
}

// gate keeps transactions from beginning.
type gate struct {
	idle    chan struct{} // closed once no transaction is in progress
	stalled chan struct{} // closed once a caller of acquire waits for the gate alone
	since   time.Time     // when stalled was closed
}

// newBudget returns a budget for workers of each kind and the lane of suspects. most bounds it; 0
// means no bound.
func newBudget(workers, most int, inline func() bool) *budget {
	all := 2*workers + 1
	if most > 0 {
		all = min(all, most)
	}
	return &budget{most: all, inline: inline}
}

// acquire waits for room until ctx ends. inline says that it is for an Inline handler. The caller
// releases it.
func (b *budget) acquire(ctx context.Context, inline bool) bool {
	if ctx.Err() != nil {
		return false
	}
	w := &caller{inline, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.admit()
	b.mu.Unlock()
	select {
	case <-w.admitted:
		return true
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		return false
	}
	return true // it was admitted at the same moment
}

// admit lets waiting callers begin that have room, unless the gate is closed. The caller holds the
// lock.
func (b *budget) admit() {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *caller) bool {
		if !b.hasRoom(w.inline) {
			return false
		}
		if g := b.gate; g != nil {
			if g.since.IsZero() {
				g.since = time.Now()
				close(g.stalled)
			}
			return false
		}
		b.count(w.inline, 1)
		close(w.admitted)
		return true
	})
}

func (b *budget) hasRoom(inline bool) bool {
	return b.running < b.most && (inline || b.queued < b.room())
}

// room returns how many transactions that are not Inline may run at a time.
func (b *budget) room() int {
	if b.most > 1 && b.inline() {
		return b.most - 1
	}
	return b.most
}

func (b *budget) count(inline bool, n int) {
	b.running += n
	if !inline {
		b.queued += n
	}
}

// release ends what acquire began.
func (b *budget) release(inline bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(inline, -1)
	b.admit()
	if b.gate != nil && b.running == 0 {
		close(b.gate.idle)
	}
}

// acquireAll waits until no other handler runs, and keeps others from beginning. It gives up when
// ctx ends, after patience, and once it has kept others waiting for stall. Only one caller may do so
// at a time; in any case it calls releaseAll.
func (b *budget) acquireAll(ctx context.Context, patience, stall time.Duration) bool {
	g := &gate{idle: make(chan struct{}), stalled: make(chan struct{})}
	b.mu.Lock()
	b.gate = g
	if b.running == 0 {
		close(g.idle)
	}
	b.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	stalled := g.stalled
	for ctx.Err() == nil {
		select {
		case <-g.idle:
			return true
		case <-stalled:
			stalled = nil
			timer.Reset(stall)
		case <-timer.C:
			return false
		case <-ctx.Done():
		}
	}
	return false
}

// releaseAll lets others begin again, and returns for how long it had kept them waiting.
func (b *budget) releaseAll() (stalled time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gate.since.IsZero() {
		stalled = time.Since(b.gate.since)
	}
	b.gate = nil
	b.admit()
	return stalled
}
