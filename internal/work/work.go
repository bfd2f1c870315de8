// Package work runs handlers. Workers take due events into a transaction, run a handler for each,
// and commit the handlers' writes together with the done marks. Events of a failed batch run again,
// each alone. Inline events are claimed and handled in one transaction, without a record and past the
// claim queue, which an open claim would block.
//
// # Runs
//
// A run is one transaction for handlers. The database fences it; there are no leases and no
// heartbeats. While the transaction lives, no other worker can take its events, however slow the
// handlers are. When the process is killed, the server frees the events at once; a stopped process is
// cut off by a time limit of the database.
//
// A run is also recorded, for one purpose: a handler that kills its process must use up its attempts. A
// record without its transaction belongs to an interrupted run. Every process sweeps once a second,
// gateways included. The record says when the next attempt follows, because the process that finds it
// may not know the schedule.
//
// After each handler, Run.Check notices a transaction that the handler has ended by itself. Run.Settle
// and Run.Abandon ask the database whether it was committed before they give an event back. The
// outcomes are then recorded under the lock of the record. They do not wait for objects that another run
// has taken since: the versions of those objects are left out.
//
// # Suspects
//
// The events of an interrupted run become suspects, and no attempt is counted: any handler of the process
// may be the reason. From then on a suspect runs alone in its run. Each process has one lane for
// suspects, which runs one at a time beside the other workers. If the process ends again, the suspect in
// the lane has an attempt counted, and no other event.
//
// A suspect may be innocent, and be in the lane when another event kills the process for the first time.
// Such a killer then becomes a suspect itself, so it costs others one attempt at most. The last attempt
// of a suspect runs while no other handler does, so that no event becomes dead because of another.
// For that it waits until the handlers in progress have ended. Once others wait for it, it gives up
// after a second, and retries later with twice the patience, up to the longest time of a run. After each
// try the lane rests nine times as long as others had to wait for it.
//
// # Fairness
//
// A source with slow handlers never has all workers: one stays free for the other sources. A run never
// waits for an object that another run holds: it gives the object's events back for a second or two,
// without an attempt, and runs the others. With Refetch each further look fetches again, so the delay
// grows with the time that the object has been busy.
package work

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/refusals"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/wire"
)

const (
	// pollInterval is the longest time between two looks for due events: retries, and events that
	// another process claimed.
	pollInterval = time.Second
	// drainTimeout bounds the handlers in progress when the process stops.
	drainTimeout = 10 * time.Second
	warnInterval = 30 * time.Second // between two log lines about a failing database
	storeTimeout = 10 * time.Second // for one call of the store
)

// Handlers is the user's code, as workers see it. All methods are called concurrently.
type Handlers[T any] interface {
	// Types returns, by source, the types and patterns that have a handler.
	Types() map[string][]string
	// Handles reports whether events of a source and type have a handler.
	Handles(source, eventType string) bool
	// Start runs the handler of ev in tx, in its own goroutine.
	Start(ctx context.Context, tx T, ev *Event) *Call
}

// Call is a handler in progress.
type Call struct {
	Done <-chan error // receives one error, nil for success
	// Enqueued returns the destinations of the messages that the handler enqueued. Call it after
	// Done.
	Enqueued func() []string
}

// Event is a taken event, ready for its handler.
type Event struct {
	driver.TakenEvent
	Header  http.Header
	Body    []byte // inflated; TakenEvent.Body is as stored
	Current []byte // the result of Refetch; nil without it

	span     Span // of the present run of its handler, until it has ended
	returned time.Time
	err      error // that the handler returned
}

// Source holds the settings of a source that concern its events. It does not change.
type Source struct {
	Name           string
	Stale          *stale.Rules
	Refetch        func(ctx context.Context, ev *Event) ([]byte, error) // nil without it
	RefetchTimeout time.Duration
	// Order returns the place of an event in a line; nil if it has none. It is nil if no handler of the source has an order.
	Order           func(ev *Event) *driver.Order
	Ordered         func(eventType string) bool // its handler has an order, so no stale rule applies; not nil with Order
	Inline          bool                        // its deliveries are handled by Workers.Inline
	AckTimeout      time.Duration               // for the answer to an Inline delivery
	Reopen          bool                        // a delivery of a dead event reopens it
	DeadLetterAfter int                         // failures of an Inline handler
}

// Options are the settings and callbacks of Workers, which call them concurrently.
type Options struct {
	Workers        int      // transactions at a time; as many again for Inline handlers
	AllowUnsafe    []string // settings of the database that may be weak, for claims of Inline sources
	Batch          int      // events of one transaction, at most
	HandlerTimeout time.Duration
	Retry          driver.Retry
	Log            *slog.Logger

	Source   func(name string) *Source // in its present settings; nil for an unknown source
	Wake     func(destination string)  // after the commit of messages
	Reopened func()                    // after dead events became due again
	Observe  func(*Observed)
	Refused  func(source string)   // the database refused to change the row of an event
	Lost     func(*driver.LostRun) // for each event of an interrupted run
	// Trace starts the span of a run of a handler, and returns the handler's context with it. The span may
	// be nil. A nil Trace starts none.
	Trace func(ctx context.Context, ev *Event) (context.Context, Span)
}

