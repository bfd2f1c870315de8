package sqlitestore

import (
	"context"
	"sync"
)

// gate lets readers pass, and can be shut, so that a moment comes at which none
// is inside.
type gate struct {
	mu     sync.Mutex
	inside int
	open   chan struct{} // while it is shut: closed when it opens
	empty  chan struct{} // while it is shut: closed when nobody is inside
}

// enter waits until the gate is open. Who enters must leave.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		open := g.open
		if open == nil {
			g.inside++
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-open:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.open != nil {
		close(g.empty)
	}
}

// shut keeps new readers out, and returns a channel that is closed when the last
// one has left, and a function that opens the gate again. There must be one
// caller at a time.
func (g *gate) shut() (empty <-chan struct{}, open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.empty = make(chan struct{}), make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	return g.empty, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.open)
		g.open = nil
	}
}
