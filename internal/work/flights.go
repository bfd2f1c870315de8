package work

import (
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// flights holds the Inline events in progress in this process, so that copies of an event wait here
// and not in the database. The zero value is ready to use, also concurrently.
type flights struct {
	mu  sync.Mutex
	all map[driver.Key]*flight
}

type flight struct {
	landed chan struct{}
	result InlineResult // valid once landed is closed
}

// join returns the flight of key. first says that the caller must fly it, and then land it.
func (f *flights) join(key driver.Key) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.all[key]; ok {
		return fl, false
	}
	if f.all == nil {
		f.all = make(map[driver.Key]*flight)
	}
	fl = &flight{landed: make(chan struct{})}
	f.all[key] = fl
	return fl, true
}

func (f *flights) land(key driver.Key, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, key)
	close(fl.landed)
}
