package sqlitestore

import (
	"context"
	"sync"
)

// gate lets readers pass until it is shut. Once the readers inside have left, none is inside.
type gate struct {
	mu     sync.Mutex
	inside int
	open   chan struct{} // while the gate is shut: closed when it opens
	empty  chan struct{} // while the gate is shut: closed when no reader is inside
}

// enter waits until the gate is open. The caller must call leave afterwards.
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

// shut keeps new readers out. It returns a channel that is closed when the last reader has left,
// and a function that opens the gate. Calls must not overlap.
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
