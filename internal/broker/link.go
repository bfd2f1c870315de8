package broker

import (
	"context"
	"fmt"
	"sync"
)

// Link holds one connection that concurrent calls share. Set its functions before the first call.
type Link[C any] struct {
	Dial  func() (C, error)
	Ended func(C) bool // the connection ended for good
	Close func(C)

	mu      sync.Mutex
	current *dialled[C] // nil before the first Get and after Drop
}

// dialled is a connection, or the attempt to make it. Its fields may be read once ready is closed.
type dialled[C any] struct {
	ready chan struct{}
	conn  C
	err   error
}

// Get returns the connection, and dials if there is none. Concurrent calls share one attempt, which outlives ctx.
func (l *Link[C]) Get(ctx context.Context) (C, error) {
	l.mu.Lock()
	d := l.current
	l.mu.Unlock()
	// Ended may have to wait. No other call waits with it.
	if d == nil || l.ended(d) {
		d = l.replace(d)
	}
	select {
	case <-d.ready:
		return d.conn, d.err
	case <-ctx.Done():
		var none C
		return none, fmt.Errorf("not connected in time: %w", ctx.Err())
	}
}

func (l *Link[C]) ended(d *dialled[C]) bool {
	select {
	case <-d.ready:
		return d.err != nil || l.Ended(d.conn)
	default:
		return false
	}
}

// replace dials in place of old, unless another call did already.
func (l *Link[C]) replace(old *dialled[C]) *dialled[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil || l.current == old {
		d := &dialled[C]{ready: make(chan struct{})}
		l.current = d
		go func() {
			defer close(d.ready)
			d.conn, d.err = l.Dial()
		}()
	}
	return l.current
}

// Drop closes the connection without waiting for that. A later Get dials again.
func (l *Link[C]) Drop() {
	l.mu.Lock()
	d := l.current
	l.current = nil
	l.mu.Unlock()
	if d == nil {
		return
	}
	go func() {
		if <-d.ready; d.err == nil {
			l.Close(d.conn)
		}
	}()
}
