package hookonce

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// route is a Route ready to use.
type route struct {
	Route
	types  []typePattern
	orders map[string]*stale.Rules // of Order, by source; nil without it
	// badOrder says that a fault of Order was told: other sources would tell it again.
	badOrder bool
}

// newRoute checks r. sources and targets are the names of all sources and destinations.
func newRoute(r Route, sources, targets []string, at place) *route {
	if !nameRegexp.MatchString(r.Name) {
		at.fault("name", badName)
	}
	at.known("to", "destination", r.To, targets)
	for i, name := range r.Sources {
		at.known(fmt.Sprintf("sources[%d]", i), "source", name, sources)
	}
	if r.Order != nil {
		at.oneOf("order.on_dead", string(cmp.Or(r.Order.OnDead, DeadHold)), string(DeadHold), string(DeadPass))
	}
	return &route{Route: r, types: typePatterns(r.Types)}
}

// setOrder compiles the order of r for the events of src.
func (r *route) setOrder(src *source, log *slog.Logger, at place) {
	if r.Order == nil || src.extractor == nil || r.badOrder {
		return
	}
	rules, err := stale.NewOrder(src.Name, r.Order.Key, r.Order.Version, src.spec, src.extractor, log)
	at.wrong("", err)
	r.badOrder = err != nil
	if r.orders == nil {
		r.orders = make(map[string]*stale.Rules)
	}
	r.orders[src.Name] = rules
}

// orderOf returns the place of an event in a line; nil if r has no order, or the event lacks its key or version.
func (r *route) orderOf(source, destination string, ev *stale.Event) *driver.Order {
	rules := r.orders[source]
	if rules == nil {
		return nil
	}
	return rules.OrderOf(r.Name+"\n"+destination, ev, r.Order.OnDead != DeadPass)
}

// setOrders compiles the orders of the handlers of s.
func (s *source) setOrders(handlers *handlerSet, log *slog.Logger, at place) {
	orders, consumers := handlers.orders[s.Name], false
	switch {
	case s.Order == nil:
	case s.Consume != ConsumeSQL:
		at.faultHint("order", "set it on the routes or the handlers of the source, or set consume: sql", "it is for SQL consumers, and the source has none")
	case len(handlers.types[s.Name]) > 0:
		at.faultHint("order", "give the handlers the Order instead", "handlers of this process take the events of the source")
	default:
		orders, consumers = []*Order{s.Order}, true
	}
	if len(orders) == 0 || s.extractor == nil {
		return
	}
	if s.Inline {
		at.faultHint("inline", "leave inline or the Order out", "a handler with an Order cannot be inline: its sender repeats a failed event, and in its own order")
	}
	s.orders = make(map[*Order]*stale.Rules)
	for _, o := range orders {
		at.oneOf("order.on_dead", string(cmp.Or(o.OnDead, DeadHold)), string(DeadHold), string(DeadPass))
		rules, err := stale.NewOrder(s.Name, o.Key, o.Version, s.spec, s.extractor, log)
		at.wrong("", err)
		s.orders[o] = rules
	}
	if consumers {
		s.orderFor = func(string) *Order { return s.Order }
		return
	}
	s.orderFor = func(eventType string) *Order { return handlers.orderFor(s.Name, eventType) }
	s.work.Ordered = func(eventType string) bool { return s.orderFor(eventType) != nil }
	s.work.Order = func(ev *work.Event) *driver.Order {
		order, _ := s.orderOf(&stale.Event{ID: ev.EventID, Type: ev.Type, Header: ev.Header, Body: ev.Body})
		return order
	}
}

// orderOf returns the place of an event in a line, nil if it lacks its key or version, and whether its handler has an order.
func (s *source) orderOf(ev *stale.Event) (place *driver.Order, ordered bool) {
	if s.orders == nil {
		return nil, false
	}
	o := s.orderFor(ev.Type)
	if o == nil {
		return nil, false
	}
	if place = s.orders[o].OrderOf(handlerLines, ev, o.OnDead != DeadPass); place != nil {
		place.Consumer = o == s.Order
	}
	return place, true
}

// handlerLines is the scope of the lines of handlers. Those of routes begin with the route's name.
const handlerLines = "\n"

// takesFrom reports whether events of the source can match.
func (r *route) takesFrom(source string) bool {
	return len(r.Sources) == 0 || slices.Contains(r.Sources, source)
}

