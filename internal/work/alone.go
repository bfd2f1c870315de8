package work

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// maxMissed is the number of events in a row that other workers may hold before the rest is
	// left to these workers.
	maxMissed = 3
	// maxGivenUp is how often an event runs alone at once while the database gives up in favour of
	// concurrent transactions. The last time is a failed attempt.
	maxGivenUp = 5
)

// workAlone runs events one by one, each in its own transaction. It may leave some of them; these
// are taken again as any other event.
func (w *Workers[T]) workAlone(ctx, workCtx context.Context, events []driver.TakenEvent, ready *prepared) {
	missed := 0
	for i := range events {
		if ctx.Err() != nil || missed == maxMissed {
			return
		}
		missed++
		if w.runAlone(ctx, workCtx, &events[i], ready, false) {
			missed = 0
		}
	}
}

// runAlone is runUntilEnded within the budget.
func (w *Workers[T]) runAlone(ctx, workCtx context.Context, seen *driver.TakenEvent, ready *prepared, suspect bool) (taken bool) {
	if !w.budget.acquire(ctx, false) {
		return false
	}
	defer w.budget.release(false)
	return w.runUntilEnded(ctx, workCtx, seen, ready, suspect)
}

// runUntilEnded runs one event, and again while the database gives up in favour of other
// transactions. It reports whether the event could be taken. With suspect, an interruption counts an
// attempt.
func (w *Workers[T]) runUntilEnded(ctx, workCtx context.Context, seen *driver.TakenEvent, ready *prepared, suspect bool) (taken bool) {
	for try := 1; try <= maxGivenUp && ctx.Err() == nil; try++ {
		switch w.tryAlone(ctx, workCtx, seen, ready, suspect, try == maxGivenUp) {
		case aloneEnded:
			return true
		case aloneMissed:
			return taken
		case aloneGivenUp:
			pause(ctx, time.Duration(try)*20*time.Millisecond)
		}
		taken = true
	}
	return taken
}

// pause waits for a random time of up to d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(rand.N(d + 1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// aloneResult is the result of one run of a single event.
type aloneResult int

const (
	aloneEnded   aloneResult = iota // its outcome is recorded
	aloneMissed                     // another worker has it, or it is finished
	aloneGivenUp                    // the database gave up in favour of another transaction
)

func (w *Workers[T]) tryAlone(ctx, workCtx context.Context, seen *driver.TakenEvent, ready *prepared, suspect, final bool) aloneResult {
	run, err := w.takeReserved(workCtx, &driver.TakeParams{
		Source: seen.Source, Keys: []driver.Key{seen.Key}, Limit: 1, Beside: !suspect, HandlerTimeout: w.o.HandlerTimeout,
	}, ready)
	switch {
	case err != nil:
		w.log.Warn("taking an event failed; retrying in 1s", slog.String("source", seen.Source), slog.String("event_id", seen.EventID), slog.Any("error", err))
		return aloneMissed
	case run == nil:
		return aloneMissed
	case hadTurn(seen, &run.Events()[0], suspect && ready.current == nil):
		// Another worker ran it, and it failed: its next attempt has its own due time.
		w.abandon(workCtx, run)
		return aloneMissed
	}
	if again, _ := w.work(ctx, workCtx, run, ready, final); len(again) > 0 {
		return aloneGivenUp
	}
	return aloneEnded
}

// hadTurn reports whether another worker has run or reserved an event since it was seen: it is that
// worker's then, or has a due time of its own. The result of an earlier Refetch may be stale.
//
// With reserved, a reservation is no turn. A suspect without Refetch may wait for its turn longer than
// it is reserved, in the lanes of several processes: the first one that can run it does.
func hadTurn(seen, now *driver.TakenEvent, reserved bool) bool {
	return seen.Generation != now.Generation || seen.Attempts != now.Attempts || seen.Crashes != now.Crashes ||
		!reserved && !seen.DueAt.Equal(now.DueAt)
}
