package claims_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A callback that ends its goroutine fails the deliveries of its batch, unless their claims have
// results. It keeps neither their events nor the place of its flusher: the events are claimed later.
func TestCallbackThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	const ended = "the claim's goroutine was ended by a callback, such as an Observer: it must return"
	for name, tt := range map[string]struct {
		fault         error // of the database
		afterCommit   bool  // the callback Claimed ends the goroutine, not Observe
		first, second string
	}{
		"after a claim":            {nil, false, ended, duplicate},
		"while the database fails": {driver.ErrUnavailable, false, ended, claimed},
		"after the commit":         {nil, true, claimed, duplicate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			end := func(here bool, size int) {
				if here && size == 2 && !mended.Load() {
					runtime.Goexit()
				}
			}
			g := rig.NewGate("held")
			q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(ctx context.Context, p *driver.ClaimParams) error {
				if len(p.Claims) == 2 && !mended.Load() {
					return tt.fault
				}
				return g.Hold(ctx, p)
			}}, func(o *claims.Options) {
				o.Observe = func(n int, _ time.Duration, _ error) { end(!tt.afterCommit, n) }
				o.Claimed = func(all []*driver.Claim) { end(tt.afterCommit, len(all)) }
			})
			if diff := cmp.Diff([]string{tt.first, tt.first}, claimTogether(t, q, g, unit("1", "2"))[0]); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			mended.Store(true)
			if diff := cmp.Diff([]string{tt.second, tt.second}, claim(t, q, unit("1", "2"))); diff != "" {
				t.Errorf("outcomes afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

// A store that neither inserted nor found an event leaves its claim unsettled: that is no duplicate.
func TestUnsettledResultIsNoDuplicate(t *testing.T) {
	t.Parallel()
	q := newQueue(t, unsettledStore{rig.OpenSQLite(t)}, nil)
	u := unit("1", "2")
	if err := q.Claim(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	for _, r := range u.Results {
		if !errors.Is(r.Err, driver.ErrNotStored) {
			t.Errorf("result %+v, want %v", r, driver.ErrNotStored)
		}
	}
}

type unsettledStore struct{ driver.Store }

func (unsettledStore) Claim(_ context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	return make([]driver.ClaimResult, len(p.Claims)), nil
}
