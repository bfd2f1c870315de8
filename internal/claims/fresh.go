package claims

import (
	"context"
	"time"
)

const (
	freshEvery   = 100 * time.Millisecond // the shortest time between two writes for readers
	freshWait    = 2 * time.Second        // the longest wait of a reader
	freshTimeout = 5 * time.Second        // of one write
)

// freshener makes readers share the writes of counts. The queue's lock guards it.
type freshener struct {
	next *freshWrite // has not begun to write; nil if there is none
	last time.Time   // when a write ended
}

// freshWrite is one write of all counts. err is final once done is closed.
type freshWrite struct {
	done chan struct{}
	err  error
}

// freshWrite returns a write that has not begun, so it writes all counts up to the call. It
// returns nil if the queue is closed.
func (q *Queue) freshWrite() *freshWrite {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fresh.next == nil && !q.closed {
		f := &freshWrite{done: make(chan struct{})}
		q.fresh.next = f
		begin := time.Until(q.fresh.last.Add(freshEvery))
		// Not under the context of a reader, whose end would make the outcome of the write unknown.
		q.background.Go(func() { q.writeFresh(f, begin) })
	}
	return q.fresh.next
}

func (q *Queue) writeFresh(f *freshWrite, begin time.Duration) {
	defer close(f.done)
	time.Sleep(begin)
	q.mu.Lock()
	q.fresh.next = nil
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), freshTimeout)
	defer cancel()
	f.err = q.counts.flush(ctx)
	q.mu.Lock()
	q.fresh.last = time.Now()
	q.mu.Unlock()
}
