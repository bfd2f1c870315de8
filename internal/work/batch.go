package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/stale"
)

// returnGrace is how long a handler may take to return after its context has ended. For a shorter
// HandlerTimeout it is that timeout.
const returnGrace = 5 * time.Second

// batch is one run while its handlers work.
type batch[T any] struct {
	*Workers[T]
	ctx     context.Context // when it ends, no further handler begins
	workCtx context.Context // when it ends, the handlers in progress end
	run     driver.Run[T]
	grace   time.Duration // for a handler to return after its context has ended
	final   bool          // when the database gives up, the attempt has failed
	events  []*Event
	objects []*driver.ObjectVersion // of events; nil where no stale rule matches
	busy    []driver.Key            // those of the objects that other runs hold

	applied  map[driver.Key]driver.ObjectVersion // known versions, with those that this run applies
	changed  map[driver.Key]bool                 // the keys of applied that this run changed
	results  []driver.WorkResult
	later    []driver.WorkResult    // of events whose objects are busy
	recorded int                    // how many results Next has seen
	applying []driver.ObjectVersion // the versions that Next has not seen
	observed []Observed
	enqueued []string // destinations of messages that this run commits

	ran   int           // handlers
	spent time.Duration // by handlers alone: a slow commit is a reason for larger batches, not smaller ones
	bytes int64         // of the events of these handlers, inflated
}

// newBatch returns a batch without events.
func (w *Workers[T]) newBatch(ctx, workCtx context.Context, run driver.Run[T], grace time.Duration) *batch[T] {
	return &batch[T]{Workers: w, ctx: ctx, workCtx: workCtx, run: run, grace: grace, changed: make(map[driver.Key]bool)}
}

// work runs the handlers of a run's events and ends the run. It returns the events that must run
// alone: those of a batch with a failed event, or the only event if the database gave up in favour
// of another transaction, unless final. more says that it gave events back that are due.
func (w *Workers[T]) work(ctx, workCtx context.Context, run driver.Run[T], ready *prepared, final bool) (again []driver.TakenEvent, more bool) {
	ended := false
	defer w.abandonUnless(workCtx, run, &ended)
	again, more = w.workBatch(ctx, workCtx, run, ready, final)
	ended = true
	return again, more
}

// workBatch is work without its care for callbacks that end the goroutine.
func (w *Workers[T]) workBatch(ctx, workCtx context.Context, run driver.Run[T], ready *prepared, final bool) (again []driver.TakenEvent, more bool) {
	b := w.newBatch(ctx, workCtx, run, min(w.o.HandlerTimeout, returnGrace))
	b.final = final
	taken := run.Events()
	var bytes int64
	for i := range taken {
		ev := w.newEvent(&taken[i])
		// A store bounds the stored bytes; a compressed body grows. The rest is given back.
		if bytes += int64(len(ev.Body)); i > 0 && bytes > driver.MaxTakeBytes {
			more = true
			break
		}
		ev.Current = ready.current[ev.Key]
		b.add(ev)
	}
	if err := b.lockVersions(b.ctx); err != nil {
		return b.giveUp(err), false
	}
	defer func() {
		w.sizes.note(taken[0].Source, b.ran, b.spent, b.bytes)
		for _, ev := range b.events {
			ev.endSpan()
		}
	}()
	began := time.Now()
	for i := range b.events {
		if i > 0 && time.Since(began) > w.limits.BatchTime || ctx.Err() != nil {
			more = true // the rest is given back
			break
		}
		if again, failed := b.one(i); failed {
			return again, true
		}
	}
	return b.finish(), more
}

// add adds an event, with the version of its object.
func (b *batch[T]) add(ev *Event) {
	b.events = append(b.events, ev)
	b.objects = append(b.objects, nil)
	src := b.o.Source(ev.Source)
	if src == nil || ev.Unreadable != nil || src.Order != nil && src.Ordered(ev.Type) {
		return
	}
	object, ok := src.Stale.ObjectOf("", &stale.Event{ID: ev.EventID, Type: ev.Type, Header: ev.Header, Body: ev.Body})
	if ok {
		b.objects[len(b.objects)-1] = &object
	}
}

// lockVersions reads and locks the known versions of the objects of all events, apart from those that
// other runs hold.
func (b *batch[T]) lockVersions(ctx context.Context) error {
	var objects []driver.Key
	for _, o := range b.objects {
		if o != nil && !slices.Contains(objects, o.Object) {
			objects = append(objects, o.Object)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var err error
	b.applied, b.busy, err = b.run.Versions(ctx, objects)
	return err
}

func (b *batch[T]) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(b.ctx), storeTimeout)
}

// one runs the handler of event i. If the run cannot go on, it ends the run and returns the events
// that must run alone, and true.
func (b *batch[T]) one(i int) (again []driver.TakenEvent, failed bool) {
	ev := b.events[i]
	if b.isBusy(i) {
		return nil, false
	}
	if b.skipStale(i) {
		return nil, false
	}
	if !b.Handles(ev.Source, ev.Type) {
		return nil, false // it is given back
	}
	if err := b.next(ev); err != nil {
		return b.giveUp(err), true
	}
	began := time.Now()
	err, hung := b.call(ev)
	took := time.Since(began)
	b.ran, b.spent, b.bytes = b.ran+1, b.spent+took, b.bytes+int64(len(ev.Body))
	if hung {
		b.run.Sever()
		return b.failed(i, took, err, nil), true
	}
	ctx, cancel := b.storeContext()
	defer cancel()
	if verdict := b.run.Check(ctx, err); err != nil || verdict != nil {
		return b.failed(i, took, err, verdict), true
	}
	b.succeed(i, took)
	return nil, false
}

