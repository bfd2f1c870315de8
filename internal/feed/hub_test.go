package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// TestMain fails if a hub or a collector leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// viewer is a hub on a real store that can fail.
type viewer struct {
	*feed.Hub
	store *faulty
	log   rig.Log
	count chan int
}

func newViewer(t *testing.T) *viewer {
	t.Helper()
	v := &viewer{store: &faulty{Store: rig.OpenSQLite(t)}, count: make(chan int, 1000)}
	v.Hub = feed.NewHub(v.store, v.log.Logger(), func(r *feed.Row) []byte { return []byte(r.EventID) }, func(n int) { v.count <- n })
	return v
}

func (v *viewer) join(t *testing.T) *feed.Client {
	t.Helper()
	c, err := v.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// add writes n rows with the ids from, from+1, ….
func (v *viewer) add(t *testing.T, from, n int) {
	t.Helper()
	p := &driver.AddFeedParams{Rows: make([]driver.FeedRow, n)}
	for i := range p.Rows {
		p.Rows[i] = driver.FeedRow{At: noon, Source: "stripe", EventID: fmt.Sprint(from + i), Outcome: "ok", Details: []byte("{}")}
	}
	if left, err := v.store.Store.AddFeed(t.Context(), p); err != nil || left == 0 {
		t.Errorf("AddFeed = %v, %v", left, err)
	}
}

// follow reads ids of a client after seq until there are n, and returns the number of the last one.
func follow(ctx context.Context, c *feed.Client, seq int64, n int) (ids []string, last int64, err error) {
	for len(ids) < n {
		entries, more, ok := c.After(seq, 3)
		if !ok {
			return ids, seq, errors.New("the place is gone")
		}
		for i := range entries {
			ids, seq = append(ids, string(entries[i].Data)), entries[i].Seq
		}
		if len(entries) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ids, seq, context.Cause(ctx)
		}
	}
	return ids, seq, nil
}

func numbers(from, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(from+i))
	}
	return ids
}

// TestResume leaves and joins again, at the same hub and at another one: nothing is missing, and
// nothing comes twice.
func TestResume(t *testing.T) {
	t.Parallel()
	v := newViewer(t)
	other := feed.NewHub(v.store, v.log.Logger(), func(r *feed.Row) []byte { return []byte(r.EventID) }, nil)
	c := v.join(t)
	v.add(t, 0, 7)
	ids, seq, err := follow(t.Context(), c, c.Last(), 4)
	if err != nil {
		t.Fatal(err)
	}
	c.Leave()
	v.add(t, 7, 5)
	again, err := other.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	more, seq, err := follow(t.Context(), again, seq, 6)
	if err != nil {
		t.Fatal(err)
	}
	again.Leave()
	c = v.join(t)
	defer c.Leave()
	last, _, err := follow(t.Context(), c, seq, 12-len(ids)-len(more))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbers(0, 12), append(append(ids, more...), last...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSlowFirstRead: other processes learn when a first viewer came, however long the first read takes.
func TestSlowFirstRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newViewer(t)
		v.store.slow = func() { time.Sleep(time.Second) }
		came := time.Now()
		c := v.join(t)
		left, err := v.store.FeedWatched(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if told := time.Now().Add(left - 2*time.Minute); told.After(came) || told.Before(came.Add(-time.Second)) {
			t.Errorf("others learn that he came at %v, want %v", told, came)
		}
		c.Leave()
		time.Sleep(time.Minute) // the last read ends
	})
}

