package work

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/provider"
)

// busyDB has one event whose object is busy until a time.
type busyDB struct {
	fakeDB
	until time.Time

	mu   sync.Mutex
	due  time.Time
	done time.Time // when it was handled
}

func (db *busyDB) DueSources(context.Context, []string) ([]driver.DueSource, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return []driver.DueSource{{Source: "lab", Fresh: db.isDue()}}, nil
}

func (db *busyDB) isDue() bool { return db.done.IsZero() && !time.Now().Before(db.due) }

func (db *busyDB) event() []driver.TakenEvent {
	ev := fakeEvent
	ev.Headers, ev.Body, ev.DueAt = []byte("{}"), []byte(`{"o":"a","v":1}`), db.due
	return []driver.TakenEvent{ev}
}

func (db *busyDB) Reserve(_ context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if p.Suspects == driver.OnlySuspects || !db.isDue() {
		return nil, nil
	}
	db.due = time.Now().Add(p.For)
	return db.event(), nil
}

func (db *busyDB) Take(_ context.Context, p *driver.TakeParams) (driver.Run[int], error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(p.Keys) == 0 && !db.isDue() {
		return nil, nil
	}
	return &busyRun{fakeRun{db: &db.fakeDB}, db, db.event()}, nil
}

type busyRun struct {
	fakeRun
	db     *busyDB
	events []driver.TakenEvent
}

func (r *busyRun) Events() []driver.TakenEvent { return r.events }

func (r *busyRun) Versions(_ context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, []driver.Key, error) {
	if time.Now().Before(r.db.until) {
		return nil, objects, nil
	}
	return nil, nil, nil
}

func (r *busyRun) Finish(_ context.Context, p *driver.FinishParams) error {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	for _, result := range p.Results {
		if result.Outcome == driver.WorkSucceeded {
			r.db.done = time.Now()
		}
		r.db.due = time.Now().Add(result.RetryIn)
	}
	return nil
}

// succeeding is a handler that returns at once.
type succeeding struct{ waiting }

func (succeeding) Start(context.Context, int, *Event) *Call {
	returned := make(chan error, 1)
	returned <- nil
	return &Call{Done: returned, Enqueued: func() []string { return nil }}
}

// While an object is busy, its event is looked at again and again. With Refetch each look
// fetches, so the looks become rarer, but the event runs soon after the object is free.
func TestLooksAtABusyObject(t *testing.T) {
	t.Parallel()
	spec, err := provider.Lookup(provider.None)
	if err != nil {
		t.Fatal(err)
	}
	x, err := provider.CompileRules(provider.EventRules{ID: "body:id"}.Or(spec.Event))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		busy, retryMax time.Duration
		most           int // fetches
		within         time.Duration
	}{
		"for a few seconds":       {5 * time.Second, time.Hour, 6, 12 * time.Second},
		"for an hour":             {time.Hour, time.Hour, 130, 62 * time.Second},
		"with short retries":      {time.Minute, 2 * time.Second, 40, 6 * time.Second},
		"without a longest retry": {time.Minute, 0, 70, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rules, err := stale.New("lab", []stale.Rule{{
					Matches: func(string) bool { return true }, Key: "body:o", Version: "body:v",
				}}, spec, x, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				fetches := 0
				src := &Source{
					Name: "lab", Stale: rules, RefetchTimeout: time.Second,
					Refetch: func(context.Context, *Event) ([]byte, error) { fetches++; return nil, nil },
				}
				db := &busyDB{until: time.Now().Add(tt.busy), due: time.Now()}
				w := New(db, succeeding{}, Options{
					Workers: 1, Batch: 1, HandlerTimeout: time.Minute, Retry: driver.Retry{Attempts: 3, Max: tt.retryMax},
					Log: slog.New(slog.DiscardHandler), Source: func(string) *Source { return src },
					Wake: func(string) {}, Reopened: func() {}, Observe: func(*Observed) {},
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { w.Run(ctx); close(ended) }()
				time.Sleep(tt.busy + tt.within)
				cancel()
				<-ended
				if db.done.IsZero() || fetches < 2 || fetches > tt.most {
					t.Errorf("%d fetches, done at %s; want at most %d fetches, and done", fetches, db.done, tt.most)
				}
				w.busyObjects.mu.Lock()
				defer w.busyObjects.mu.Unlock()
				if len(w.busyObjects.since) > 0 {
					t.Errorf("%d objects are remembered as busy", len(w.busyObjects.since))
				}
			})
		})
	}
}
