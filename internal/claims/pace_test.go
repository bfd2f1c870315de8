package claims_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// slowStore is a real store that takes too long for more than most claims in one call; 0 sets no
// bound. hangs says that it then returns only at the caller's deadline.
type slowStore struct {
	driver.Store
	most  atomic.Int64
	hangs bool
	gate  *rig.Gate

	mu    sync.Mutex
	sizes []int // of the calls
}

func (s *slowStore) ClaimConcurrency() int { return 1 }

func (s *slowStore) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(p.Claims))
	s.mu.Unlock()
	if err := s.gate.Hold(ctx, p); err != nil {
		return nil, err
	}
	if most := s.most.Load(); most > 0 && len(p.Claims) > int(most) {
		if !s.hangs {
			return nil, fmt.Errorf("%w: injected", driver.ErrTimedOut)
		}
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", driver.ErrCommitUnknown, ctx.Err())
	}
	return s.Store.Claim(ctx, p)
}

// takeSizes returns the sizes of the calls since the last time.
func (s *slowStore) takeSizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sizes := s.sizes
	s.sizes = nil
	return sizes
}

// A batch that times out is claimed in smaller batches at once. The next batches are as small, and
// grow again when the disk is quick again.
func TestBatchesShrinkAndGrow(t *testing.T) {
	t.Parallel()
	store := &slowStore{Store: rig.OpenSQLite(t), gate: rig.NewGate("held")}
	store.most.Store(10)
	q := newQueue(t, store, nil)
	n := 0
	units := func(count int) (all []*claims.Unit) {
		for range count {
			n++
			all = append(all, unit(fmt.Sprint(n)))
		}
		return all
	}
	wantClaimed := func(results [][]string) {
		t.Helper()
		for _, r := range results {
			if r[0] != claimed {
				t.Fatalf("outcome %q, want all claimed", r[0])
			}
		}
	}
	wantClaimed(claimTogether(t, q, store.gate, units(100)...))
	if sizes := store.takeSizes(); sizes[1] != 100 || !slices.Contains(sizes, 6) {
		t.Errorf("calls with %v claims, want 1, 100, and halves down to 6", sizes)
	}
	many := units(100)
	var wg sync.WaitGroup
	for _, u := range many {
		wg.Go(func() { claim(t, q, u) })
	}
	wg.Wait()
	if sizes := store.takeSizes(); slices.Max(sizes) > 20 {
		t.Errorf("calls with %v claims after batches of 10 succeeded, want none of more than twice as many", sizes)
	}
	store.most.Store(0)
	for range 400 {
		claim(t, q, units(1)[0])
	}
	store.takeSizes()
	var all []driver.Claim
	for i := range claims.MaxBatch {
		all = append(all, event(fmt.Sprint("last ", i), "{}"))
	}
	claim(t, q, claims.NewUnit(all, false, time.Now().Add(time.Minute)))
	if sizes := store.takeSizes(); !slices.Equal(sizes, []int{claims.MaxBatch}) {
		t.Errorf("calls with %v claims when the disk is quick again, want one with all %d", sizes, claims.MaxBatch)
	}
}

// Deliveries whose batch hangs until their deadline fail, and come back together. The batches shrink
// until they succeed.
func TestDeliveriesThatComeBackTogether(t *testing.T) {
	t.Parallel()
	store := &slowStore{Store: rig.OpenSQLite(t), hangs: true, gate: rig.NewGate("held")}
	store.most.Store(10)
	close(store.gate.Open)
	q := newQueue(t, store, nil)
	open := make(map[string]bool)
	for i := range 80 {
		open[fmt.Sprint(i)] = true
	}
	eventually.True(t, "all events are claimed", func() bool { // one more delivery of each
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, id := range slices.Collect(maps.Keys(open)) {
			wg.Go(func() {
				u := claims.NewUnit([]driver.Claim{event(id, "{}")}, false, time.Now().Add(300*time.Millisecond))
				if err := q.Claim(t.Context(), u); err == nil && u.Results[0].Err == nil {
					mu.Lock()
					defer mu.Unlock()
					delete(open, id)
				}
			})
		}
		wg.Wait()
		return len(open) == 0
	})
}

// A delivery whose time is over is not claimed again with the smaller batches.
func TestOverdueDeliveryIsNotRetried(t *testing.T) {
	t.Parallel()
	store := &slowStore{Store: rig.OpenSQLite(t), gate: rig.NewGate("held")}
	var timedOut atomic.Bool
	overdue := claims.NewUnit([]driver.Claim{event("overdue", "{}")}, false, time.Now())
	q := newQueue(t, &rig.FaultStore{Store: store, Before: func(_ context.Context, p *driver.ClaimParams) error {
		if len(p.Claims) == 1 || timedOut.Swap(true) {
			return nil
		}
		return driver.ErrTimedOut
	}}, nil)
	got := claimTogether(t, q, store.gate, overdue, unit("other"))
	if !errors.Is(overdue.Results[0].Err, driver.ErrTimedOut) || got[1][0] != claimed {
		t.Errorf("outcomes %q, want the error for the first one and the second one claimed", got)
	}
	if stored(t, store, "overdue") != nil {
		t.Error("the overdue delivery was claimed")
	}
}