// next tells the store that the handler of ev is about to begin.
func (b *batch[T]) next(ev *Event) error {
	ctx, cancel := b.storeContext()
	defer cancel()
	err := b.run.Next(ctx, ev.Key, &driver.FinishParams{Results: b.results[b.recorded:], Versions: b.applying})
	b.recorded, b.applying = len(b.results), nil
	return err
}

// skipStale skips event i if a newer version of its object was applied. An event that an operator
// replayed is never stale.
func (b *batch[T]) skipStale(i int) bool {
	ev, object := b.events[i], b.objects[i]
	if object == nil || ev.Replayed {
		return false
	}
	known, ok := b.applied[object.Object]
	if !ok || stale.Compare(object, &known) >= 0 {
		return false
	}
	b.results = append(b.results, driver.WorkResult{Key: ev.Key, Outcome: driver.WorkStale, Error: stale.Reason(object, &known)})
	b.observe(ev, skipped, 0)
	return true
}

// succeed notes that the handler of event i succeeded and that its version is applied.
func (b *batch[T]) succeed(i int, took time.Duration) {
	ev, object := b.events[i], b.objects[i]
	b.results = append(b.results, driver.WorkResult{Key: ev.Key, Outcome: driver.WorkSucceeded, Took: took})
	b.observe(ev, done, took)
	if object == nil {
		return
	}
	if known, ok := b.applied[object.Object]; ok && stale.Compare(object, &known) <= 0 {
		return
	}
	if b.applied == nil {
		b.applied = make(map[driver.Key]driver.ObjectVersion)
	}
	b.applied[object.Object], b.changed[object.Object] = *object, true
	b.applying = append(b.applying, *object)
}

// versions returns the versions that this run applies.
func (b *batch[T]) versions() []driver.ObjectVersion {
	var changed []driver.ObjectVersion
	for object := range b.changed {
		changed = append(changed, b.applied[object])
	}
	return changed
}

// call runs the handler of ev and waits until it has returned or used up its time. hung says that
// it did not return.
func (b *batch[T]) call(ev *Event) (err error, hung bool) { //nolint:revive // both say how it ended
	if ev.Unreadable != nil {
		return unreadable(ev), false
	}
	timeout := b.o.HandlerTimeout
	ctx, cancel := context.WithTimeout(b.workCtx, timeout)
	defer cancel()
	if deadline, ok := b.workCtx.Deadline(); ok { // Inline: at most until the answer
		timeout = min(timeout, time.Until(deadline).Round(time.Millisecond)) // for the error text alone
	}
	if b.o.Trace != nil {
		ctx, ev.span = b.o.Trace(ctx, ev)
	}
	defer func() { ev.returned, ev.err = time.Now(), err }()
	c := b.handlers.Start(ctx, b.run.Tx(), ev)
	select {
	case err = <-c.Done:
	case <-ctx.Done():
		grace := time.NewTimer(b.grace)
		defer grace.Stop()
		select {
		case err = <-c.Done:
		case <-grace.C:
			return fmt.Errorf("the handler did not return after its timeout of %s: its transaction was cut off", timeout), true
		}
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("the handler used up its timeout of %s: %w", timeout, err)
	}
	b.enqueued = append(b.enqueued, c.Enqueued()...)
	return err, false
}

func unreadable(ev *Event) error {
	return fmt.Errorf("the handler did not run: the database cannot read the event: %w", ev.Unreadable)
}

// observe notes an outcome, which the observer hears of after the commit.
func (b *batch[T]) observe(ev *Event, outcome string, took time.Duration) {
	b.observed = append(b.observed, Observed{Event: ev, Outcome: outcome, Attempt: ev.Attempts + 1, Took: took})
}

// tellFailure tells the log and the observer about a failed attempt.
func (w *Workers[T]) tellFailure(ev *Event, result *driver.WorkResult, err error) {
	o := &Observed{Event: ev, Outcome: retry, Attempt: ev.Attempts + 1, Took: result.Took, Err: err}
	if result.Outcome == driver.WorkFailed {
		o.Outcome = dead
		w.tell(slog.LevelError, "the handler failed: dead", o)
		return
	}
	w.tell(slog.LevelInfo, "the handler failed; retrying", o, slog.String("retry_in", result.RetryIn.Round(time.Millisecond).String()))
}

// report ends the span of an attempt, and tells the observer.
func (w *Workers[T]) report(o *Observed) {
	if ev := o.Event; ev.span != nil {
		o.Span, ev.span = ev.span, nil
		o.Span.End(ev.returned, o)
	}
	w.o.Observe(o)
}

// endSpan ends the span of a run without an outcome.
func (ev *Event) endSpan() {
	if ev.span != nil {
		ev.span.End(ev.returned, &Observed{Event: ev, Outcome: undone, Attempt: ev.Attempts + 1, Err: ev.err})
		ev.span = nil
	}
}

// tell tells the log and the observer about an attempt.
func (w *Workers[T]) tell(level slog.Level, msg string, o *Observed, more ...any) {
	w.log.With(more...).Log(context.Background(), level, msg, slog.String("source", o.Event.Source), slog.String("event_id", o.Event.EventID),
		slog.Int("attempt", o.Attempt), slog.Any("error", guard.Loggable(o.Err)))
	w.report(o)
}
