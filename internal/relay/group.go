package relay

import (
	"context"
	"sync"
	"time"
)

// Group holds the relays of a process, one for each destination. All methods may be called
// concurrently, apart from Run, which is called once.
type Group struct {
	store Store
	o     Options
	turns turns

	mu      sync.RWMutex
	relays  map[string]*relay
	stops   map[*relay]context.CancelFunc
	process context.Context // of Run; nil unless it runs
	running sync.WaitGroup
}

// NewGroup returns a group without destinations.
func NewGroup(store Store, o Options) *Group {
	return &Group{store: store, o: o, relays: make(map[string]*relay), stops: make(map[*relay]context.CancelFunc)}
}

// Set replaces the destinations, by name. The relay of a destination that stays, as the same
// pointer, goes on undisturbed. The relay of another one leases no more and finishes its sends; if
// it has a successor, leases keep the two from sending the same message.
func (g *Group) Set(destinations map[string]*Destination) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, r := range g.relays {
		if destinations[name] == r.dest {
			continue
		}
		delete(g.relays, name)
		if stop := g.stops[r]; stop != nil {
			stop()
			delete(g.stops, r)
		}
	}
	for name, d := range destinations {
		if g.relays[name] != nil {
			continue
		}
		r := newRelay(g.store, &g.o, &g.turns, d)
		g.relays[name] = r
		if g.process != nil {
			g.start(r)
		}
	}
}

// start runs r. The caller holds the lock.
func (g *Group) start(r *relay) {
	process := g.process
	ctx, stop := context.WithCancel(process)
	g.stops[r] = stop
	g.running.Go(func() {
		defer stop()
		r.run(ctx, process)
	})
}

// Run leases and sends until ctx ends, then finishes the sends in progress, within 10 s.
func (g *Group) Run(ctx context.Context) {
	g.mu.Lock()
	g.process = ctx
	for _, r := range g.relays {
		g.start(r)
	}
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	g.process = nil // Set starts no relay from now on
	g.mu.Unlock()
	g.running.Wait()
}

// Wake says that messages to a destination may be due. It never blocks for long, and ignores
// unknown names.
func (g *Group) Wake(destination string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if r := g.relays[destination]; r != nil {
		r.wake()
	}
}

// Hurry says that an operator wants the destination tried now: an open circuit probes at once. It
// ignores unknown names.
func (g *Group) Hurry(destination string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if r := g.relays[destination]; r != nil {
		r.dest.Circuit.hurry(time.Now())
		r.wake()
	}
}

// WakeAll says that messages to any destination may be due.
func (g *Group) WakeAll() {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, r := range g.relays {
		r.wake()
	}
}
