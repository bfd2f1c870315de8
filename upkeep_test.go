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

// leaseStore notes the parameters of its first lease.
type leaseStore struct {
	driver.Store
	first chan driver.LeaseParams
}

func (s *leaseStore) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	select {
	case s.first <- *p:
	default:
	}
	return s.Store.Lease(ctx, p)
}

// The settings of a destination reach its relay.
func TestSettingsOfADestination(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings hookonce.Destination
		want     driver.LeaseParams
	}{
		"defaults": {hookonce.Destination{}, driver.LeaseParams{Limit: 16, MaxAttempts: 20, For: 20 * time.Second}},
		"own": {
			hookonce.Destination{Timeout: 40 * time.Second, Concurrency: 4, Retry: hookonce.Retry{Attempts: 7}},
			driver.LeaseParams{Limit: 4, MaxAttempts: 7, For: 45 * time.Second},
		},
		"rate": {
			hookonce.Destination{Rate: hookonce.Rate{Count: 3, Per: time.Hour}},
			driver.LeaseParams{Limit: 3, MaxAttempts: 20, For: 20 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &leaseStore{openStore(t), make(chan driver.LeaseParams, 1)}
			tt.settings.Name, tt.settings.URL, tt.want.Destination = "app", "http://localhost/", "app"
			run(t, newEngine(t, store, func(c *hookonce.Config) { c.Destinations = []hookonce.Destination{tt.settings} }))
			if diff := cmp.Diff(tt.want, <-store.first); diff != "" {
				t.Errorf("the first lease (-want +got):\n%s", diff)
			}
		})
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
