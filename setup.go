package hookonce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// setup is what the sources, destinations and routes of a Config were made
// into. It does not change; Reload makes another one.
type setup struct {
	sources map[string]*source
	relays  map[string]*relay // by destination
	routes  []*route
}

// newSetup checks sources, destinations and routes, and makes them ready. Of
// before, which may be nil, it keeps the relays of destinations that are the
// same. All faults are reported at once.
func (in *Engine) newSetup(cfg *Config, before *setup) (*setup, error) {
	s := &setup{sources: make(map[string]*source), relays: make(map[string]*relay)}
	var faults []error
	for _, source := range cfg.Sources {
		if s.sources[source.Name] != nil {
			faults = append(faults, fmt.Errorf("source %q: there are two of that name", source.Name))
			continue
		}
		ready, err := newSource(source, in.log)
		if err == nil {
			err = in.checkHandled(ready)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		ready.keepForRetries(in.cfg.DedupeWindow, in.log)
		in.addLearned(ready)
		s.sources[source.Name] = ready
	}
	for _, d := range cfg.Destinations {
		if s.relays[d.Name] != nil {
			faults = append(faults, fmt.Errorf("destination %q: there are two of that name", d.Name))
			continue
		}
		dest, err := newDestination(d)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.relays[d.Name] = in.relayFor(dest, before)
	}
	faults = append(faults, s.addRoutes(cfg.Routes)...)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

// checkHandled reports what of src is nothing without handlers.
func (in *Engine) checkHandled(src *source) error {
	if !src.Inline && src.Refetch == nil {
		return nil
	}
	if in.handlers == nil || !slices.Contains(in.handlers.sources(), src.Name) {
		return fmt.Errorf("source %q: inline and refetch need a handler, and the mux has none for this source", src.Name)
	}
	return nil
}

func (in *Engine) relayFor(dest *destination, before *setup) *relay {
	var old *relay
	if before != nil {
		old = before.relays[dest.Name]
	}
	if old != nil && old.dest.same(dest.Destination) {
		return old
	}
	r := newRelay(in, dest)
	if old != nil && old.dest.sameTarget(dest.Destination) && old.circuit.cooldown == r.circuit.cooldown {
		r.circuit = old.circuit // what was found out about it is still true
	}
	return r
}

func (s *setup) addRoutes(routes []Route) []error {
	var faults []error
	seen := make(map[string]bool)
	for _, r := range routes {
		if seen[r.Name] {
			faults = append(faults, fmt.Errorf("route %q: there are two of that name", r.Name))
			continue
		}
		seen[r.Name] = true
		ready, err := s.newRoute(r)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.routes = append(s.routes, ready)
		for name, src := range s.sources {
			if ready.takesFrom(name) {
				src.routes = append(src.routes, ready)
			}
		}
	}
	return faults
}

// runningRelays are the relays that Run runs.
type runningRelays struct {
	ctx   context.Context
	stops map[*relay]context.CancelFunc
	wg    sync.WaitGroup
}

func newRunningRelays(ctx context.Context) *runningRelays {
	return &runningRelays{ctx: ctx, stops: make(map[*relay]context.CancelFunc)}
}

// change stops the relays that are only in before, and starts those that are
// only in after. A stopped one finishes what it is sending beside its
// successor, which leases keep from sending the same.
func (rr *runningRelays) change(before, after map[string]*relay) {
	for name, r := range before {
		if after[name] != r {
			rr.stops[r]()
			delete(rr.stops, r)
		}
	}
	for name, r := range after {
		if before[name] == r {
			continue
		}
		ctx, stop := context.WithCancel(rr.ctx)
		rr.stops[r] = stop
		rr.wg.Go(func() {
			defer stop()
			r.run(ctx, rr.ctx)
		})
	}
}

func (rr *runningRelays) wait() { rr.wg.Wait() }
