package work

import (
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// task is one part of the due events: those of a source, either the fresh ones or the tried ones.
type task struct {
	source string
	tried  bool
}

// agenda holds the tasks that may have due events. All workers of a process share it.
type agenda struct {
	tokens chan struct{} // one for each worker that should look
	share  func() int    // how many workers may work for one source at a time

	mu      sync.Mutex
	hot     map[task]uint64 // the time of its last wake-up
	order   []task
	next    int // an index of order: where the next look begins
	clock   uint64
	working map[string]int // workers between pick and looked, by source
}

func newAgenda(workers int, share func() int) *agenda {
	return &agenda{tokens: make(chan struct{}, workers), share: share, hot: make(map[task]uint64), working: make(map[string]int)}
}

// wake says that t may have due events. It never blocks.
func (a *agenda) wake(t task) {
	a.mu.Lock()
	a.clock++
	if _, ok := a.hot[t]; !ok {
		a.order = append(a.order, t)
	}
	a.hot[t] = a.clock
	a.mu.Unlock()
	a.signal()
}

func (a *agenda) signal() {
	select {
	case a.tokens <- struct{}{}:
	default:
	}
}

// pick returns the tasks in turn, each with the time of its last wake-up. A task stays on the agenda,
// also for other workers, until a worker finds nothing more. Tasks of a source that has its share of the
// workers are passed over. The caller calls looked once.
func (a *agenda) pick() (t task, woken uint64, ok bool) {
	share := a.share()
	a.mu.Lock()
	defer a.mu.Unlock()
	for range a.order {
		a.next %= len(a.order)
		t = a.order[a.next]
		a.next++
		if a.working[t.source] < share {
			a.working[t.source]++
			return t, a.hot[t], true
		}
	}
	return task{}, 0, false
}

// looked records a look at t, which pick returned. With more, t may have further due events, also for
// other workers. Without, t leaves the agenda, unless it was woken since it was picked.
func (a *agenda) looked(t task, woken uint64, more bool) {
	a.mu.Lock()
	if a.working[t.source]--; a.working[t.source] == 0 {
		delete(a.working, t.source)
	}
	a.mu.Unlock()
	if more {
		a.wake(t) // another worker may have taken t off the agenda meanwhile
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hot[t] != woken {
		return
	}
	delete(a.hot, t)
	for i := range a.order {
		if a.order[i] == t {
			a.order = append(a.order[:i], a.order[i+1:]...)
			if a.next > i {
				a.next--
			}
			return
		}
	}
}

// wakeDue puts the sources that the store found due on the agenda, or on that of suspects.
func (a *agenda) wakeDue(due []driver.DueSource, suspects *agenda) {
	for _, d := range due {
		if d.Fresh {
			a.wake(task{d.Source, false})
		}
		if d.Tried {
			a.wake(task{d.Source, true})
		}
		if d.Suspect {
			suspects.wake(task{d.Source, true})
		}
	}
}
