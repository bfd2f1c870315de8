package figures_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/figures"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// failingRefused is a real store that fails while fail is not nil.
type failingRefused struct {
	driver.Store
	fail error
}

func (f *failingRefused) AddRefused(ctx context.Context, p *driver.AddRefusedParams) error {
	if f.fail != nil {
		return fmt.Errorf("%w: injected", f.fail)
	}
	return f.Store.AddRefused(ctx, p)
}

// offer offers n requests of a source, and returns how many were described.
func offer(q *figures.Refused, source string, n int) (described int) {
	for i := range n {
		q.Offer(source, func() driver.RefusedRequest {
			described++
			return driver.RefusedRequest{ErrorID: fmt.Sprint(source, i), At: noon, Source: source, Reason: "method"}
		})
	}
	return described
}

// stored returns the number of refused requests of a source in a store.
func stored(t *testing.T, store driver.Store, source string) int {
	t.Helper()
	page, err := store.Refused(t.Context(), &driver.RefusedFilter{Source: source, Limit: driver.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Requests)
}

// TestRefused sends a flood from one source. It fills only its own share, and the dropped requests are counted.
func TestRefused(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	q := figures.NewRefused(store, log.Logger())
	if n := offer(q, "flood", 70); n != 64 || q.Room("flood") || !q.Room("quiet") {
		t.Errorf("described %d of the flood, room %v and %v; want 64, false, true", n, q.Room("flood"), q.Room("quiet"))
	}
	if n := offer(q, "quiet", 1); n != 1 {
		t.Error("a request of another source was not kept")
	}
	for i := range 10 {
		offer(q, fmt.Sprint("s", i), 64)
	}
	if q.Room("new") {
		t.Error("a full queue has room")
	}
	for range 2 {
		if err := q.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log.WantOne(t, fmt.Sprint("dropped=", 70+1+640-512))
	if flood, quiet := stored(t, store, "flood"), stored(t, store, "quiet"); flood != 64 || quiet != 1 {
		t.Errorf("stored %d and %d, want 64 and 1", flood, quiet)
	}
	if n := offer(q, "flood", 70); n != 64 {
		t.Errorf("described %d after the write, want 64", n)
	}
}

// TestRefusedAfterAFailure: requests wait for a store that is away, and are not in the way of others
// if the store refuses them.
func TestRefusedAfterAFailure(t *testing.T) {
	t.Parallel()
	store, log := &failingRefused{Store: rig.OpenSQLite(t)}, &rig.Log{}
	q := figures.NewRefused(store, log.Logger())
	offer(q, "a", 2)
	for _, fail := range []error{driver.ErrUnavailable, driver.ErrCommitUnknown} {
		store.fail = fail
		if err := q.Write(t.Context()); !errors.Is(err, fail) {
			t.Errorf("the error is %v, want %v", err, fail)
		}
	}
	store.fail = nil
	if err := q.Write(t.Context()); err != nil || stored(t, store, "a") != 2 {
		t.Errorf("stored %d with the error %v, want 2", stored(t, store, "a"), err)
	}
	offer(q, strings.Repeat("b", 1000), 1)
	if err := q.Write(t.Context()); !errors.Is(err, driver.ErrBadRow) {
		t.Errorf("the error is %v, want %v", err, driver.ErrBadRow)
	}
	offer(q, "c", 1)
	if err := q.Write(t.Context()); err != nil || stored(t, store, "c") != 1 {
		t.Errorf("stored %d with the error %v, want 1", stored(t, store, "c"), err)
	}
}

// TestRefusedList lists requests page by page while some are stored, some wait, and one is both. The pages are those of
// the store once all are stored.
func TestRefusedList(t *testing.T) {
	t.Parallel()
	store, log := &failingRefused{Store: rig.OpenSQLite(t)}, &rig.Log{}
	q := figures.NewRefused(store, log.Logger())
	offered := 0
	at := func(source string, n int) {
		for range n {
			r := driver.RefusedRequest{
				ErrorID: fmt.Sprint("e", offered), At: noon.Add(time.Duration(offered*offered%7) * 700 * time.Nanosecond),
				Source: source, Reason: "method", Remote: fmt.Sprint(offered % 2),
			}
			offered++
			q.Offer(source, func() driver.RefusedRequest { return r })
		}
	}
	type lister func(context.Context, *driver.RefusedFilter) (*driver.RefusedPage, error)
	list := func(list lister, f driver.RefusedFilter) (all []driver.RefusedRequest) {
		t.Helper()
		for {
			page, err := list(t.Context(), &f)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Requests) > f.Limit {
				t.Errorf("a page has %d requests, want at most %d", len(page.Requests), f.Limit)
			}
			all = append(all, page.Requests...)
			if f.After = page.Next; f.After.IsZero() {
				return all
			}
		}
	}
	at("a", 6)
	if err := q.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	at("b", 3)
	at("a", 4)
	both := driver.RefusedRequest{ErrorID: "e9", At: noon.Add(4 * 700 * time.Nanosecond), Source: "a", Reason: "method", Remote: "1"}
	if err := store.AddRefused(t.Context(), &driver.AddRefusedParams{Requests: []driver.RefusedRequest{both}}); err != nil {
		t.Fatal(err)
	}
	store.fail = driver.ErrFull
	if err := q.Write(t.Context()); !errors.Is(err, driver.ErrFull) {
		t.Fatal(err)
	}
	filters := []driver.RefusedFilter{
		{},
		{Source: "a"},
		{Source: "b"},
		{Remote: "1"},
		{Reason: "method"},
		{Reason: "no"},
		{ErrorID: "e7"},
		{Since: noon.Add(1500)},
		{Until: noon.Add(1500)},
		{Since: noon.Add(time.Microsecond), Until: noon.Add(2 * time.Microsecond)},
	}
	got := map[string][]driver.RefusedRequest{}
	for i, f := range filters {
		for _, f.Limit = range []int{1, 2, 3, 200} {
			got[fmt.Sprint(i, f.Limit)] = list(q.List, f)
		}
	}
	store.fail = nil
	if err := q.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, f := range filters {
		f.Limit = driver.MaxLimit
		want := list(store.Refused, f)
		for _, limit := range []int{1, 2, 3, 200} {
			if diff := cmp.Diff(want, got[fmt.Sprint(i, limit)], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("filter %+v in pages of %d (-want +got):\n%s", f, limit, diff)
			}
		}
	}
	if n := len(got[fmt.Sprint(0, 200)]); n != offered {
		t.Errorf("%d requests are listed, want %d", n, offered)
	}
}

// BenchmarkFlood is the cost of a refused request that finds no room, as in a flood.
func BenchmarkFlood(b *testing.B) {
	q := figures.NewRefused(nil, nil)
	offer(q, "flood", 64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if q.Room("flood") {
				b.Error("a full queue has room")
			}
			q.Offer("flood", func() driver.RefusedRequest { panic("described") })
		}
	})
}
