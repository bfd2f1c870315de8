package claims_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// unitOf returns a delivery of n events to a source.
func unitOf(source, id string, n int) *claims.Unit {
	var all []driver.Claim
	for i := range n {
		c := event(fmt.Sprint(source, " ", id, " ", i), "{}")
		c.Source = source
		all = append(all, c)
	}
	return claims.NewUnit(all, false, time.Now().Add(time.Minute))
}

// A full queue takes the deliveries of a source that has few in it. For each it refuses the last
// delivery of the source that has the most.
func TestFullQueueIsShared(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}, func(o *claims.Options) { o.MaxUnits = 4 })
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived

	var mu sync.Mutex
	outcomes := make(map[string]string)
	send := func(source, id string) {
		wg.Go(func() {
			got := claim(t, q, unitOf(source, id, 1))[0]
			mu.Lock()
			defer mu.Unlock()
			outcomes[source+" "+id] = got
		})
	}
	refused := func(id string) {
		t.Helper()
		eventually.True(t, "the delivery is claimed or waits", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return outcomes[id] == claims.ErrFull.Error()
		})
	}
	for i := range 4 {
		send("flood", fmt.Sprint(i))
		eventually.True(t, "the delivery waits", func() bool { return q.Waiting() == i+1 })
	}
	if !q.Full("flood") || q.Full("quiet") {
		t.Errorf("full for the flood: %t, want true; for another source: %t, want false", q.Full("flood"), q.Full("quiet"))
	}
	send("flood", "too many")
	refused("flood too many")
	send("quiet", "0")
	refused("flood 3")
	send("quiet", "1")
	refused("flood 2")
	send("quiet", "too many") // two deliveries are its share
	refused("quiet too many")
	if n := q.Waiting(); n != 4 {
		t.Errorf("%d units wait, want 4", n)
	}
	close(g.Open)
	wg.Wait()
	want := map[string]string{
		"flood 0": claimed, "flood 1": claimed, "quiet 0": claimed, "quiet 1": claimed,
		"flood 2": claims.ErrFull.Error(), "flood 3": claims.ErrFull.Error(),
		"flood too many": claims.ErrFull.Error(), "quiet too many": claims.ErrFull.Error(),
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// The next batches hold deliveries of every source, however many of one source came before them.
func TestSourcesTakeTurns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deliveries, events int // of the flood
		within             int // batches
	}{
		"many deliveries":  {1500, 1, 1},
		"large deliveries": {20, claims.MaxBatch, 3}, // each fills a batch
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := rig.NewGate("held")
			var mu sync.Mutex
			var batches [][]string // sources in each batch after the first
			q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(ctx context.Context, p *driver.ClaimParams) error {
				var sources []string
				for i := range p.Claims {
					sources = append(sources, p.Claims[i].Source)
				}
				slices.Sort(sources)
				mu.Lock()
				batches = append(batches, slices.Compact(sources))
				mu.Unlock()
				return g.Hold(ctx, p)
			}}, func(o *claims.Options) { o.MaxUnits = 2000 })
			var wg sync.WaitGroup
			wg.Go(func() { claim(t, q, unit("held")) })
			<-g.Arrived
			for i := range tt.deliveries {
				wg.Go(func() { claim(t, q, unitOf("flood", fmt.Sprint(i), tt.events)) })
			}
			eventually.True(t, "all deliveries wait", func() bool { return q.Waiting() == tt.deliveries })
			for i, source := range []string{"quiet", "calm"} {
				wg.Go(func() { claim(t, q, unitOf(source, "1", 1)) })
				eventually.True(t, "the copy waits", func() bool { return q.Waiting() == tt.deliveries+i+1 })
			}
			close(g.Open)
			wg.Wait()
			for _, source := range []string{"quiet", "calm"} {
				if i := slices.IndexFunc(batches, func(b []string) bool { return slices.Contains(b, source) }); i < 1 || i > tt.within {
					t.Errorf("the delivery of %s is in batch %d of %d, want it in the first %d", source, i, len(batches)-1, tt.within)
				}
			}
		})
	}
}

// A delivery that was refused for another source, or that gave up, is in no lane any more.
func TestEvictedUnitIsGone(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	store := rig.OpenSQLite(t)
	q := newQueue(t, &rig.FaultStore{Store: store, Before: g.Hold}, func(o *claims.Options) { o.MaxUnits = 2 })
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived
	wg.Go(func() { claim(t, q, unitOf("flood", "0", 1)) })
	eventually.True(t, "the delivery waits", func() bool { return q.Waiting() == 1 })
	evicted := make(chan error, 1)
	go func() { evicted <- q.Claim(t.Context(), unitOf("flood", "1", 1)) }()
	eventually.True(t, "both deliveries wait", func() bool { return q.Waiting() == 2 })
	ctx, giveUp := context.WithCancel(t.Context())
	abandoned := make(chan error, 1)
	go func() { abandoned <- q.Claim(ctx, unitOf("quiet", "0", 1)) }()
	if err := <-evicted; !errors.Is(err, claims.ErrFull) {
		t.Errorf("the evicted delivery: %v, want %v", err, claims.ErrFull)
	}
	giveUp()
	if err := <-abandoned; !errors.Is(err, claims.ErrAbandoned) {
		t.Errorf("the abandoned delivery: %v, want %v", err, claims.ErrAbandoned)
	}
	if n := q.Waiting(); n != 1 {
		t.Errorf("%d units wait, want the first one of the flood", n)
	}
	close(g.Open)
	wg.Wait()
	for _, id := range []string{"flood 1 0", "quiet 0 0"} {
		if stored(t, store, id) != nil {
			t.Errorf("the event %q was claimed", id)
		}
	}
}
