package claims

import "time"

const (
	// enoughUnits is how many waiting units start a second flusher beside a first one that is on time:
	// two small batches cost the database almost twice as much as one.
	enoughUnits = 128

	// A batch is late if it takes lateTimes as long as usual, within the bounds. Then a key that another
	// session holds may delay it, and further flushers start as if there were none.
	lateTimes = 4
	minLate   = 5 * time.Millisecond
	maxLate   = 250 * time.Millisecond

	// usualShare is the weight of the last batch in the usual time: one part of so many.
	usualShare = 8
)

// flusher is a goroutine that claims batches, or a caller that claims its own unit. The queue's lock guards it.
type flusher struct {
	batches int // begun and ended: odd while it claims one
	began   time.Time
	timer   *time.Timer // marks the batch as late
	late    bool
}

// startFlusher starts another flusher if the waiting units need one. Beside flushers that are on time, one
// starts for a full batch, and the second one for enoughUnits already. The caller holds the lock.
func (q *Queue) startFlusher() {
	enough := q.pace.limit
	switch q.active - q.late {
	case 0:
		enough = 1
	case 1:
		enough = min(enough, enoughUnits)
	}
	if q.active == q.flushers || q.waiting.units < enough {
		return
	}
	q.active++
	q.background.Go(func() { q.run(&flusher{}, nil) })
}

// lateAfter returns how long a batch may take before it is late. The caller holds the lock.
func (q *Queue) lateAfter() time.Duration {
	return min(max(lateTimes*q.usual, minLate), maxLate)
}

// begin notes that f begins a batch. The caller holds the lock.
func (q *Queue) begin(f *flusher) {
	f.batches++
	f.began = time.Now()
	if q.flushers > 1 {
		q.watch(f, q.lateAfter())
	}
}

// watch marks the batch of f as late if it lasts longer than d. The caller holds the lock.
func (q *Queue) watch(f *flusher, d time.Duration) {
	batch := f.batches
	f.timer = time.AfterFunc(d, func() { q.overdue(f, batch) })
}

// end notes the end of f's batch, if it has begun one. The caller holds the lock.
func (q *Queue) end(f *flusher) {
	if f.batches%2 == 0 {
		return
	}
	f.batches++
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.late {
		f.late = false
		q.late--
	}
	// A late batch counts as just late: a held key says nothing about the next batch.
	q.usual += (min(time.Since(f.began), q.lateAfter()) - q.usual) / usualShare
}

// overdue counts f as late if it still claims the batch.
func (q *Queue) overdue(f *flusher, batch int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f.batches == batch {
		f.late = true
		q.late++
		q.startFlusher()
	}
}
