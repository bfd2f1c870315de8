package hookonce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
)

// errDraining is the error of Ready after Drain was called.
var errDraining = errors.New("hookonce: draining")

// Ready returns nil when deliveries can be claimed: the database answers, has the schema of this
// program and loses no confirmed commit, its clock and this machine's differ by less than half of the
// smallest tolerance of the sources, the latest claims did not all fail, and Drain was not called.
func (in *Engine) Ready(ctx context.Context) error {
	if in.draining.Load() {
		return errDraining
	}
	if err := in.checkSchema(ctx); err != nil {
		return err
	}
	if err := in.checkDurability(ctx); err != nil {
		return err
	}
	skew, limit, err := in.compareClocks(ctx)
	if err == nil && limit > 0 && skew.Abs() > limit {
		err = fmt.Errorf("hookonce: this machine's clock differs from the database's by %s: set both by NTP", skew.Round(time.Millisecond))
	}
	if err != nil {
		return err
	}
	return in.claiming.check(ctx)
}

// checkSchema returns an error if the schema is not this program's. It looks until the schema fits.
func (in *Engine) checkSchema(ctx context.Context) error {
	if in.fits.Load() {
		return nil
	}
	applied, err := in.store.Applied(ctx)
	if err != nil {
		return err
	}
	if err := driver.CheckSchema(in.store.Migrations(), applied); err != nil {
		return fmt.Errorf("hookonce: %w", err)
	}
	in.fits.Store(true)
	return nil
}

// compareClocks implements operate.Engine.Clock.
func (in *Engine) compareClocks(ctx context.Context) (skew, limit time.Duration, err error) {
	if err := in.clock.read(ctx); err != nil {
		return 0, 0, fmt.Errorf("hookonce: the database does not answer: %w", err)
	}
	for _, src := range in.setup.Load().sources {
		if half := src.tolerance / 2; half > 0 && (limit == 0 || half < limit) {
			limit = half
		}
	}
	return in.clock.skew(), limit, nil
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

// clockKeeper compares this machine's clock with the database's.
type clockKeeper struct {
	store driver.Store
	last  *atomic.Pointer[clockReading]
	again *once
	// wentBack is set while the database's clock may have been set back since the last pullBack. Nothing is known of the time
	// before this process.
	wentBack *atomic.Bool
}

// clockReading is one comparison. The wall clock may be set; the monotonic clock never is.
type clockReading struct {
	wall      time.Time // of this machine, without the monotonic clock
	monotonic time.Time
	skew      time.Duration // this machine's clock minus the database's
	// stepped is when this machine's clock was last found to be set by more than maxClockError; zero: never.
	stepped time.Time
}

// maxClockError is the largest error of a clock with which old rows are removed. Events of a clock that was ahead
// cannot be told from old ones.
const maxClockError = time.Hour

// maxClockJitter is how far a comparison of clocks may be off.
const maxClockJitter = 10 * time.Second

func newClockKeeper(store driver.Store) clockKeeper {
	c := clockKeeper{store: store, last: new(atomic.Pointer[clockReading]), again: new(once), wentBack: new(atomic.Bool)}
	c.wentBack.Store(true)
	return c
}

// read compares the clocks.
func (c *clockKeeper) read(ctx context.Context) error {
	before := time.Now()
	db, err := c.store.Now(ctx)
	if err != nil {
		return err
	}
	after := time.Now()
	r := &clockReading{
		wall: after.Round(0), monotonic: after,
		// On the monotonic clock, so that a step between the two readings is not taken for half a skew.
		skew: after.Round(0).Add(-after.Sub(before) / 2).Sub(db),
	}
	if last := c.last.Load(); last != nil {
		r.stepped = last.stepped
		if last.step(after).Abs() > maxClockError {
			r.stepped = after
		}
		if last.step(after)+last.skew-r.skew < -maxClockJitter { // the step of the database's clock
			c.wentBack.Store(true)
		}
	}
	c.last.Store(r)
	return nil
}

// step returns by how much this machine's clock was set since r.
func (r *clockReading) step(now time.Time) time.Duration {
	return now.Round(0).Sub(r.wall) - now.Sub(r.monotonic)
}

// plausible compares the clocks, and fails if rows that look old may be new: the clocks differ by more than
// maxClockError, or this machine's was lately set by more. A machine that slept looks as if its clock had been set.
func (c *clockKeeper) plausible(ctx context.Context) error {
	if err := c.read(ctx); err != nil {
		return err
	}
	r := c.last.Load()
	switch {
	case r.skew.Abs() > maxClockError:
		return fmt.Errorf("this machine's clock differs from the database's by %s: set both by NTP", r.skew.Round(time.Second))
	case !r.stepped.IsZero() && time.Since(r.stepped) < maxClockError:
		return fmt.Errorf("this machine's clock was set, or the machine slept, for more than %s: waiting until %s",
			maxClockError, r.stepped.Add(maxClockError).UTC().Format(time.RFC3339))
	}
	return nil
}

// skew returns this machine's clock minus the database's: as they were compared last, plus any step
// of this machine's clock since then.
func (c *clockKeeper) skew() time.Duration {
	r := c.last.Load()
	if r == nil {
		return 0
	}
	return r.skew + r.step(time.Now())
}

// isOff reports whether this machine's clock is so far from the database's that a timestamp within
// tolerance may look stale. If it does not know of that, it compares the clocks again, at most once
// in probeInterval: the database's clock may have been set, too. While the database does not answer,
// it reports true, because nothing can be claimed then anyway.
func (c *clockKeeper) isOff(ctx context.Context, tolerance time.Duration) bool {
	if tolerance <= 0 {
		return false
	}
	if c.skew().Abs() > tolerance/2 {
		return true
	}
	return c.again.do(ctx, c.read) != nil || c.skew().Abs() > tolerance/2
}

// maxFailedClaims is the number of claims that may fail one after the other while the engine stays
// ready.
const maxFailedClaims = 5

// claimHealth knows whether claims succeed. A database may answer questions and still refuse every
// write, for example because its disk is full.
type claimHealth struct {
	store  driver.Store
	failed *atomic.Int64 // claims, since the last success
	probe  *once
}

func newClaimHealth(store driver.Store) claimHealth {
	return claimHealth{store: store, failed: new(atomic.Int64), probe: new(once)}
}

// note records the outcome of one claim, of any number of events.
func (h *claimHealth) note(err error) {
	switch {
	case err == nil:
		h.failed.Store(0)
	case !driver.FaultOfRows(err):
		h.failed.Add(1)
	}
}

// check returns an error after maxFailedClaims failures in a row, until a claim succeeds. A load
// balancer may send no deliveries meanwhile, so check then makes a claim of its own, at most once in
// probeInterval.
func (h *claimHealth) check(ctx context.Context) error {
	if h.failed.Load() < maxFailedClaims {
		return nil
	}
	if err := h.probe.do(ctx, h.store.ProbeClaim); err != nil {
		return fmt.Errorf("hookonce: the latest claims failed, and so does a test: %w", err)
	}
	h.failed.Store(0)
	return nil
}
