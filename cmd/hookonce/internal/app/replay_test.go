package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// lossy is a store whose first replays fail or lose their confirmation.
type lossy struct {
	driver.Store
	failures, calls int
	err             error
}

func (s *lossy) Replay(ctx context.Context, p *driver.ReplayParams) (*driver.Replayed, error) {
	s.calls++
	fails := s.calls <= s.failures
	if fails && errors.Is(s.err, driver.ErrSerialization) {
		return nil, s.err // rolled back
	}
	replayed, err := s.Store.Replay(ctx, p)
	if err == nil && fails {
		return nil, s.err
	}
	return replayed, err
}

// A replay with an unknown commit is retried, and happens once.
func TestReplayEventRetries(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name            string
		failures, calls int
		err, want       error
	}{
		{"confirmed", 0, 1, nil, nil},
		{"unknown once", 1, 2, driver.ErrCommitUnknown, nil},
		{"rolled back once", 1, 2, driver.ErrSerialization, nil},
		{"always unknown", 10, 3, driver.ErrCommitUnknown, driver.ErrCommitUnknown},
		{"another error", 1, 1, broken, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := &lossy{Store: newStore(t), failures: tt.failures, err: tt.err}
			receive(t, store, now(t, store), "a")
			engine, err := NewEngine(store, settings(t, `
sources: {lab: {provider: none, event: {id: "body:id"}}}
destinations: {app: {url: "http://127.0.0.1:1/"}}
routes: [{name: all, to: app}]
`), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			replayed, err := ReplayEvent(t.Context(), engine, &hookonce.ReplayRequest{
				Source: "lab", EventID: "a", Mode: driver.ReplaySameID, RequestID: "r",
			})
			if !errors.Is(err, tt.want) || store.calls != tt.calls {
				t.Errorf("called %d times, error %v; want %d and %v", store.calls, err, tt.calls, tt.want)
			}
			repeated := errors.Is(tt.err, driver.ErrCommitUnknown)
			if err == nil && (replayed.Repeated != repeated || replayed.Generation != 1 || replayed.Messages != 1) {
				t.Errorf("%+v", replayed)
			}
			detail, err := store.Event(t.Context(), "lab", "a")
			if err != nil || detail.Generation != 1 || len(detail.History) != 1 || len(detail.Messages) != 1 {
				t.Errorf("event %+v, %v", detail, err)
			}
		})
	}
}
