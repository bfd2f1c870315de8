package work

import (
	"context"
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
	switch {
	case err == nil:
		b.committed()
		return nil
	case isCommitted(err):
		b.ended(unknown, 0, err)
		return nil
	case errors.Is(err, driver.ErrTxEnded), errors.Is(err, driver.ErrTxAborted), errors.Is(err, driver.ErrBadRow),
		errors.Is(err, driver.ErrSerialization) && b.final:
		if len(b.events) == 1 {
			b.recordFailure(0, 0, err)
			return nil
		}
		if b.giveBack(unknown) {
			return b.run.Events()
		}
		return nil
	}
	return b.giveUp(err)
}

// committed wakes the relays of enqueued messages, and tells the observer and the log.
func (b *batch[T]) committed() {
	b.troubles.recorded(b.run.Events())
	for _, destination := range b.enqueued {
		b.o.Wake(destination)
	}
	debug := b.log.Enabled(b.ctx, slog.LevelDebug)
	for i := range b.observed {
		o := &b.observed[i]
		b.report(o)
		if debug {
			b.log.Debug("handled", slog.String("source", o.Event.Source), slog.String("event_id", o.Event.EventID), slog.String("outcome", o.Outcome))
		}
	}
}

// failed ends a run after the handler of event i failed, and returns the events that must run alone.
func (b *batch[T]) failed(i int, took time.Duration, err, verdict error) (again []driver.TakenEvent) {
	switch {
	case isCommitted(verdict):
		b.ended(i, took, verdict)
		return nil
	case b.workCtx.Err() != nil: // this process stops
		b.giveBack(i)
		return nil
	case len(b.events) > 1 || errors.Is(verdict, driver.ErrSerialization) && !b.final:
		if !b.giveBack(i) {
			return nil
		}
		// The failed event first: once it has an attempt behind it, it is in no batch and spoils
		// none.
		again = slices.Clone(b.run.Events())
		if !errors.Is(verdict, driver.ErrSerialization) {
			again[0], again[i] = again[i], again[0]
		}
		return again
	}
	if err == nil {
		err = verdict
	}
	// A lost connection and a database that gives up again and again count too: the handler may be
	// the reason. If the database cannot be reached, nothing is counted.
	b.recordFailure(i, took, err)
	return nil
}

// recordFailure records that the handler of event i failed, in a run of this event alone.
func (b *batch[T]) recordFailure(i int, took time.Duration, err error) {
	ev := b.events[i]
	result := judge(&ev.TakenEvent, b.o.Retry, err)
	result.Took = took
	p := &driver.FinishParams{Results: []driver.WorkResult{result}}
	ctx, cancel := b.storeContext()
	defer cancel()
	if b.run.Finish(ctx, p) != nil && isCommitted(b.settle(p)) {
		b.ended(i, took, &driver.TxEndedError{Committed: true})
		return
	}
	b.tellFailure(ev, &result, err)
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
	switch {
	case isRefusal(err):
		b.refused(err)
	case !b.giveBack(unknown):
	case errors.Is(err, driver.ErrSerialization):
		return b.run.Events()
	default:
		about(b.log, b.run.Events()).Warn("a run failed; its events run again", slog.Any("error", err))
	}
	return nil
}

// refused ends a run that the database refused, and lets its source rest, unless its only event is the reason.
func (b *batch[T]) refused(err error) {
	events := b.run.Events()
	rest, isFault := b.troubles.refuse(events)
	switch {
	case isFault:
		b.recordFailure(0, 0, err)
	case len(events) == 1 && b.postpone(rest), b.giveBack(unknown):
		about(b.log, events).Warn("a run failed; its events run again", slog.Any("error", err), slog.Duration("rest", rest))
	}
}

// postpone lets the only event of a run be due later, so that the others have their turn. It reports whether that could be
// recorded.
func (b *batch[T]) postpone(d time.Duration) bool {
	ctx, cancel := b.storeContext()
	defer cancel()
	return b.run.Settle(ctx, &driver.FinishParams{Results: []driver.WorkResult{{Key: b.events[0].Key, Outcome: driver.WorkPostponed, RetryIn: d}}}) == nil
}

// giveBack abandons the run. If a handler had committed it, giveBack settles it and reports false.
// i is the event whose handler ran last, or unknown.
func (b *batch[T]) giveBack(i int) bool {
	if b.abandon(b.workCtx, b.run) {
		return true
	}
	b.ended(i, 0, &driver.TxEndedError{Committed: true})
	return false
}

// unknown stands for the event whose handler committed, if that was not noticed right after it.
const unknown = -1

// isCommitted reports whether err says that a handler committed the transaction by itself.
func isCommitted(err error) bool {
	var ended *driver.TxEndedError
	return errors.As(err, &ended) && ended.Committed
}

// ended settles a run that the handler of event i committed by itself, so that its event is dead.
// The handlers before it had succeeded, and their writes are committed with it: their events are
// done. The events after it are given back. If it is unknown which handler committed, all events
// whose handlers ran are dead, since each may have taken effect or not.
func (b *batch[T]) ended(i int, took time.Duration, err error) {
	p := &driver.FinishParams{Results: slices.Concat(b.results, b.later)}
	culprits := b.events[:0:0]
	if i == unknown {
		for j := range p.Results {
			r := &p.Results[j]
			if r.Outcome == driver.WorkSucceeded {
				r.Outcome, r.Error = driver.WorkEnded, wire.ErrorText(err)
				culprits = append(culprits, b.events[slices.IndexFunc(b.events, func(ev *Event) bool { return ev.Key == r.Key })])
			}
		}
		b.observed = nil
	} else {
		culprits = append(culprits, b.events[i])
		p.Results = append(p.Results, driver.WorkResult{
			Key: b.events[i].Key, Outcome: driver.WorkEnded, Error: wire.ErrorText(err), Took: took,
		})
		p.Versions = b.versions()
	}
	if settleErr := b.settle(p); settleErr != nil {
		if errors.Is(settleErr, driver.ErrTxEnded) { // it was rolled back after all
			b.abandon(b.workCtx, b.run)
		}
		return
	}
	b.committed()
	for _, ev := range culprits {
		b.tell(slog.LevelError, "the handler ended its transaction: dead", &Observed{
			Event: ev, Outcome: dead, Attempt: ev.Attempts + 1, Took: took, Err: err,
		})
	}
}

// settleTries is how often a run is settled that a handler committed, while the database does not
// answer. Only this process knows which handler it was.
const settleTries = 5

// settle records results outside the run's transaction. It logs an error unless that says that the
// results do not fit the end of the transaction.
func (b *batch[T]) settle(p *driver.FinishParams) error {
	tries := 1
	if slices.ContainsFunc(p.Results, func(r driver.WorkResult) bool { return r.Outcome == driver.WorkEnded }) {
		tries = settleTries
	}
	for try := 1; ; try++ {
		ctx, cancel := b.storeContext()
		err := b.run.Settle(ctx, p)
		cancel()
		switch {
		case err == nil, errors.Is(err, driver.ErrTxEnded):
			return err
		case errors.Is(err, driver.ErrNotFound):
			about(b.log, b.run.Events()).Warn("the outcome of a run came too late: the sweep had counted it as interrupted")
			return err
		case try == tries:
			about(b.log, b.run.Events()).Warn("recording the outcome of a run failed; the sweep will find its events", slog.Any("error", err))
			return err
		}
		pause(context.Background(), time.Second)
	}
}
