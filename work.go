package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	workTimeout = 10 * time.Second // for one call of the store
	// returnGrace is how long a handler may take to return once its context has
	// ended; for shorter time-outs it is as long as the time-out.
	returnGrace = 5 * time.Second
	// maxGivenUp is how often an event is run alone at once while the database gives up
	// in favour of concurrent transactions; the last time is a failed attempt.
	maxGivenUp = 5
	// refetchMargin is how much longer than its Refetch an event is reserved.
	refetchMargin = 30 * time.Second
	// maxRefetch bounds how many calls of Refetch one worker makes at a time.
	maxRefetch = 16
	maxWorkers = 1000
	maxBatch   = 1000
)

// works runs the handlers of an Inbox.
type works[T any] struct {
	db     driver.Driver[T]
	mux    *Mux[T]
	types  map[string][]string // by source
	names  []string            // the sources, sorted
	flying flights
	pace   pace

	background sync.WaitGroup // Inline handlers

	// Set by prepare.
	in     *Engine
	log    *slog.Logger
	limits driver.WorkLimits
	agenda *agenda
	slots  chan struct{} // one for each Inline handler that runs

	// quiet is held shared by whoever runs queued handlers, and alone by whoever runs
	// one whose process has ended before: if it kills this one too, nobody else shall
	// be taken for guilty.
	quiet sync.RWMutex
}

func newWorks[T any](db driver.Driver[T], mux *Mux[T]) *works[T] {
	types := mux.types()
	if mux != nil {
		mux.sealed = true
	}
	return &works[T]{db: db, mux: mux, types: types, names: slices.Sorted(maps.Keys(types))}
}

// prepare implements handlers.
func (w *works[T]) prepare(in *Engine) error {
	w.in, w.log, w.limits = in, in.log, w.db.WorkLimits()
	c := &in.cfg
	setDefault(&c.Workers, w.limits.Transactions)
	setDefault(&c.Batch, DefaultBatch)
	setDefault(&c.HandlerTimeout, w.limits.HandlerTimeout)
	setDefault(&c.Retry.Attempts, DefaultSendAttempts)
	setDefault(&c.Retry.First, DefaultFirstRetry)
	setDefault(&c.Retry.Max, max(DefaultMaxRetry, c.Retry.First))
	var faults []error
	if c.Workers < 1 || c.Workers > maxWorkers {
		faults = append(faults, fmt.Errorf("Config.Workers is %d: it must be 1 to %d", c.Workers, maxWorkers))
	}
	if c.Batch < 1 || c.Batch > maxBatch {
		faults = append(faults, fmt.Errorf("Config.Batch is %d: it must be 1 to %d", c.Batch, maxBatch))
	}
	if c.HandlerTimeout < 0 || c.HandlerTimeout > w.limits.MaxHandlerTimeout {
		faults = append(faults, fmt.Errorf("Config.HandlerTimeout is %s: it must be positive, and at most %s on this database; "+
			"slow work belongs into the outbox", c.HandlerTimeout, w.limits.MaxHandlerTimeout))
	}
	if err := c.Retry.check(); err != nil {
		faults = append(faults, fmt.Errorf("Config.Retry: %w", err))
	}
	if len(c.Sources) > 0 {
		for _, name := range w.names {
			if !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == name }) {
				faults = append(faults, fmt.Errorf("there are handlers for the source %q, which is not configured", name))
			}
		}
	}
	w.agenda = newAgenda(max(c.Workers, 1))
	w.slots = make(chan struct{}, max(c.Workers, 1))
	return errors.Join(faults...)
}

// handles implements handlers.
func (w *works[T]) handles(source, eventType string) bool {
	return w.mux.handler(source, eventType) != nil
}

// sources implements handlers.
func (w *works[T]) sources() []string { return w.names }

// wake implements handlers.
func (w *works[T]) wake(source string) { w.agenda.wake(task{source, false}) }

// run implements handlers. Handlers that are under way when ctx ends have
// drainTimeout; then their contexts end, and their events are given back.
func (w *works[T]) run(ctx context.Context) {
	if len(w.names) == 0 {
		return
	}
	workCtx, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	draining := context.AfterFunc(ctx, func() { time.AfterFunc(drainTimeout, stopWorking) })
	defer draining()
	var wg sync.WaitGroup
	for range w.in.cfg.Workers {
		wg.Go(func() { w.loop(ctx, workCtx) })
	}
	wg.Go(func() { w.poll(ctx) })
	wg.Wait()
}

// loop is one worker.
func (w *works[T]) loop(ctx, workCtx context.Context) {
	for ctx.Err() == nil {
		t, woken, ok := w.agenda.pick()
		if !ok {
			select {
			case <-ctx.Done():
			case <-w.agenda.tokens:
			}
			continue
		}
		more, err := w.step(ctx, workCtx, t)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("taking events failed, and is tried again within a second",
				slog.String("source", t.source), slog.Any("error", err))
		}
		w.agenda.looked(t, woken, more && err == nil)
	}
}

