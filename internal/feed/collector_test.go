package feed_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// faulty is a real store that counts its calls, and fails while fail is not nil.
type faulty struct {
	driver.Store
	mu                 sync.Mutex
	fail               error
	slow               func() // before each read, unless nil
	asked, added, read int
	consumed           []driver.FeedRow // SQL consumers left them
}

func (f *faulty) count(n *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
	return f.fail
}

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *faulty) FeedWatched(ctx context.Context) (time.Duration, error) {
	if err := f.count(&f.asked); err != nil {
		return 0, err
	}
	return f.Store.FeedWatched(ctx)
}

func (f *faulty) CollectFeed(context.Context) ([]driver.FeedRow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	rows := f.consumed
	f.consumed = nil
	return rows, nil
}

func (f *faulty) AddFeed(ctx context.Context, p *driver.AddFeedParams) (time.Duration, error) {
	if err := f.count(&f.added); err != nil {
		return 0, err
	}
	return f.Store.AddFeed(ctx, p)
}

func (f *faulty) ReadFeed(ctx context.Context, p *driver.ReadFeedParams) (*driver.FeedPage, error) {
	if err := f.count(&f.read); err != nil {
		return nil, err
	}
	if f.slow != nil {
		f.slow()
	}
	return f.Store.ReadFeed(ctx, p)
}

// world is a collector on a real store that can fail.
type world struct {
	*feed.Collector
	store *faulty
	log   rig.Log
	last  int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{store: &faulty{Store: rig.OpenSQLite(t)}}
	w.Collector = feed.NewCollector(w.store, w.log.Logger(), "gw-1")
	return w
}

// watch makes the collector collect.
func (w *world) watch(t *testing.T) {
	t.Helper()
	last, err := w.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	w.last = last
	w.Step(t.Context())
	if !w.Watched() {
		t.Fatal("the collector does not know that somebody looks")
	}
}

// written returns the rows since the last call.
func (w *world) written(t *testing.T) (rows []feed.Row) {
	t.Helper()
	page, err := w.store.Store.ReadFeed(t.Context(), &driver.ReadFeedParams{After: w.last})
	if err != nil {
		t.Fatal(err)
	}
	w.last = page.Last
	for i := range page.Rows {
		rows = append(rows, feed.Restore(&page.Rows[i]))
	}
	return rows
}

func newRow(id, outcome string) feed.Row {
	return feed.Row{At: noon, Kind: driver.FeedDelivery, Source: "stripe", EventID: id, Type: "invoice.paid", Outcome: outcome}
}

// TestUnwatched: without a viewer, a process asks at most once a second, and collects and writes nothing.
func TestUnwatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.consumed = make([]driver.FeedRow, 1)
	for range 3 {
		w.Add(newRow("evt_1", "ok"))
		w.Step(t.Context()) // all in one second
	}
	if w.Watched() || w.store.asked != 1 || w.store.added != 0 || len(w.store.consumed) != 1 {
		t.Errorf("watched %v, asked %d times, wrote %d times, left %d rows; want false, 1, 0, 1",
			w.Watched(), w.store.asked, w.store.added, len(w.store.consumed))
	}
}

