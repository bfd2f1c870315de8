package hookonce_test

import (
	"context"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// slowClock is a store whose database's clock is behind.
type slowClock struct {
	driver.Store
	behind time.Duration
}

func (s *slowClock) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(-s.behind), err
}

// What Clock tells and what Ready refuses are the same.
func TestClock(t *testing.T) {
	t.Parallel()
	const behind = 4 * time.Minute
	store := &slowClock{openStore(t), behind}
	stripe := func(name string, tolerance time.Duration) hookonce.Source {
		return hookonce.Source{
			Name: name, Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret), Tolerance: tolerance,
		}
	}
	for _, tt := range []struct {
		name    string
		sources []hookonce.Source
		limit   time.Duration
		ready   bool
	}{
		{"none signs a timestamp", nil, 0, true},
		{"the default", []hookonce.Source{stripe("a", 0)}, 150 * time.Second, false},
		{"the smallest", []hookonce.Source{stripe("a", time.Hour), stripe("b", 10*time.Minute)}, 5 * time.Minute, true},
		{"one of them", []hookonce.Source{stripe("a", time.Hour), stripe("b", time.Minute)}, 30 * time.Second, false},
	} {
		in := newEngine(t, store, func(cfg *hookonce.Config) { cfg.Sources = append(cfg.Sources, tt.sources...) })
		skew, limit, err := in.Clock(t.Context())
		if err != nil || limit != tt.limit || skew.Round(time.Minute) != behind {
			t.Errorf("%s: skew %s, limit %s, %v; want %s and %s", tt.name, skew, limit, err, behind, tt.limit)
		}
		if err := in.Ready(t.Context()); (err == nil) != tt.ready {
			t.Errorf("%s: Ready returned %v", tt.name, err)
		}
	}
}

func TestRunRunsOnce(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := in.Run(ctx); err == nil {
		t.Error("a second Run: no error")
	}
}

func TestNewNeedsAStore(t *testing.T) {
	t.Parallel()
	if _, err := hookonce.NewEngine(nil, nil); err == nil {
		t.Error("no error")
	}
}
