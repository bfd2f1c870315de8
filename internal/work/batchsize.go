package work

import (
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// batchTarget is the aim for the time that the handlers of one batch take together. Longer batches
// save little, keep their events from other workers, and repeat more work when one event fails.
const batchTarget = 100 * time.Millisecond

// batchSizes follows how long the handlers of each source take and how large its events are, and
// sizes batches by both: hundreds of quick handlers share a commit, and the events of slow handlers
// spread over the workers. The zero value is ready to use, also concurrently.
type batchSizes struct {
	mu  sync.Mutex
	per map[string]perEvent
}

// perEvent holds moving averages for one event.
type perEvent struct {
	took  time.Duration
	bytes int64
}

// limit returns the number of events of a source to take into one batch, at most most.
func (b *batchSizes) limit(source string, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	per, known := b.per[source]
	if !known {
		return max(1, most/4)
	}
	return int(max(1, min(int64(batchTarget/max(per.took, 1)), driver.MaxTakeBytes/max(per.bytes, 1), int64(most))))
}

// note records that n handlers of a source took this long together, for events of so many bytes.
func (b *batchSizes) note(source string, n int, took time.Duration, bytes int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	per := perEvent{took / time.Duration(n), bytes / int64(n)}
	if before, known := b.per[source]; known {
		per = perEvent{(3*before.took + per.took) / 4, (3*before.bytes + per.bytes) / 4}
	}
	if b.per == nil {
		b.per = make(map[string]perEvent)
	}
	b.per[source] = per
}
