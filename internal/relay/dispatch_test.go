package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// newVersion returns a claim about a version, of at most three digits, of an object. The id of its
// event is object-version.
func newVersion(object, version string) driver.Claim {
	return newClaim(object+"-"+version, fmt.Sprintf(`{"object":%q,"version":%q}`, object, version))
}

func claimVersion(t *testing.T, store driver.Store, object, version string) {
	t.Helper()
	claimAll(t, store, []driver.Claim{newVersion(object, version)})
}

// watching makes a group skip stale messages of newVersion.
func watching(o *relay.Options) {
	o.ObjectOf = func(m *driver.Message) (v driver.ObjectVersion, ok bool) {
		var body struct{ Object, Version string }
		if json.Unmarshal(m.Body, &body) != nil || body.Object == "" {
			return v, false
		}
		return driver.ObjectVersion{
			Object: driver.ObjectKey(m.Source, m.Route, body.Object), Source: m.Source,
			Version: []byte(strings.Repeat("0", 3-len(body.Version)) + body.Version), Shown: body.Version,
		}, true
	}
}

func TestStaleMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	store, h := rig.OpenSQLite(t), newHolding("")
	var mu sync.Mutex
	var observed []string
	g := newGroup(store, func(o *relay.Options) {
		watching(o)
		o.Observe = func(seen *relay.Observed) {
			mu.Lock()
			defer mu.Unlock()
			observed = append(observed, seen.Message.EventID+" "+seen.Outcome)
		}
	}, destination(h.send, nil))
	stop := run(t, g)
	var want []string
	for _, tt := range []struct{ object, version, state string }{
		{"a", "5", driver.StateSent},
		{"a", "3", driver.StateSkipped},
		{"b", "1", driver.StateSent}, // another object
		{"a", "10", driver.StateSent},
		{"a", "9", driver.StateSkipped},
	} {
		claimVersion(t, store, tt.object, tt.version)
		g.Wake("app")
		settled(t, store, tt.object+"-"+tt.version, tt.state)
		want = append(want, fmt.Sprint(tt.object, "-", tt.version, " ", tt.state))
	}
	stop()
	if diff := cmp.Diff(want, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	const reason = "version 3 is older than 5, which was applied"
	if m := messageOf(t, store, "a-3"); m.Note != driver.NoteStale || m.LastError != reason || m.Attempts != 0 {
		t.Errorf("the stale message has the note %q, the error %q and %d attempts", m.Note, m.LastError, m.Attempts)
	}
	if began, _ := h.said(); !slices.Equal(began, []string{"a-5", "b-1", "a-10"}) {
		t.Errorf("sent %q", began)
	}
}

// Due versions of one object go out one after the other, the lowest first. So the destination never
// gets an older version after a newer one.
func TestVersionsDueTogether(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	var all []driver.Claim
	for _, version := range []string{"3", "1", "4", "2", "5"} {
		all = append(all, newVersion("a", version), newVersion("b", version))
	}
	claimAll(t, store, all)
	var mu sync.Mutex
	busy, sent := make(map[string]bool), make(map[string][]string)
	run(t, newGroup(store, watching, destination(func(_ context.Context, m *driver.Message) error {
		object := m.EventID[:1]
		mu.Lock()
		if busy[object] {
			t.Errorf("two versions of object %s are sent at a time", object)
		}
		busy[object] = true
		sent[object] = append(sent[object], m.EventID)
		mu.Unlock()
		runtime.Gosched() // lets another send begin
		mu.Lock()
		busy[object] = false
		mu.Unlock()
		return nil
	}, nil)))
	for _, object := range []string{"a", "b"} {
		settled(t, store, object+"-5", driver.StateSent)
		var want []string
		for version := 1; version <= 5; version++ {
			id := fmt.Sprint(object, "-", version)
			eventually.True(t, "the message is sent or skipped", func() bool {
				// A slow machine may give a message back, and find it stale later.
				state := messageOf(t, store, id).State
				return state == driver.StateSent || state == driver.StateSkipped
			})
			if messageOf(t, store, id).State == driver.StateSent {
				want = append(want, id)
			}
		}
		mu.Lock()
		if diff := cmp.Diff(want, sent[object]); diff != "" {
			t.Errorf("object %s was sent as (-want +got):\n%s", object, diff)
		}
		mu.Unlock()
	}
}