func TestCollector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch(t)
	all := feed.Row{
		At: noon, Kind: driver.FeedAttempt, Source: "stripe", EventID: "evt_1", Type: "invoice.paid", Outcome: "retry",
		Details: feed.Details{
			Destination: "billing", MessageID: "msg_1", Attempt: 3, Status: 503, TookSeconds: 0.25, Reason: "r", Remote: "203.0.113.9",
			ErrorID: "e", Error: "<b>\u2028\x1b[31m",
		},
	}
	w.Add(newRow("evt_1", "ok"))
	w.Add(all)
	w.Step(t.Context())
	w.Step(t.Context())
	first := newRow("evt_1", "ok")
	first.Gateway, all.Gateway = "gw-1", "gw-1"
	if diff := cmp.Diff([]feed.Row{first, all}, w.written(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w.store.added != 1 {
		t.Errorf("wrote %d times, want once", w.store.added)
	}
}

// TestConsumed: the rows of SQL consumers are written with the others, within the same bounds, and name no
// gateway.
func TestConsumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	left := func(n int) {
		for i := range n {
			w.store.consumed = append(w.store.consumed, driver.FeedRow{
				At: noon, Kind: driver.FeedEvent, Source: "shop", EventID: fmt.Sprint(i), Outcome: "done", Details: []byte(`{"attempt":2}`),
			})
		}
	}
	w.watch(t)
	left(1)
	w.Step(t.Context())
	want := feed.Row{At: noon, Kind: driver.FeedEvent, Source: "shop", EventID: "0", Outcome: "done", Details: feed.Details{Attempt: 2}}
	if diff := cmp.Diff([]feed.Row{want}, w.written(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	left(1000)
	w.Step(t.Context())
	rows := w.written(t)
	if n := len(rows); n != feed.MaxRoutine || rows[n-1].Dropped != 1000-n {
		t.Errorf("%d rows of 1,000 are written, and %d are said to be left out", n, rows[len(rows)-1].Dropped)
	}
}

// TestEqualDeliveries: a flood of duplicates, or of refused requests, becomes one row in each group.
func TestEqualDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch(t)
	refused := feed.Row{At: noon, Kind: driver.FeedRefused, Source: "stripe", Outcome: "refused", Details: feed.Details{Remote: "a"}}
	for range 3 {
		w.Add(newRow("evt_1", "duplicate"))
		w.Add(refused)
	}
	refused.Remote = "b"
	w.Add(refused)
	w.Add(newRow("evt_2", "duplicate"))
	w.Add(newRow("evt_3", "ok"))
	w.Add(newRow("evt_3", "ok")) // no other delivery is merged
	w.Step(t.Context())
	w.Add(newRow("evt_1", "duplicate"))
	w.Step(t.Context())
	var got []string
	for _, r := range w.written(t) {
		got = append(got, fmt.Sprint(r.EventID, r.Remote, " ", r.Count))
	}
	want := []string{"evt_1 3", "a 3", "b 0", "evt_2 0", "evt_3 0", "evt_3 0", "evt_1 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGroupIsBounded: trouble has room beside a flood of successes, and the rows that were left out
// are counted.
func TestGroupIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch(t)
	for i := range 1000 {
		w.Add(newRow(fmt.Sprint("ok_", i), "ok"))
	}
	for i := range 100 {
		w.Add(newRow(fmt.Sprint("dead_", i), "dead"))
	}
	w.Step(t.Context())
	rows := w.written(t)
	if len(rows) != feed.MaxGroup {
		t.Fatalf("%d rows, want %d", len(rows), feed.MaxGroup)
	}
	if last := rows[feed.MaxGroup-1]; last.Dropped != 1100-feed.MaxGroup || rows[feed.MaxRoutine].EventID != "dead_0" {
		t.Errorf("%d rows are said to be left out, want %d; the row after the successes is %s",
			last.Dropped, 1100-feed.MaxGroup, rows[feed.MaxRoutine].EventID)
	}
	w.Add(newRow("next", "ok"))
	w.Step(t.Context())
	if rows := w.written(t); len(rows) != 1 || rows[0].Dropped != 0 {
		t.Errorf("the next group is %+v", rows)
	}
}

// TestFailedWrite: rows that certainly were not written are written later, and others are counted as
// left out.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail error
		want string
	}{
		"kept":    {driver.ErrUnavailable, "evt_1:0 evt_2:0 evt_3:0"},
		"unknown": {driver.ErrCommitUnknown, "evt_3:2"},
		"refused": {driver.ErrBadRow, "evt_3:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.watch(t)
			w.store.set(tt.fail)
			for _, id := range []string{"evt_1", "evt_2"} {
				w.Add(newRow(id, "ok"))
				w.Step(t.Context())
			}
			w.log.WantOne(t, "stands still")
			w.store.set(nil)
			w.Add(newRow("evt_3", "ok"))
			w.Step(t.Context())
			w.log.WantOne(t, "goes on")
			var got []string
			for _, r := range w.written(t) {
				got = append(got, fmt.Sprint(r.EventID, ":", r.Dropped))
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestLongOutage: memory does not grow while the store fails, and the watch ends by itself.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	w.Step(t.Context())
	w.store.set(driver.ErrUnavailable)
	eventually.True(t, "the watch ends", func() bool {
		for i := range 10 * feed.MaxGroup {
			w.Add(newRow(fmt.Sprint("evt_", i), "ok"))
		}
		w.Step(t.Context())
		return !w.Watched()
	})
}

// TestViewerComes: a viewer sees what happened since he came, also before this process knew of him.
func TestViewerComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		add := func(id string) {
			time.Sleep(100 * time.Millisecond)
			row := newRow(id, "ok")
			row.At = time.Now()
			w.Add(row)
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 6 { // until 200 ms after the second look
			add(fmt.Sprint("before_", i))
		}
		last, err := w.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w.last = last
		add("after")
		if w.Watched() {
			t.Error("the process knows of the viewer too early for this test")
		}
		time.Sleep(time.Second)
		if rows := w.written(t); len(rows) != 1 || rows[0].EventID != "after" {
			t.Errorf("a second later the viewer sees %+v, want the row that was added after he came", rows)
		}
		cancel()
		running.Wait()
	})
}

// TestHostileRows stores what senders and destinations may send.
func TestHostileRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch(t)
	for _, hostile := range []string{"\x00", "\xff", strings.Repeat("é", 10_000), strings.Repeat("\x01", 10_000), "\x1b[31m</script>"} {
		w.Add(feed.Row{
			At: noon, Kind: driver.FeedKind(7), Source: hostile, EventID: hostile, Type: hostile, Outcome: hostile,
			Details: feed.Details{
				Destination: hostile, MessageID: hostile, Reason: hostile, Remote: hostile, ErrorID: hostile, Error: hostile, Attempt: 7,
			},
		})
	}
	w.Step(t.Context())
	rows := w.written(t)
	if len(rows) != 5 || w.log.Text() != "" {
		t.Fatalf("%d rows, want 5; the log is %s", len(rows), w.log.Text())
	}
	for _, r := range rows {
		if r.Attempt != 7 || len(r.EventID) > driver.MaxFeedText || len(r.Error) > feed.MaxError || !driver.IsText(r.EventID+r.Error) {
			t.Errorf("the row is %+v", r)
		}
	}
	damaged := driver.FeedRow{EventID: "evt_1", Details: []byte(`{"attempt":`)}
	if got := feed.Restore(&damaged); got.EventID != "evt_1" || got.Details != (feed.Details{}) {
		t.Errorf("a damaged row is %+v", got)
	}
}

