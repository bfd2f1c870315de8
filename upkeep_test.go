package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/tell"
)

// pruningStore runs passes in order, one for each call of Prune, and records the calls.
type pruningStore struct {
	driver.Store
	ahead  time.Duration // its clock
	began  time.Time
	passes []func(context.Context) (*driver.PruneResult, error)
	calls  []pruneCall
}

func (s *pruningStore) Now(context.Context) (time.Time, error) { return time.Now().Add(s.ahead), nil }

func (s *pruningStore) RegisterWindows(context.Context, *driver.PruneParams) error { return nil }

type pruneCall struct {
	At     time.Duration // since the store was made
	Window time.Duration // the dedupe window of the source lab
	Rest   float64
}

func (s *pruningStore) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	s.calls = append(s.calls, pruneCall{time.Since(s.began), p.Sources["lab"].DedupeWindow, p.Rest})
	if len(s.calls) > len(s.passes) {
		return &driver.PruneResult{}, nil
	}
	return s.passes[len(s.calls)-1](ctx)
}

// newPruner returns a pruner with a window for all sources. It has no setup yet.
func newPruner(store driver.Store, window time.Duration) *pruner {
	log, clock := slog.New(slog.DiscardHandler), newClockKeeper(store)
	return &pruner{
		store: store, log: log, cfg: &Config{DedupeWindow: window, Retention: window}, setup: new(atomic.Pointer[setup]), clock: &clock,
		tell: tell.New(store, &tell.Options{Log: log}),
	}
}

// The windows of identities are longer than the settings say, by more than the time between two writes of counts.
func TestWindowsWaitForCounts(t *testing.T) {
	t.Parallel()
	p := newPruner(&pruningStore{}, 30*24*time.Hour)
	p.setup.Store(&setup{sources: map[string]*source{
		"own": {Source: Source{DedupeWindow: time.Hour}}, "short": {Source: Source{DedupeWindow: 2 * time.Second}}, "default": {},
	}})
	want := &driver.PruneParams{
		DedupeWindow: 30*24*time.Hour + time.Minute, Retention: 30 * 24 * time.Hour, Rest: pruneRest,
		Sources: map[string]driver.SourceWindows{"own": {DedupeWindow: time.Hour + time.Minute}, "short": {DedupeWindow: 4 * time.Second}, "default": {}},
	}
	if diff := cmp.Diff(want, p.windows()); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
}

// If a pass ends before all is pruned, the next one starts at once, with the windows of that
// moment and shorter rests. After a failed pass, pruning pauses.
func TestPruningContinues(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	untilTheDeadline := func(removed int64) func(context.Context) (*driver.PruneResult, error) {
		return func(ctx context.Context) (*driver.PruneResult, error) {
			<-ctx.Done()
			return &driver.PruneResult{Events: removed}, ctx.Err()
		}
	}
	for name, tt := range map[string]struct {
		passes []func(context.Context) (*driver.PruneResult, error)
		want   []pruneCall
	}{
		"much to remove": {
			passes: []func(context.Context) (*driver.PruneResult, error){untilTheDeadline(5), untilTheDeadline(7)},
			want:   []pruneCall{{time.Minute, hour + countWait, pruneRest}, {3 * time.Minute, 2*hour + countWait, pruneRest / 2}, {5 * time.Minute, 2*hour + countWait, pruneRest / 4}, {6 * time.Minute, 2*hour + countWait, pruneRest}},
		},
		"no answer from the database": {
			passes: []func(context.Context) (*driver.PruneResult, error){untilTheDeadline(0)},
			want:   []pruneCall{{time.Minute, hour + countWait, pruneRest}, {4 * time.Minute, 2*hour + countWait, pruneRest}, {5 * time.Minute, 2*hour + countWait, pruneRest}, {6 * time.Minute, 2*hour + countWait, pruneRest}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &pruningStore{began: time.Now(), passes: tt.passes}
				p := newPruner(store, 30*24*hour)
				set := func(window time.Duration) {
					p.setup.Store(&setup{sources: map[string]*source{"lab": {Source: Source{DedupeWindow: window}}}})
				}
				set(hour)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					p.run(ctx, false)
				}()
				time.Sleep(80 * time.Second)
				set(2 * hour) // as a reload does
				time.Sleep(5 * time.Minute)
				cancel()
				<-ended
				if diff := cmp.Diff(tt.want, store.calls); diff != "" {
					t.Errorf("calls of Prune (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Events look old to a clock that is ahead. Nothing is pruned while one may be.
func TestPruningDistrustsClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &pruningStore{began: time.Now()}
		p := newPruner(store, time.Hour)
		p.setup.Store(&setup{})
		prunes := func(when string, want bool) {
			t.Helper()
			before := len(store.calls)
			_, err := p.prune(t.Context(), p.windows())
			if pruned := len(store.calls) > before; pruned != want || (err == nil) != want {
				t.Errorf("%s: pruned is %t, error %v", when, pruned, err)
			}
		}
		set := func(by time.Duration) { // this machine's clock, and the database's with it
			r := *p.clock.last.Load()
			r.wall = r.wall.Add(-by)
			p.clock.last.Store(&r)
		}
		prunes("at first", true)
		for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			store.ahead = ahead
			prunes(fmt.Sprintf("the database's clock is ahead by %s", ahead), false)
		}
		store.ahead = time.Minute
		prunes("the clocks agree again", true)
		for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			set(by)
			prunes(fmt.Sprintf("the clock was set by %s", by), false)
			time.Sleep(maxClockError - time.Second)
			prunes("within an hour", false)
			time.Sleep(time.Second)
			prunes("after an hour", true)
		}
		set(time.Minute)
		prunes("the clock was corrected", true)
	})
}