// A failed version is stale if a newer one was sent before its next attempt.
func TestRetryOfAnOvertakenMessage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	claimVersion(t, store, "a", "1")
	var overtaken atomic.Bool
	g := newGroup(store, watching, destination(func(_ context.Context, m *driver.Message) error {
		if m.EventID == "a-1" && !overtaken.Load() {
			return guard.RetryAfter(time.Millisecond, errors.New("not yet"))
		}
		overtaken.Store(true)
		return nil
	}, func(d *relay.Destination) { d.Retry.Attempts = 10_000 }))
	run(t, g)
	eventually.True(t, "an attempt is recorded", func() bool { return len(eventOf(t, store, "a-1").Tries) > 0 })
	claimVersion(t, store, "a", "2")
	g.Wake("app")
	settled(t, store, "a-2", driver.StateSent)
	ev := settled(t, store, "a-1", driver.StateSkipped)
	if slices.ContainsFunc(ev.Tries, func(try driver.Attempt) bool { return try.Outcome != "retry" }) {
		t.Errorf("attempts %q, want none that was sent", triesOf(ev))
	}
}

func TestObjectInFlight(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held, later, state string
		began              []string
	}{
		"a newer version waits":                         {"1", "2", driver.StateSent, []string{"a-1", "a-2"}},
		"an older version is stale when its turn comes": {"3", "2", driver.StateSkipped, []string{"a-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, h := rig.OpenSQLite(t), newHolding("a-"+tt.held)
			g := newGroup(store, watching, destination(h.send, nil))
			run(t, g)
			claimVersion(t, store, "a", tt.held)
			<-h.arrived
			claimVersion(t, store, "a", tt.later)
			g.Wake("app")
			later := "a-" + tt.later
			eventually.True(t, "the later message is leased", func() bool { return messageOf(t, store, later).State == driver.StateSending })
			if began, _ := h.said(); len(began) != 1 {
				t.Errorf("began %q while the first was sent", began)
			}
			close(h.letGo)
			settled(t, store, "a-"+tt.held, driver.StateSent)
			settled(t, store, later, tt.state)
			if began, _ := h.said(); !slices.Equal(began, tt.began) {
				t.Errorf("began %q, want %q", began, tt.began)
			}
		})
	}
}

// releaseStore is a real store that tells of releases.
type releaseStore struct {
	driver.Store
	released chan struct{} // after each release
}

func (s *releaseStore) Release(ctx context.Context, p *driver.ReleaseParams) error {
	err := s.Store.Release(ctx, p)
	select {
	case s.released <- struct{}{}:
	default:
	}
	return err
}

// A message that waits too long for its turn is given back: it costs no attempt, and its slot is
// free for others.
func TestLongWaitIsGivenBack(t *testing.T) {
	t.Parallel()
	store, h := &releaseStore{rig.OpenSQLite(t), make(chan struct{}, 1)}, newHolding("a-1")
	g := newGroup(store, watching, destination(h.send, func(d *relay.Destination) { d.Concurrency = 2 }))
	run(t, g)
	claimVersion(t, store, "a", "1")
	<-h.arrived
	claimVersion(t, store, "a", "2")
	g.Wake("app")
	<-store.released
	claimVersion(t, store, "b", "1")
	settled(t, store, "b-1", driver.StateSent)
	close(h.letGo)
	if ev := settled(t, store, "a-2", driver.StateSent); ev.Attempts != 1 {
		t.Errorf("%d attempts, want 1", ev.Attempts)
	}
}

