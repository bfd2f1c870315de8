package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/wire"
)

// inlineMargin is the part of the answer's time that an Inline handler does not get: for the commit,
// or for counting the failure.
const inlineMargin = 200 * time.Millisecond

// busyPoll is the longest pause between two looks at a busy object.
const busyPoll = 20 * time.Millisecond

// InlineResult is the outcome of one event of an Inline source.
type InlineResult struct {
	driver.ClaimResult
	Err error // the claim was not made
	// Failure is the error of the handler. Then the claim is undone with the handler's writes: if
	// Dead, the event is a dead letter; otherwise the sender must deliver it again.
	Failure error
}

// errEnded is the result of a claim whose goroutine ended before it had one.
var errEnded = errors.New("the goroutine of the claim was ended by a callback, such as an Observer: it must return")

func unclaimed(err error) InlineResult { return InlineResult{Err: err} }

// Inline claims an event and runs its handler, in one transaction. ctx ends at the deadline of the
// answer; the work goes on after that. Copies of an event in progress wait for it and get its
// outcome.
func (w *Workers[T]) Inline(ctx context.Context, src *Source, claim *driver.Claim) InlineResult {
	fl, first := w.flights.join(claim.Key, !src.Reopen)
	if fl == nil {
		return unclaimed(errDraining)
	}
	if first {
		go func() {
			defer w.flights.land(claim.Key, fl)
			fl.result = unclaimed(errEnded) // unless fly returns
			defer func() {
				if v := recover(); v != nil {
					fl.result = unclaimed(guard.Recovered(v))
				}
			}()
			fl.result = w.fly(ctx, src, claim)
		}()
	}
	select {
	case <-fl.landed:
	case <-ctx.Done():
		return unclaimed(fmt.Errorf("its handler is still running: %w", ctx.Err()))
	}
	result := fl.result
	if !first && result.Err == nil && result.Failure == nil {
		if src.Reopen && fl.keepsDead && result.Dead {
			return w.Inline(ctx, src, claim) // this one reopens it
		}
		result.Claimed, result.Duplicate = false, true
	}
	return result
}

// Drain blocks until the Inline handlers in progress have ended. No other one begins once it was
// called: Inline then returns an error.
func (w *Workers[T]) Drain() { w.flights.drain() }

// fly claims an event and runs its handler, in one transaction.
func (w *Workers[T]) fly(ctx context.Context, src *Source, claim *driver.Claim) InlineResult {
	deadline, _ := ctx.Deadline()
	patient, stop := context.WithTimeout(ctx, w.seats.patience(src.Name, time.Until(deadline)))
	seat, err := w.board(patient, src.Name)
	stop()
	if err != nil {
		return unclaimed(err)
	}
	defer w.leave(seat)
	began := time.Now()
	result := w.flySeated(ctx, src, claim)
	if late := time.Until(deadline) <= inlineMargin; late || result.Claimed || result.Failure != nil {
		w.seats.note(src.Name, time.Since(began), late) // a duplicate says nothing about the handler
	}
	return result
}

// flySeated is fly for a delivery that has a worker.
func (w *Workers[T]) flySeated(ctx context.Context, src *Source, claim *driver.Claim) InlineResult {
	c := *claim
	c.Work = driver.WorkDone
	for try := 1; ; try++ {
		result := w.tryInline(ctx, src, &c)
		if !errors.Is(result.Err, driver.ErrSerialization) || try == maxGivenUp {
			return result
		}
		pause(ctx, time.Duration(try)*20*time.Millisecond)
	}
}

// board waits for a worker and for room in the budget. It returns an error once Drain was called,
// also if there is room. The caller leaves.
func (w *Workers[T]) board(ctx context.Context, source string) (*seat, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(w.flights.open, stop)()
	seat := w.seats.wait(source)
	select {
	case <-seat.taken:
	case <-waiting.Done():
		w.seats.leave(seat)
		return nil, w.flights.missed(ctx, "all workers for Inline handlers are busy")
	}
	if !w.budget.acquire(waiting, true) {
		w.seats.leave(seat)
		return nil, w.flights.missed(ctx, "other handlers use all connections for work")
	}
	if w.flights.open.Err() != nil {
		w.leave(seat)
		return nil, errDraining
	}
	return seat, nil
}