// readSettings is a store that has only durability settings, or an error.
type readSettings struct {
	driver.Store
	weak []driver.Weakness
	err  error
}

func (s *readSettings) Weaknesses(context.Context) ([]driver.Weakness, error) { return s.weak, s.err }

// CheckDurability logs unsafe settings. For the upkeep only a look that failed is an error, which it logs too.
func TestUpkeepWatchesDurability(t *testing.T) {
	t.Parallel()
	store := &readSettings{}
	h := newHealth(store, slog.New(slog.DiscardHandler), nil, func() int64 { return 0 })
	weak := []driver.Weakness{{Setting: "fsync"}}
	for _, tt := range []struct {
		name   string
		weak   []driver.Weakness
		err    error
		unsafe bool // from then on
	}{
		{"weak", weak, nil, true}, {"no answer", nil, driver.ErrUnavailable, true}, {"mended", nil, nil, false},
	} {
		store.weak, store.err = tt.weak, tt.err
		if err := h.watchDurability(t.Context()); !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		}
		if err := h.refusal(); (err != nil) != tt.unsafe {
			t.Errorf("%s: deliveries are refused for %v, want %t", tt.name, err, tt.unsafe)
		}
	}
}

// linesStore has a number of lines, or those that sweep tells.
type linesStore struct {
	driver.Store
	lines int
	err   error
	after []driver.Key
	sweep func() // before a sweep ends; may be nil
}

func (s *linesStore) SweepLines(_ context.Context, after driver.Key, limit int) (int, driver.Key, error) {
	if s.after = append(s.after, after); s.sweep != nil {
		s.sweep()
	}
	return min(s.lines, limit), driver.Key{byte(len(s.after))}, s.err
}

// A reload that takes the last order away may leave messages in lines. Only a sweep that began after it tells that there
// are none.
func TestLinesAfterAReload(t *testing.T) {
	t.Parallel()
	store := &linesStore{}
	in := &Engine{store: store}
	without, with := &setup{}, &setup{routes: []*route{{Route: Route{Order: &Order{}}}}}
	in.setup.Store(without)
	knows := func(when string, want bool) {
		t.Helper()
		if got := in.mayHaveLines(); got != want {
			t.Errorf("%s: there may be lines: %t, want %t", when, got, want)
		}
	}
	sweep := func() {
		t.Helper()
		if err := in.sweepLines(t.Context()); err != nil {
			t.Error(err)
		}
	}
	knows("before the first sweep", true)
	sweep()
	knows("after a sweep", false)
	in.setup.Store(with)
	knows("with order", true)
	sweep()
	in.setup.Store(&setup{})
	knows("after a reload without order", true)
	store.sweep = func() { in.setup.Store(&setup{}) }
	sweep()
	knows("after a sweep during which the settings were reloaded", true)
	store.sweep = nil
	sweep()
	knows("after a sweep that began later", false)
	store.lines = 1
	sweep()
	knows("after a sweep that found a line", true)
}

// A row that the database refuses to change does not hold the sweep at its place.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	store := &linesStore{lines: maxSwept, err: driver.ErrBadRow}
	in := &Engine{store: store}
	in.setup.Store(&setup{})
	for range 2 {
		if err := in.sweepLines(t.Context()); !errors.Is(err, driver.ErrBadRow) {
			t.Errorf("the step returned %v, want the refusal", err)
		}
	}
	store.lines, store.err = 0, driver.ErrUnavailable
	for range 2 {
		if err := in.sweepLines(t.Context()); err == nil {
			t.Error("the step returned no error, want that of the database")
		}
	}
	if diff := cmp.Diff([]driver.Key{{}, {1}, {2}, {2}}, store.after); diff != "" {
		t.Errorf("sweeps began after (-want +got):\n%s", diff)
	}
	if !in.mayHaveLines() {
		t.Error("a sweep that failed tells that there are no lines")
	}
}
