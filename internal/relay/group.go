package relay

import (
	"context"
	"log/slog"
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
	g.poll(ctx)
	g.mu.Lock()
	g.process = nil // Set starts no relay from now on
	g.mu.Unlock()
	g.running.Wait()
}

// poll wakes relays that wait for nothing else and have due messages, until ctx ends: retries, expired leases, and messages
// that another process wrote. One statement a second looks for those of all destinations.
func (g *Group) poll(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var warned time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := g.look(ctx)
		if err != nil && ctx.Err() == nil && time.Since(warned) > warnInterval {
			g.o.Log.Warn("looking for due messages failed; retrying every second", slog.Any("error", err))
			warned = time.Now()
		}
	}
}

func (g *Group) look(ctx context.Context) error {
	var idle []string
	g.mu.RLock()
	for name, r := range g.relays {
		if r.idle.Load() {
			idle = append(idle, name)
		}
	}
	g.mu.RUnlock()
	if len(idle) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	due, err := g.store.DueDestinations(ctx, idle)
	for _, name := range due {
		g.Wake(name)
	}
	return err
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
