package hookonce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// handling is one run, while its handlers work.
type handling[T any] struct {
	*works[T]
	ctx     context.Context // ends when no further handler shall begin
	workCtx context.Context // ends when those that have begun shall end
	run     driver.Run[T]
	grace   time.Duration // for a handler to return once its context has ended
	final   bool          // that the database gives up is a failed attempt by now
	taken   []driver.TakenEvent
	events  []*Event                // what the handlers are given, in the order of taken
	objects []*driver.ObjectVersion // what they are about; nil where no rule watches for it

	applied  map[driver.Key]driver.ObjectVersion // what is known, and what this run applies
	changed  map[driver.Key]bool                 // of applied: by this run
	results  []driver.WorkResult
	observed []AttemptObserved
	messages []*Message // enqueued

	ran   int           // handlers
	spent time.Duration // by them alone: what a commit takes speaks for larger batches, not for smaller ones
}

// work runs the handlers of a run's events and ends the run. It returns the events
// that have to be run alone: those of a batch in which one failed, or the only one
// where the database gave up in favour of another transaction, unless it is final.
// more says that events were given back that could be taken at once.
func (w *works[T]) work(ctx, workCtx context.Context, run driver.Run[T], current map[driver.Key][]byte, final bool) (again []driver.TakenEvent, more bool) {
	h := &handling[T]{
		works: w, ctx: ctx, workCtx: workCtx, run: run, taken: run.Events(), final: final,
		grace: min(w.in.cfg.HandlerTimeout, returnGrace), changed: make(map[driver.Key]bool),
	}
	for i := range h.taken {
		ev := eventOf(&h.taken[i], w.log)
		ev.Current = current[ev.key]
		h.add(ev)
	}
	if err := h.lockVersions(h.ctx); err != nil {
		return h.giveUp(err), false
	}
	defer func() { w.pace.note(h.taken[0].Source, h.ran, h.spent) }()
	began := time.Now()
	for i := range h.taken {
		if i > 0 && time.Since(began) > w.limits.BatchTime || ctx.Err() != nil {
			more = true // the others are released
			break
		}
		if again, failed := h.one(i); failed {
			return again, true
		}
	}
	return h.finish(), more
}

// add adds an event, and the version of the object that it is about.
func (h *handling[T]) add(ev *Event) {
	h.events = append(h.events, ev)
	h.objects = append(h.objects, nil)
	src := h.in.setup.Load().sources[ev.Source]
	if src == nil {
		return
	}
	if object, ok := src.stale.objectOf("", ev); ok {
		h.objects[len(h.objects)-1] = &object
	}
}

// eventOf returns what a handler is given.
func eventOf(taken *driver.TakenEvent, log *slog.Logger) *Event {
	header, err := parseHeader(taken.Headers)
	body := taken.Body
	if err == nil {
		body, err = inflateStored(header, body)
	}
	if err != nil {
		body = taken.Body
		log.Error("a stored event cannot be read as it was received",
			slog.String("source", taken.Source), slog.String("event_id", taken.EventID), slog.Any("error", err))
	}
	return &Event{
		Source: taken.Source, ID: taken.EventID, Type: taken.Type, OccurredAt: taken.OccurredAt,
		Header: header, Body: body, ReceivedAt: taken.ReceivedAt,
		Generation: taken.Generation, Attempt: taken.Attempts + 1, key: taken.Key, keyGeneration: taken.KeyGeneration,
	}
}

// lockVersions locks what is known of the objects of all events.
func (h *handling[T]) lockVersions(ctx context.Context) error {
	var objects []driver.Key
	for _, o := range h.objects {
		if o != nil && !slices.Contains(objects, o.Object) {
			objects = append(objects, o.Object)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	var err error
	h.applied, err = h.run.Versions(ctx, objects)
	return err
}

func (h *handling[T]) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(h.ctx), workTimeout)
}

// one runs the handler of event i. Where the run cannot go on, it ends it, reports
// that it failed, and returns what has to be run alone.
func (h *handling[T]) one(i int) (again []driver.TakenEvent, failed bool) {
	taken, ev := &h.taken[i], h.events[i]
	if reason := h.staleReason(i); reason != "" {
		h.results = append(h.results, driver.WorkResult{Key: taken.Key, Outcome: driver.WorkStale, Error: reason})
		h.observe(ev, attemptSkipped, 0)
		return nil, false
	}
	handler := h.mux.handler(ev.Source, ev.Type)
	if handler == nil {
		return nil, false // it is released
	}
	began := time.Now()
	err, hung := h.call(handler, ev)
	took := time.Since(began)
	h.ran, h.spent = h.ran+1, h.spent+took
	if hung {
		h.run.Sever()
		return h.failed(i, took, err, nil), true
	}
	ctx, cancel := h.storeContext()
	defer cancel()
	if verdict := h.run.Check(ctx, err); err != nil || verdict != nil {
		return h.failed(i, took, err, verdict), true
	}
	h.results = append(h.results, driver.WorkResult{Key: taken.Key, Outcome: driver.WorkSucceeded, Took: took})
	h.observe(ev, attemptDone, took)
	h.apply(i)
	return nil, false
}

