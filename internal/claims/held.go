package claims

import (
	"context"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
)

// unitsOf returns the units that wait for entries.
func unitsOf(entries []*entry) map[*Unit]bool {
	units := make(map[*Unit]bool)
	for _, e := range entries {
		for _, w := range e.waiters {
			units[w.unit] = true
		}
	}
	return units
}

// maxHeldWaits is how many batches may wait for locked dead events. Each looks again and again.
const maxHeldWaits = 4

// waitForHeld calls reopenHeld in the background. Beyond maxHeldWaits it does not wait for the locks.
func (q *Queue) waitForHeld(deadline time.Time, held []*entry, units map[*Unit]bool) {
	wait := MaxLockWait
	if q.heldWaits.Add(1) > maxHeldWaits {
		wait = 0
	}
	q.background.Go(func() {
		defer q.heldWaits.Add(-1)
		q.reopenHeld(deadline, wait, held, units)
	})
}

// reopenHeld waits for dead events that other sessions have locked, for a time at most and until deadline, and makes the
// results of units final. An answer of 2xx could be the sender's last delivery, so an event that stays locked is an error.
func (q *Queue) reopenHeld(deadline time.Time, wait time.Duration, held []*entry, units map[*Unit]bool) {
	defer func() {
		err := errEnded
		if v := recover(); v != nil {
			err = guard.Recovered(v)
			q.o.Log.Error("panic while reopening", slog.Any("error", err))
		}
		for u := range units {
			u.finish(err)
		}
	}()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	b := &batch{}
	for _, e := range b.reopen(ctx, q.store, held, wait) {
		e.result.Err = driver.ErrLockTimeout
	}
	settle(held, q.counts)
	if b.anyReopened {
		q.o.Reopened()
	}
}