func (w *Workers[T]) leave(s *seat) {
	w.budget.release(true)
	w.seats.leave(s)
}

// inlineTimeout is the time until the answer's deadline, less inlineMargin.
func inlineTimeout(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline)-inlineMargin, time.Millisecond)
}

// unknownAttempts makes Event.Attempt 0 for Refetch of an Inline source: its failures are counted in
// the database, which is asked only by the claim.
const unknownAttempts = -1

func (w *Workers[T]) tryInline(ctx context.Context, src *Source, c *driver.Claim) InlineResult {
	ev := w.newEvent(&driver.TakenEvent{
		Key: c.Key, Source: c.Source, EventID: c.EventID, Type: c.Type, OccurredAt: c.OccurredAt,
		ReceivedAt: time.Now(), Headers: c.Headers, Body: c.Body, Attempts: unknownAttempts,
	})
	var fetchErr error
	if src.Refetch != nil {
		// Before the claim, so that no transaction is open meanwhile; wasted for duplicates.
		fetchCtx, cancel := context.WithTimeout(ctx, inlineTimeout(ctx))
		ev.Current, fetchErr = refetch(fetchCtx, src, ev)
		cancel()
	}
	run, claimed, err := w.db.TakeClaim(ctx, &driver.ClaimParams{
		Claims: []driver.Claim{*c}, LockTimeout: inlineTimeout(ctx), Reopen: src.Reopen, AllowUnsafe: w.o.AllowUnsafe,
	})
	if err != nil {
		return unclaimed(err)
	}
	if run == nil {
		return w.inlineDuplicate(ctx, src, c, claimed)
	}
	taken := &run.Events()[0]
	ev.Generation, ev.KeyGeneration, ev.ReceivedAt = taken.Generation, taken.KeyGeneration, taken.ReceivedAt
	ev.Attempts = taken.Attempts
	ended := false
	defer w.abandonUnless(ctx, run, &ended)
	defer ev.endSpan()
	f := &inlineRun[T]{w, run, src, c, ev}
	var result InlineResult
	if fetchErr != nil {
		result = f.fail(ctx, 0, fetchErr)
	} else {
		result = f.handle(ctx, InlineResult{ClaimResult: claimed})
	}
	ended = true
	return result
}

// inlineDuplicate is the outcome of a duplicate. A dead event that had no handler when it was
// claimed is reopened here: only its messages are open again.
func (w *Workers[T]) inlineDuplicate(ctx context.Context, src *Source, c *driver.Claim, claimed driver.ClaimResult) InlineResult {
	result := InlineResult{ClaimResult: claimed}
	if !result.Dead || !src.Reopen {
		return result
	}
	result.Reopened, result.Err = driver.ReopenOne(ctx, w.db, c.Key)
	if result.Reopened {
		w.o.Reopened()
	}
	return result
}

// inlineRun is one claimed event in the transaction of its claim.
type inlineRun[T any] struct {
	*Workers[T]
	run   driver.Run[T]
	src   *Source
	claim *driver.Claim
	ev    *Event
}

// handle runs the handler in the transaction of the claim, and commits. claimed is the result of a
// commit.
func (f *inlineRun[T]) handle(ctx context.Context, claimed InlineResult) InlineResult {
	handlerCtx, cancel := context.WithTimeout(ctx, inlineTimeout(ctx))
	defer cancel()
	b := f.newBatch(ctx, handlerCtx, f.run, inlineMargin/2)
	b.add(f.ev)
	err := b.lockVersions(handlerCtx)
	for err == nil && len(b.busy) > 0 { // another run works on its object, and may end in time
		pause(handlerCtx, busyPoll)
		if err = handlerCtx.Err(); err == nil {
			err = b.lockVersions(handlerCtx)
		}
	}
	if err != nil {
		f.abandon(ctx, f.run)
		return unclaimed(err)
	}
	began := time.Now()
	if !b.skipStale(0) {
		if failed := f.call(ctx, handlerCtx, b); failed != nil {
			return *failed
		}
	}
	for i := range f.claim.Messages {
		b.enqueued = append(b.enqueued, f.claim.Messages[i].Destination)
	}
	err = f.run.Finish(ctx, &driver.FinishParams{Results: b.results, Versions: b.versions()})
	switch {
	case err == nil:
		b.committed()
		return claimed
	case isCommitted(err):
		return f.ended(ctx, time.Since(began), err)
	case errors.Is(err, driver.ErrTxAborted), errors.Is(err, driver.ErrBadRow), errors.Is(err, driver.ErrTxEnded):
		return f.fail(ctx, time.Since(began), err)
	}
	f.abandon(ctx, f.run)
	return unclaimed(err)
}

