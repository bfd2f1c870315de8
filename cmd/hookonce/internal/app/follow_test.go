package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// newStore returns a SQLite store with the schema.
func newStore(t *testing.T) driver.Store {
	t.Helper()
	store, err := CreateStore(t.Context(), settings(t, "database: sqlite:"+filepath.Join(t.TempDir(), "test.db")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

// receive claims events of the source lab with the received time at.
func receive(t *testing.T, store driver.Store, at time.Time, ids ...string) {
	t.Helper()
	p := &driver.ClaimParams{Now: at}
	for _, id := range ids {
		body := []byte(`{"id":"` + id + `"}`)
		p.Claims = append(p.Claims, driver.Claim{
			Key: driver.EventKey("lab", id), Source: "lab", EventID: id, Type: "made", Headers: []byte(`{}`),
			Body: body, BodyHash: sha256.Sum256(body),
		})
	}
	slices.SortFunc(p.Claims, func(a, b driver.Claim) int { return slices.Compare(a.Key[:], b.Key[:]) })
	if _, err := store.Claim(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// now returns the store's clock, in the precision of a store.
func now(t *testing.T, store driver.Store) time.Time {
	t.Helper()
	at, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at.Truncate(time.Microsecond)
}

func ids(events []driver.Event) []string {
	list := []string{}
	for i := range events {
		list = append(list, events[i].EventID)
	}
	return list
}

func wantIDs(t *testing.T, what string, events []driver.Event, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, ids(events)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// An event that becomes visible after newer ones is returned once. Events from before the start are
// not returned later.
func TestFollowerFindsLateEvents(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	start := now(t, store)
	receive(t, store, start.Add(-time.Hour), "old")
	for i, id := range []string{"a", "b", "c"} {
		receive(t, store, start.Add(time.Duration(i-3)*time.Second), id)
	}
	f := newFollower(store, &driver.EventFilter{}, 10*time.Second)
	events, err := f.begin(t.Context(), 2)
	wantIDs(t, "the newest two", events, err, "b", "c")
	events, err = f.step(t.Context())
	wantIDs(t, "nothing new", events, err)

	receive(t, store, now(t, store), "d")
	events, err = f.step(t.Context())
	wantIDs(t, "a new one", events, err, "d")
	receive(t, store, start.Add(-4*time.Second), "late")
	receive(t, store, now(t, store), "e")
	events, err = f.step(t.Context())
	wantIDs(t, "one late, one new", events, err, "late", "e")
	for range 3 {
		events, err = f.step(t.Context())
		wantIDs(t, "nothing twice", events, err)
	}
	if _, kept := f.seen[driver.EventKey("lab", "old")]; kept {
		t.Error("the follower remembers an event below its floor")
	}
}

// A follower begins on an empty store, with a filter, and with more than a page of events.
func TestFollowerBeginsAnywhere(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	empty := newFollower(store, &driver.EventFilter{}, 10*time.Second)
	other := newFollower(store, &driver.EventFilter{Source: "other"}, 10*time.Second)
	since := newFollower(store, &driver.EventFilter{Since: now(t, store).Add(time.Hour)}, 10*time.Second)
	for _, f := range []*follower{empty, other, since} {
		events, err := f.begin(t.Context(), 10)
		wantIDs(t, "an empty store", events, err)
	}
	var many []string
	start := now(t, store)
	for i := range driver.MaxLimit + 50 {
		many = append(many, fmt.Sprintf("e%03d", i))
		receive(t, store, start.Add(time.Duration(i)*time.Microsecond), many[i])
	}
	events, err := empty.step(t.Context())
	wantIDs(t, "all that came", events, err, many...)
	for _, f := range []*follower{empty, other, since} {
		events, err = f.step(t.Context())
		wantIDs(t, "nothing selected", events, err)
	}
	for _, n := range []int{0, 1, driver.MaxLimit + 10} {
		f := newFollower(store, &driver.EventFilter{}, time.Hour)
		events, err = f.begin(t.Context(), n)
		wantIDs(t, fmt.Sprintf("the newest %d", n), events, err, many[len(many)-n:]...)
		events, err = f.step(t.Context())
		wantIDs(t, "nothing new", events, err)
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ackTimeouts []time.Duration
		want        time.Duration
	}{
		{nil, 10 * time.Second},
		{[]time.Duration{0, 3 * time.Second}, 10 * time.Second},
		{[]time.Duration{time.Second, 20 * time.Second, 6 * time.Second}, 40 * time.Second},
	} {
		s := new(config.Settings)
		for _, timeout := range tt.ackTimeouts {
			s.Engine.Sources = append(s.Engine.Sources, hookonce.Source{AckTimeout: timeout})
		}
		if got := overlap(s); got != tt.want {
			t.Errorf("ack_timeout %s: overlap %s, want %s", tt.ackTimeouts, got, tt.want)
		}
	}
}

// An event is shown even if it becomes visible as late as the settings allow.
func TestFollowFindsLateEvents(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	receive(t, store, time.Time{}, "a")
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Bound)
	defer cancel()
	slow := new(config.Settings)
	slow.Engine.Sources = []hookonce.Source{{AckTimeout: time.Hour}}
	var shown []driver.Event
	follow := &Follow{
		Store: store, Settings: slow, Newest: 1,
		Show: func(events []driver.Event) error {
			if shown = append(shown, events...); len(shown) == 1 {
				receive(t, store, now(t, store).Add(-90*time.Minute), "late")
			} else {
				cancel()
			}
			return nil
		},
		Trouble: func(err error) { t.Error(err) },
	}
	err := follow.Run(ctx)
	wantIDs(t, "one late", shown, err, "a", "late")
}

// flaky is a store whose clock fails a number of times.
type flaky struct {
	driver.Store
	failures int
	err      error
}

func (s *flaky) Now(ctx context.Context) (time.Time, error) {
	if s.failures > 0 {
		s.failures--
		return time.Time{}, s.err
	}
	return s.Store.Now(ctx)
}

func TestFollowContinuesAfterAnOutage(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	receive(t, store, time.Time{}, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shown []driver.Event
	troubles := 0
	follow := &Follow{
		Store: &flaky{store, 2, driver.ErrUnavailable}, Settings: new(config.Settings), Newest: 1,
		Show: func(events []driver.Event) error {
			if shown = append(shown, events...); len(shown) == 1 {
				receive(t, store, time.Time{}, "b")
			} else {
				cancel()
			}
			return nil
		},
		Trouble: func(error) { troubles++ },
	}
	err := follow.Run(ctx)
	wantIDs(t, "after the outage", shown, err, "a", "b")
	if troubles != 1 {
		t.Errorf("the outage was reported %d times", troubles)
	}

	broken := errors.New("broken")
	follow.Store = &flaky{store, 1, broken}
	if err := follow.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a failure other than an outage: %v", err)
	}
}
