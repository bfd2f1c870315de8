package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
)

// Sweep looks every second for interrupted runs of all sources, until ctx ends. It is for processes
// without handlers: the process of an interrupted run may have been the only one with handlers for
// its source. lost is called for each of their events.
func Sweep(ctx context.Context, store driver.Store, log *slog.Logger, lost func(*driver.LostRun)) {
	poll(ctx, log, "interrupted runs", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		return sweep(ctx, store, log, lost)
	})
}

// look looks for interrupted runs first, so that their events are found due.
func (w *Workers[T]) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := sweep(ctx, w.db, w.log, w.o.Lost)
	due, dueErr := w.db.DueSources(ctx, w.sources)
	w.agenda.wakeDue(due, w.suspects)
	return errors.Join(err, dueErr)
}

// poll calls look every second until ctx ends. what names the things that it looks for.
func poll(ctx context.Context, log *slog.Logger, what string, look func(context.Context) error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var warned time.Time
	for {
		err := <-guard.Call("a look", func() error { return look(ctx) })
		if err != nil && ctx.Err() == nil && time.Since(warned) > warnInterval {
			log.Warn("looking for "+what+" failed; retrying every second", slog.Any("error", guard.Loggable(withHint(err))))
			warned = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// withHint adds the remedy to the error of a schema that does not fit.
func withHint(err error) error {
	if errors.Is(err, driver.ErrSchema) {
		return fmt.Errorf("%w: call hookmigrate.Up, or run \"hookonce migrate up\"", err)
	}
	return err
}

// sweep records interrupted runs, and logs and tells their events.
func sweep(ctx context.Context, store driver.Store, log *slog.Logger, tell func(*driver.LostRun)) error {
	lost, err := store.SweepRuns(ctx, &driver.SweepRunsParams{})
	for i := range lost {
		l := &lost[i]
		log := log.With(slog.String("source", l.Source), slog.String("event_id", l.EventID), slog.Int("attempt", l.Attempts))
		switch {
		case l.Elsewhere:
			log.Warn("removed the record of a run in another database; this event of it is due again")
		case l.Ended:
			log.Error("dead: " + (&driver.TxEndedError{Committed: true}).Error())
		case l.Dead:
			log.Error("dead: " + driver.ErrorRunInterrupted)
		case l.Alone:
			log.Warn(driver.ErrorRunInterrupted + "; retrying")
		default:
			log.Warn("a run was interrupted; this event of it runs alone from now on")
		}
		tell(l)
	}
	return err
}
