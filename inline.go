package hookonce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// inlineMargin is what is left of the time for an answer once the handler has had
// its own: to commit, or to count the failure.
const inlineMargin = 200 * time.Millisecond

// inlineResult is what became of an event of an Inline source.
type inlineResult struct {
	claimResult
	// handler is the failure of the handler, if it was not committed. The event is
	// dead if dead says so; else the sender must come again.
	handler error
	dead    bool
}

// acceptInline works on the events of a verified delivery, one after the other, and
// answers when all are done. Events without a handler are claimed as those of any
// other source.
func (in *Engine) acceptInline(ctx context.Context, d *delivery, claims []driver.Claim, malformed []provider.Malformed) *answer {
	unit := newClaimUnit(d.source, claims, d.deadline)
	var failed error
	for i := range claims {
		c := &claims[i]
		var result inlineResult
		if in.handles(c.Source, c.Type) {
			result = in.handlers.inline(ctx, d.source, c)
		} else {
			result.claimResult = in.claimOne(ctx, d, c)
		}
		unit.results[i] = result.claimResult
		switch {
		case result.err != nil:
		case result.handler != nil && !result.dead:
			failed = result.handler
			unit.results[i].err = result.handler
		default:
			in.counts.add(c, &result.claimResult)
		}
	}
	if failed != nil {
		a := refused(http.StatusInternalServerError, "The delivery was not worked on. Send it again.", "an Inline handler failed", failed)
		a.outcome = deliveryFailed
		return a
	}
	return in.answerClaimed(ctx, d, unit, malformed)
}

// claimOne claims an event by the queue.
func (in *Engine) claimOne(ctx context.Context, d *delivery, c *driver.Claim) claimResult {
	unit := newClaimUnit(d.source, []driver.Claim{*c}, d.deadline)
	if err := in.claims.claim(ctx, unit); err != nil {
		return claimResult{err: err}
	}
	return unit.results[0]
}

// flights are the Inline events that are worked on in this process, so that copies
// wait here instead of in the database.
type flights struct {
	mu  sync.Mutex
	all map[driver.Key]*flight
}

type flight struct {
	landed chan struct{}
	result inlineResult // once landed
}

// join returns the flight of key, and whether the caller is the one to fly it.
func (f *flights) join(key driver.Key) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.all[key]; ok {
		return fl, false
	}
	if f.all == nil {
		f.all = make(map[driver.Key]*flight)
	}
	fl = &flight{landed: make(chan struct{})}
	f.all[key] = fl
	return fl, true
}

func (f *flights) land(key driver.Key, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, key)
	close(fl.landed)
}

// inline implements handlers. Copies of an event in progress wait for the first and
// get its outcome. The work goes on when the time for the answer is over.
func (w *works[T]) inline(ctx context.Context, src *source, claim *driver.Claim) inlineResult {
	fl, first := w.flying.join(claim.Key)
	if first {
		w.background.Go(func() {
			defer w.flying.land(claim.Key, fl)
			defer func() {
				if v := recover(); v != nil {
					fl.result = unclaimed(panicError(v))
				}
			}()
			fl.result = w.fly(ctx, src, claim)
		})
	}
	select {
	case <-fl.landed:
	case <-ctx.Done():
		return unclaimed(fmt.Errorf("it is still worked on: %w", ctx.Err()))
	}
	result := fl.result
	if !first && result.err == nil && result.handler == nil {
		result.claimResult = copyOf(result.claimResult, false)
	}
	return result
}

// drain implements handlers.
func (w *works[T]) drain() { w.background.Wait() }

// fly claims an event and runs its handler, in one transaction.
func (w *works[T]) fly(ctx context.Context, src *source, claim *driver.Claim) inlineResult {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return unclaimed(fmt.Errorf("all that may run Inline handlers are busy: %w", ctx.Err()))
	}
	c := *claim
	c.Work = driver.WorkDone
	for try := 1; ; try++ {
		result := w.tryInline(ctx, src, &c)
		if !errors.Is(result.err, driver.ErrSerialization) || try == maxGivenUp {
			return result
		}
		sleep(ctx, time.Duration(try)*20*time.Millisecond)
	}
}

func unclaimed(err error) inlineResult { return inlineResult{claimResult: claimResult{err: err}} }

// inlineLockTimeout leaves time to answer once the wait for another transaction
// was in vain.
func inlineLockTimeout(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline)-inlineMargin, time.Millisecond)
}

func (w *works[T]) tryInline(ctx context.Context, src *source, c *driver.Claim) inlineResult {
	ev := w.claimedEvent(c)
	var fetchErr error
	if src.Refetch != nil {
		// Before the claim, outside of any transaction; of a copy it is in vain.
		fetchCtx, cancel := context.WithTimeout(ctx, inlineLockTimeout(ctx))
		ev.Current, fetchErr = refetch(fetchCtx, src, ev)
		cancel()
	}
	run, claimed, err := w.db.TakeClaim(ctx, &driver.ClaimParams{
		Claims: []driver.Claim{*c}, LockTimeout: inlineLockTimeout(ctx), Reopen: src.Redelivery == RedeliveryReopen,
	})
	if err != nil {
		return unclaimed(err)
	}
	result := inlineResult{claimResult: claimResult{ClaimResult: claimed, reopened: claimed.Reopened}}
	if run == nil { // a duplicate
		if result.Dead && src.Redelivery == RedeliveryReopen {
			result.reopened, result.err = w.in.reopenRouted(ctx, c.Key)
		}
		return result
	}
	taken := &run.Events()[0]
	ev.Generation, ev.keyGeneration, ev.ReceivedAt = taken.Generation, taken.KeyGeneration, taken.ReceivedAt
	if fetchErr != nil {
		return w.inlineFailed(ctx, run, src, c, ev, 0, fetchErr)
	}
	return w.runInline(ctx, run, src, c, ev, result)
}

