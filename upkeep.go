package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	countInterval   = time.Second
	countWait       = time.Minute // for counts that a process could not write at once
	figureInterval  = 10 * time.Second
	figuresFirst    = time.Minute // at first, figures are written every countInterval
	clockInterval   = 30 * time.Second
	maxPruneEvery   = time.Minute
	pullInterval    = time.Minute
	minPruneEvery   = time.Second
	maintainTimeout = 30 * time.Second // for one step
	pruneTimeout    = 2 * time.Minute  // for one pass of pruning
	lastTimeout     = 5 * time.Second  // for the figures and refused requests at the end of Run
)

// pruneRest is how long pruning rests after each chunk, as a multiple of the time that the chunk
// took. The rest leaves the database to deliveries. After each pass that could not remove all in its time it
// is halved, down to minPruneRest, so that pruning keeps up with the events that arrive.
const (
	pruneRest    = 1.5
	minPruneRest = pruneRest / 8
)

// maintain writes delivery counts, refused requests and figures, reads the database's clock, its durability settings and learned
// secrets, retries failed confirmations, and pulls due times back, until ctx ends. Several processes
// may do so at once.
func (in *Engine) maintain(ctx context.Context) {
	counts := time.NewTicker(countInterval)
	defer counts.Stop()
	began, sums := time.Now(), time.NewTicker(figuresEvery(0))
	defer sums.Stop()
	clock := time.NewTicker(clockInterval)
	defer clock.Stop()
	learned := time.NewTicker(learnInterval)
	defer learned.Stop()
	confirm := time.NewTicker(confirmInterval)
	defer confirm.Stop()
	pull := time.NewTicker(pullInterval)
	defer pull.Stop()
	in.maintainStep(ctx, "reading the database's clock", in.clock.read)
	in.maintainStep(ctx, "looking for foreign triggers", in.warnOfTriggers)
	in.maintainStep(ctx, "sampling the backlog", in.sampleBacklog)
	for {
		select {
		case <-ctx.Done():
			// The counts so far must still be written.
			in.maintainStep(context.WithoutCancel(ctx), "writing delivery counts", in.claims.WriteCounts)
			return
		case <-counts.C:
			in.maintainStep(ctx, "writing delivery counts", in.claims.WriteCounts)
			in.maintainStep(ctx, "writing refused requests", in.tell.WriteRefused)
			in.maintainStep(ctx, "telling of dead letters", in.operator.TellOfDead)
		case <-sums.C:
			in.maintainStep(ctx, "writing figures", in.tell.WriteFigures)
			sums.Reset(figuresEvery(time.Since(began)))
		case <-learned.C:
			in.maintainStep(ctx, "reading learned secrets", in.learned.refresh)
		case <-confirm.C:
			in.confirmAgain(ctx)
		case <-pull.C:
			in.maintainStep(ctx, "pulling due times back", in.pullBack)
			in.maintainStep(ctx, "sampling the backlog", in.sampleBacklog)
		case <-clock.C:
			in.maintainStep(ctx, "reading the database's clock", in.clock.read)
			in.maintainStep(ctx, "reading the database's durability settings", in.watchDurability)
		}
	}
}

// figuresEvery returns how often a process of an age writes its figures: more often while somebody may be
// looking at the first deliveries.
func figuresEvery(age time.Duration) time.Duration {
	if age < figuresFirst {
		return countInterval
	}
	return figureInterval
}

// writeLast writes the figures and refused requests of the deliveries and attempts that ended after
// ctx did. A database that does not answer must not hold up the stop.
func (in *Engine) writeLast(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if err := in.tell.Write(last); err != nil {
		in.log.Warn("writing the last figures and refused requests failed; charts and lists lack them", slog.Any("error", err))
	}
}

// maxSampled bounds the rows that a sample of the backlog counts for each source and destination.
const maxSampled = 10_000

// sampleBacklog adds the work that waits now to the figures. Every process does so, and the highest
// sample of a span counts.
func (in *Engine) sampleBacklog(ctx context.Context) error {
	p := &driver.BacklogParams{Limit: maxSampled}
	setup := in.setup.Load()
	for name := range setup.sources {
		p.Sources = append(p.Sources, name)
	}
	for name := range setup.destinations {
		p.Destinations = append(p.Destinations, name)
	}
	backlog, err := in.store.Backlog(ctx, p)
	if err == nil {
		in.tell.Backlog(backlog)
	}
	return err
}

// warnOfTriggers logs the foreign triggers on the store's tables.
func (in *Engine) warnOfTriggers(ctx context.Context) error {
	found, err := in.store.ForeignTriggers(ctx)
	if len(found) > 0 {
		in.log.Warn("foreign triggers or rules on hookonce's tables: they may drop or change events; remove them",
			slog.Any("found", found))
	}
	return err
}

// pruneAgain registers the windows and prunes until ctx ends. It runs beside maintain, because
// pruning may take long.
func (in *Engine) pruneAgain(ctx context.Context) {
	in.maintainStep(ctx, "registering the windows", in.registerWindows)
	wait, rest := in.pruneInterval(), pruneRest
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-in.reloaded:
			timer.Stop()
			in.maintainStep(ctx, "registering the windows", in.registerWindows)
			wait = in.pruneInterval()
		case <-timer.C:
			wait = in.pruneInterval()
			if in.prunePass(ctx, rest) {
				wait, rest = 0, max(rest/2, minPruneRest)
			} else {
				rest = pruneRest
			}
			if in.worker != nil {
				in.maintainStep(ctx, "filing dead letters of Inline handlers", in.fileInlineFailures)
			}
		}
	}
}