// Span is the span of one run of a handler.
type Span interface {
	// End says when the handler returned, and its outcome. It is called once.
	End(at time.Time, o *Observed)
}

// The values of Observed.Outcome.
const (
	done    = "done"
	retry   = "retry"
	dead    = "dead"
	skipped = "skipped"
	undone  = "undone" // of spans alone: the transaction was rolled back, and the event runs again
)

// Observed is one attempt, or an event that was skipped because it is stale.
type Observed struct {
	Event   *Event
	Outcome string // "done", "retry", "dead" or "skipped"
	Attempt int    // from 1
	Took    time.Duration
	Err     error
	Span    Span // of the run of its handler; nil without one
}

// Workers run the handlers of one process. All methods may be called concurrently, apart from Run,
// which is called once.
type Workers[T any] struct {
	db       driver.Driver[T]
	handlers Handlers[T]
	o        Options
	log      *slog.Logger
	limits   driver.WorkLimits
	types    map[string][]string // by source
	sources  []string            // sorted
	agenda   *agenda
	suspects *agenda // of events with an interrupted run
	sizes    batchSizes

	flights *flights
	seats   *seats // of Inline deliveries

	budget      *budget // of all handlers
	busyObjects busyObjects
	troubles    troubles
	refusals    map[string]*refusals.Rows[driver.Key] // by source
	alone       lastAttempts
}

// New returns Workers for the handlers' sources.
func New[T any](db driver.Driver[T], handlers Handlers[T], o Options) *Workers[T] {
	types := handlers.Types()
	limits := db.WorkLimits()
	sources := slices.Sorted(maps.Keys(types))
	w := &Workers[T]{
		db: db, handlers: handlers, o: o, log: o.Log, limits: limits,
		budget: newBudget(o.Workers, limits.MaxTransactions, func() bool {
			return slices.ContainsFunc(sources, func(name string) bool { src := o.Source(name); return src != nil && src.Inline })
		}),
		alone: lastAttempts{longest: o.HandlerTimeout + returnGrace + limits.BatchTime + storeTimeout},
		types: types, sources: sources,
		suspects: newAgenda(1, func() int { return 1 }), flights: newFlights(), seats: newSeats(o.Workers),
		refusals: make(map[string]*refusals.Rows[driver.Key], len(sources)),
	}
	w.agenda = newAgenda(o.Workers, w.share)
	for _, source := range sources {
		w.refusals[source] = &refusals.Rows[driver.Key]{}
	}
	return w
}

// share returns how many workers may run handlers of one source at a time: one worker is kept free of it, so that no
// source waits for the handlers of another one alone.
func (w *Workers[T]) share() int {
	if len(w.sources) == 1 {
		return w.o.Workers
	}
	return max(1, min(w.o.Workers, w.budget.room())-1)
}

// Handles reports whether events of a source and type have a handler.
func (w *Workers[T]) Handles(source, eventType string) bool {
	return w.handlers.Handles(source, eventType)
}

// Wake says that events of a source may be due. It never blocks.
func (w *Workers[T]) Wake(source string) { w.agenda.wake(task{source, false}) }

// Run takes and handles events until ctx ends, then finishes the handlers in progress. These have
// 10 s; after that their contexts end, and their events are given back.
//
// Without handlers it only looks for interrupted runs; see Sweep.
func (w *Workers[T]) Run(ctx context.Context) {
	if len(w.sources) == 0 {
		Sweep(ctx, w.db, w.log, w.o.Lost)
		return
	}
	workCtx, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	draining := context.AfterFunc(ctx, func() { time.AfterFunc(drainTimeout, stopWorking) })
	defer draining()
	var wg sync.WaitGroup
	for range w.o.Workers {
		wg.Go(func() { w.loop(ctx, workCtx, w.agenda, w.step) })
	}
	wg.Go(func() { w.loop(ctx, workCtx, w.suspects, w.stepSuspect) })
	wg.Go(func() { poll(ctx, w.log, "events", w.look) })
	wg.Wait()
}

// loop is one worker, which takes the tasks of a. A callback that panics or ends its goroutine, such
// as a tracer of the user's pool, costs one step.
func (w *Workers[T]) loop(ctx, workCtx context.Context, a *agenda, step func(ctx, workCtx context.Context, t task) (bool, error)) {
	for ctx.Err() == nil {
		t, woken, ok := a.pick()
		if !ok {
			select {
			case <-ctx.Done():
			case <-a.tokens:
			}
			continue
		}
		var more bool
		err := <-guard.Call("a worker", func() (err error) {
			more, err = step(ctx, workCtx, t)
			return err
		})
		if err != nil && ctx.Err() == nil {
			w.log.Warn("taking events failed; retrying in 1s", slog.String("source", t.source), slog.Any("error", guard.Loggable(err)))
		}
		a.looked(t, woken, more && err == nil)
	}
}

