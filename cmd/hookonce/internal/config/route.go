package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/route"
	"github.com/hookonce/hookonce/provider"
)

var routeKeys = append([]string{"name", "sources", "types", "where", "to", "order"}, destinationKeys...)

// maxType is the longest type of an event, in bytes.
const maxType = 255

// routeReader reads destinations and routes. Its config holds the sources.
type routeReader struct {
	*loader
	config *hookonce.Config
}

func (r *routeReader) read(destinations, routes *node) {
	r.named(destinations, "destination", func(name string, value *node) {
		r.config.Destinations = append(r.config.Destinations, r.destination(name, value, r.mapping(value, destinationKeys...)))
	})
	for i, item := range r.list(routes) {
		r.route(i+1, item)
	}
	r.checkSizes()
}

func (r *routeReader) sourceNames() []string {
	var names []string
	for _, s := range r.config.Sources {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

func (r *routeReader) route(number int, n *node) {
	if n.kind != kindMapping {
		r.faultHint(n, "keys: "+strings.Join(routeKeys, ", "), "a route must be a mapping of keys, but this is %s", n.kind)
		return
	}
	r.places[fmt.Sprintf("routes[%d]", len(r.config.Routes))] = n
	m := r.mapping(n, routeKeys...)
	route := hookonce.Route{Sources: r.routeSources(m.get("sources")), Types: r.types(m.get("types"))}
	route.Order = r.order(m.get("order"))
	where := m.get("where")
	if text, ok := r.text(where); ok {
		route.Where = r.compileWhere(where, text)
		r.checkBodies(where, text, route.Sources)
		r.warnOfCondition(where, text, route.Sources)
	}
	to, _ := r.text(m.get("to"))
	route.Name, route.To = r.routeName(m.get("name"), to, number), to
	switch url := m.get("url"); {
	case m.get("to") != nil && url != nil:
		r.fault(url, "a route has either to or url")
	case url != nil:
		route.To = "route:" + route.Name
		if !r.isDestination(route.To) { // otherwise the route has the name of another one, which is the fault
			r.config.Destinations = append(r.config.Destinations, r.destination(route.To, n, m))
		}
	case m.get("to") == nil:
		r.fault(n, "the route has neither to nor url, so it leads nowhere")
	default:
		for _, key := range destinationKeys {
			if value := m.get(key); value != nil {
				r.fault(value, "it belongs to a destination; set it there, or use url in place of to")
			}
		}
	}
	r.config.Routes = append(r.config.Routes, route)
}

var orderKeys = []string{"key", "version", "on_dead"}

// order reads the order of a route or a source. The library checks its locations.
func (r *loader) order(n *node) *hookonce.Order {
	if n == nil {
		return nil
	}
	if n.kind != kindMapping {
		r.faultHint(n, "keys: "+strings.Join(orderKeys, ", "), "an order must be a mapping of keys, but this is %s", n.kind)
		return nil
	}
	m := r.mapping(n, orderKeys...)
	order := &hookonce.Order{}
	order.Key, _ = r.text(m.get("key"))
	order.Version, _ = r.text(m.get("version"))
	if version := m.get("version"); version != nil && order.Version == "" {
		r.fault(version, "it is empty; leave it out for the order of the claims")
	}
	onDead, _ := r.text(m.get("on_dead"))
	order.OnDead = hookonce.DeadOrder(onDead)
	return order
}

// isDestination reports whether a destination of that name was read.
func (r *routeReader) isDestination(name string) bool {
	return slices.ContainsFunc(r.config.Destinations, func(d hookonce.Destination) bool { return d.Name == name })
}

// routeName returns the name of a route: its own, or else the name of its destination, or else
// route-N.
func (r *routeReader) routeName(n *node, to string, number int) string {
	if n == nil {
		return cmp.Or(to, fmt.Sprintf("route-%d", number))
	}
	return r.word(n)
}

func (r *routeReader) routeSources(n *node) []string {
	if n != nil && n.kind == kindSequence && len(n.items) == 0 {
		r.fault(n, "the list is empty; leave it out for all sources")
	}
	var names []string
	for _, item := range r.list(n) {
		name, _ := r.text(item)
		names = append(names, name)
	}
	return names
}

// types reads the event types of a route or of a stale rule.
func (l *loader) types(n *node) []string {
	if n != nil && n.kind == kindSequence && len(n.items) == 0 {
		l.fault(n, "the list is empty; leave it out for all types")
	}
	types := l.words(n)
	for _, t := range types {
		if len(t) > maxType {
			l.fault(n, "a type has at most %d bytes", maxType)
		}
	}
	return types
}

func (r *routeReader) compileWhere(n *node, text string) func(*hookonce.Event) (bool, error) {
	where, err := route.Compile(text)
	if err != nil {
		r.wrong(n, err)
		return nil
	}
	return where
}

// checkBodies warns of a condition on the body of sources whose bodies are never JSON. A route for all
// sources may be meant for some of them.
func (r *routeReader) checkBodies(n *node, text string, sources []string) {
	if !route.ReadsBody(text) {
		return
	}
	var forms []string
	of := len(sources)
	for i := range r.config.Sources {
		s := &r.config.Sources[i]
		if of > 0 && !slices.Contains(sources, s.Name) {
			continue
		}
		spec, err := provider.Lookup(s.Provider)
		if err != nil {
			continue // reported with the source
		}
		if x, err := provider.CompileRules(s.Event.Or(spec.Event)); err == nil && x.Form() {
			forms = append(forms, s.Name)
		}
	}
	if len(forms) > 0 && (of > 0 || len(forms) == len(r.config.Sources)) {
		r.warn(n, "body is always nil in events of source %s: their bodies are forms, not JSON; set event.document (form:FIELD) if a field holds JSON",
			strings.Join(forms, ", "))
	}
}

// forwards adds the destinations and routes of --forward flags; see Flags.
func (r *routeReader) forwards(flags []string) {
	sources := r.sourceNames()
	for _, text := range flags {
		name, url, at := r.nameAndValue("--forward", text, "NAME=URL")
		if at == nil {
			continue
		}
		if r.isDestination(name) || slices.ContainsFunc(r.config.Routes, func(route hookonce.Route) bool { return route.Name == name }) {
			r.fault(at, "there is a destination or route of that name already")
			continue
		}
		value := &node{kind: kindText, path: at.path, raw: url, literal: true, hidden: true}
		n := &node{kind: kindMapping, path: at.path, fields: []field{{key: "url", value: value}}}
		route := hookonce.Route{Name: name, To: name}
		if slices.Contains(sources, name) {
			route.Sources, route.To = []string{name}, "route:"+name
		}
		r.config.Destinations = append(r.config.Destinations, r.destination(route.To, n, r.mapping(n, destinationKeys...)))
		r.config.Routes = append(r.config.Routes, route)
	}
}
