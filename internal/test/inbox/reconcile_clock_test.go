package inbox_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// skewedStore is a real store whose machine has another time than this one.
type skewedStore struct {
	driver.Store
	by time.Duration
}

func (s *skewedStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(s.by), err
}

// A clock that is off by more than an hour might take an event for young, or for one whose identity is gone.
func TestReconcileClocksDiffer(t *testing.T) {
	t.Parallel()
	_, url := newList(t, 3)
	for by, refused := range map[time.Duration]bool{-2 * time.Hour: true, -50 * time.Minute: false, 50 * time.Minute: false, 2 * time.Hour: true} {
		in := newEngine(t, &skewedStore{rig.OpenSQLite(t), by}, reconcilable(url))
		done, err := in.Reconcile(t.Context(), "stripe", 48*time.Hour)
		if refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "clock differs from the database's") || err == nil && done.Claimed != 3 {
			t.Errorf("by %s: %+v, error %v; want an error %t", by, done, err, refused)
		}
	}
}

// lookedUntil begins the looks at the list of stripe at a time, and ends the first one, which has seen all until another time. The
// next one is due.
func lookedUntil(t *testing.T, store driver.Store, url string, began, until time.Time) {
	t.Helper()
	spec, err := provider.Lookup(provider.Stripe)
	if err != nil {
		t.Fatal(err)
	}
	look, err := store.TakeReconcile(t.Context(), &driver.TakeReconcileParams{
		Source: "stripe", List: sha256.Sum256([]byte(strings.Join([]string{"stripe", spec.List.URL, url}, "\n"))), Lease: time.Minute, Every: time.Hour, Now: began,
	})
	if err != nil {
		t.Fatal(err)
	}
	if held, err := store.StepReconcile(t.Context(), &driver.ReconcileStep{
		Source: "stripe", Fence: look.Fence, Lease: time.Minute, End: &driver.ReconcileEnd{DoneUntil: until, Next: time.Microsecond}, Now: began,
	}); err != nil || !held {
		t.Fatal(held, err)
	}
}

// wantFound waits for the end of a look, and compares the events that it has found.
func wantFound(t *testing.T, store driver.Store, url string, want map[string]error) {
	t.Helper()
	run(t, newEngine(t, store, func(c *hookonce.Config) {
		reconcilable(url)(c)
		c.Sources[0].Reconcile.Every = time.Hour
	}))
	stateOf(t, store, "the look ends", func(r *driver.Reconcile) bool { return r.Missed > 0 && r.Error == "" && r.DoneUntil.After(r.BeganAt) })
	for id, want := range want {
		if _, err := store.Event(t.Context(), "stripe", id); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", id, err, want)
		}
	}
}

// A look repeats the hour before the last one: the provider's clock may be behind.
func TestReconcileProviderClockBehind(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	list, url := newList(t, 0)
	now := time.Now()
	lookedUntil(t, store, url, now.Add(-5*time.Hour), now)
	list.events = []stripeEvent{
		{ID: "evt_behind", Type: "invoice.paid", Created: now.Add(-50 * time.Minute).Unix()}, {ID: "evt_seen", Type: "invoice.paid", Created: now.Add(-2 * time.Hour).Unix()},
	}
	wantFound(t, store, url, map[string]error{"evt_behind": nil, "evt_seen": driver.ErrNotFound})
}

// A provider tells the second of an event. One of the second in which the looks began may be younger than they are.
func TestReconcileFirstSecond(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	list, url := newList(t, 0)
	second := time.Now().Add(-50 * time.Minute).Truncate(time.Second)
	lookedUntil(t, store, url, second.Add(900*time.Millisecond), second.Add(10*time.Second))
	list.events = []stripeEvent{
		{ID: "evt_first", Type: "invoice.paid", Created: second.Unix()}, {ID: "evt_before", Type: "invoice.paid", Created: second.Unix() - 1},
	}
	wantFound(t, store, url, map[string]error{"evt_first": nil, "evt_before": driver.ErrNotFound})
}
