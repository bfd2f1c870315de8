package hookonce

import (
	"context"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	countInterval   = time.Second
	clockInterval   = 30 * time.Second
	maxPruneEvery   = time.Minute
	minPruneEvery   = time.Second
	maintainTimeout = 30 * time.Second // for one step
)

// maintain writes delivery counts, reads the database's clock and learned secrets, and
// confirms again what could not be confirmed, until ctx ends.
// Every process may do it at once.
func (in *Engine) maintain(ctx context.Context) {
	counts := time.NewTicker(countInterval)
	defer counts.Stop()
	clock := time.NewTicker(clockInterval)
	defer clock.Stop()
	learned := time.NewTicker(learnInterval)
	defer learned.Stop()
	confirm := time.NewTicker(confirmInterval)
	defer confirm.Stop()
	in.maintainStep(ctx, "reading the database's clock", in.readClock)
	for {
		select {
		case <-ctx.Done():
			// What was counted is still written.
			in.maintainStep(context.WithoutCancel(ctx), "writing delivery counts", in.counts.flush)
			return
		case <-counts.C:
			in.maintainStep(ctx, "writing delivery counts", in.counts.flush)
		case <-learned.C:
			in.maintainStep(ctx, "reading learned secrets", in.learned.refresh)
		case <-confirm.C:
			in.confirmAgain(ctx)
		case <-clock.C:
			in.maintainStep(ctx, "reading the database's clock", in.readClock)
		}
	}
}

// pruneAgain prunes until ctx ends; apart from maintain, because it may take long.
func (in *Engine) pruneAgain(ctx context.Context) {
	for {
		timer := time.NewTimer(in.pruneInterval())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			in.maintainStep(ctx, "pruning", func(ctx context.Context) error {
				_, err := in.Prune(ctx)
				return err
			})
			if in.handlers != nil {
				in.maintainStep(ctx, "filing dead letters of Inline handlers", in.fileInlineFailures)
			}
		}
	}
}

func (in *Engine) maintainStep(ctx context.Context, what string, step func(context.Context) error) {
	stepCtx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	if err := step(stepCtx); err != nil && ctx.Err() == nil {
		in.log.Warn("maintenance failed, will be tried again: "+what, slog.Any("error", err))
	}
}

// pruneInterval follows the shortest window, so that short ones are kept to.
func (in *Engine) pruneInterval() time.Duration {
	shortest := min(in.cfg.DedupeWindow, in.cfg.Retention)
	for _, s := range in.setup.Load().sources {
		for _, d := range []time.Duration{s.DedupeWindow, s.Retention} {
			if d > 0 {
				shortest = min(shortest, d)
			}
		}
	}
	return min(max(shortest/4, minPruneEvery), maxPruneEvery)
}

// Prune removes what is finished and past its window: bodies past retention,
// identities past the dedupe window, and the quarantine beyond its bounds. Run
// does it from time to time.
func (in *Engine) Prune(ctx context.Context) (*driver.PruneResult, error) {
	p := &driver.PruneParams{
		DedupeWindow:   in.cfg.DedupeWindow,
		Retention:      in.cfg.Retention,
		Sources:        make(map[string]driver.SourceWindows),
		QuarantineRows: in.cfg.QuarantineRows,
	}
	for name, s := range in.setup.Load().sources {
		if s.DedupeWindow > 0 || s.Retention > 0 {
			w := driver.SourceWindows{DedupeWindow: s.DedupeWindow, Retention: s.Retention}
			setDefault(&w.DedupeWindow, p.DedupeWindow)
			setDefault(&w.Retention, p.Retention)
			p.Sources[name] = w
		}
	}
	result, err := in.store.Prune(ctx, p)
	if err != nil {
		return nil, err
	}
	if *result != (driver.PruneResult{}) {
		in.log.Info("pruned", slog.Int64("events", result.Events), slog.Int64("bodies", result.Bodies),
			slog.Int64("quarantined", result.Quarantined))
		in.observers.pruned(PrunedObserved{Events: result.Events, Bodies: result.Bodies, Quarantined: result.Quarantined})
	}
	return result, nil
}