// TestRun writes rows while somebody looks, and the last ones at the end.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last, err := w.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	w.last = last
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	eventually.True(t, "the feed is watched", w.Watched)
	w.Add(newRow("evt_1", "ok"))
	eventually.True(t, "the row is written", func() bool { return len(w.written(t)) == 1 })
	w.Add(newRow("evt_2", "ok"))
	cancel()
	running.Wait()
	w.Add(newRow("evt_3", "ok"))
	if rows := w.written(t); len(rows) != 1 || rows[0].EventID != "evt_2" {
		t.Errorf("after the end there are %+v, want evt_2", rows)
	}
}

type unwatched struct{}

func (unwatched) FeedWatched(context.Context) (time.Duration, error) { return 0, nil }

func (unwatched) CollectFeed(context.Context) ([]driver.FeedRow, error) { return nil, nil }

func (unwatched) AddFeed(context.Context, *driver.AddFeedParams) (time.Duration, error) {
	return time.Minute, nil
}

// BenchmarkUnwatched is the cost of a delivery without a viewer.
func BenchmarkUnwatched(b *testing.B) {
	c := feed.NewCollector(unwatched{}, slog.New(slog.DiscardHandler), "gw-1")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if c.Holds() {
				c.Add(newRow("evt_1", "ok"))
			}
		}
	})
}

// Without a viewer, a busy process stops making rows until it asks again, but counts them.
func TestBusyWithoutAViewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Start()
	for i := range feed.MaxGroup {
		if i < feed.MaxRoutine && !w.Holds() {
			t.Fatalf("it holds no more after %d rows", i)
		}
		row := newRow(fmt.Sprint(i), "ok")
		row.At = time.Now().Add(time.Hour) // after the viewer
		w.Add(row)
	}
	if w.Holds() {
		t.Errorf("it still makes rows after %d", feed.MaxGroup)
	}
	w.Miss()
	if _, err := w.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	w.Step(t.Context())
	if !w.Holds() {
		t.Error("it makes no rows after it has asked")
	}
	rows := w.written(t)
	if n := len(rows); n != feed.MaxRoutine || rows[n-1].Dropped != feed.MaxGroup+1-n {
		t.Errorf("the viewer sees %d rows, and %+v at last", n, rows[max(n, 1)-1])
	}
}
