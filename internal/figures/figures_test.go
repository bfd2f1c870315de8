package figures_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/figures"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// noon is the start of an hour.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// failing is a real store that fails while fail is not nil.
type failing struct {
	figures.Store
	fail error
}

func (f *failing) AddFigures(ctx context.Context, p *driver.AddFiguresParams) error {
	if f.fail != nil {
		return fmt.Errorf("%w: injected", f.fail)
	}
	return f.Store.AddFigures(ctx, p)
}

// world is sums on a real store that can fail.
type world struct {
	*figures.Sums
	store driver.Store
	fault *failing
	log   rig.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{store: rig.OpenSQLite(t)}
	w.fault = &failing{Store: w.store}
	w.Sums = figures.New(w.fault, w.log.Logger())
	return w
}

func (w *world) mustWrite(t *testing.T) {
	t.Helper()
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// want compares the minutes of a kind, or the hours of types, with lines "minute label=n".
func (w *world) want(t *testing.T, of driver.FigureKind, name string, want ...string) []driver.Point {
	t.Helper()
	f := &driver.SeriesFilter{Of: of, Name: name, Since: noon.Add(-24 * time.Hour), Until: noon.Add(24 * time.Hour), Limit: 1000}
	if of == driver.FigureTypes {
		f.Resolution = driver.ByHour
	}
	points, err := w.store.Series(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range points {
		got = append(got, fmt.Sprintf("%d %s=%d", p.At.Sub(noon)/time.Minute, p.Label, p.N))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	return points
}

func TestSums(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustWrite(t)
	w.Delivery(noon, "stripe", "ok", "", time.Millisecond)
	w.Delivery(noon.Add(59*time.Second), "stripe", "ok", "", time.Millisecond+1)
	w.Delivery(noon.Add(60*time.Second), "stripe", "ok", "", time.Hour)
	w.Delivery(noon, "stripe", "refused", "signature_wrong", 0)
	w.Delivery(noon, "", "refused", "unknown_source", 0)
	w.Attempt(noon, "billing", "sent", 5*time.Millisecond)
	w.Attempt(noon, "billing", "skipped", 0)
	w.Event(noon, "stripe", "invoice.paid")
	w.Event(noon.Add(time.Hour), "stripe", "invoice.paid")
	w.want(t, driver.FigureDeliveries, "")
	w.mustWrite(t)
	w.mustWrite(t)
	points := w.want(t, driver.FigureDeliveries, "stripe", "0 ok=2", "0 refused=1", "1 ok=1")
	want := [][driver.FigureBuckets]int64{{1, 1}, {}, {driver.FigureBuckets - 1: 1}}
	for i := range points {
		if points[i].Buckets != want[i] {
			t.Errorf("point %d has the buckets %v, want %v", i, points[i].Buckets, want[i])
		}
	}
	w.want(t, driver.FigureDeliveries, "", "0 ok=2", "0 refused=2", "1 ok=1")
	w.want(t, driver.FigureRefusals, "", "0 signature_wrong=1", "0 unknown_source=1")
	sent := w.want(t, driver.FigureAttempts, "billing", "0 sent=1", "0 skipped=1")
	if sent[0].Buckets != [driver.FigureBuckets]int64{1} {
		t.Errorf("the attempt is in the buckets %v, want the first", sent[0].Buckets)
	}
	w.want(t, driver.FigureTypes, "stripe", "0 invoice.paid=1", "60 invoice.paid=1")
}

// TestDuplicates counts deliveries by the age of their event.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Duplicates(noon, "stripe", noon.Add(time.Second), 1) // the clocks of two machines differ
	w.Duplicates(noon, "stripe", noon.Add(-time.Minute), 2)
	w.Duplicates(noon, "stripe", noon.Add(-31*24*time.Hour), 4)
	w.mustWrite(t)
	points := w.want(t, driver.FigureDuplicates, "stripe", "0 =7")
	if want := [driver.FigureBuckets]int64{0: 1, 2: 2, driver.FigureBuckets - 1: 4}; points[0].Buckets != want {
		t.Errorf("buckets %v, want %v", points[0].Buckets, want)
	}
}

// TestBacklog keeps the highest sample of a minute, also through a failed write.
func TestBacklog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sample := func(at time.Time, n int64) {
		w.Backlog(&driver.Backlog{
			At:           at,
			Sources:      map[string]driver.Waiting{"stripe": {Open: n, OldestDueAt: at.Add(-90 * time.Second)}, "idle": {}},
			Destinations: map[string]driver.Waiting{"billing": {Open: 1, OldestDueAt: at.Add(time.Hour)}},
		})
	}
	sample(noon, 7)
	w.fault.fail = driver.ErrUnavailable
	if err := w.Write(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatal(err)
	}
	sample(noon.Add(time.Second), 5)
	w.fault.fail = nil
	w.mustWrite(t)
	sample(noon.Add(2*time.Second), 6)
	w.mustWrite(t)
	w.want(t, driver.FigureBacklog, "", "0 events=7", "0 events_age=90", "0 messages=1")
	w.want(t, driver.FigureBacklog, "idle")
}

// TestFailedWrite: figures that certainly were not written are written later, once.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail error
		want string
	}{
		"kept":    {driver.ErrUnavailable, "0 ok=3"},
		"unknown": {driver.ErrCommitUnknown, "0 ok=1"},
		"refused": {driver.ErrBadRow, "0 ok=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fault.fail = tt.fail
			for range 2 {
				w.Delivery(noon, "stripe", "ok", "", time.Millisecond)
				if err := w.Write(t.Context()); !errors.Is(err, tt.fail) {
					t.Errorf("the error is %v, want %v", err, tt.fail)
				}
			}
			w.fault.fail = nil
			w.Delivery(noon, "stripe", "ok", "", time.Millisecond)
			w.mustWrite(t)
			points := w.want(t, driver.FigureDeliveries, "stripe", tt.want)
			if points[0].Buckets[0] != points[0].N {
				t.Errorf("%d in the first bucket, want %d", points[0].Buckets[0], points[0].N)
			}
		})
	}
}

