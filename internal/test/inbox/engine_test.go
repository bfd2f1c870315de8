package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// lateClock is a store with a database clock that is behind this machine's.
type lateClock struct {
	driver.Store
	behind time.Duration
}

func (s *lateClock) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(-s.behind), err
}

// Clock and Ready agree: Ready fails if the skew exceeds the limit that Clock returns.
func TestClock(t *testing.T) {
	t.Parallel()
	const behind = 4 * time.Minute
	store := &lateClock{rig.OpenSQLite(t), behind}
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
		{"no timestamps", nil, 0, true},
		{"default tolerance", []hookonce.Source{stripe("a", 0)}, 150 * time.Second, false},
		{"two long tolerances", []hookonce.Source{stripe("a", time.Hour), stripe("b", 10*time.Minute)}, 5 * time.Minute, true},
		{"one short tolerance", []hookonce.Source{stripe("a", time.Hour), stripe("b", time.Minute)}, 30 * time.Second, false},
	} {
		in := newEngine(t, store, func(cfg *hookonce.Config) { cfg.Sources = append(cfg.Sources, tt.sources...) })
		skew, limit, err := in.Operator().Clock(t.Context())
		if err != nil || limit != tt.limit || skew.Round(time.Minute) != behind {
			t.Errorf("%s: skew %s, limit %s, error %v; want skew %s, limit %s", tt.name, skew, limit, err, behind, tt.limit)
		}
		if err := in.Ready(t.Context()); (err == nil) != tt.ready {
			t.Errorf("%s: Ready returned %v, want ready %t", tt.name, err, tt.ready)
		}
	}
}

func TestRunRunsOnce(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := in.Run(ctx); err == nil {
		t.Error("the second Run returned no error")
	}
}

func TestNewEngineNeedsAStore(t *testing.T) {
	t.Parallel()
	if _, err := hookonce.NewEngine(nil, nil); err == nil {
		t.Error("NewEngine without a store returned no error")
	}
}
