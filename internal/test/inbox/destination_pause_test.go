package inbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// twoDestinations sends every event to app, and to other, which always works.
func twoDestinations(app, other string, retry hookonce.Retry) func(*hookonce.Config) {
	return func(c *hookonce.Config) {
		sendTo(c, app, retry)
		c.Destinations[0].Concurrency = 1
		c.Destinations = append(c.Destinations, hookonce.Destination{Name: "other", URL: other, AllowPrivate: true})
		c.Routes = append(c.Routes, hookonce.Route{Name: "rest", To: "other"})
	}
}

// A pause holds for every engine on the database, and for those that start later. Nothing is lost,
// and no attempt is spent.
func TestPauseHoldsForAllEngines(t *testing.T) {
	t.Parallel()
	store, app, other := rig.OpenSQLite(t), newSink(t), newSink(t)
	change := twoDestinations(app.URL, other.URL, quick)
	first := newEngine(t, store, change)
	run(t, first)
	if _, err := first.Operator().PauseDestination(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	second := newEngine(t, store, change)
	run(t, second)
	deliver(first, delivery("1", "{}"))
	deliver(second, delivery("2", "{}"))
	if _, _, err := second.Operator().RetryDestination(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	deliver(second, delivery("3", "{}"))
	eventually.True(t, "the other destination has all messages", func() bool { return len(other.got()) == 3 })
	for id := 1; id <= 3; id++ {
		for _, m := range eventState(t, store, fmt.Sprint(id)).Messages {
			if m.Destination == "app" && (m.State != driver.StatePending || m.Attempts != 0) {
				t.Errorf("message of event %d is %s after %d attempts, want pending and untried", id, m.State, m.Attempts)
			}
		}
	}
	if got := app.got(); len(got) > 0 {
		t.Errorf("the paused destination got %+v", got)
	}
	paused, err := second.Operator().PausedDestinations(t.Context())
	if err != nil || len(paused) != 1 || paused[0].Destination != "app" {
		t.Errorf("paused: %+v, %v, want app", paused, err)
	}
	if resumed, err := second.Operator().ResumeDestination(t.Context(), "app"); err != nil || !resumed {
		t.Fatalf("resumed: %t, %v", resumed, err)
	}
	eventually.True(t, "app has all messages", func() bool { return len(app.got()) == 3 })
}

func TestRetryDestination(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	// The circuit opens at the tenth failure. Its next probe is a minute away, and all retries are.
	const events = 12
	app, other := newSink(t, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500), newSink(t)
	in := newEngine(t, store, twoDestinations(app.URL, other.URL, hookonce.Retry{Attempts: 2, First: time.Hour, Max: time.Hour}))
	for id := range events {
		deliver(in, delivery(fmt.Sprint(id), "{}"))
	}
	run(t, in)
	waits := 0
	eventually.True(t, "the circuit is open", func() bool {
		waits = 0
		page, err := store.Messages(t.Context(), &driver.MessageFilter{Destination: "app", State: driver.StatePending})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			waits += m.Attempts
		}
		return waits == 10
	})
	retried, more, err := in.Operator().RetryDestination(t.Context(), "app")
	if err != nil || retried != events || more { // also those that wait for the circuit alone
		t.Errorf("retried %d, more %t, %v, want %d", retried, more, err, events)
	}
	for id := range events {
		settled(t, store, fmt.Sprint(id), driver.StateDone)
	}
}

func TestUnknownDestination(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	_, pause := in.Operator().PauseDestination(t.Context(), "app")
	_, resume := in.Operator().ResumeDestination(t.Context(), "app")
	_, _, retry := in.Operator().RetryDestination(t.Context(), "app")
	for _, err := range []error{pause, resume, retry} {
		if !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("error %v, want one that matches %v", err, driver.ErrNotFound)
		}
	}
}
