package figures_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
