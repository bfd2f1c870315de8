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
)

// HandlerFunc works on one event in a transaction of type T, which is the user's
// own: pgx.Tx with package hookpgx, *sql.Tx with package hooksql.
//
// Where it returns nil, what it wrote through tx, the mark that the event is done,
// and the messages it enqueued by Outbox.EnqueueTx are committed together. Where
// it returns an error or panics none of it is, and the event is tried again after
// a time (see Permanent and RetryAfter), until its attempts are used up and it is
// dead. So an effect that is written through tx happens exactly once for each
// event and generation, however often the handler is run.
//
//   - What it sets for the transaction (SET LOCAL, a role, a search path) holds for
//     the handlers behind it in the batch too: set it in every handler, or use
//     Config.Batch = 1.
//   - It must not commit or roll back, and must not keep tx. One that commits
//     by itself makes its event dead, because it would take effect again.
//   - It may be run more than once, also within one attempt: events are worked
//     on in batches, and when one of a batch fails the others are run again, each
//     alone. Config.Batch = 1 turns that off. Whatever it does outside of tx
//     belongs into the outbox, or carries Event.IdempotencyKey.
//   - ctx ends after Config.HandlerTimeout. A handler that does not return then
//     has its transaction cut off from under it.
//   - An SQL error that it passes over is a failed attempt on PostgreSQL, which
//     commits nothing then. SQLite commits what the other statements wrote.
//   - It is called by several goroutines at a time, for different events.
type HandlerFunc[T any] func(ctx context.Context, tx T, ev *Event) error

// Mux finds the handler of an event by its source and type. The zero value is
// empty and usable. Register all handlers before the Mux is given to New, which
// seals it; from then on it may be used concurrently.
type Mux[T any] struct {
	sources map[string]*muxSource[T]
	sealed  bool
}

// muxSource are the handlers of one source.
type muxSource[T any] struct {
	exact    map[string]HandlerFunc[T]
	patterns []muxPattern[T] // the most specific first
}

type muxPattern[T any] struct {
	text    string
	pattern typePattern
	handler HandlerFunc[T]
}

// Handle registers h for events of a source. In eventType a '*' stands for any
// text; "*" alone takes all, also events without a type. An exact type goes before
// a pattern, and a pattern with more text before one with less. Handle panics on
// a nil mux, an empty source or type, a nil handler, what is registered already, and
// on a mux that was given to New: its events would be kept, and nobody would work on
// them.
func Handle[T any](mux *Mux[T], source, eventType string, h HandlerFunc[T]) {
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
		s = &muxSource[T]{exact: make(map[string]HandlerFunc[T])}
		mux.sources[source] = s
	}
	if !strings.Contains(eventType, "*") {
		if s.exact[eventType] != nil {
			panic(fmt.Sprintf("hookonce: there is a handler for %q %q already", source, eventType))
		}
		s.exact[eventType] = h
		return
	}
	if slices.ContainsFunc(s.patterns, func(p muxPattern[T]) bool { return p.text == eventType }) {
		panic(fmt.Sprintf("hookonce: there is a handler for %q %q already", source, eventType))
	}
	s.patterns = append(s.patterns, muxPattern[T]{eventType, strings.Split(eventType, "*"), h})
	slices.SortStableFunc(s.patterns, func(a, b muxPattern[T]) int {
		return cmp.Compare(literals(b.text), literals(a.text))
	})
}

// literals is how much text of a pattern is not a star.
func literals(pattern string) int { return len(pattern) - strings.Count(pattern, "*") }

// HandleJSON is Handle for a handler that takes the body as JSON, decoded into a
// B by encoding/json; of a source with Refetch, the object's current state
// instead. A body that does not fit B is a permanent failure: the same bytes
// cannot do better on the next attempt. Once the program is mended, replay it.
func HandleJSON[T, B any](mux *Mux[T], source, eventType string, h func(ctx context.Context, tx T, ev *Event, body B) error) {
	if h == nil {
		panic("hookonce: HandleJSON needs a handler")
	}
	Handle(mux, source, eventType, func(ctx context.Context, tx T, ev *Event) error {
		data := ev.Body
		if ev.Current != nil {
			data = ev.Current
		}
		var body B
		if err := json.Unmarshal(data, &body); err != nil {
			return Permanent(fmt.Errorf("decoding the body: %w", err))
		}
		return h(ctx, tx, ev, body)
	})
}

// handler returns the handler for events of a source and a type; nil if there is
// none.
func (m *Mux[T]) handler(source, eventType string) HandlerFunc[T] {
	if m == nil {
		return nil
	}
	s := m.sources[source]
	if s == nil {
		return nil
	}
	if h := s.exact[eventType]; h != nil {
		return h
	}
	for i := range s.patterns {
		if s.patterns[i].pattern.matches(eventType) {
			return s.patterns[i].handler
		}
	}
	return nil
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

// ErrNoHandler is what Mux.Run returns for an event that has no handler.
var ErrNoHandler = errors.New("hookonce: there is no handler for the event")

// Run runs the handler of ev in tx, as the workers of an Inbox do, and returns the
// messages that it enqueued and what it returned. A panic, and a handler that ends
// its goroutine, are errors. It neither commits nor rolls back, and marks nothing
// as done: it is for tests, see package hooktest. The error is ErrNoHandler if
// there is none for ev.
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
	r = &running{event: ev}
	ctx = context.WithValue(ctx, runningKey{}, r)
	return r, guard.Call("the handler", func() error { return h(ctx, tx, ev) })
}

// seal ends registration and returns the handlers as workers need them. m may be nil.
func (m *Mux[T]) seal() handlers[T] {
	if m != nil {
		m.sealed = true
	}
	return handlers[T]{m}
}

// handlers is a sealed Mux, as workers need it.
type handlers[T any] struct{ mux *Mux[T] }

// Types implements work.Handlers.
func (h handlers[T]) Types() map[string][]string { return h.mux.types() }

// sources returns the sources that have handlers, sorted.
func (h handlers[T]) sources() []string { return slices.Sorted(maps.Keys(h.Types())) }

// Handles implements work.Handlers.
func (h handlers[T]) Handles(source, eventType string) bool {
	return h.mux.handler(source, eventType) != nil
}

// Start implements work.Handlers.
func (h handlers[T]) Start(ctx context.Context, tx T, ev *work.Event) *work.Call {
	r, done := start(ctx, h.mux.handler(ev.Source, ev.Type), tx, eventOf(ev))
	return &work.Call{Done: done, Enqueued: r.destinations}
}

func (r *running) destinations() []string {
	var names []string
	for _, m := range r.messages {
		names = append(names, m.Destination)
	}
	return names
}
