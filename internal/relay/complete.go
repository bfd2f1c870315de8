package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/wire"
)

const _ = uint(driver.MaxResponse - send.MaxResponse) // a store takes every response

// ending is the outcome of a message, on its way to the database.
type ending struct {
	driver.Completion
	message *driver.Message
	turn    *turn // of the message, which leaves it once the outcome is recorded
}

// completeAll records outcomes until finished is closed. One statement records all outcomes that
// wait.
func (r *relay) completeAll(ctx context.Context) {
	for first := range r.finished {
		r.complete(ctx, r.gather(first))
	}
}

// gather returns first and the outcomes that wait behind it. While other sends are in progress or wait
// for a slot it waits for their outcomes, for outcomeTime at most. It does not wait with an outcome that other
// messages may wait for, because they are about the same object.
func (r *relay) gather(first ending) []ending {
	batch := []ending{first}
	late := time.NewTimer(outcomeTime)
	defer late.Stop()
waiting:
	for len(batch) < r.places.room()/2 && (r.active.Load() > 0 || r.places.waits()) && !batch[len(batch)-1].awaited() {
		select {
		case next, ok := <-r.finished:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		case <-late.C:
			break waiting
		}
	}
	for len(batch) <= cap(r.finished) { // take the outcomes that have arrived meanwhile
		select {
		case next, ok := <-r.finished:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// complete records outcomes. It retries while their leases may hold: completing twice is harmless,
// forgetting costs another send. When ctx has ended it retries for driver.LeaseMargin only.
func (r *relay) complete(ctx context.Context, batch []ending) {
	began := time.Now()
	replaced := false
	for {
		held, err := r.tryComplete(context.WithoutCancel(ctx), batch)
		if err == nil {
			r.logFenced(batch, held)
			leave(batch)
			if slices.ContainsFunc(batch, wakes) {
				r.wake()
			}
			return
		}
		if half := len(batch) / 2; half > 0 && driver.FaultOfRows(err) {
			// One faulty outcome must not keep the others from being recorded.
			r.complete(ctx, batch[:half])
			r.complete(ctx, batch[half:])
			return
		}
		if isRowFault(err) && !replaced {
			r.replace(&batch[0], err)
			replaced = true
			continue
		}
		if isRowFault(err) {
			r.refused(batch[0].message.ID, err)
			leave(batch)
			return
		}
		took := time.Since(began)
		if took > r.dest.Timeout+driver.LeaseMargin || took > driver.LeaseMargin && ctx.Err() != nil {
			for i := range batch {
				r.logOf(batch[i].message).Warn("recording the outcome failed; the message is sent again once its lease expires", slog.Any("error", err))
			}
			leave(batch)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// isRowFault reports whether the database refuses a row, now and later.
func isRowFault(err error) bool {
	return errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrNotStored) || errors.Is(err, driver.ErrRefused)
}

// replace puts a failed attempt in the place of an outcome that the database refuses.
func (r *relay) replace(e *ending, refusal error) {
	err := fmt.Errorf("the database refused the outcome %q: %w", outcomes[e.Outcome], refusal)
	failed := r.judge(e.message, &attempted{err: err, text: wire.ErrorText(err)})
	failed.Took, failed.Line = e.Took, e.Line
	r.logOf(e.message).Error("recording the outcome was refused; recording a failed attempt", slog.Any("error", err))
	e.Completion = failed
}

// awaited reports whether messages about the same object may wait for the outcome.
func (e *ending) awaited() bool { return e.turn != nil || e.Line != nil }

// wakes reports whether a message is due before the next poll: this one again, or the next one of its line.
func wakes(e ending) bool {
	return e.Outcome == driver.MessageRetry && e.RetryIn < pollInterval || e.Line != nil
}

// leave releases this batch's turns, so that the next message about each object can go.
func leave(batch []ending) {
	for i := range batch {
		batch[i].turn.leave(batch[i].Outcome == driver.MessageSent)
	}
}

func (r *relay) tryComplete(ctx context.Context, batch []ending) ([]bool, error) {
	p := &driver.CompleteParams{}
	for i := range batch {
		p.Completions = append(p.Completions, batch[i].Completion)
	}
	ctx, cancel := context.WithTimeout(ctx, driver.LeaseMargin)
	defer cancel()
	return r.store.Complete(ctx, p)
}

// logFenced logs outcomes that came after their lease was lost. After a commit with an unknown
// outcome, the lease may have been completed by the first try.
func (r *relay) logFenced(batch []ending, held []bool) {
	for i, ok := range held {
		if !ok {
			r.logOf(batch[i].message).Warn("outcome dropped: the lease was lost before")
		}
	}
}
