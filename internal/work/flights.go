package work

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// flights holds the Inline events in progress in this process, so that copies of an event wait here
// and not in the database. All methods may be called concurrently.
type flights struct {
	// open ends once no further flight may begin.
	open   context.Context
	close  context.CancelFunc
	flying sync.WaitGroup // grows only under mu and while open has not ended

	mu  sync.Mutex
	all map[driver.Key]*flight
}

type flight struct {
	landed chan struct{}
	result InlineResult // valid once landed is closed
	// keepsDead says that it leaves a dead event dead.
	keepsDead bool
}

var (
	errDraining  = errors.New("this process stops")
	errNotLanded = errors.New("the run ended without a result")
)

func newFlights() *flights {
	open, end := context.WithCancel(context.Background())
	return &flights{open: open, close: end, all: make(map[driver.Key]*flight)}
}

// join returns the flight of key. first says that the caller must fly it, and then land it. After
// drain, join returns nil for a key that is not in flight.
func (f *flights) join(key driver.Key, keepsDead bool) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.all[key]; ok {
		return fl, false
	}
	if f.open.Err() != nil {
		return nil, false
	}
	fl = &flight{landed: make(chan struct{}), result: unclaimed(errNotLanded), keepsDead: keepsDead}
	f.all[key] = fl
	f.flying.Add(1)
	return fl, true
}

// missed returns the error of a flight that could not begin: the drain, or why and the error of ctx.
func (f *flights) missed(ctx context.Context, why string) error {
	if f.open.Err() != nil {
		return errDraining
	}
	return fmt.Errorf("%s: %w", why, ctx.Err())
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
	f.close()
	f.mu.Unlock()
	f.flying.Wait()
}