// TestBounds: memory does not grow with the length of an outage or with the number of types.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault.fail = driver.ErrUnavailable
	for i := range figures.MaxSums + 5 {
		w.Delivery(noon.Add(time.Duration(i)*time.Minute), "stripe", "ok", "", 0)
	}
	if err := w.Write(t.Context()); err == nil {
		t.Fatal("the write did not fail")
	}
	w.log.WantOne(t, "dropped=5")
	w.Delivery(noon, "stripe", "duplicate", "", 0)
	if n := figures.Waiting(w.Sums); n != figures.MaxSums {
		t.Errorf("%d sums wait, want %d", n, figures.MaxSums)
	}

	w = newWorld(t)
	for i := range driver.MaxTypes + 3 {
		w.Event(noon, "stripe", fmt.Sprint("t", i))
	}
	w.Event(noon, "stripe", "t0")
	w.Event(noon, "github", "t600")
	w.Event(noon, "github", strings.Repeat("a", driver.MaxFigureText+1))
	w.Event(noon, "github", "\xff")
	if n := figures.Waiting(w.Sums); n != driver.MaxTypes+1+2 {
		t.Errorf("%d sums wait, want %d", n, driver.MaxTypes+3)
	}
	w.mustWrite(t)
	w.want(t, driver.FigureTypes, "github", "0 other=2", "0 t600=1")
	other, err := w.store.Series(t.Context(), &driver.SeriesFilter{
		Of: driver.FigureTypes, Resolution: driver.ByHour, Name: "stripe", Label: driver.OtherType, Since: noon, Until: noon.Add(time.Hour), Limit: 1,
	})
	if err != nil || len(other) != 1 || other[0].N != 3 {
		t.Errorf("the other types are %v with the error %v, want 3", other, err)
	}
}

// TestConcurrent counts and writes at once, and loses nothing.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var counting sync.WaitGroup
	for range 4 {
		counting.Go(func() {
			for i := range 1000 {
				w.Delivery(noon, "stripe", "ok", "", time.Millisecond)
				if i%100 == 0 {
					w.mustWriteIn(t)
				}
			}
		})
	}
	counting.Wait()
	w.mustWrite(t)
	w.want(t, driver.FigureDeliveries, "stripe", "0 ok=4000")
}

// mustWriteIn is mustWrite for other goroutines than the test's.
func (w *world) mustWriteIn(t *testing.T) {
	t.Helper()
	if err := w.Write(t.Context()); err != nil {
		t.Error(err)
	}
}

type noStore struct{}

func (noStore) AddFigures(context.Context, *driver.AddFiguresParams) error { return nil }

// BenchmarkDelivery is the cost of counting one delivery, among those of 20 sources.
func BenchmarkDelivery(b *testing.B) {
	s := figures.New(noStore{}, slog.New(slog.DiscardHandler))
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("source-", i))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			s.Delivery(noon, names[i%len(names)], "ok", "", 3*time.Millisecond)
		}
	})
}
