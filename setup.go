package hookonce

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/deadnews"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/reconcile"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// setup holds the sources, destinations and routes of a Config, checked and ready to use. It never
// changes; Reload makes a new one.
type setup struct {
	sources      map[string]*source
	vanished     map[string]time.Time // sources that reloads took away, with the end of their 503
	destinations map[string]*destination
	routes       []*route
}

// newSetup checks the sources, destinations and routes of cfg and makes them ready. It reuses
// unchanged destinations from before, which may be nil. all has the settings for all sources. The setup
// is usable only if found has no faults then.
func newSetup(cfg *Config, before *setup, all *Config, handlers *handlerSet, learned *learnedSecrets, found *findings) *setup {
	s := &setup{sources: make(map[string]*source), destinations: make(map[string]*destination)}
	sources, targets := sourceNames(cfg.Sources), destinationNames(cfg.Destinations)
	for _, source := range cfg.Sources {
		at := found.at("sources." + source.Name)
		if _, twice := s.sources[source.Name]; twice {
			at.fault("", "there are two of that name")
			continue
		}
		ready := newSource(source, all, handlers, at)
		s.sources[source.Name] = ready
		if ready != nil {
			ready.checkHandled(handlers.sources, at)
			learned.addTo(ready)
		}
		if source.OnDead != "" {
			at.known("on_dead", "destination", source.OnDead, targets)
		}
	}
	for name := range handlers.orders {
		if before == nil && !slices.Contains(sources, name) {
			found.at("sources."+name).fault("", "a handler with an Order is registered for it, and there is no such source")
		}
	}
	for _, d := range cfg.Destinations {
		at := found.at("destinations." + d.Name)
		if s.destinations[d.Name] != nil {
			at.fault("", "there are two of that name")
			continue
		}
		s.destinations[d.Name] = newDestination(d, before.destination(d.Name), at)
		switch d.OnDead {
		case "":
		case d.Name:
			at.fault("retry.on_dead", "a destination cannot be told of its own dead letters; name another one")
		default:
			others := slices.DeleteFunc(slices.Clone(targets), func(name string) bool { return name == d.Name })
			at.known("retry.on_dead", "destination", d.OnDead, others)
		}
	}
	if all.OnDead != "" {
		found.at("").known("on_dead", "destination", all.OnDead, targets)
	}
	s.addRoutes(cfg.Routes, sources, targets, all.Logger, found)
	for name, src := range s.sources {
		if src != nil && src.Reconcile != nil && len(src.routes) == 0 && !src.works(handlers.sources) {
			found.at("sources."+name).fault("reconcile", "no route and no handler takes the events of this source")
		}
	}
	return s
}

// sourceNames returns the names of sources, sorted.
func sourceNames(sources []Source) []string {
	names := make([]string, len(sources))
	for i := range sources {
		names[i] = sources[i].Name
	}
	slices.Sort(names)
	return names
}

// destinationNames returns the names of destinations, sorted.
func destinationNames(destinations []Destination) []string {
	names := make([]string, len(destinations))
	for i := range destinations {
		names[i] = destinations[i].Name
	}
	slices.Sort(names)
	return names
}

