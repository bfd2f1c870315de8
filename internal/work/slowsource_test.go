package work

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// twoSources is a database with endless due events of the source "slow". The source "quick" has one
// event once ready is set.
type twoSources struct {
	fakeDB
	most  int // transactions of handlers
	ready atomic.Bool
	taken atomic.Int64
}

func (db *twoSources) WorkLimits() driver.WorkLimits {
	return driver.WorkLimits{BatchTime: time.Minute, MaxTransactions: db.most}
}

func (*twoSources) DueSources(context.Context, []string) ([]driver.DueSource, error) {
	return []driver.DueSource{{Source: "slow", Fresh: true, Tried: true}}, nil
}

func (db *twoSources) Take(_ context.Context, p *driver.TakeParams) (driver.Run[int], error) {
	if p.Source == "quick" && (p.Tried || !db.ready.Swap(false)) {
		return nil, nil
	}
	id := fmt.Sprint(db.taken.Add(1))
	return &runOf{fakeRun{db: &db.fakeDB}, driver.TakenEvent{
		Key: driver.EventKey(p.Source, id), Source: p.Source, EventID: id, Type: "push",
	}}, nil
}

// runOf is a run of one event.
type runOf struct {
	fakeRun
	event driver.TakenEvent
}

func (r *runOf) Events() []driver.TakenEvent { return []driver.TakenEvent{r.event} }

// slowAndQuick are handlers: those of the source "slow" wait for release.
type slowAndQuick struct {
	release chan struct{}
	slow    atomic.Int64 // handlers in progress
	quick   atomic.Int64 // handled events
}

func (*slowAndQuick) Types() map[string][]string {
	return map[string][]string{"slow": {"*"}, "quick": {"*"}}
}

func (*slowAndQuick) Handles(string, string) bool { return true }

func (h *slowAndQuick) Start(_ context.Context, _ int, ev *Event) *Call {
	returned := make(chan error, 1)
	go func() {
		if ev.Source == "slow" {
			h.slow.Add(1)
			<-h.release
			h.slow.Add(-1)
		} else {
			h.quick.Add(1)
		}
		returned <- nil
	}()
	return &Call{Done: returned, Enqueued: func() []string { return nil }}
}

// The handlers of one source hold all workers that they may have. An event of another source is
// handled all the same.
func TestQuickSourceBesideASlowOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ workers, most, slow int }{
		{workers: 2, slow: 1},
		{workers: 4, slow: 3},
		{workers: 8, most: 4, slow: 3}, // the pool bounds the workers
	} {
		t.Run(fmt.Sprintf("%d workers, %d transactions", c.workers, c.most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, h := &twoSources{most: c.most}, &slowAndQuick{release: make(chan struct{})}
				w := New(db, h, Options{
					Workers: c.workers, Batch: 1, HandlerTimeout: time.Hour, Retry: driver.Retry{Attempts: 3},
					Log: slog.New(slog.DiscardHandler), Source: func(name string) *Source { return &Source{Name: name} },
					Wake: func(string) {}, Reopened: func() {}, Observe: func(*Observed) {}, Lost: func(*driver.LostRun) {},
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); w.Run(ctx) }()
				time.Sleep(time.Minute) // looks wake all workers that may begin
				synctest.Wait()
				if got := h.slow.Load(); got != int64(c.slow) {
					t.Errorf("%d handlers of the slow source run, want %d", got, c.slow)
				}
				db.ready.Store(true)
				w.Wake("quick")
				synctest.Wait()
				if slow, quick := h.slow.Load(), h.quick.Load(); quick != 1 || slow != int64(c.slow) {
					t.Errorf("%d events of the quick source were handled beside %d slow handlers, want 1 and %d", quick, slow, c.slow)
				}
				stop()
				close(h.release)
				<-ended
			})
		})
	}
}
