package work

import (
	"errors"
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// flights holds the Inline events in progress in this process, so that copies of an event wait here
// and not in the database. All methods may be called concurrently.
type flights struct {
	// draining is closed once no further flight may begin.
	draining chan struct{}
	flying   sync.WaitGroup // grows only under mu and before draining is closed

	mu     sync.Mutex
	closed bool // draining is closed
	all    map[driver.Key]*flight
}

type flight struct {
	landed chan struct{}
	result InlineResult // valid once landed is closed
}

var (
	errDraining  = errors.New("this process stops")
	errNotLanded = errors.New("the run ended without a result")
)

func newFlights() *flights {
	return &flights{draining: make(chan struct{}), all: make(map[driver.Key]*flight)}
}

// join returns the flight of key. first says that the caller must fly it, and then land it. After
// drain, join returns nil for a key that is not in flight.
func (f *flights) join(key driver.Key) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.all[key]; ok {
		return fl, false
	}
	if f.closed {
		return nil, false
	}
	fl = &flight{landed: make(chan struct{}), result: unclaimed(errNotLanded)}
	f.all[key] = fl
	f.flying.Add(1)
	return fl, true
}

func (f *flights) land(key driver.Key, fl *flight) {
	defer f.flying.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, key)
	close(fl.landed)
}

// drain lets no further flight begin, and blocks until all have landed.
func (f *flights) drain() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.draining)
	}
	f.mu.Unlock()
	f.flying.Wait()
}