// A replaced relay finishes its sends, and its successor waits for them.
func TestObjectInFlightOfAnOldRelay(t *testing.T) {
	t.Parallel()
	store, old, successor := rig.OpenSQLite(t), newHolding("a-1"), newHolding("")
	g := newGroup(store, watching, destination(old.send, nil))
	run(t, g)
	claimVersion(t, store, "a", "1")
	<-old.arrived
	set(g, destination(successor.send, nil))
	claimVersion(t, store, "a", "2")
	g.Wake("app")
	eventually.True(t, "the next message is leased", func() bool { return messageOf(t, store, "a-2").State == driver.StateSending })
	if began, _ := successor.said(); len(began) > 0 {
		t.Errorf("began %q while the old relay was sending", began)
	}
	close(old.letGo)
	settled(t, store, "a-2", driver.StateSent)
	_, first := old.said()
	_, second := successor.said()
	if diff := cmp.Diff([][]string{{"a-1"}, {"a-2"}}, [][]string{first, second}); diff != "" {
		t.Errorf("sent by the old relay and its successor (-want +got):\n%s", diff)
	}
}

func TestStopGivesWaitingMessagesBack(t *testing.T) {
	t.Parallel()
	store, h := rig.OpenSQLite(t), newHolding("a-1")
	g := newGroup(store, watching, destination(h.send, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { g.Run(ctx); close(ended) }()
	claimVersion(t, store, "a", "1")
	<-h.arrived
	claimVersion(t, store, "a", "2")
	g.Wake("app")
	eventually.True(t, "the next message is leased", func() bool { return messageOf(t, store, "a-2").State == driver.StateSending })
	cancel()
	eventually.True(t, "the messages are given back", func() bool {
		m := messageOf(t, store, "a-2")
		return m.State == driver.StatePending && m.Attempts == 0
	})
	close(h.letGo)
	<-ended
	if began, finished := h.said(); len(began) != 1 || len(finished) != 1 {
		t.Errorf("began %q, finished %q, want the first alone", began, finished)
	}
	if got := messageOf(t, store, "a-1").State; got != driver.StateSent {
		t.Errorf("the first message is %s, want sent", got)
	}
}

// versionsStore is a real store that counts the calls of Versions, and fails them while broken.
type versionsStore struct {
	driver.Store
	broken atomic.Bool
	calls  atomic.Int64
}

func (s *versionsStore) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	s.calls.Add(1)
	if s.broken.Load() {
		return nil, driver.ErrUnavailable
	}
	return s.Store.Versions(ctx, objects)
}

// Without the applied versions, the relay sends no message that a stale rule matches.
func TestUnreadableVersions(t *testing.T) {
	t.Parallel()
	store, h := &versionsStore{Store: rig.OpenSQLite(t)}, newHolding("")
	store.broken.Store(true)
	claimVersion(t, store, "a", "1")
	g := newGroup(store, watching, destination(h.send, func(d *relay.Destination) {
		d.Rate = limit.New(2, time.Hour) // an unsent message takes nothing of it
	}))
	run(t, g)
	eventually.True(t, "three leases were tried", func() bool { g.Wake("app"); return store.calls.Load() >= 3 })
	eventually.True(t, "the message waits, untried", func() bool {
		m := messageOf(t, store, "a-1")
		return m.State == driver.StatePending && m.Attempts == 0
	})
	if began, _ := h.said(); len(began) > 0 {
		t.Errorf("sent %q", began)
	}
	store.broken.Store(false)
	if ev := settled(t, store, "a-1", driver.StateSent); ev.Attempts != 1 {
		t.Errorf("%d attempts, want 1", ev.Attempts)
	}
	claim(t, store, "plain", "{}")
	before := store.calls.Load()
	settled(t, store, "plain", driver.StateSent)
	if n := store.calls.Load(); n != before {
		t.Error("the versions were read for a message that no rule matches")
	}
}
