package hookonce

import (
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// task is a part of the events that are due: those of a source, either what was
// never tried or what was.
type task struct {
	source string
	tried  bool
}

// agenda says which tasks are worth looking at. Workers share one.
type agenda struct {
	tokens chan struct{} // one for each worker that shall look

	mu    sync.Mutex
	hot   map[task]uint64 // the time of its last wake-up
	order []task
	next  int // in order: where the next look begins
	clock uint64
}

func newAgenda(workers int) *agenda {
	return &agenda{tokens: make(chan struct{}, workers), hot: make(map[task]uint64)}
}

// wake says that there may be something to do for t. It never blocks.
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

// pick returns the next task worth looking at, in turn, and when it was woken. It
// stays on the agenda, for other workers too, until somebody found nothing more.
func (a *agenda) pick() (t task, woken uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.order) == 0 {
		return task{}, 0, false
	}
	a.next %= len(a.order)
	t = a.order[a.next]
	a.next++
	return t, a.hot[t], true
}

// looked tells what came of looking at t: with more, there may be more to do, for
// another worker too. Without, it leaves the agenda, unless it was woken since.
func (a *agenda) looked(t task, woken uint64, more bool) {
	if more {
		a.wake(t) // also where another worker found nothing meanwhile
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

// wakeDue puts on the agenda what the store found.
func (a *agenda) wakeDue(due []driver.DueSource) {
	for _, d := range due {
		if d.Fresh {
			a.wake(task{d.Source, false})
		}
		if d.Tried {
			a.wake(task{d.Source, true})
		}
	}
}