// poll finds, every second, what came due or was claimed elsewhere, and runs that
// were interrupted.
func (w *works[T]) poll(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var warned time.Time
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil && time.Since(warned) > warnInterval {
			w.log.Warn("looking for events failed, and is tried again every second", slog.Any("error", hintOf(err)))
			warned = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// hintOf adds what to do about a schema that does not fit.
func hintOf(err error) error {
	if errors.Is(err, driver.ErrSchema) {
		return fmt.Errorf("%w: call hookmigrate.Up, or run \"hookonce migrate up\"", err)
	}
	return err
}

func (w *works[T]) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	lost, err := w.db.SweepRuns(ctx, &driver.SweepRunsParams{
		Sources: w.names, MaxAttempts: w.in.cfg.Retry.Attempts, First: w.in.cfg.Retry.First, Max: w.in.cfg.Retry.Max,
	})
	for i := range lost {
		l := &lost[i]
		log := w.log.With(slog.String("source", l.Source), slog.String("event_id", l.EventID), slog.Int("attempt", l.Attempts))
		switch {
		case l.Dead:
			log.Error("dead: " + driver.ErrorRunInterrupted)
		case l.Alone:
			log.Warn(driver.ErrorRunInterrupted + "; it is tried again")
		default:
			log.Warn("the run of a batch was interrupted: the event is run alone from now on")
		}
	}
	due, dueErr := w.db.DueSources(ctx, w.names)
	w.agenda.wakeDue(due)
	return errors.Join(err, dueErr)
}

// step takes and works on what it finds of t, and reports whether there may be
// more.
func (w *works[T]) step(ctx, workCtx context.Context, t task) (more bool, err error) {
	if src := w.in.setup.Load().sources[t.source]; src != nil && src.Refetch != nil {
		return w.stepRefetch(ctx, workCtx, src)
	}
	p := &driver.TakeParams{
		Source: t.source, Types: w.types[t.source], Limit: w.pace.limit(t.source, w.in.cfg.Batch), Tried: t.tried,
		HandlerTimeout: w.in.cfg.HandlerTimeout,
	}
	if t.tried {
		p.Limit = 1
	}
	w.quiet.RLock()
	run, err := w.take(workCtx, p)
	if err != nil || run == nil {
		w.quiet.RUnlock()
		return false, err
	}
	events := run.Events()
	var alone []driver.TakenEvent
	if events[0].Crashes > 0 {
		w.abandon(workCtx, run)
		alone = events
	} else {
		alone, more = w.work(ctx, workCtx, run, nil, false)
	}
	w.quiet.RUnlock()
	w.workAlone(ctx, workCtx, alone, nil)
	return more || len(events) >= p.Limit, nil
}

func (w *works[T]) take(ctx context.Context, p *driver.TakeParams) (driver.Run[T], error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	return w.db.Take(ctx, p)
}

// maxMissed is how many events in a row somebody else may have, until those behind
// them are left to others too.
const maxMissed = 3

// workAlone runs events one by one, each in a transaction of its own. Those that it
// leaves are taken again like any others.
func (w *works[T]) workAlone(ctx, workCtx context.Context, events []driver.TakenEvent, current map[driver.Key][]byte) {
	missed := 0
	for i := range events {
		if ctx.Err() != nil || missed == maxMissed {
			return
		}
		missed++
		if w.runAlone(ctx, workCtx, &events[i], current) {
			missed = 0
		}
	}
}

// runAlone runs one event, again if the database gave up in favour of another
// transaction. It reports whether it could be taken.
func (w *works[T]) runAlone(ctx, workCtx context.Context, seen *driver.TakenEvent, current map[driver.Key][]byte) (taken bool) {
	exclusive := false
	for try := 1; try <= maxGivenUp && ctx.Err() == nil; try++ {
		switch w.tryAlone(ctx, workCtx, seen, current, exclusive, try == maxGivenUp) {
		case aloneEnded:
			return true
		case aloneMissed:
			return taken
		case aloneSuspect:
			exclusive = true
		case aloneGivenUp:
			sleep(ctx, time.Duration(try)*20*time.Millisecond)
		}
		taken = true
	}
	return taken
}

// aloneResult is what came of running one event.
type aloneResult int

const (
	aloneEnded   aloneResult = iota // its outcome is recorded
	aloneMissed                     // somebody else has it, or it is finished
	aloneGivenUp                    // the database gave up in favour of another transaction
	aloneSuspect                    // it must be run without anybody beside it
)

func (w *works[T]) tryAlone(ctx, workCtx context.Context, seen *driver.TakenEvent, current map[driver.Key][]byte, exclusive, final bool) aloneResult {
	if exclusive {
		w.quiet.Lock()
		defer w.quiet.Unlock()
	} else {
		w.quiet.RLock()
		defer w.quiet.RUnlock()
	}
	run, err := w.take(workCtx, &driver.TakeParams{
		Source: seen.Source, Keys: []driver.Key{seen.Key}, Limit: 1, HandlerTimeout: w.in.cfg.HandlerTimeout,
	})
	switch {
	case err != nil:
		w.log.Warn("taking an event failed", slog.String("source", seen.Source), slog.String("event_id", seen.EventID), slog.Any("error", err))
		return aloneMissed
	case run == nil:
		return aloneMissed
	case wasRun(seen, &run.Events()[0]):
		// Somebody else did, and it failed: its next attempt has a time of its own.
		w.abandon(workCtx, run)
		return aloneMissed
	case seen.Crashes > 0 && !exclusive:
		w.abandon(workCtx, run)
		return aloneSuspect
	}
	if again, _ := w.work(ctx, workCtx, run, current, final); len(again) > 0 {
		return aloneGivenUp
	}
	return aloneEnded
}

// wasRun reports whether an event has been run since it was seen.
func wasRun(seen, now *driver.TakenEvent) bool {
	return seen.Generation != now.Generation || seen.Attempts != now.Attempts || seen.Crashes != now.Crashes
}

// abandon gives the events of run back.
func (w *works[T]) abandon(ctx context.Context, run driver.Run[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	if err := run.Abandon(ctx); err != nil {
		w.log.Warn("a run was not given back; its events are found by the sweep", slog.Any("error", err))
	}
}
