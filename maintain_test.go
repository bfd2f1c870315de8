package hookonce_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// without returns the lines that hold text, without the time before it.
func (l *lines) without(text string) []string {
	var found []string
	for _, line := range l.all() {
		if _, after, ok := strings.Cut(line, "msg="); ok && strings.Contains(after, text) {
			found = append(found, strings.TrimSpace(after))
		}
	}
	return found
}

func wantLine(t *testing.T, log *lines, want string) {
	t.Helper()
	if got := log.without(want); len(got) != 1 {
		t.Errorf("%d lines with %q, want one, in:\n%s", len(got), want, strings.Join(log.all(), ""))
	}
}

// What upkeep does it tells with figures.
func TestPruneTellsWhatItDid(t *testing.T) {
	t.Parallel()
	log := &lines{}
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.QuarantineRows = 2
		c.Logger = log.logger()
	})
	for i := range 5 {
		r := delivery(fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
		r.Header.Del("X-GitHub-Delivery") // verified, and no event
		if got := deliver(in, r); got.Code != 400 {
			t.Fatalf("%+v", got)
		}
	}
	deliver(in, delivery("kept", "{}"))
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "pruned events=0 bodies=0 quarantined=3")
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 2 {
		t.Errorf("%d requests in the quarantine, error %v, want the 2 newest", len(page.Requests), err)
	}
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "pruned") // nothing to tell the second time
}

// leaseStore notes how long messages are leased for.
type leaseStore struct {
	driver.Store
	leasedFor chan time.Duration
}

func (s *leaseStore) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	select {
	case s.leasedFor <- p.For:
	default:
	}
	return s.Store.Lease(ctx, p)
}

func TestALeaseOutlivesItsSend(t *testing.T) {
	t.Parallel()
	store := &leaseStore{openStore(t), make(chan time.Duration, 1)}
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: "http://localhost/", Timeout: 40 * time.Second}}
	})
	run(t, in)
	if got := <-store.leasedFor; got != 45*time.Second {
		t.Errorf("messages are leased for %s, want the time-out and 5 s", got)
	}
}

// What another process was sending when it died is told, and what of it has no
// attempt left.
func TestLostLeasesAreTold(t *testing.T) {
	t.Parallel()
	log := &lines{}
	store, s := openStore(t), newSink(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{
			Name: "app", URL: s.URL, AllowPrivate: true, Retry: hookonce.Retry{Attempts: 2, First: time.Millisecond},
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
		c.Logger = log.logger()
	})
	for _, id := range []string{"once", "twice"} {
		deliver(in, delivery(id, "{}"))
	}
	lost := &driver.LeaseParams{Destination: "app", Limit: 2, For: -time.Second, MaxAttempts: 9}
	for limit := 2; limit > 0; limit-- {
		lost.Limit = limit
		if leased, err := store.Lease(t.Context(), lost); err != nil || len(leased.Messages) != limit {
			t.Fatalf("leased %+v, error %v", leased, err)
		}
	}
	run(t, in)
	waitFor(t, func() bool {
		page, err := store.Events(t.Context(), &driver.EventFilter{State: driver.StateRunning})
		return err == nil && len(page.Events) == 0
	})
	wantLine(t, log, `"leases expired; sending their messages again" destination=app messages=1`)
	wantLine(t, log, `"dead: its attempts are used up" destination=app source=gh event_id=`)
	states := map[string]int{}
	for _, id := range []string{"once", "twice"} {
		states[eventState(t, store, id).State]++
	}
	if diff := cmp.Diff(map[string]int{driver.StateDone: 1, driver.StateDead: 1}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// A reload that changes nothing of a destination leaves its circuit as it is, and
// so does one that changes something else than where it is.
func TestReloadKeepsTheCircuit(t *testing.T) {
	t.Parallel()
	gone := newSink(t)
	gone.Close()
	cfg := settings(gone.URL)
	cfg.Logger = slog.New(slog.DiscardHandler)
	in := newEngine(t, openStore(t), func(c *hookonce.Config) { *c = *cfg })
	for i := range 20 {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	open := func() bool { return in.Destinations()[0].Circuit.Open }
	waitFor(t, open)
	reload(t, in, cfg)
	if !open() {
		t.Error("reloading the same settings closed the circuit")
	}
	cfg.Destinations[0].Concurrency = 2
	reload(t, in, cfg)
	if !open() {
		t.Error("reloading another concurrency closed the circuit")
	}
	cfg.Destinations[0].URL = newSink(t).URL
	reload(t, in, cfg)
	if open() {
		t.Error("another address begins with the circuit of the old one")
	}
}