// prunePass prunes for pruneTimeout at most, and reports whether there is more to prune. A pass
// uses the windows as they are at its start: when months of rows are past their window, each pass
// reads the windows again. It goes on where the passes before it ended, of all processes, and leaves
// the turn to another process that prunes.
func (in *Engine) prunePass(ctx context.Context, rest float64) (more bool) {
	passCtx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	p := in.windows()
	p.Background, p.Rest = true, rest
	removed, err := in.prune(passCtx, p)
	if err != nil && passCtx.Err() != nil && removed != nil && (removed.Further || removed.Total() > 0) {
		if removed.Total() == 0 && ctx.Err() == nil {
			in.log.Warn("a pass of pruning found nothing to remove in its time; going on", slog.Any("error", err))
		}
		return true
	}
	if !errors.Is(err, driver.ErrTurnLost) {
		in.maintained(ctx, "pruning", err)
	}
	return false
}

func (in *Engine) maintainStep(ctx context.Context, what string, step func(context.Context) error) {
	stepCtx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	in.maintained(ctx, what, step(stepCtx))
}

// maintained logs a failed step, unless ctx has ended.
func (in *Engine) maintained(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		in.log.Warn(what+" failed; retrying", slog.Any("error", err))
	}
}

// pruneInterval follows the shortest window, so that a short window holds.
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

// windows returns the windows of all sources. That of identities is a little longer than the settings say: until another
// process has written its counts, the store does not know of the latest copies that it answered.
func (in *Engine) windows() *driver.PruneParams {
	p := &driver.PruneParams{
		DedupeWindow:   counted(in.cfg.DedupeWindow),
		Retention:      in.cfg.Retention,
		Sources:        make(map[string]driver.SourceWindows),
		QuarantineRows: in.cfg.QuarantineRows,
		Rest:           pruneRest,
	}
	for name, s := range in.setup.Load().sources {
		p.Sources[name] = driver.SourceWindows{DedupeWindow: counted(s.DedupeWindow), Retention: s.Retention}
	}
	return p
}

// counted is how long an identity is kept so that copies which were answered within a window are counted before it goes.
func counted(window time.Duration) time.Duration { return window + min(window, countWait) }

// registerWindows keeps processes with shorter windows, or without our sources, from pruning our
// events.
func (in *Engine) registerWindows(ctx context.Context) error {
	return in.store.RegisterWindows(ctx, in.windows())
}

// Prune removes finished work past its window: bodies past retention, identities past the dedupe
// window, and the quarantine beyond its bounds. Of several processes with different windows for a
// source, the longest holds, of all processes that were seen in the last seven days. Prune works in
// small chunks and rests after each for longer than the chunk took, so that deliveries are answered
// meanwhile. If it fails, the result holds the rows that it removed before, or is nil.
//
// It fails without removing anything if this machine's clock and the database's differ by more than an hour: events
// may look older than they are. In a process that runs for longer, the same holds for an hour after this machine's
// clock was set by more than that.
//
// One process prunes at a time. Run prunes in the background from time to time, and gives way to Prune.
func (in *Engine) Prune(ctx context.Context) (*driver.PruneResult, error) {
	return in.prune(ctx, in.windows())
}

func (in *Engine) prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	if err := in.registerWindows(ctx); err != nil {
		return nil, err
	}
	if err := in.clock.plausible(ctx); err != nil {
		return nil, fmt.Errorf("hookonce: nothing is pruned: %w", err)
	}
	result, err := in.store.Prune(ctx, p)
	if result != nil && result.Total() > 0 {
		in.log.Info("pruned", slog.Int64("events", result.Events), slog.Int64("bodies", result.Bodies),
			slog.Int64("quarantined", result.Quarantined))
		in.tell.Pruned(result)
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
func (in *Engine) fileInlineFailures(ctx context.Context) error {
	filed, err := in.store.FileInlineFailures(ctx, &driver.FileFailuresParams{OlderThan: inlineAbandoned, Limit: maxFiled})
	for i := range filed {
		f := &filed[i]
		in.log.Error("dead: the Inline handler failed, and the sender did not deliver again",
			slog.String("source", f.Source), slog.String("event_id", f.EventID), slog.Int("failures", f.Failures), slog.String("error", f.Error))
		in.tell.Filed(f)
	}
	return err
}

// maxPulled is the most rows of one source or destination that one step of pullBack changes.
const maxPulled = 1000

// pullAhead is how far ahead due times may lie after the database's clock was set back.
const pullAhead = 5 * time.Minute

// pullBack makes work due that was put off while the database's clock was ahead, and shortens the
// arming of sources that were armed then.
func (in *Engine) pullBack(ctx context.Context) error {
	now := in.setup.Load()
	p := &driver.PullBackParams{
		Sources: slices.Clone(in.handled), Destinations: slices.Collect(maps.Keys(now.destinations)), Limit: maxPulled,
	}
	for name, src := range now.sources {
		if !slices.Contains(in.handled, name) {
			p.Sources = append(p.Sources, name)
		}
		if src.canLearn() {
			p.Armable = append(p.Armable, name)
		}
	}
	if in.clock.wentBack.Swap(false) {
		p.Ahead = pullAhead
		for _, src := range now.sources {
			p.Ahead = max(p.Ahead, src.RefetchTimeout+pullAhead) // its events are reserved for as long
		}
	}
	for {
		events, messages, err := in.store.PullBack(ctx, p)
		if events+messages > 0 {
			in.log.Warn("pulled due times back that were too far ahead; was the database's clock ahead?",
				slog.Int("events", events), slog.Int("messages", messages))
			in.wakeAll()
		}
		if err != nil && p.Ahead > 0 {
			in.clock.wentBack.Store(true)
		}
		if err != nil || max(events, messages) < maxPulled {
			return err
		}
	}
}
