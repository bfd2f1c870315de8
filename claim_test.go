package hookonce_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// deliverTogether delivers n requests in one batch: a first one is held in the
// database until all others wait in the queue.
func deliverTogether(t *testing.T, store *faultStore, n int, request func(i int) *http.Request) []result {
	t.Helper()
	after := store.before
	g := newGate()
	store.before = g.hold
	in := newEngine(t, store, nil)
	var wg sync.WaitGroup
	wg.Go(func() { deliver(in, delivery("first", "{}")) })
	<-g.arrived
	store.before = after

	results := make([]result, n)
	for i := range n {
		wg.Go(func() { results[i] = deliver(in, request(i)) })
	}
	waitFor(t, func() bool { return hookonce.Waiting(in) == n })
	close(g.open)
	wg.Wait()
	return results
}

// waitFor polls for a state that no channel tells of.
func waitFor(t *testing.T, state func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !state() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the state was not reached within a minute")
		}
	}
}

func TestOneBadClaimSpoilsNoOther(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"bad row", driver.ErrBadRow, 400},
		{"stuck key", driver.ErrLockTimeout, 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{1, 2, 3, 8} {
				for bad := range n {
					store := &faultStore{Store: openStore(t), before: failFor(tt.err, strconv.Itoa(bad))}
					got := deliverTogether(t, store, n, func(i int) *http.Request { return delivery(strconv.Itoa(i), "{}") })
					want := make([]result, n)
					for i := range want {
						want[i] = ok
					}
					want[bad] = result{Code: tt.want}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("%d in a batch, number %d %s (-want +got):\n%s", n, bad, tt.name, diff)
					}
				}
			}
		})
	}
}

func TestCopiesInOneBatchAreCoalesced(t *testing.T) {
	t.Parallel()
	store := &faultStore{Store: openStore(t), before: failFor(nil)}
	got := deliverTogether(t, store, 50, func(int) *http.Request { return delivery("same", "{}") })
	counts := make(map[result]int)
	for _, r := range got {
		counts[r]++
	}
	if diff := cmp.Diff(map[result]int{ok: 1, duplicate: 49}, counts); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := store.calls.Load(); n != 2 {
		t.Errorf("%d calls of Claim, want 2: the held one, and one for all copies", n)
	}
}

func TestUnknownCommitIs503AndTheRetrySettlesIt(t *testing.T) {
	t.Parallel()
	inner := openStore(t)
	lost := true
	store := &faultStore{Store: inner, before: func(ctx context.Context, p *driver.ClaimParams) error {
		if !lost {
			return nil
		}
		lost = false
		if _, err := inner.Claim(ctx, p); err != nil {
			return err
		}
		return driver.ErrCommitUnknown // it happened, and nobody was told
	}}
	in := newEngine(t, store, nil)
	w := httptest.NewRecorder()
	in.ServeHTTP(w, delivery("1", "{}"))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Fatalf("answer %d, Retry-After %q; want 503 with Retry-After", w.Code, w.Header().Get("Retry-After"))
	}
	if diff := cmp.Diff(duplicate, deliver(in, delivery("1", "{}"))); diff != "" {
		t.Errorf("the retry (-want +got):\n%s", diff)
	}
}

func TestSerializationFailureIsTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	store := &faultStore{Store: openStore(t)}
	store.before = func(context.Context, *driver.ClaimParams) error {
		if store.calls.Load() == 1 {
			return driver.ErrSerialization
		}
		return nil
	}
	if diff := cmp.Diff(ok, deliver(newEngine(t, store, nil), delivery("1", "{}"))); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestHungDatabaseIs503(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := &faultStore{Store: openStore(t), before: g.hold}
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources[0].AckTimeout = 20 * time.Millisecond })
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("answer %d, want 503", got.Code)
	}
}

func TestFullQueueIs503(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := &faultStore{Store: openStore(t), before: g.hold}
	in := newEngine(t, store, func(c *hookonce.Config) { c.Queue = 4 })
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := deliver(in, delivery("held", "{}")); got != ok {
			t.Errorf("the held delivery: %+v", got)
		}
	})
	<-g.arrived
	for i := range 4 {
		wg.Go(func() {
			if got := deliver(in, delivery(strconv.Itoa(i), "{}")); got != ok {
				t.Errorf("a delivery that fits the queue: %+v", got)
			}
		})
	}
	waitFor(t, func() bool { return hookonce.Waiting(in) == 4 })
	if got := deliver(in, delivery("one too many", "{}")); got.Code != 503 {
		t.Errorf("the delivery beyond the queue: %+v, want 503", got)
	}
	close(g.open)
	wg.Wait()
}

func TestBodiesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := &faultStore{Store: openStore(t), before: g.hold}
	in := newEngine(t, store, func(c *hookonce.Config) { c.BodyBytes = 1000 })
	var wg sync.WaitGroup
	wg.Go(func() {
		// A single delivery always fits: it could never be received otherwise.
		if got := deliver(in, delivery("held", fmt.Sprintf("%2000d", 1))); got != ok {
			t.Errorf("the held delivery: %+v", got)
		}
	})
	<-g.arrived
	if got := deliver(in, delivery("2", "{}")); got.Code != 503 {
		t.Errorf("beyond the bytes: %+v, want 503", got)
	}
	close(g.open)
	wg.Wait()
}

func TestDrainAnswersWhatIsQueued(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := &faultStore{Store: openStore(t), before: g.hold}
	in := newEngine(t, store, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if got := deliver(in, delivery(strconv.Itoa(i), "{}")); got != ok {
				t.Errorf("queued before the drain: %+v", got)
			}
		})
		<-g.arrived // the first one is in the database before the others queue
	}
	waitFor(t, func() bool { return hookonce.Waiting(in) == 7 })
	drained := make(chan struct{})
	go func() { in.Drain(); close(drained) }()
	waitFor(t, func() bool { return errors.Is(in.Ready(t.Context()), hookonce.ErrDraining) })
	if got := deliver(in, delivery("late", "{}")); got.Code != 503 {
		t.Errorf("after the drain began: %+v, want 503", got)
	}
	select {
	case <-drained:
		t.Error("Drain returned while deliveries were queued")
	default:
	}
	close(g.open)
	wg.Wait()
	<-drained
}

// A key that is stuck in the database holds up the batch it is in, and no other:
// its copies wait for that batch instead of spoiling the next ones.
func TestCopiesOfAStuckKeyHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	g := newGate()
	stuck := func(p *driver.ClaimParams) bool {
		return slices.ContainsFunc(p.Claims, func(c driver.Claim) bool { return c.EventID == "stuck" })
	}
	store := &manyFlushers{faultStore{Store: openStore(t), before: func(ctx context.Context, p *driver.ClaimParams) error {
		if stuck(p) {
			return g.hold(ctx, p)
		}
		return nil
	}}}
	in := newEngine(t, store, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { deliver(in, delivery("stuck", "{}")) })
		<-g.arrived
	}
	waitFor(t, func() bool { return hookonce.Waiting(in) == 3 })
	for i := range 20 {
		if got := deliver(in, delivery(strconv.Itoa(i), "{}")); got != ok {
			t.Errorf("a delivery of another event: %+v", got)
		}
	}
	close(g.open)
	wg.Wait()
	if n := hookonce.Waiting(in); n != 0 {
		t.Errorf("%d deliveries still wait after the stuck key was free", n)
	}
	if got := deliver(in, delivery("stuck", "{}")); got != duplicate {
		t.Errorf("a later copy: %+v", got)
	}
}

// manyFlushers is a store on which four claims at a time are worth making.
type manyFlushers struct{ faultStore }

func (*manyFlushers) ClaimConcurrency() int { return 4 }

// A delivery that gave up waiting leaves nothing behind that would hold up the
// next copy of its event.
func TestAbandonedDeliveryBlocksNoCopy(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := &faultStore{Store: openStore(t), before: g.hold}
	in := newEngine(t, store, func(c *hookonce.Config) {
		patient := c.Sources[0]
		patient.Name = "patient"
		c.Sources[0].AckTimeout = 20 * time.Millisecond
		c.Sources = append(c.Sources, patient)
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		r := delivery("held", "{}")
		r.URL.Path = "/webhooks/patient"
		deliver(in, r)
	})
	<-g.arrived
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Fatalf("queued beyond its deadline: %+v, want 503", got)
	}
	if n := hookonce.Waiting(in); n != 0 {
		t.Errorf("%d deliveries wait, want none: the abandoned one still holds its place", n)
	}
	close(g.open)
	wg.Wait()
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("the retry: %+v, want ok: the first try had never been claimed", got)
	}
}
