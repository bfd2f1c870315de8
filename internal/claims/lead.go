package claims

import (
	"context"
	"time"
)

// lead claims u in the calling goroutine if nothing waits and no flusher is at work. It reports whether
// it did; then the results of u are final, or follow soon. A hand-over to a flusher and back would wake two goroutines,
// which costs a lone delivery as much as verifying it.
//
// The caller waits for the store, which ends the call at the deadline of u.
func (q *Queue) lead(ctx context.Context, u *Unit) bool {
	f := q.beginAlone(u)
	if f == nil {
		return false
	}
	defer q.endAlone(f, u)
	q.flush(ctx, []*Unit{u})
	return true // Claim waits for a unit whose event is locked
}

// beginAlone takes u past the queue, or returns nil.
func (q *Queue) beginAlone(u *Unit) *flusher {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.active > 0 || q.waiting.units > 0 {
		return nil
	}
	q.background.Add(1)
	q.active++
	q.hold(u)
	f := &flusher{batches: 1, began: time.Now()}
	q.alone = f
	return f
}

// endAlone ends what beginAlone began. Flushers claim the units that have gathered meanwhile.
func (q *Queue) endAlone(f *flusher, u *Unit) {
	defer q.background.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alone = nil
	q.end(f)
	q.release(u)
	q.active--
	q.startFlusher()
}

// watchAlone makes a late claim of lead start another flusher, as soon as a unit waits for it. The caller holds
// the lock.
func (q *Queue) watchAlone() {
	if f := q.alone; f != nil && f.timer == nil && q.flushers > 1 {
		q.watch(f, q.lateAfter()-time.Since(f.began))
	}
}