// reopenRouted reopens a dead event that had no handler when it was claimed: its
// messages are all that there is to do again.
func (in *Engine) reopenRouted(ctx context.Context, key driver.Key) (bool, error) {
	reopened, err := in.store.Reopen(ctx, &driver.ReopenParams{Keys: []driver.Key{key}})
	if len(reopened) > 0 {
		in.wakeEverybody()
	}
	return len(reopened) > 0, err
}

// claimedEvent returns the event of a claim, as its handler is given it.
func (w *works[T]) claimedEvent(c *driver.Claim) *Event {
	return eventOf(&driver.TakenEvent{
		Key: c.Key, Source: c.Source, EventID: c.EventID, Type: c.Type, OccurredAt: c.OccurredAt,
		ReceivedAt: time.Now(), Headers: c.Headers, Body: c.Body,
	}, w.log)
}

// runInline runs the handler in the transaction of its claim, and commits.
func (w *works[T]) runInline(ctx context.Context, run driver.Run[T], src *source, c *driver.Claim, ev *Event, result inlineResult) inlineResult {
	handlerCtx, cancel := context.WithTimeout(ctx, inlineLockTimeout(ctx))
	defer cancel()
	h := &handling[T]{
		works: w, ctx: ctx, workCtx: handlerCtx, run: run, taken: run.Events(), grace: inlineMargin / 2, changed: make(map[driver.Key]bool),
	}
	h.add(ev)
	if err := h.lockVersions(handlerCtx); err != nil {
		w.abandon(ctx, run)
		return unclaimed(err)
	}
	began := time.Now()
	if reason := h.staleReason(0); reason != "" {
		h.results = []driver.WorkResult{{Key: c.Key, Outcome: driver.WorkStale, Error: reason}}
		h.observe(ev, attemptSkipped, 0)
	} else {
		err, hung := h.call(w.mux.handler(ev.Source, ev.Type), ev)
		took := time.Since(began)
		if hung {
			run.Sever()
			return w.inlineFailed(ctx, run, src, c, ev, took, err)
		}
		verdict := run.Check(ctx, err)
		switch {
		case errors.Is(verdict, driver.ErrSerialization):
			w.abandon(ctx, run)
			return unclaimed(verdict)
		case err != nil && handlerCtx.Err() != nil && took < src.AckTimeout/2:
			// Others had used up the time of this delivery: that is not the
			// handler's fault.
			w.abandon(ctx, run)
			return unclaimed(err)
		}
		if err := cmp.Or(err, verdict); err != nil {
			return w.inlineFailed(ctx, run, src, c, ev, took, err)
		}
		h.results = []driver.WorkResult{{Key: c.Key, Outcome: driver.WorkSucceeded, Took: took}}
		h.observe(ev, attemptDone, took)
		h.apply(0)
	}
	err := run.Finish(ctx, &driver.FinishParams{Results: h.results, Versions: h.versions()})
	switch {
	case err == nil:
		h.committed()
		w.in.wakeClaimed([]*driver.Claim{c})
		return result
	case errors.Is(err, driver.ErrTxAborted), errors.Is(err, driver.ErrBadRow), errors.Is(err, driver.ErrTxEnded):
		return w.inlineFailed(ctx, run, src, c, ev, time.Since(began), err)
	}
	w.abandon(ctx, run)
	return unclaimed(err)
}

// inlineFailed undoes a claim whose handler failed, and counts the failure outside
// of its transaction.
func (w *works[T]) inlineFailed(ctx context.Context, run driver.Run[T], src *source, c *driver.Claim, ev *Event, took time.Duration, cause error) inlineResult {
	w.abandon(ctx, run)
	// The answer may be late, but the failure must be counted.
	countCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	counted, err := w.db.CountInlineFailure(countCtx, &driver.InlineFailure{
		Claim: *c, Error: errorText(cause), Dead: isPermanent(cause), Limit: src.DeadLetter.attempts,
	})
	if err != nil {
		w.log.Warn("the failure of an Inline handler was not counted",
			slog.String("source", ev.Source), slog.String("event_id", ev.ID), slog.Any("error", err), slog.Any("failure", cause))
		return unclaimed(err)
	}
	ev.Attempt = max(counted.Failures, 1)
	if counted.Dead {
		w.in.tellAttempt(slog.LevelError, "the Inline handler failed, dead", ev, attemptDead, took, cause)
	} else {
		w.in.tellAttempt(slog.LevelInfo, "the Inline handler failed, the sender is to come again", ev, attemptRetry, took, cause)
	}
	// Where it was dead before, this delivery reopened it in vain.
	result := inlineResult{handler: cause, dead: counted.Dead}
	result.Claimed, result.Dead = counted.Failures > 0, counted.Dead
	return result
}

const (
	// inlineAbandoned is how long the sender may leave a failed event alone before
	// it is filed as a dead letter. One that comes again later reopens it.
	inlineAbandoned = 24 * time.Hour
	maxFiled        = 1000 // at a time
)

// fileInlineFailures makes dead letters of what failed and was not delivered again:
// nothing authentic is lost because its sender gave up.
func (in *Engine) fileInlineFailures(ctx context.Context) error {
	n, err := in.store.FileInlineFailures(ctx, &driver.FileFailuresParams{OlderThan: inlineAbandoned, Limit: maxFiled})
	if n > 0 {
		in.log.Error("dead: Inline handlers had failed, and the sender did not deliver again", slog.Int("events", n))
	}
	return err
}
