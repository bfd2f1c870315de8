package hookonce

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// pruningStore prunes as told, and notes when it was asked to and by which window.
type pruningStore struct {
	driver.Store
	began  time.Time
	passes []func(context.Context) (*driver.PruneResult, error)
	calls  []pruneCall
}

type pruneCall struct {
	At     time.Duration
	Window time.Duration
}

func (s *pruningStore) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	s.calls = append(s.calls, pruneCall{time.Since(s.began), p.Sources["lab"].DedupeWindow})
	if len(s.calls) > len(s.passes) {
		return &driver.PruneResult{}, nil
	}
	return s.passes[len(s.calls)-1](ctx)
}

// Pruning that is not done within a pass goes on at once, by the windows as they are
// then; pruning that fails waits.
func TestPruningGoesOn(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	until := func(removed int64) func(context.Context) (*driver.PruneResult, error) {
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
			passes: []func(context.Context) (*driver.PruneResult, error){until(5), until(7)},
			want:   []pruneCall{{time.Minute, hour}, {3 * time.Minute, 2 * hour}, {5 * time.Minute, 2 * hour}, {6 * time.Minute, 2 * hour}},
		},
		"a server that does not answer": {
			passes: []func(context.Context) (*driver.PruneResult, error){until(0)},
			want:   []pruneCall{{time.Minute, hour}, {4 * time.Minute, 2 * hour}, {5 * time.Minute, 2 * hour}, {6 * time.Minute, 2 * hour}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &pruningStore{began: time.Now(), passes: tt.passes}
				in := &Engine{store: store, log: slog.New(slog.DiscardHandler)}
				in.cfg.DedupeWindow, in.cfg.Retention = 30*24*hour, 30*24*hour
				set := func(window time.Duration) {
					in.setup.Store(&setup{sources: map[string]*source{"lab": {Source: Source{DedupeWindow: window}}}})
				}
				set(hour)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					in.pruneAgain(ctx)
				}()
				time.Sleep(80 * time.Second)
				set(2 * hour) // settings are read again
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
