package work

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// fakeDB has one event, and is quick: tests of times run on it in a synctest bubble.
type fakeDB struct {
	driver.Driver[int]
	taken     atomic.Bool
	abandoned time.Time
	failures  int
}

var fakeEvent = driver.TakenEvent{Key: driver.EventKey("lab", "1"), Source: "lab", EventID: "1", Type: "push"}

func (*fakeDB) WorkLimits() driver.WorkLimits { return driver.WorkLimits{BatchTime: time.Minute} }

func (*fakeDB) SweepRuns(context.Context, *driver.SweepRunsParams) ([]driver.LostRun, error) {
	return nil, nil
}

func (db *fakeDB) DueSources(context.Context, []string) ([]driver.DueSource, error) {
	return []driver.DueSource{{Source: "lab", Fresh: !db.taken.Load()}}, nil
}

func (db *fakeDB) Take(context.Context, *driver.TakeParams) (driver.Run[int], error) {
	if db.taken.Swap(true) {
		return nil, nil
	}
	return &fakeRun{db: db}, nil
}

func (db *fakeDB) TakeClaim(context.Context, *driver.ClaimParams) (driver.Run[int], driver.ClaimResult, error) {
	return &fakeRun{db: db}, driver.ClaimResult{Claimed: true}, nil
}

func (db *fakeDB) CountInlineFailure(context.Context, *driver.InlineFailure) (*driver.InlineFailed, error) {
	db.failures++
	return &driver.InlineFailed{Failures: db.failures}, nil
}

type fakeRun struct {
	driver.Run[int]
	db *fakeDB
}

func (*fakeRun) Tx() int                            { return 0 }
func (*fakeRun) Events() []driver.TakenEvent        { return []driver.TakenEvent{fakeEvent} }
func (*fakeRun) Check(context.Context, error) error { return nil }
func (*fakeRun) Next(context.Context, driver.Key, *driver.FinishParams) error {
	return nil
}

func (*fakeRun) Finish(context.Context, *driver.FinishParams) error { return nil }

func (r *fakeRun) Abandon(context.Context) error {
	r.db.abandoned = time.Now()
	return nil
}

// waiting is a handler that returns once its context has ended.
type waiting struct{}

func (waiting) Types() map[string][]string  { return map[string][]string{"lab": {"*"}} }
func (waiting) Handles(string, string) bool { return true }

func (waiting) Start(ctx context.Context, _ int, _ *Event) *Call {
	returned := make(chan error, 1)
	go func() {
		<-ctx.Done()
		returned <- ctx.Err()
	}()
	return &Call{Done: returned, Enqueued: func() []string { return nil }}
}

func fakeWorkers(db *fakeDB, src *Source) *Workers[int] {
	return New(db, waiting{}, Options{
		Workers: 1, Batch: 1, HandlerTimeout: time.Hour, Retry: driver.Retry{Attempts: 3},
		Log: slog.New(slog.DiscardHandler), Source: func(string) *Source { return src },
		Wake: func(string) {}, Reopened: func() {}, Observe: func(*Observed) {},
	})
}

// When the process stops, handlers in progress have 10 s. After that their contexts end and their
// events are given back, without an attempt.
func TestHandlersAreCutOffAfterAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{}
		w := fakeWorkers(db, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		cancel()
		stopped := time.Now()
		<-ended
		if took := time.Since(stopped); took != drainTimeout || !db.abandoned.Equal(time.Now()) {
			t.Errorf("stopping took %s, the event was given back at %s; want %s, at the end", took, db.abandoned, drainTimeout)
		}
	})
}

// An Inline handler fails at the deadline of its answer, less a margin. It is blamed only if it had
// at least half of the source's time: otherwise other deliveries used that up.
func TestInlineHandlersThatRunOutOfTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		left     time.Duration // of 10 s
		failures int
	}{
		"all of its time":        {10 * time.Second, 1},
		"half of its time":       {5*time.Second + inlineMargin, 1},
		"less than half of it":   {5*time.Second + inlineMargin - 1, 0},
		"less than the margin":   {inlineMargin / 2, 0},
		"next to nothing":        {time.Nanosecond, 0},
		"no whole milliseconds":  {4*time.Second + inlineMargin + 400*time.Microsecond, 0},
		"more than it asked for": {time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, src := &fakeDB{}, &Source{Name: "lab", AckTimeout: 10 * time.Second, DeadLetterAfter: 5}
				w := fakeWorkers(db, src)
				ctx, cancel := context.WithTimeout(t.Context(), tt.left)
				defer cancel()
				began := time.Now()
				got := w.Inline(ctx, src, &driver.Claim{Key: fakeEvent.Key, Source: "lab", EventID: "1", Type: "push"})
				took := time.Since(began)
				w.Drain()
				if db.failures != tt.failures || (got.Failure != nil) != (tt.failures > 0) {
					t.Errorf("%d failures are counted, result %+v; want %d", db.failures, got, tt.failures)
				}
				if got.Failure == nil && !errors.Is(got.Err, context.DeadlineExceeded) {
					t.Errorf("error %v, want %v", got.Err, context.DeadlineExceeded)
				}
				if most := max(tt.left-inlineMargin, time.Millisecond); took > most {
					t.Errorf("answered after %s, want at most %s", took, most)
				}
			})
		})
	}
}
