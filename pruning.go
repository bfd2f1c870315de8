package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/tell"
)

const (
	maintainTimeout = 30 * time.Second // for one step of the upkeep
	maxPruneEvery   = time.Minute
	minPruneEvery   = time.Second
	pruneTimeout    = 2 * time.Minute // for one pass of pruning
	countWait       = time.Minute     // for counts that a process could not write at once
)

// pruneRest is how long pruning rests after each chunk, as a multiple of the time that the chunk
// took. The rest leaves the database to deliveries. After each pass that could not remove all in its time it
// is halved, down to minPruneRest, so that pruning keeps up with the events that arrive.
const (
	pruneRest    = 1.5
	minPruneRest = pruneRest / 8
)

// pruner removes finished work past its window.
type pruner struct {
	store    driver.Store
	log      *slog.Logger
	cfg      *Config
	setup    *atomic.Pointer[setup]
	clock    *clockKeeper
	tell     *tell.Teller
	reloaded chan struct{} // receives after a Reload
}

// run registers the windows and prunes until ctx ends. It runs beside Engine.maintain, because pruning may
// take long. inline says that this process has Inline handlers, whose dead letters it files.
func (p *pruner) run(ctx context.Context, inline bool) {
	maintainStep(ctx, p.log, "registering the windows", p.registerWindows)
	wait, rest := p.interval(), pruneRest
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.reloaded:
			timer.Stop()
			maintainStep(ctx, p.log, "registering the windows", p.registerWindows)
			wait = p.interval()
		case <-timer.C:
			wait = p.interval()
			if p.pass(ctx, rest) {
				wait, rest = 0, max(rest/2, minPruneRest)
			} else {
				rest = pruneRest
			}
			if inline {
				maintainStep(ctx, p.log, "filing dead letters of Inline handlers", p.fileInlineFailures)
			}
		}
	}
}

// pass prunes for pruneTimeout at most, and reports whether there is more to prune. A pass
// uses the windows as they are at its start: when months of rows are past their window, each pass
// reads the windows again. It goes on where the passes before it ended, of all processes, and leaves
// the turn to another process that prunes.
func (p *pruner) pass(ctx context.Context, rest float64) (more bool) {
	passCtx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	windows := p.windows()
	windows.Background, windows.Rest = true, rest
	removed, err := p.prune(passCtx, windows)
	if err != nil && passCtx.Err() != nil && removed != nil && (removed.Further || removed.Total() > 0) {
		if removed.Total() == 0 && ctx.Err() == nil {
			p.log.Warn("a pass of pruning found nothing to remove in its time; going on", slog.Any("error", err))
		}
		return true
	}
	if !errors.Is(err, driver.ErrTurnLost) {
		maintained(ctx, p.log, "pruning", err)
	}
	return false
}

// interval follows the shortest window, so that a short window holds.
func (p *pruner) interval() time.Duration {
	shortest := min(p.cfg.DedupeWindow, p.cfg.Retention)
	for _, s := range p.setup.Load().sources {
		for _, d := range []time.Duration{s.DedupeWindow, s.Retention} {
			if d > 0 {
				shortest = min(shortest, d)
			}
		}
	}
	return min(max(shortest/4, minPruneEvery), maxPruneEvery)
}

// windows returns the windows of all sources. That of identities is a little longer than the settings say: until another
// process has written its counts, the store does not know of the latest copies that it answered.
func (p *pruner) windows() *driver.PruneParams {
	out := &driver.PruneParams{
		DedupeWindow:   counted(p.cfg.DedupeWindow),
		Retention:      p.cfg.Retention,
		Sources:        make(map[string]driver.SourceWindows),
		QuarantineRows: p.cfg.QuarantineRows,
		Rest:           pruneRest,
	}
	for name, s := range p.setup.Load().sources {
		out.Sources[name] = driver.SourceWindows{DedupeWindow: counted(s.DedupeWindow), Retention: s.Retention}
	}
	return out
}

// counted is how long an identity is kept so that copies which were answered within a window are counted before it goes.
func counted(window time.Duration) time.Duration { return window + min(window, countWait) }

// registerWindows keeps processes with shorter windows, or without our sources, from pruning our
// events.
func (p *pruner) registerWindows(ctx context.Context) error {
	return p.store.RegisterWindows(ctx, p.windows())
}

// prune prunes as p says. See Engine.Prune.
func (p *pruner) prune(ctx context.Context, windows *driver.PruneParams) (*driver.PruneResult, error) {
	if err := p.registerWindows(ctx); err != nil {
		return nil, err
	}
	if err := p.clock.plausible(ctx); err != nil {
		return nil, fmt.Errorf("hookonce: nothing is pruned: %w", err)
	}
	result, err := p.store.Prune(ctx, windows)
	if result != nil && result.Total() > 0 {
		p.log.Info("pruned", slog.Int64("events", result.Events), slog.Int64("bodies", result.Bodies),
			slog.Int64("quarantined", result.Quarantined))
		p.tell.Pruned(result)
	}
	return result, err
}

const (
	// inlineAbandoned is how long a failed Inline event waits for its sender before it becomes a dead
	// letter. A later delivery reopens it.
	inlineAbandoned = 24 * time.Hour
	maxFiled        = 1000 // at a time
)

// fileInlineFailures makes dead letters of Inline events that failed and were not delivered again:
// nothing authentic is lost because its sender gave up.
func (p *pruner) fileInlineFailures(ctx context.Context) error {
	filed, err := p.store.FileInlineFailures(ctx, &driver.FileFailuresParams{OlderThan: inlineAbandoned, Limit: maxFiled})
	for i := range filed {
		f := &filed[i]
		p.log.Error("dead: the Inline handler failed, and the sender did not deliver again",
			slog.String("source", f.Source), slog.String("event_id", f.EventID), slog.Int("failures", f.Failures), slog.String("error", f.Error))
		p.tell.Filed(f)
	}
	return err
}

// maintainStep does one step of the upkeep, within maintainTimeout.
func maintainStep(ctx context.Context, log *slog.Logger, what string, step func(context.Context) error) {
	stepCtx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	maintained(ctx, log, what, step(stepCtx))
}

// maintained logs a failed step, unless ctx has ended.
func maintained(ctx context.Context, log *slog.Logger, what string, err error) {
	if err != nil && ctx.Err() == nil {
		log.Warn(what+" failed; retrying", slog.Any("error", err))
	}
}
