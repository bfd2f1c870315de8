package work

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// busyDelay is how long the event of a busy object waits at least before it is taken again; up to
	// twice as long, so that many of them do not come back together.
	busyDelay = time.Second
	// busyFetchDelay bounds busyDelay for a source with Refetch, which fetches each time that an
	// event is taken: there it grows with the time that the object has been busy.
	busyFetchDelay = 30 * time.Second
	// busyForgotten is how long an object is remembered that was found busy. It is longer than any
	// delay.
	busyForgotten = 3 * busyFetchDelay
	// busyKept is the number of objects above which forgotten ones are removed.
	busyKept = 1000
)

// busyObjects remembers since when objects of sources with Refetch have been busy. The zero value is
// ready to use, also concurrently.
type busyObjects struct {
	mu    sync.Mutex
	since map[driver.Key]busySince
}

// busySince holds when an object was first and last found busy.
type busySince struct{ first, last time.Time }

// delay returns how long an event of a busy object waits, apart from a random time that is as long
// again at most. longest bounds it.
func (b *busyObjects) delay(object driver.Key, longest time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	seen, ok := b.since[object]
	if !ok || now.Sub(seen.last) > busyForgotten {
		seen.first = now
	}
	seen.last = now
	if b.since == nil {
		b.since = make(map[driver.Key]busySince)
	}
	b.since[object] = seen
	if len(b.since) > busyKept {
		b.forget(now)
	}
	return max(busyDelay, min(now.Sub(seen.first), longest, busyFetchDelay))
}

func (b *busyObjects) forget(now time.Time) {
	for object, seen := range b.since {
		if now.Sub(seen.last) > busyForgotten {
			delete(b.since, object)
		}
	}
}

// free says that an object is not busy any more.
func (b *busyObjects) free(object driver.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.since, object)
}

// isBusy reports whether another run holds the object of event i, and postpones the event then.
func (b *batch[T]) isBusy(i int) bool {
	object := b.objects[i]
	if object == nil {
		return false
	}
	ev := b.events[i]
	src := b.o.Source(ev.Source)
	fetches := src != nil && src.Refetch != nil
	if !slices.Contains(b.busy, object.Object) {
		if fetches {
			b.busyObjects.free(object.Object)
		}
		return false
	}
	delay := busyDelay
	if fetches {
		delay = b.busyObjects.delay(object.Object, b.o.Retry.Max)
	}
	b.later = append(b.later, driver.WorkResult{Key: ev.Key, Outcome: driver.WorkPostponed, RetryIn: delay + rand.N(delay)})
	return true
}
