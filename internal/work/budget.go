package work

import "context"

// budget bounds the transactions of handlers of all kinds, queued, Inline and suspects, so that they
// leave connections for leases, outcomes and upkeep. It holds one item for each transaction in
// progress. Waiting callers are served in the order of their arrival.
type budget chan struct{}

// newBudget returns a budget for workers of each kind and the lane of suspects. most bounds it; 0
// means no bound.
func newBudget(workers, most int) budget {
	all := 2*workers + 1
	if most > 0 {
		all = min(all, most)
	}
	return make(budget, all)
}

// acquire waits for room until ctx ends. The caller releases it.
func (b budget) acquire(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case b <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// acquireAll waits until no other handler runs, and keeps others from beginning. Only one caller may
// do so at a time: two would wait for one another. The caller releases cap(b).
func (b budget) acquireAll(ctx context.Context) bool {
	for n := range cap(b) {
		if !b.acquire(ctx) {
			b.release(n)
			return false
		}
	}
	return true
}

func (b budget) release(n int) {
	for range n {
		<-b
	}
}