// watches returns which dead letters each destination is told of. forHandlers is Config.OnDead, for
// the sources handled.
func (s *setup) watches(forHandlers string, handled []string) []deadnews.Watch {
	var all []deadnews.Watch
	of := func(target string) *deadnews.Watch {
		i := slices.IndexFunc(all, func(w deadnews.Watch) bool { return w.Target == target })
		if i < 0 {
			i, all = len(all), append(all, deadnews.Watch{Target: target})
		}
		return &all[i]
	}
	for _, name := range slices.Sorted(maps.Keys(s.destinations)) {
		if target := s.destinations[name].OnDead; target != "" {
			w := of(target)
			w.Destinations = append(w.Destinations, name)
			for _, r := range s.routes {
				if r.To == name {
					w.Routes = append(w.Routes, r.Name)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		target := s.sources[name].OnDead
		if target == "" && slices.Contains(handled, name) {
			target = forHandlers
		}
		if target != "" {
			w := of(target)
			w.Sources = append(w.Sources, name)
		}
	}
	return all
}

// vanishedFor is how long deliveries of a source that a reload took away are answered 503. Senders
// count a 404 as final, so a settings file that was cut by mistake must not cause one at once.
const vanishedFor = 10 * time.Minute

// errNoSources refuses a reload that would leave no source.
var errNoSources = errors.New("the new settings have no source: an empty or cut file looks like this; to stop receiving, stop the process")

// replace checks a reload from before to s, and notes the sources that it takes away. It returns
// the names of those that before has.
func (s *setup) replace(before *setup, now time.Time) (taken []string, err error) {
	if len(s.sources) == 0 && len(before.sources) > 0 {
		return nil, errNoSources
	}
	s.vanished = make(map[string]time.Time)
	for name, until := range before.vanished {
		if s.sources[name] == nil && now.Before(until) {
			s.vanished[name] = until
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.sources)) {
		if s.sources[name] == nil {
			s.vanished[name] = now.Add(vanishedFor)
			taken = append(taken, name)
		}
	}
	return taken, nil
}

// isVanished reports whether a reload took the source of that name away less than vanishedFor ago.
func (s *setup) isVanished(name string, now time.Time) bool {
	until, ok := s.vanished[name]
	return ok && now.Before(until)
}

// knows reports whether name is that of a source, or of one that a reload took away just now, so
// that logs may show it.
func (s *setup) knows(name string, now time.Time) bool {
	return s.sources[name] != nil || s.isVanished(name, now)
}

// checkHandled adds a fault if s has a setting that needs a handler and has no handler.
func (s *source) checkHandled(handled []string, at place) {
	if (s.Inline || s.Refetch != nil) && !slices.Contains(handled, s.Name) {
		at.fault("", "inline and refetch need a handler, and the mux has none for this source")
	}
}

// addRoutes checks routes and adds them. sources and targets are the names that they may name.
func (s *setup) addRoutes(routes []Route, sources, targets []string, log *slog.Logger, found *findings) {
	seen := make(map[string]bool)
	for i := range routes {
		at := found.at(fmt.Sprintf("routes[%d]", i))
		ready := newRoute(routes[i], sources, targets, at)
		if seen[ready.Name] {
			at.faultHint("name", "give each its own name, and keep it: webhook-id depends on it", "another route has the same name")
		}
		seen[ready.Name] = true
		s.routes = append(s.routes, ready)
		for _, name := range slices.Sorted(maps.Keys(s.sources)) {
			if src := s.sources[name]; src != nil && ready.takesFrom(name) {
				src.routes = append(src.routes, ready)
				ready.setOrder(src, log, at)
				if src.Order != nil {
					found.at("sources."+name).fault("order", "route %q takes the events of the source, too: set the order on one of them", ready.Name)
				}
			}
		}
	}
}

// destination returns the destination of that name, or nil. s may be nil.
func (s *setup) destination(name string) *destination {
	if s == nil {
		return nil
	}
	return s.destinations[name]
}

// retire closes the Senders that after, which may be nil, does not use.
func (s *setup) retire(after *setup) {
	for name, d := range s.destinations {
		if after.destination(name) != d {
			d.closing.retire()
		}
	}
}

// maxSkew returns the largest skew of a clock that makes no authentic timestamp look stale: half of the
// smallest tolerance of the sources. It is 0 if no source has a tolerance.
func (s *setup) maxSkew() (most time.Duration) {
	for _, src := range s.sources {
		if half := src.tolerance / 2; half > 0 && (most == 0 || half < most) {
			most = half
		}
	}
	return most
}

// relayed returns the destinations as the relays need them.
func (s *setup) relayed() map[string]*relay.Destination {
	all := make(map[string]*relay.Destination, len(s.destinations))
	for name, d := range s.destinations {
		all[name] = d.relayed
	}
	return all
}

// workSource returns the settings of a source that concern its handlers, or nil if there is no
// such source.
func (s *setup) workSource(name string) *work.Source {
	if src := s.sources[name]; src != nil {
		return src.work
	}
	return nil
}

// mayBeStale reports whether a stale rule may match m, or its route has an order. Messages that handlers enqueue have
// no route and are never stale.
func (s *setup) mayBeStale(m *driver.Message) bool {
	src := s.sources[m.Source]
	return m.Route != "" && src != nil && (src.work.Stale.Watches(m.Type) || src.ordered(m.Route) != nil)
}

// ordered returns the route of that name, if it has an order.
func (s *source) ordered(name string) *route {
	for _, r := range s.routes {
		if r.Name == name && r.Order != nil {
			return r
		}
	}
	return nil
}

// hasOrder reports whether a route or a handler has an order.
func (s *setup) hasOrder() bool {
	for _, src := range s.sources {
		if src != nil && src.orders != nil {
			return true
		}
	}
	return slices.ContainsFunc(s.routes, func(r *route) bool { return r.Order != nil })
}

// orderOf returns the place of m in a line, if its route has an order.
func (s *setup) orderOf(m *driver.Message, log *slog.Logger) *driver.Order {
	src := s.sources[m.Source]
	if m.Route == "" || src == nil {
		return nil
	}
	r := src.ordered(m.Route)
	if r == nil {
		return nil
	}
	return r.orderOf(m.Source, m.Destination, storedEvent(m, log))
}

// storedEvent returns the event of m as rules read it.
func storedEvent(m *driver.Message, log *slog.Logger) *stale.Event {
	header, body, err := wire.Stored(m.Headers, m.Body)
	if err != nil {
		log.Error("a stored event cannot be read; stale rules see the stored bytes",
			slog.String("source", m.Source), slog.String("event_id", m.EventID), slog.Any("error", err))
	}
	return &stale.Event{ID: m.EventID, Type: m.Type, Header: header, Body: body}
}

// objectOf returns the object and version that m is about, if a stale rule of its source matches. The order of a route takes
// the place of the rule.
func (s *setup) objectOf(m *driver.Message, log *slog.Logger) (v driver.ObjectVersion, ok bool) {
	src := s.sources[m.Source]
	if !s.mayBeStale(m) || src.ordered(m.Route) != nil {
		return v, false
	}
	return src.work.Stale.ObjectOf(m.Route, storedEvent(m, log))
}

// looks returns the lists to look at from time to time, and the sources without one, by name.
func (s *setup) looks() (timed []reconcile.Timed, off []string) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		src := s.sources[name]
		if src.Reconcile == nil || src.Reconcile.Every == 0 {
			off = append(off, name)
			continue
		}
		parts := []string{string(src.Provider), src.list.Fill(src.list.URL, src.Reconcile.Params), src.Reconcile.URL}
		timed = append(timed, reconcile.Timed{Source: name, List: sha256.Sum256([]byte(strings.Join(parts, "\n"))), Every: src.Reconcile.Every})
	}
	return timed, off
}

// sourceStatus returns the sources by name. cfg holds the windows of all.
func (s *setup) sourceStatus(cfg *Config) []operate.SourceStatus {
	var all []operate.SourceStatus
	for _, src := range s.sources {
		status := operate.SourceStatus{
			Name: src.Name, Provider: src.Provider, Scheme: src.Scheme, Unsigned: src.unsigned,
			Consume: string(cmp.Or(src.Consume, consumeRoutes)), OnDead: src.OnDead,
			Redelivery: string(cmp.Or(src.Redelivery, redeliveryReopen)), Malformed: string(cmp.Or(src.Malformed, malformedReject)),
			ReplayGuard: src.ReplayGuard, MaxBody: src.MaxBody, AckTimeout: src.AckTimeout,
			DedupeWindow: cmp.Or(src.DedupeWindow, cfg.DedupeWindow), Retention: cmp.Or(src.Retention, cfg.Retention),
			ProviderRetries: src.retries, Reconciles: src.Reconcile != nil,
		}
		if src.Reconcile != nil {
			status.ReconcileEvery = src.Reconcile.Every
		}
		for _, r := range src.routes {
			status.Routes = append(status.Routes, r.Name)
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b operate.SourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// destinationStatus returns the destinations by name.
func (s *setup) destinationStatus() []operate.DestinationStatus {
	var all []operate.DestinationStatus
	for _, d := range s.destinations {
		status := operate.DestinationStatus{
			Name: d.Name, Signed: d.Secret != "", Timeout: d.Timeout, Retry: driver.Retry(d.Retry),
			Concurrency: d.Concurrency, Rate: limit.Rate(d.Rate), Circuit: d.relayed.Circuit.Status(), Sender: d.Sender != nil,
			OnDead: d.OnDead,
		}
		if sender, ok := d.Sender.(interface{ Address() string }); ok {
			status.Address = sender.Address()
		} else if u, err := url.Parse(d.URL); err == nil && !status.Sender {
			status.Address = u.Scheme + "://" + u.Host + shownPath(u.EscapedPath())
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b operate.DestinationStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// shownPart matches the parts of a path that are words or versions. Others may be credentials, as those
// of chat services are.
var shownPart = regexp.MustCompile(`^([a-z._-]{0,16}|v[0-9]{1,2})$`)

// shownPath returns the path of a destination with … for each part that may be a credential.
func shownPath(path string) string {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i, part := range parts {
		if !shownPart.MatchString(part) {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, "/")
}

// routeStatus returns the routes in the order of the Config.
func (s *setup) routeStatus() []operate.RouteStatus {
	var all []operate.RouteStatus
	for _, r := range s.routes {
		all = append(all, operate.RouteStatus{
			Name: r.Name, Sources: slices.Clone(r.Sources), Types: slices.Clone(r.Types),
			Conditional: r.Where != nil, Destination: r.To,
		})
	}
	return all
}
