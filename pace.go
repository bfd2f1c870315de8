package hookonce

import (
	"sync"
	"time"
)

// batchTarget is about how long the handlers of one batch shall take. Longer batches
// save little, hold their events from other workers, and have more to do again where one
// fails.
const batchTarget = 100 * time.Millisecond

// pace is how long the handlers of each source take, by which batches are as large as is
// good for them: quick handlers share one commit by the hundreds, slow ones have their
// events spread over the workers.
type pace struct {
	mu  sync.Mutex
	per map[string]time.Duration // for one event, the recent ones more than the others
}

// limit returns how many events of a source to take into a batch of at most most.
func (p *pace) limit(source string, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	per, known := p.per[source]
	if !known {
		return max(1, most/4)
	}
	return int(min(max(1, batchTarget/max(per, 1)), time.Duration(most)))
}

// note notes that n handlers of a source have taken so long.
func (p *pace) note(source string, n int, took time.Duration) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	per := took / time.Duration(n)
	if before, known := p.per[source]; known {
		per = (3*before + per) / 4
	}
	if p.per == nil {
		p.per = make(map[string]time.Duration)
	}
	p.per[source] = per
}
