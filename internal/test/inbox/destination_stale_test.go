package inbox_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// withStaleRule returns an engine that sends the events of gh to url by the route all, with a stale
// rule. It is not running.
func withStaleRule(t *testing.T, store driver.Store, url string, change func(*hookonce.Config)) *hookonce.Engine {
	t.Helper()
	return newEngine(t, store, func(c *hookonce.Config) {
		stale(c)
		sendTo(c, url, hookonce.Retry{First: time.Millisecond, Max: time.Millisecond})
		if change != nil {
			change(c)
		}
	})
}

// bodies returns the request bodies that a destination got, in order.
func bodies(s *sink) []string {
	var all []string
	for _, r := range s.got() {
		all = append(all, r.Body)
	}
	return all
}

// A replay sends a stale event anyway. It does not change the applied version.
func TestStaleMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	store, s := rig.OpenSQLite(t), newSink(t)
	in := withStaleRule(t, store, s.URL, nil)
	run(t, in)
	for _, tt := range []struct{ o, v, state string }{
		{"a", "2", driver.StateDone},
		{"a", "1", driver.StateSkipped},
		{"b", "1", driver.StateDone}, // another object
		{"a", "2.0", driver.StateDone},
		{"c", "2026-01-01T01:00:00+01:00", driver.StateDone},
		{"c", "2026-01-01T00:00:00Z", driver.StateDone},
		{"c", "2025-12-31T23:59:59.999Z", driver.StateSkipped},
	} {
		deliver(in, versioned(tt.o, tt.v))
		settled(t, store, tt.o+"-"+tt.v, tt.state)
	}
	for _, body := range []string{`{"o":"a"}`, `{"v":"0"}`, `[]`} { // without an object or a version
		deliver(in, delivery(body, body))
		settled(t, store, body, driver.StateDone)
	}
	deliver(in, versioned("a", "0", typed("ping"))) // no rule for this type
	settled(t, store, "a-0", driver.StateDone)

	ev := eventState(t, store, "a-1")
	m := ev.Messages[0]
	const reason = "version 1 is older than 2, which was applied"
	if ev.Note != driver.NoteStale || ev.LastError != reason || m.State != driver.StateSkipped || m.Note != driver.NoteStale ||
		m.LastError != reason || m.Attempts != 0 || ev.Attempts != 0 {
		t.Errorf("the stale event: %s, %q, %q, %d attempts; its message: %s, %q, %q, %d attempts",
			ev.State, ev.Note, ev.LastError, ev.Attempts, m.State, m.Note, m.LastError, m.Attempts)
	}
	const sent = `{"o":"a","v":"1"}`
	if slices.Contains(bodies(s), sent) {
		t.Error("the stale event was sent")
	}
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "a-1"}); err != nil {
		t.Fatal(err)
	}
	settled(t, store, "a-1", driver.StateDone)
	deliver(in, versioned("a", "1.0"))
	settled(t, store, "a-1.0", driver.StateSkipped)
	if !slices.Contains(bodies(s), sent) {
		t.Error("the replayed event was not sent")
	}
}

// Each route has its own applied versions.
func TestStaleIsDecidedForEachRoute(t *testing.T) {
	t.Parallel()
	store, first, second := rig.OpenSQLite(t), newSink(t), newSink(t)
	in := withStaleRule(t, store, first.URL, func(c *hookonce.Config) {
		c.Destinations = append(c.Destinations, hookonce.Destination{Name: "other", URL: second.URL, AllowPrivate: true})
		c.Routes = append(c.Routes, hookonce.Route{Name: "low", To: "other", Where: func(ev *hookonce.Event) (bool, error) {
			return ev.ID != "a-2", nil
		}})
	})
	run(t, in)
	deliver(in, versioned("a", "2"))
	settled(t, store, "a-2", driver.StateDone)
	deliver(in, versioned("a", "1"))
	ev := settled(t, store, "a-1", driver.StateDone) // one of its two messages is sent
	got := []string{ev.Messages[0].Route, ev.Messages[0].State, ev.Messages[1].Route, ev.Messages[1].State}
	if diff := cmp.Diff([]string{"all", driver.StateSkipped, "low", driver.StateSent}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// versionsStore counts the calls of Versions.
type versionsStore struct {
	driver.Store
	calls atomic.Int64
}

func (s *versionsStore) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	s.calls.Add(1)
	return s.Store.Versions(ctx, objects)
}

// A relay lives on when sources are reloaded, and uses their new stale rules.
func TestReloadOfStaleRules(t *testing.T) {
	t.Parallel()
	store, s := &versionsStore{Store: rig.OpenSQLite(t)}, newSink(t)
	in := newEngine(t, store, func(c *hookonce.Config) { *c = *settings(s.URL) })
	run(t, in)
	deliver(in, versioned("a", "9"))
	settled(t, store, "a-9", driver.StateDone)
	if n := store.calls.Load(); n > 0 {
		t.Errorf("%d reads of versions without a rule, want none", n)
	}
	ruled := settings(s.URL)
	stale(ruled)
	reload(t, in, ruled)
	deliver(in, versioned("a", "3"))
	settled(t, store, "a-3", driver.StateDone) // the first version under the rule
	deliver(in, versioned("a", "2"))
	settled(t, store, "a-2", driver.StateSkipped)
	reload(t, in, settings(s.URL))
	deliver(in, versioned("a", "1"))
	settled(t, store, "a-1", driver.StateDone)
}
