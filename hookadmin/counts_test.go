package hookadmin_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// busy is a store with more work than it counts.
type busy struct {
	driver.Store
	counted atomic.Int32
	hold    func(n int32) // if set, returns when the n-th count may end
}

func (s *busy) Stats(context.Context) (*driver.Stats, error) {
	n := s.counted.Add(1)
	if s.hold != nil {
		s.hold(n)
	}
	return &driver.Stats{
		EventsPending: driver.CountLimit, DeadLetters: driver.CountLimit - 1,
		Destinations: []driver.DestinationStats{
			{Destination: "billing", Pending: driver.CountLimit, Sending: 7, Dead: 1}, {Destination: "removed", Pending: 1, Dead: driver.CountLimit},
		},
	}, nil
}

// TestCountsThatStandForMore says of numbers at the limit that they stand for more.
func TestCountsThatStandForMore(t *testing.T) {
	t.Parallel()
	g := newGatewayOn(t, &busy{Store: rig.OpenSQLite(t)})
	stats := readJSON[map[string]any](t, g.get(t, "/api/v1/stats"))
	if got, want := stats["more"].([]any), []any{"events_pending", "messages_pending"}; !slices.Equal(got, want) || stats["messages_pending"] != "10001" {
		t.Errorf("more is %v, want %v; messages_pending is %v", got, want, stats["messages_pending"])
	}
	var got [][]any
	for _, d := range readJSON[struct{ Destinations []map[string]any }](t, g.get(t, "/api/v1/destinations")).Destinations {
		got = append(got, d["more"].([]any))
	}
	if len(got) != 2 || !slices.Equal(got[0], []any{"pending"}) || !slices.Equal(got[1], []any{"dead"}) {
		t.Errorf("destinations have more %v", got)
	}
	page := g.overview(t)
	for _, want := range []string{">10,000&#43;<", ">10,001&#43;<", ">9,999<", ">7<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview lacks %s", want)
		}
	}
}

// TestCountsAreShared counts once for several pages, and again after a change.
func TestCountsAreShared(t *testing.T) {
	t.Parallel()
	store := &busy{Store: rig.OpenSQLite(t)}
	g := newGatewayOn(t, store)
	for _, path := range []string{"/api/v1/stats", "/api/v1/destinations", "/", "/api/v1/stats"} {
		g.get(t, path)
	}
	if n := store.counted.Load(); n != 1 {
		t.Errorf("the store counted %d times, want 1", n)
	}
	g.post(t, "/api/v1/dead-letters/replay", `{"all":true}`)
	g.get(t, "/api/v1/stats")
	if n := store.counted.Load(); n != 2 {
		t.Errorf("after a change the store counted %d times, want 2", n)
	}
}

// The overview does not wait for a slow count: it shows the counts of before, or none, until the count ends.
func TestOverviewDoesNotWaitForCounts(t *testing.T) {
	t.Parallel()
	first, later := make(chan struct{}), make(chan struct{})
	store := &busy{Store: rig.OpenSQLite(t), hold: func(n int32) {
		if n == 1 {
			<-first
		} else {
			<-later
		}
	}}
	defer close(later)
	g := newGatewayOn(t, store)
	page := g.page(t, "/", http.StatusOK)
	if strings.Count(page, `<p class="number">…</p>`) != 5 || !strings.Contains(page, `data-every="2"`) || strings.Contains(page, "dead now") {
		t.Errorf("the overview during the first count: %s", text(page))
	}
	close(first)
	counted := func(page string) bool {
		return strings.Contains(page, `<p class="number">9,999&#43;</p>`) || strings.Contains(page, `<p class="number">9,999</p>`)
	}
	eventually.True(t, "the page shows counts", func() bool { return counted(g.page(t, "/", http.StatusOK)) })
	eventually.True(t, "a count is held", func() bool { // until the counts are too old, and a count is held
		if page := g.page(t, "/", http.StatusOK); !counted(page) || !strings.Contains(page, `data-every="10"`) {
			t.Fatalf("the overview lost its counts: %s", text(page))
		}
		return store.counted.Load() == 2
	})
}
