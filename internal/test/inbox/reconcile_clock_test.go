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

// A look repeats the hour before the last one: the provider's clock may be behind.
func TestReconcileProviderClockBehind(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	list, url := newList(t, 0)
	spec, err := provider.Lookup(provider.Stripe)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const every = time.Hour
	look, err := store.TakeReconcile(t.Context(), &driver.TakeReconcileParams{
		Source: "stripe", List: sha256.Sum256([]byte(strings.Join([]string{"stripe", spec.List.URL, url}, "\n"))), Lease: time.Minute, Every: every, Now: now.Add(-5 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	if held, err := store.StepReconcile(t.Context(), &driver.ReconcileStep{
		Source: "stripe", Fence: look.Fence, Lease: time.Minute, End: &driver.ReconcileEnd{DoneUntil: now, Next: time.Microsecond}, Now: now.Add(-5 * time.Hour),
	}); err != nil || !held {
		t.Fatal(held, err)
	}
	list.events = []stripeEvent{
		{ID: "evt_behind", Type: "invoice.paid", Created: now.Add(-50 * time.Minute).Unix()}, {ID: "evt_seen", Type: "invoice.paid", Created: now.Add(-2 * time.Hour).Unix()},
	}
	run(t, newEngine(t, store, func(c *hookonce.Config) {
		reconcilable(url)(c)
		c.Sources[0].Reconcile.Every = every
	}))
	stateOf(t, store, "the look ends", func(r *driver.Reconcile) bool { return r.Missed > 0 && r.Error == "" && r.DoneUntil.After(r.BeganAt) })
	for id, want := range map[string]error{"evt_behind": nil, "evt_seen": driver.ErrNotFound} {
		if _, err := store.Event(t.Context(), "stripe", id); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", id, err, want)
		}
	}
}