// step takes and handles due events of t. more says that others may be due.
func (w *Workers[T]) step(ctx, workCtx context.Context, t task) (more bool, err error) {
	rests, alone := w.troubles.of(t.source)
	if rests {
		return false, nil // the next look for due events comes back to it
	}
	if src := w.o.Source(t.source); src != nil && (src.Refetch != nil || src.Order != nil) {
		return w.stepReserved(ctx, workCtx, src, alone)
	}
	p := &driver.TakeParams{
		Source: t.source, Types: w.types[t.source], Limit: w.sizes.limit(t.source, w.o.Batch), Tried: t.tried,
		Suspects: driver.NoSuspects, Beside: true, HandlerTimeout: w.o.HandlerTimeout,
	}
	if t.tried || alone {
		p.Limit = 1
	}
	taken, again, more, err := w.takeBatch(ctx, workCtx, p)
	if len(taken) == 0 {
		return false, err
	}
	w.workAlone(ctx, workCtx, again, &prepared{})
	return more || mayHaveMore(taken, p.Limit), nil
}

// takeBatch takes events within the budget and runs them. It returns those that must run alone.
func (w *Workers[T]) takeBatch(ctx, workCtx context.Context, p *driver.TakeParams) (taken, alone []driver.TakenEvent, more bool, err error) {
	if !w.budget.acquire(ctx, false) {
		return nil, nil, false, nil
	}
	defer w.budget.release(false)
	run, err := w.take(workCtx, p)
	if err != nil || run == nil {
		return nil, nil, false, err
	}
	alone, more = w.work(ctx, workCtx, run, &prepared{}, false)
	return run.Events(), alone, more, nil
}

// mayHaveMore reports whether the limit, or the bound of bytes, may have left other due events.
func mayHaveMore(taken []driver.TakenEvent, limit int) bool {
	bytes := 0
	for i := range taken {
		bytes += len(taken[i].Headers) + len(taken[i].Body)
	}
	return len(taken) >= limit || bytes > driver.MaxTakeBytes/2
}

func (w *Workers[T]) take(ctx context.Context, p *driver.TakeParams) (driver.Run[T], error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	p.Retry, p.Skip, p.Refused = w.o.Retry, w.refusals[p.Source].Resting(time.Now()), w.passOver(p.Source)
	return w.db.Take(ctx, p)
}

// passOver returns a function that lets an event rest after the database refused to change its row.
func (w *Workers[T]) passOver(source string) func(driver.RefusedEvent) {
	return func(e driver.RefusedEvent) {
		rest := w.refusals[source].Add(e.Key, time.Now())
		w.log.Error("the database refuses to change the row of an event; look for a trigger or a damaged row: hookonce doctor",
			slog.String("source", source), slog.String("event_id", e.EventID), slog.String("again_in", rest.String()), slog.Any("error", e.Err))
		if w.o.Refused != nil {
			w.o.Refused(source)
		}
	}
}

// abandon ends a run and gives its events back. It reports false if a handler had committed the run.
func (w *Workers[T]) abandon(ctx context.Context, run driver.Run[T]) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := run.Abandon(ctx)
	switch {
	case isCommitted(err):
		return false
	case err != nil:
		about(w.log, run.Events()).Warn("giving a run back failed; the sweep will find its events", slog.Any("error", err))
	}
	return true
}

// about returns log with the source and the number of the events of a run, and the id of the first one.
func about(log *slog.Logger, events []driver.TakenEvent) *slog.Logger {
	if len(events) == 0 {
		return log
	}
	return log.With(slog.String("source", events[0].Source), slog.String("event_id", events[0].EventID), slog.Int("events", len(events)))
}

// abandonUnless gives the events of a run back unless it has ended: a callback has panicked or ended
// its goroutine. Defer it.
func (w *Workers[T]) abandonUnless(ctx context.Context, run driver.Run[T], ended *bool) {
	if !*ended {
		w.abandon(ctx, run)
	}
}

// newEvent makes a taken event ready for its handler. An event that cannot be read as it was
// received is handed over as stored.
func (w *Workers[T]) newEvent(taken *driver.TakenEvent) *Event {
	if taken.Unreadable != nil {
		return &Event{TakenEvent: *taken, Header: http.Header{}}
	}
	header, body, err := wire.Stored(taken.Headers, taken.Body)
	if err != nil {
		w.log.Error("a stored event cannot be read; its handler gets the stored bytes",
			slog.String("source", taken.Source), slog.String("event_id", taken.EventID), slog.Any("error", err))
	}
	return &Event{TakenEvent: *taken, Header: header, Body: body}
}
