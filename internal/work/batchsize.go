package work

import (
	"sync"
	"time"
)

// batchTarget is the aim for the time that the handlers of one batch take together. Longer batches
// save little, keep their events from other workers, and repeat more work when one event fails.
const batchTarget = 100 * time.Millisecond

// batchSizes follows how long the handlers of each source take, and sizes batches by it: hundreds of
// quick handlers share a commit, and the events of slow handlers spread over the workers. The zero
// value is ready to use, also concurrently.
type batchSizes struct {
	mu  sync.Mutex
	per map[string]time.Duration // for one event, a moving average
}

// limit returns the number of events of a source to take into one batch, at most most.
func (b *batchSizes) limit(source string, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	per, known := b.per[source]
	if !known {
		return max(1, most/4)
	}
	return int(min(max(1, batchTarget/max(per, 1)), time.Duration(most)))
}

// note records that n handlers of a source took this long together.
func (b *batchSizes) note(source string, n int, took time.Duration) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	per := took / time.Duration(n)
	if before, known := b.per[source]; known {
		per = (3*before + per) / 4
	}
	if b.per == nil {
		b.per = make(map[string]time.Duration)
	}
	b.per[source] = per
}