// call runs the handler. It returns nil for success; otherwise it ends the run and returns the
// outcome.
func (f *inlineRun[T]) call(ctx, handlerCtx context.Context, b *batch[T]) *InlineResult {
	began := time.Now()
	err, hung := b.call(f.ev)
	took := time.Since(began)
	if hung {
		f.run.Sever()
		result := f.fail(ctx, took, err)
		return &result
	}
	verdict := f.run.Check(ctx, err)
	var result InlineResult
	switch {
	case isCommitted(verdict):
		result = f.ended(ctx, took, verdict)
	case errors.Is(verdict, driver.ErrSerialization):
		f.abandon(ctx, f.run)
		result = unclaimed(verdict)
	case err != nil && handlerCtx.Err() != nil && took < f.src.AckTimeout/2:
		// Other deliveries used up the time of this one: that is not the handler's fault.
		f.abandon(ctx, f.run)
		result = unclaimed(err)
	case err != nil || verdict != nil:
		result = f.fail(ctx, took, cmp.Or(err, verdict))
	default:
		b.succeed(0, took)
		return nil
	}
	return &result
}

// fail undoes the claim, and counts the failure outside its transaction.
func (f *inlineRun[T]) fail(ctx context.Context, took time.Duration, cause error) InlineResult {
	if !f.abandon(ctx, f.run) {
		return f.ended(ctx, took, &driver.TxEndedError{Committed: true})
	}
	// The failure must be counted even if the answer is late.
	countCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	counted, err := f.db.CountInlineFailure(countCtx, &driver.InlineFailure{
		Claim: *f.claim, Error: wire.ErrorText(cause), Dead: guard.IsPermanent(cause), Limit: f.src.DeadLetterAfter,
	})
	if err != nil {
		f.log.Warn("counting the failure of an Inline handler failed",
			slog.String("source", f.ev.Source), slog.String("event_id", f.ev.EventID), slog.Any("error", err), slog.Any("failure", cause))
		return unclaimed(err)
	}
	o := &Observed{Event: f.ev, Outcome: retry, Attempt: max(counted.Failures, 1), Took: took, Err: cause}
	if counted.Dead {
		o.Outcome = dead
		f.tell(slog.LevelError, "the Inline handler failed: dead", o)
	} else {
		f.tell(slog.LevelInfo, "the Inline handler failed; the sender must deliver again", o)
	}
	result := InlineResult{Failure: cause}
	result.Claimed, result.Duplicate, result.Dead = counted.Failures > 0, counted.Failures == 0, counted.Dead
	return result
}

// ended is the outcome of a handler that committed by itself: the claim and the handler's writes are
// committed, and the event is dead.
func (f *inlineRun[T]) ended(ctx context.Context, took time.Duration, cause error) InlineResult {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := f.run.Settle(ctx, &driver.FinishParams{Results: []driver.WorkResult{
		{Key: f.claim.Key, Outcome: driver.WorkEnded, Error: wire.ErrorText(cause), Took: took},
	}}); err != nil {
		f.log.Warn("an Inline handler ended its transaction, and recording that failed: its event is done",
			slog.String("source", f.ev.Source), slog.String("event_id", f.ev.EventID), slog.Any("error", err))
		return unclaimed(err)
	}
	for i := range f.claim.Messages {
		f.o.Wake(f.claim.Messages[i].Destination)
	}
	f.tell(slog.LevelError, "the Inline handler ended its transaction: dead", &Observed{
		Event: f.ev, Outcome: dead, Attempt: f.ev.Attempts + 1, Took: took, Err: cause,
	})
	result := InlineResult{Failure: cause}
	result.Claimed, result.Dead = true, true
	return result
}
