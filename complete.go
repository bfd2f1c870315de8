package hookonce

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// ending is how an attempt ended.
type ending struct {
	driver.Completion
	log  *slog.Logger // of its message
	turn *turn        // of its message; left when the outcome is recorded
}

// completeAll records outcomes until finished is closed, all that wait in one
// statement.
func (r *relay) completeAll(ctx context.Context) {
	for first := range r.finished {
		r.complete(ctx, r.gather(first))
	}
}

// gather returns first and the outcomes that wait with it. While other sends are under
// way it waits for some of them, for gatherSends at most; but not with an outcome that
// other messages may wait for.
func (r *relay) gather(first ending) []ending {
	batch := []ending{first}
	late := time.NewTimer(gatherSends)
	defer late.Stop()
waiting:
	for len(batch) < cap(r.finished)/2 && r.underWay.Load() > 0 && batch[len(batch)-1].turn == nil {
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
	for len(batch) <= cap(r.finished) { // what is there by now comes along
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

// complete records outcomes, and tries again while their leases may hold:
// completing twice is harmless, forgetting costs another send. Once the relay is
// to stop it tries for leaseMargin only.
func (r *relay) complete(ctx context.Context, batch []ending) {
	began := time.Now()
	for {
		held, err := r.tryComplete(context.WithoutCancel(ctx), batch)
		if err == nil {
			logFenced(batch, held)
			leave(batch)
			if slices.ContainsFunc(batch, dueSoon) {
				r.wake()
			}
			return
		}
		if half := len(batch) / 2; half > 0 && splits(err) {
			// One outcome must not cost the others theirs.
			r.complete(ctx, batch[:half])
			r.complete(ctx, batch[half:])
			return
		}
		took := time.Since(began)
		if took > r.dest.Timeout+leaseMargin || took > leaseMargin && ctx.Err() != nil {
			r.log.Warn("outcomes were not recorded; their messages go out again once their leases ran out",
				slog.Int("messages", len(batch)), slog.Any("error", err))
			leave(batch)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// dueSoon reports whether a message is due again before the next poll.
func dueSoon(e ending) bool { return e.Outcome == driver.MessageRetry && e.RetryIn < pollInterval }

// leave lets those at the front that come after the messages of batch.
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
	ctx, cancel := context.WithTimeout(ctx, leaseMargin)
	defer cancel()
	return r.store.Complete(ctx, p)
}

// logFenced tells of outcomes that came after their lease was lost. After an
// unknown commit that may be our own first try.
func logFenced(batch []ending, held []bool) {
	for i, ok := range held {
		if !ok {
			batch[i].log.Warn("the lease was lost before the outcome was recorded")
		}
	}
}
