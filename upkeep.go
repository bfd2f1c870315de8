package hookonce

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
)

const (
	countInterval  = time.Second
	figureInterval = 10 * time.Second
	figuresFirst   = time.Minute // at first, figures are written every countInterval
	clockInterval  = 30 * time.Second
	pullInterval   = time.Minute
	sweepInterval  = 2 * time.Second
	lastTimeout    = 5 * time.Second // for the figures and refused requests at the end of Run
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
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	maintainStep(ctx, in.log, "sweeping lines", in.sweepLines)
	maintainStep(ctx, in.log, "reading the database's clock", in.health.clock.read)
	maintainStep(ctx, in.log, "looking for foreign triggers", in.warnOfTriggers)
	maintainStep(ctx, in.log, "sampling the backlog", in.sampleBacklog)
	for {
		select {
		case <-ctx.Done():
			// The counts so far must still be written.
			maintainStep(context.WithoutCancel(ctx), in.log, "writing delivery counts", in.claims.WriteCounts)
			return
		case <-counts.C:
			maintainStep(ctx, in.log, "writing delivery counts", in.claims.WriteCounts)
			maintainStep(ctx, in.log, "writing refused requests", in.tell.WriteRefused)
			maintainStep(ctx, in.log, "telling of dead letters", in.operator.TellOfDead)
		case <-sums.C:
			maintainStep(ctx, in.log, "writing figures", in.tell.WriteFigures)
			sums.Reset(figuresEvery(time.Since(began)))
		case <-learned.C:
			maintainStep(ctx, in.log, "reading learned secrets", in.learned.refresh)
		case <-sweep.C:
			maintainStep(ctx, in.log, "sweeping lines", in.sweepLines)
		case <-confirm.C:
			in.confirmations.again(ctx)
		case <-pull.C:
			maintainStep(ctx, in.log, "pulling due times back", in.pullBack)
			maintainStep(ctx, in.log, "sampling the backlog", in.sampleBacklog)
		case <-clock.C:
			maintainStep(ctx, in.log, "reading the database's clock", in.health.clock.read)
			maintainStep(ctx, in.log, "reading the database's durability settings", in.health.watchDurability)
			maintainStep(ctx, in.log, "testing the database", in.health.claiming.watch)
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

// maxSwept is how many lines one step of sweepLines looks at.
const maxSwept = 500

// lineSweep is how far the sweep of lines is, for one goroutine.
type lineSweep struct {
	last driver.Key            // the line that it looked at last
	none atomic.Pointer[setup] // in force when a round began that saw no lines; may be read by others
}

// sweepLines makes messages due that wait for their turn although nothing comes before them, as a crash may leave
// them. It goes round through all lines, some in each step, also past rows that the database refuses to change.
func (in *Engine) sweepLines(ctx context.Context) error {
	began, setup := in.lines.last == driver.Key{}, in.setup.Load()
	seen, last, err := in.store.SweepLines(ctx, in.lines.last, maxSwept)
	switch {
	case seen > 0:
		in.lines.none.Store(nil)
	case err != nil:
		return err
	case began:
		in.lines.none.Store(setup)
	}
	in.lines.last = driver.Key{}
	if seen == maxSwept {
		in.lines.last = last
	}
	return err
}

// mayHaveLines reports whether the store may have messages in lines. Another process, or the settings before a reload, may
// have routes with order that this process does not have. So only a sweep that began after the reload tells that there are none.
func (in *Engine) mayHaveLines() bool {
	setup := in.setup.Load()
	return setup.hasOrder() || in.lines.none.Load() != setup
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

// maxPulled is the most rows of one source or destination that one step of pullBack changes.
const maxPulled = 1000

// pullAhead is how far ahead due times may lie after the database's clock was set back.
const pullAhead = 5 * time.Minute

// pullBack makes work due that was put off while the database's clock was ahead, and shortens the
// arming of sources that were armed then.
func (in *Engine) pullBack(ctx context.Context) error {
	now := in.setup.Load()
	p := &driver.PullBackParams{
		Sources: slices.Clone(in.handlers.sources), Destinations: slices.Collect(maps.Keys(now.destinations)), Limit: maxPulled,
	}
	for name, src := range now.sources {
		if !slices.Contains(in.handlers.sources, name) {
			p.Sources = append(p.Sources, name)
		}
		if src.canLearn() {
			p.Armable = append(p.Armable, name)
		}
	}
	if in.health.clock.wentBack.Swap(false) {
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
			in.health.clock.wentBack.Store(true)
		}
		if err != nil || max(events, messages) < maxPulled {
			return err
		}
	}
}

// Prune removes finished work past its window: bodies, identities, and the quarantine beyond its bounds. It
// works in small chunks and rests between them, so that deliveries are answered meanwhile. One process
// prunes at a time; Run does so from time to time, and gives way to Prune. After a failure the result
// holds the rows that were removed before, or is nil.
//
// Nothing is removed while this machine's clock is more than an hour off the database's, or for an hour
// after it was set by more than that.
func (in *Engine) Prune(ctx context.Context) (*driver.PruneResult, error) {
	return in.pruner.prune(ctx, in.pruner.windows())
}

// probeInterval is the shortest time between two questions to the database that an unlimited number
// of requests cause.
const probeInterval = time.Second

// probeTimeout bounds such a question.
const probeTimeout = 5 * time.Second

// once runs an action at most once in probeInterval, and for probeTimeout at most. Callers in between
// get the result of the last run, and concurrent ones wait for it. The context of a caller ends its
// own waiting only: a run goes on for the other callers.
type once struct {
	mu   sync.Mutex
	last *onceRun // guarded by mu; nil before the first run
}

type onceRun struct {
	done chan struct{}
	err  error     // valid once done is closed
	at   time.Time // of its end; valid once done is closed
}

func (o *once) do(ctx context.Context, action func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	run := o.run(ctx, action)
	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run returns the run whose result counts now. It starts one if there is none.
func (o *once) run(ctx context.Context, action func(context.Context) error) *onceRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	if run := o.last; run != nil && (!run.ended() || time.Since(run.at) < probeInterval) {
		return run
	}
	run := &onceRun{done: make(chan struct{})}
	o.last = run
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	go func() {
		defer cancel()
		run.err = <-guard.Call("the question to the database", func() error { return action(ctx) })
		run.at = time.Now()
		close(run.done)
	}()
	return run
}

func (r *onceRun) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
