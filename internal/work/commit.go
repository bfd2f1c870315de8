package work

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/wire"
)

// finish commits the handlers' writes with the done marks, and returns the events that must run alone
// because the commit failed.
func (b *batch[T]) finish() (again []driver.TakenEvent) {
	ctx, cancel := b.storeContext()
	defer cancel()
	err := b.run.Finish(ctx, &driver.FinishParams{Results: slices.Concat(b.results, b.later), Versions: b.versions()})
	var ended *driver.TxEndedError
	switch {
	case err == nil:
		b.committed()
		return nil
	case errors.As(err, &ended) && ended.Committed:
		// One of the handlers committed, and nothing tells which one. None of the events may take
		// effect again.
		var results []driver.WorkResult
		for i := range b.results {
			results = append(results, driver.WorkResult{Key: b.results[i].Key, Outcome: driver.WorkFailed, Error: wire.ErrorText(err)})
		}
		b.settle(results)
		return nil
	case errors.Is(err, driver.ErrTxEnded), errors.Is(err, driver.ErrTxAborted), errors.Is(err, driver.ErrBadRow),
		errors.Is(err, driver.ErrSerialization) && b.final:
		if len(b.events) > 1 {
			b.abandon(b.workCtx, b.run)
			return b.run.Events()
		}
		b.settle([]driver.WorkResult{b.failure(0, 0, err)})
		return nil
	}
	return b.giveUp(err)
}

// committed wakes the relays of enqueued messages, and tells the observer and the log.
func (b *batch[T]) committed() {
	for _, destination := range b.enqueued {
		b.o.Wake(destination)
	}
	debug := b.log.Enabled(b.ctx, slog.LevelDebug)
	for i := range b.observed {
		o := &b.observed[i]
		b.o.Observe(o)
		if debug {
			b.log.Debug("handled", slog.String("source", o.Event.Source), slog.String("event_id", o.Event.EventID), slog.String("outcome", o.Outcome))
		}
	}
}

// failed ends a run in which the handler of event i failed, and returns the events that must run
// alone.
func (b *batch[T]) failed(i int, took time.Duration, err, verdict error) (again []driver.TakenEvent) {
	var ended *driver.TxEndedError
	switch {
	case errors.As(verdict, &ended) && ended.Committed:
		// The writes of the handlers before it are committed too.
		b.settle(append(b.results, b.failure(i, took, guard.Permanent(verdict))))
		return nil
	case b.workCtx.Err() != nil: // this process stops
		b.abandon(b.workCtx, b.run)
		return nil
	case errors.Is(verdict, driver.ErrSerialization) && !b.final:
		return b.giveUp(verdict)
	case len(b.events) > 1:
		b.abandon(b.workCtx, b.run)
		// The failed event first: once it has an attempt behind it, it is in no batch and spoils
		// none.
		again = slices.Clone(b.run.Events())
		again[0], again[i] = again[i], again[0]
		return again
	}
	if err == nil {
		err = verdict
	}
	// A lost connection and a database that gives up again and again count too: the handler may be
	// the reason. If the database cannot be reached, nothing is counted.
	failure := []driver.WorkResult{b.failure(i, took, err)}
	ctx, cancel := b.storeContext()
	defer cancel()
	if err := b.run.Finish(ctx, &driver.FinishParams{Results: failure}); err != nil {
		b.settle(failure)
	}
	return nil
}

// failure is the result of event i, whose handler failed.
func (b *batch[T]) failure(i int, took time.Duration, err error) driver.WorkResult {
	ev := b.events[i]
	result := judge(&ev.TakenEvent, b.o.Retry, err)
	result.Took = took
	b.tellFailure(ev, &result, err)
	return result
}

// judge decides on a failed attempt.
func judge(taken *driver.TakenEvent, schedule driver.Retry, err error) driver.WorkResult {
	result := driver.WorkResult{Key: taken.Key, Outcome: driver.WorkRetry, Error: wire.ErrorText(err)}
	attempt := taken.Attempts + 1
	after, told := guard.RetryDelay(err)
	switch {
	case guard.IsPermanent(err) || attempt >= schedule.Attempts:
		result.Outcome = driver.WorkFailed
	case told:
		result.RetryIn = after
	default:
		result.RetryIn = schedule.Backoff(attempt, 0)
	}
	return result
}

// giveUp ends a run that failed for another reason than a handler.
func (b *batch[T]) giveUp(err error) (again []driver.TakenEvent) {
	b.abandon(b.workCtx, b.run)
	if errors.Is(err, driver.ErrSerialization) {
		return b.run.Events()
	}
	b.log.Warn("a run failed; its events run again", slog.Int("events", len(b.events)), slog.Any("error", err))
	return nil
}

// settle records results outside the run's transaction.
func (b *batch[T]) settle(results []driver.WorkResult) {
	ctx, cancel := b.storeContext()
	defer cancel()
	err := b.run.Settle(ctx, &driver.FinishParams{Results: results})
	switch {
	case errors.Is(err, driver.ErrNotFound):
		b.log.Warn("the outcome of a run came too late: the sweep had counted it as interrupted")
	case err != nil:
		b.log.Warn("recording the outcome of a run failed; the sweep will find its events", slog.Any("error", err))
	}
}