// staleReason says why event i is not applied; "" if it is. What an operator
// replayed is applied in any case.
func (h *handling[T]) staleReason(i int) string {
	object := h.objects[i]
	if object == nil || h.taken[i].Replayed {
		return ""
	}
	known, ok := h.applied[object.Object]
	if !ok || bytes.Compare(object.Version, known.Version) >= 0 {
		return ""
	}
	return staleReason(object.Shown, known.Shown)
}

// apply notes that event i was applied.
func (h *handling[T]) apply(i int) {
	object := h.objects[i]
	if object == nil {
		return
	}
	if known, ok := h.applied[object.Object]; ok && bytes.Compare(object.Version, known.Version) <= 0 {
		return
	}
	if h.applied == nil {
		h.applied = make(map[driver.Key]driver.ObjectVersion)
	}
	h.applied[object.Object], h.changed[object.Object] = *object, true
}

// versions are what this run applied.
func (h *handling[T]) versions() []driver.ObjectVersion {
	var changed []driver.ObjectVersion
	for object := range h.changed {
		changed = append(changed, h.applied[object])
	}
	return changed
}

// call calls a handler, and waits until it has returned or has had its time.
func (h *handling[T]) call(handler HandlerFunc[T], ev *Event) (err error, hung bool) { //nolint:revive // both say how it ended
	timeout := h.in.cfg.HandlerTimeout
	if deadline, ok := h.workCtx.Deadline(); ok { // Inline: what the sender leaves
		timeout = min(timeout, time.Until(deadline).Round(time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(h.workCtx, timeout)
	defer cancel()
	c := startCall(ctx, handler, h.run.Tx(), ev)
	select {
	case err = <-c.done:
	case <-ctx.Done():
		grace := time.NewTimer(h.grace)
		defer grace.Stop()
		select {
		case err = <-c.done:
		case <-grace.C:
			return fmt.Errorf("the handler did not return, although its time of %s was over: its transaction was cut off", timeout), true
		}
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("the handler had its time of %s: %w", timeout, err)
	}
	h.messages = append(h.messages, c.running.messages...)
	return err, false
}

// failed ends a run in which the handler of event i failed, and returns what has to
// be run alone.
func (h *handling[T]) failed(i int, took time.Duration, err, verdict error) (again []driver.TakenEvent) {
	var ended *driver.TxEndedError
	switch {
	case errors.As(verdict, &ended) && ended.Committed:
		// What the handlers before it wrote is committed too.
		h.settle(append(h.results, h.failure(i, took, Permanent(verdict))))
		return nil
	case h.workCtx.Err() != nil: // our own stop
		h.abandon(h.workCtx, h.run)
		return nil
	case errors.Is(verdict, driver.ErrSerialization) && !h.final:
		return h.giveUp(verdict)
	case len(h.events) > 1:
		h.abandon(h.workCtx, h.run)
		// First the one that failed: with an attempt behind it, it spoils nobody
		// else's batch.
		again = slices.Clone(h.taken)
		again[0], again[i] = again[i], again[0]
		return again
	}
	if err == nil {
		err = verdict
	}
	// Also where the connection was lost, or the database gave up again and again:
	// it may be the handler that brings it about. Where the database cannot be
	// reached, nothing is counted.
	failure := []driver.WorkResult{h.failure(i, took, err)}
	ctx, cancel := h.storeContext()
	defer cancel()
	if err := h.run.Finish(ctx, &driver.FinishParams{Results: failure}); err != nil {
		h.settle(failure)
	}
	return nil
}

// failure is the result of event i, whose handler failed.
func (h *handling[T]) failure(i int, took time.Duration, err error) driver.WorkResult {
	result := judge(&h.taken[i], h.in.cfg.Retry, err)
	result.Took = took
	h.in.tellFailure(h.events[i], &result, err)
	return result
}

// judge decides on a failed attempt.
func judge(taken *driver.TakenEvent, schedule Retry, err error) driver.WorkResult {
	result := driver.WorkResult{Key: taken.Key, Outcome: driver.WorkRetry, Error: errorText(err)}
	attempt := taken.Attempts + 1
	after, told := retryAfterOf(err)
	switch {
	case isPermanent(err) || attempt >= schedule.Attempts:
		result.Outcome = driver.WorkFailed
	case told:
		result.RetryIn = after
	default:
		result.RetryIn = schedule.backoff(attempt, 0)
	}
	return result
}

// finish commits what the handlers did.
func (h *handling[T]) finish() (again []driver.TakenEvent) {
	ctx, cancel := h.storeContext()
	defer cancel()
	err := h.run.Finish(ctx, &driver.FinishParams{Results: h.results, Versions: h.versions()})
	var ended *driver.TxEndedError
	switch {
	case err == nil:
		h.committed()
		return nil
	case errors.As(err, &ended) && ended.Committed:
		// Found only now, so nobody knows whose handler it was. None of them may
		// take effect again.
		var results []driver.WorkResult
		for i := range h.results {
			results = append(results, driver.WorkResult{Key: h.results[i].Key, Outcome: driver.WorkFailed, Error: errorText(err)})
		}
		h.settle(results)
		return nil
	case errors.Is(err, driver.ErrTxEnded), errors.Is(err, driver.ErrTxAborted), errors.Is(err, driver.ErrBadRow),
		errors.Is(err, driver.ErrSerialization) && h.final:
		if len(h.events) > 1 {
			h.abandon(h.workCtx, h.run)
			return h.taken
		}
		h.settle([]driver.WorkResult{h.failure(0, 0, err)})
		return nil
	}
	return h.giveUp(err)
}

// giveUp ends a run for which something else than a handler is to blame.
func (h *handling[T]) giveUp(err error) (again []driver.TakenEvent) {
	h.abandon(h.workCtx, h.run)
	if errors.Is(err, driver.ErrSerialization) {
		return h.taken
	}
	h.log.Warn("a run was given up; its events are looked at again", slog.Int("events", len(h.events)), slog.Any("error", err))
	return nil
}

// settle records results beside the run's transaction.
func (h *handling[T]) settle(results []driver.WorkResult) {
	ctx, cancel := h.storeContext()
	defer cancel()
	err := h.run.Settle(ctx, &driver.FinishParams{Results: results})
	switch {
	case errors.Is(err, driver.ErrNotFound):
		h.log.Warn("the outcome of a run came too late: it had been taken for interrupted")
	case err != nil:
		h.log.Warn("the outcome of a run was not recorded; its events are found by the sweep", slog.Any("error", err))
	}
}

// committed tells of what was done, and wakes who has to send.
func (h *handling[T]) committed() {
	relays := h.in.setup.Load().relays
	for _, m := range h.messages {
		if r := relays[m.Destination]; r != nil {
			r.wake()
		}
	}
	for i := range h.observed {
		h.in.observeAttempt(&h.observed[i])
	}
	if h.log.Enabled(h.ctx, slog.LevelDebug) {
		for i := range h.results {
			h.log.Debug("worked on", slog.String("source", h.observed[i].Source), slog.String("event_id", h.observed[i].EventID),
				slog.String("outcome", h.observed[i].Outcome))
		}
	}
}

// observe tells the Observer of an event, if the run is committed.
func (h *handling[T]) observe(ev *Event, outcome string, took time.Duration) {
	h.observed = append(h.observed, AttemptObserved{
		Kind: attemptHandler, Source: ev.Source, EventID: ev.ID, Type: ev.Type, Outcome: outcome, Attempt: ev.Attempt, Took: took,
	})
}

// tellFailure tells the log and the Observer of a failed attempt.
func (in *Engine) tellFailure(ev *Event, result *driver.WorkResult, err error) {
	if result.Outcome == driver.WorkFailed {
		in.tellAttempt(slog.LevelError, "the handler failed, dead", ev, attemptDead, result.Took, err)
		return
	}
	in.tellAttempt(slog.LevelInfo, "the handler failed, will be tried again", ev, attemptRetry, result.Took, err,
		slog.String("retry_in", result.RetryIn.String()))
}

func (in *Engine) tellAttempt(level slog.Level, msg string, ev *Event, outcome string, took time.Duration, err error, more ...any) {
	in.log.With(more...).Log(context.Background(), level, msg, slog.String("source", ev.Source), slog.String("event_id", ev.ID),
		slog.Int("attempt", ev.Attempt), slog.Any("error", loggable(err)))
	in.observeAttempt(&AttemptObserved{
		Kind: attemptHandler, Source: ev.Source, EventID: ev.ID, Type: ev.Type, Outcome: outcome, Attempt: ev.Attempt, Took: took, Err: err,
	})
}

// maxErrorText bounds what is stored of a handler's error.
const maxErrorText = 4 << 10

// errorText returns the text of err as a store takes it.
func errorText(err error) string {
	text := err.Error()
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}