// TestExpired: a place whose rows are gone, and one that never was, is refused.
func TestExpired(t *testing.T) {
	t.Parallel()
	v := newViewer(t)
	c := v.join(t)
	defer c.Leave()
	start := c.Last()
	v.add(t, 0, driver.MaxFeedRows-3)
	v.add(t, 0, 10)
	eventually.True(t, "the client has the last row", func() bool { return c.Last() == start+driver.MaxFeedRows+7 })
	for seq, want := range map[int64]bool{
		0: false, start: false, start + 6: false, start + 7: true, start + driver.MaxFeedRows + 7: true, start + driver.MaxFeedRows + 8: false,
	} {
		entries, _, ok := c.After(seq, 2)
		if ok != want || ok && seq == start+7 && (len(entries) != 2 || entries[0].Seq != start+8) {
			t.Errorf("after %d: %v, %d entries", seq-start, ok, len(entries))
		}
	}
	// The database lost the feed, or was restored: the next one begins later.
	if _, err := v.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: time.Minute, Now: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the row is not kept any more", func() bool {
		_, _, ok := c.After(start+driver.MaxFeedRows+7, 1)
		return !ok
	})
	eventually.True(t, "the feed is watched again", func() bool {
		left, err := v.store.Store.FeedWatched(t.Context())
		return err == nil && left > 0
	})
	v.add(t, 100, 1)
	eventually.True(t, "the new row is last", func() bool {
		entries, _, ok := c.After(c.Last()-1, 1)
		return ok && len(entries) == 1 && string(entries[0].Data) == "100"
	})
}

// TestClients counts clients, refuses one too many, and reads only while there are any.
func TestClients(t *testing.T) {
	t.Parallel()
	v := newViewer(t)
	var all []*feed.Client
	for range feed.MaxClients {
		all = append(all, v.join(t))
	}
	if _, err := v.Join(t.Context()); !errors.Is(err, feed.ErrFull) {
		t.Errorf("one client too many: %v, want %v", err, feed.ErrFull)
	}
	all[0].Leave()
	v.join(t).Leave()
	for _, c := range all[1:] {
		c.Leave()
	}
	var counts []int
	for len(v.count) > 0 {
		counts = append(counts, <-v.count)
	}
	if n := len(counts); n != 2*feed.MaxClients+2 || counts[feed.MaxClients-1] != feed.MaxClients || counts[n-1] != 0 {
		t.Errorf("the counts are %v", counts)
	}
	if v.log.Text() != "" {
		t.Errorf("the log is %s", v.log.Text())
	}
}

// TestStoreAway: a first client is told that the feed cannot be read; others stay, and go on when the
// store is back.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	v := newViewer(t)
	v.store.set(driver.ErrUnavailable)
	if _, err := v.Join(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("joining without a store: %v, want %v", err, driver.ErrUnavailable)
	}
	v.log.WantOne(t, "reading the live feed failed")
	v.store.set(nil)
	c := v.join(t)
	defer c.Leave()
	at := c.Last()
	v.store.set(driver.ErrUnavailable)
	eventually.True(t, "the log has two lines", func() bool { return len(v.log.Lines()) == 2 })
	v.add(t, 0, 3)
	v.store.set(nil)
	if ids, _, err := follow(t.Context(), c, at, 3); err != nil {
		t.Errorf("got %v, %v", ids, err)
	}
	eventually.True(t, "the log has three lines", func() bool { return len(v.log.Lines()) == 3 }) // the rows come before the line
	v.log.WantOne(t, "works again")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	v.store.set(driver.ErrUnavailable)
	if left, err := v.Join(gone); err == nil {
		left.Leave()
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("a client that left got %v", err)
	}
}

// TestManyClients: each client gets all rows in order, while others come and go.
func TestManyClients(t *testing.T) {
	t.Parallel()
	v := newViewer(t)
	first := v.join(t)
	defer first.Leave()
	start := first.Last()
	const groups, each = 20, 10
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var ids []string
			for seq := start; len(ids) < groups*each; {
				c, err := v.Join(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				var some []string
				some, seq, err = follow(t.Context(), c, seq, min(7*(i+1), groups*each-len(ids)))
				ids = append(ids, some...)
				if c.Leave(); err != nil {
					t.Error(err)
					return
				}
			}
			if diff := cmp.Diff(numbers(0, len(ids)), ids); diff != "" {
				t.Errorf("client %d (-want +got):\n%s", i, diff)
			}
		})
	}
	for i := range groups {
		v.add(t, i*each, each)
	}
	all.Wait()
}