func (r *route) matches(ev *Event, until time.Time) (ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			// Without this, the event could never be received: every delivery of it would panic.
			ok, err = false, fmt.Errorf("panic: %v", v)
		}
	}()
	if !matchesAny(r.types, ev.Type) {
		return false, nil
	}
	if r.Where == nil {
		return true, nil
	}
	if !until.IsZero() && !time.Now().Before(until) {
		return false, fmt.Errorf("%w: the evaluation of conditions took half of the time for an answer", ErrUndecided)
	}
	return r.Where(ev)
}

// typePattern is a pattern split at its stars. The first part must be at the start, the last at the
// end, and the others in order between them.
type typePattern []string

func (p typePattern) matches(s string) bool {
	if len(p) == 1 {
		return s == p[0]
	}
	first, last := p[0], p[len(p)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// typePatterns splits patterns. A '*' in them stands for any text.
func typePatterns(types []string) []typePattern {
	var out []typePattern
	for _, t := range types {
		out = append(out, strings.Split(t, "*"))
	}
	return out
}

// matchesAny reports whether eventType matches one of patterns. No patterns match every type.
func matchesAny(patterns []typePattern, eventType string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p typePattern) bool { return p.matches(eventType) })
}

// ErrUndecided is the error of a Route.Where that needs more time or memory than it may have. The event
// is then dead, with driver.NoteUndecided, until an operator replays it.
var ErrUndecided = errors.New("hookonce: the condition was not decided within its bounds")

// decideShare is the part of the time for an answer that conditions may take. Those that are left
// then stay undecided: the claim needs time too, and a sender that repeats a delivery
// which always takes too long would never get it stored.
const decideShare = 2

// messagesFor returns the messages of the routes that match ev. undecided names the first route that
// was not decided; then there are no messages. failed tells that a condition failed, which counts as no. From until on, no
// condition is evaluated; the zero time is no bound.
func messagesFor(log *slog.Logger, src *source, key driver.Key, ev *Event, until time.Time) (messages []driver.NewMessage, undecided string, failed bool) {
	for _, r := range src.routes {
		ok, err := r.matches(ev, until)
		if errors.Is(err, ErrUndecided) {
			log.Warn("the condition of a route was not decided within its bounds",
				slog.String("source", ev.Source), slog.String("event_id", ev.ID),
				slog.String("route", r.Name), slog.Any("error", err))
			return nil, r.Name, failed
		}
		if err != nil {
			log.Warn("route skipped: its condition failed",
				slog.String("source", ev.Source), slog.String("event_id", ev.ID),
				slog.String("route", r.Name), slog.Any("error", err))
			failed = true
			continue
		}
		if ok {
			order := r.orderOf(src.Name, r.To, &stale.Event{ID: ev.ID, Type: ev.Type, Header: ev.Header, Body: ev.Body})
			messages = append(messages, driver.NewMessage{
				ID: driver.MessageID(key, 0, r.Name), Route: r.Name, Destination: r.To,
				Order: order, Unordered: r.Order != nil && order == nil,
			})
		}
	}
	return messages, "", failed
}

// conditional reports whether a route of the source has a condition.
func (s *setup) conditional(source string) bool {
	src := s.sources[source]
	return src != nil && slices.ContainsFunc(src.routes, func(r *route) bool { return r.Where != nil })
}

// decideNow fills in the messages that a claim would write now, for a reroute, and for an event that matched
// no route or is undecided. handled are the sources that have handlers.
func (s *setup) decideNow(log *slog.Logger, handled []string, p *driver.ReplayParams, detail *driver.EventDetail) error {
	src := s.sources[detail.Source]
	if p.Mode != driver.ReplayReroute && len(detail.Messages) > 0 || detail.BodyPruned {
		return nil
	}
	if src == nil || len(src.routes) == 0 && !src.works(handled) {
		p.Unknown = true
		return nil
	}
	header, body, err := wire.Stored(detail.Headers, detail.Body)
	if err != nil {
		return fmt.Errorf("hookonce: replay event %q of source %q: as it is stored: %w: %w", detail.EventID, detail.Source, driver.ErrBadRow, err)
	}
	routes, undecided, failed := messagesFor(log, src, detail.Key, &Event{
		Source: detail.Source, ID: detail.EventID, Type: detail.Type,
		OccurredAt: detail.OccurredAt, Header: header, Body: body, rules: src.extractor,
	}, time.Time{})
	p.Routes = routes
	// A reroute must not give up the messages of a route whose condition fails.
	p.Undecided = undecided != "" || failed && p.Mode == driver.ReplayReroute
	return nil
}
