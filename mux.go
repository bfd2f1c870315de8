package hookonce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/provider"
)

// HandlerFunc handles one event in a transaction of type T, your own: pgx.Tx with package hookpgx,
// *sql.Tx with package hooksql.
//
// If it returns nil, its writes through tx, the event's done mark and the messages that it enqueued
// by Outbox.EnqueueTx commit together. If it returns an error or panics, all of these are rolled
// back, and the event is retried later (see Permanent and RetryAfter) until its attempts are used
// up and it is dead. So an effect that is written through tx happens exactly once for each event
// and generation, however often the handler runs.
//
//   - Its settings of the transaction (SET LOCAL, a role) also hold for later handlers of the same
//     batch: set them in every handler, or use Config.Batch = 1.
//   - It must not commit or roll back, and must not keep tx; docs/library.md says what happens otherwise,
//     and after an SQL error that it ignores.
//   - It may run more than once, also within one attempt: when one event of a batch fails, the others
//     run again, each alone. Effects outside tx belong in the outbox, or carry Event.IdempotencyKey.
//   - ctx ends after Config.HandlerTimeout; then its transaction is cut off.
//   - It is called concurrently, for different events.
type HandlerFunc[T any] func(ctx context.Context, tx T, ev *Event) error

// Mux finds the handler of an event by its source and type. The zero value is empty and ready to
// use. New seals it: register all handlers before. A sealed Mux is safe for concurrent use.
type Mux[T any] struct {
	sources map[string]*muxSource[T]
	sealed  bool
}

// muxSource holds the handlers of one source.
type muxSource[T any] struct {
	exact    map[string]registered[T]
	patterns []muxPattern[T] // the most specific first
}

// registered is a handler with its options.
type registered[T any] struct {
	handler HandlerFunc[T]
	order   *Order // nil without it
}

type muxPattern[T any] struct {
	text    string
	pattern typePattern
	registered[T]
}

// HandleOption is an option of a handler: an Order.
type HandleOption interface{ handleOption() }

func (Order) handleOption() {}

// Handle registers h for events of a source. In eventType a '*' stands for any text; "*" alone
// matches every event, also one without a type. An exact type wins over a pattern, and a pattern
// with more literal text over one with less. Handle panics on a nil mux, an empty source or type, a
// nil handler, a second handler for the same source and type, and a mux that New has sealed: no
// worker would take the events of a late handler.
//
// With an Order, h runs for one event of an object at a time, in any number of processes. All ordered
// handlers of a source share the objects. An Order with a wrong location, for an unknown source, or for
// one with Source.Inline is an error of New.
func Handle[T any](mux *Mux[T], source, eventType string, h HandlerFunc[T], options ...HandleOption) {
	switch {
	case mux == nil:
		panic("hookonce: Handle needs a mux: &hookpgx.Mux{} or &hooksql.Mux{}")
	case mux.sealed:
		panic(fmt.Sprintf("hookonce: the handler for %q %q comes too late: register it before New", source, eventType))
	case source == "" || eventType == "":
		panic("hookonce: Handle needs a source and a type; the type \"*\" takes all")
	case h == nil:
		panic("hookonce: Handle needs a handler")
	}
	if mux.sources == nil {
		mux.sources = make(map[string]*muxSource[T])
	}
	s := mux.sources[source]
	if s == nil {
		s = &muxSource[T]{exact: make(map[string]registered[T])}
		mux.sources[source] = s
	}
	r := registered[T]{handler: h}
	for _, option := range options {
		if order, ok := option.(Order); ok {
			r.order = &order
		}
	}
	if !strings.Contains(eventType, "*") {
		if s.exact[eventType].handler != nil {
			panic(fmt.Sprintf("hookonce: there is a handler for %q %q already", source, eventType))
		}
		s.exact[eventType] = r
		return
	}
	if slices.ContainsFunc(s.patterns, func(p muxPattern[T]) bool { return p.text == eventType }) {
		panic(fmt.Sprintf("hookonce: there is a handler for %q %q already", source, eventType))
	}
	s.patterns = append(s.patterns, muxPattern[T]{eventType, strings.Split(eventType, "*"), r})
	slices.SortStableFunc(s.patterns, func(a, b muxPattern[T]) int {
		return cmp.Compare(literals(b.text), literals(a.text))
	})
}

// literals returns the length of a pattern without its stars.
func literals(pattern string) int { return len(pattern) - strings.Count(pattern, "*") }

// HandleJSON is Handle for a handler that takes Event.Document, decoded into a B by encoding/json;
// or, for a source with Refetch, the object's current state. A body that does not fit B is a
// permanent failure.
func HandleJSON[T, B any](
	mux *Mux[T], source, eventType string, h func(ctx context.Context, tx T, ev *Event, body B) error, options ...HandleOption,
) {
	if h == nil {
		panic("hookonce: HandleJSON needs a handler")
	}
	Handle(mux, source, eventType, func(ctx context.Context, tx T, ev *Event) error {
		data := ev.Current
		var err error
		if data == nil {
			data, err = ev.Document()
		}
		var body B
		if err == nil {
			err = json.Unmarshal(data, &body)
		}
		if err != nil {
			return Permanent(fmt.Errorf("decoding the body: %w", err))
		}
		return h(ctx, tx, ev, body)
	}, options...)
}

// handler returns the handler for events of a source and type, or nil. m may be nil.
func (m *Mux[T]) handler(source, eventType string) HandlerFunc[T] {
	return m.find(source, eventType).handler
}

// find returns the handler for events of a source and type with its options; a zero one if there is none. m may be nil.
func (m *Mux[T]) find(source, eventType string) registered[T] {
	if m == nil {
		return registered[T]{}
	}
	s := m.sources[source]
	if s == nil {
		return registered[T]{}
	}
	if r := s.exact[eventType]; r.handler != nil {
		return r
	}
	for i := range s.patterns {
		if s.patterns[i].pattern.matches(eventType) {
			return s.patterns[i].registered
		}
	}
	return registered[T]{}
}

// set returns the handlers without their transaction type. m may be nil.
func (m *Mux[T]) set() handlerSet {
	all := handlerSet{types: m.types(), orders: make(map[string][]*Order)}
	all.sources = slices.Sorted(maps.Keys(all.types))
	all.orderFor = func(source, eventType string) *Order { return m.find(source, eventType).order }
	for name, types := range all.types {
		s := m.sources[name]
		for _, t := range types {
			r := s.exact[t]
			for i := range s.patterns {
				if s.patterns[i].text == t {
					r = s.patterns[i].registered
				}
			}
			if r.order != nil {
				all.orders[name] = append(all.orders[name], r.order)
			}
		}
	}
	return all
}

// types returns, by source, the types and patterns that have handlers.
func (m *Mux[T]) types() map[string][]string {
	all := make(map[string][]string)
	if m == nil {
		return all
	}
	for name, s := range m.sources {
		for t := range s.exact {
			all[name] = append(all[name], t)
		}
		for i := range s.patterns {
			all[name] = append(all[name], s.patterns[i].text)
		}
		slices.Sort(all[name])
	}
	return all
}

// ErrNoHandler is the error of Mux.Run for an event without a handler.
var ErrNoHandler = errors.New("hookonce: there is no handler for the event")

// Run runs the handler of ev in tx, as the workers of an Inbox do, and returns the messages that it
// enqueued and its error. A panic, and a handler that ends its goroutine, are errors. Run neither
// commits nor rolls back, and marks nothing as done: it is for tests, see package hooktest. The
// error is ErrNoHandler if ev has no handler.
func (m *Mux[T]) Run(ctx context.Context, tx T, ev *Event) ([]*Message, error) {
	h := m.handler(ev.Source, ev.Type)
	if h == nil {
		return nil, ErrNoHandler
	}
	r, done := start(ctx, h, tx, ev)
	err := <-done
	return r.messages, err
}

// start runs h in its own goroutine. The messages of the returned run are complete once done has
// received.
func start[T any](ctx context.Context, h HandlerFunc[T], tx T, ev *Event) (r *running, done <-chan error) {
	r = &running{event: ev, made: make(map[string]int)}
	ctx = context.WithValue(ctx, runningKey{}, r)
	return r, guard.Call("the handler", func() error { return h(ctx, tx, ev) })
}

// seal ends registration and returns the handlers as workers need them. m may be nil.
func (m *Mux[T]) seal() handlers[T] {
	if m != nil {
		m.sealed = true
	}
	return handlers[T]{mux: m}
}

// handlers is a sealed Mux, as workers need it.
type handlers[T any] struct {
	mux   *Mux[T]
	rules func(source string) *provider.Extractor // nil for an unknown source
}

// Types implements work.Handlers.
func (h handlers[T]) Types() map[string][]string { return h.mux.types() }

// Handles implements work.Handlers.
func (h handlers[T]) Handles(source, eventType string) bool {
	return h.mux.handler(source, eventType) != nil
}

// Start implements work.Handlers.
func (h handlers[T]) Start(ctx context.Context, tx T, ev *work.Event) *work.Call {
	r, done := start(ctx, h.mux.handler(ev.Source, ev.Type), tx, eventOf(ev, h.rules(ev.Source)))
	return &work.Call{Done: done, Enqueued: r.destinations}
}

func (r *running) destinations() []string {
	var names []string
	for _, m := range r.messages {
		names = append(names, m.Destination)
	}
	return names
}
