package hookonce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// watching adds the rule of these tests: version v of object o.
func watching(c *hookonce.Config) {
	c.Sources[0].Stale = []hookonce.StaleRule{{Types: []string{"push"}, Key: "body:o", Version: "body:v"}}
}

// watched is an engine that forwards what gh sends to url, by the route all, and
// watches for stale events.
func watched(t *testing.T, store driver.Store, url string, change func(*hookonce.Config)) *hookonce.Engine {
	t.Helper()
	return newEngine(t, store, func(c *hookonce.Config) {
		watching(c)
		c.Destinations = []hookonce.Destination{{
			Name: "app", URL: url, AllowPrivate: true, Retry: hookonce.Retry{First: time.Millisecond, Max: time.Millisecond},
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
		if change != nil {
			change(c)
		}
	})
}

// versioned is an event of version v of object o, whose id is o-v.
func versioned(o, v string) *http.Request {
	return delivery(o+"-"+v, fmt.Sprintf(`{"o":%q,"v":%q}`, o, v))
}

// bodies are the versions that a destination got, in order.
func bodies(s *sink) []string {
	var all []string
	for _, r := range s.got() {
		all = append(all, r.Body)
	}
	return all
}

func TestStaleMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	store, s := openStore(t), newSink(t)
	in := watched(t, store, s.URL, nil)
	run(t, in)
	for _, tt := range []struct{ o, v, state string }{
		{"a", "2", driver.StateDone},
		{"a", "1", driver.StateSkipped},
		{"b", "1", driver.StateDone}, // of another object
		{"a", "2.0", driver.StateDone},
		{"a", "true", driver.StateDone}, // text is above all numbers
		{"a", "3", driver.StateSkipped},
		{"c", "2026-01-01T01:00:00+01:00", driver.StateDone},
		{"c", "2026-01-01T00:00:00Z", driver.StateDone},
		{"c", "2025-12-31T23:59:59.999Z", driver.StateSkipped},
	} {
		deliver(in, versioned(tt.o, tt.v))
		settled(t, store, tt.o+"-"+tt.v, tt.state)
	}
	for _, body := range []string{`{"o":"a"}`, `{"v":"0"}`, `[]`} { // nothing to compare
		deliver(in, delivery(body, body))
		settled(t, store, body, driver.StateDone)
	}
	other := versioned("a", "0")
	other.Header.Set("X-GitHub-Event", "ping") // no rule
	deliver(in, other)
	settled(t, store, "a-0", driver.StateDone)

	ev := eventState(t, store, "a-1")
	m := ev.Messages[0]
	const reason = "version 1 is older than 2, which was applied"
	if ev.Note != driver.NoteStale || ev.LastError != reason || m.State != driver.StateSkipped || m.Note != driver.NoteStale ||
		m.LastError != reason || m.Attempts != 0 || ev.Attempts != 0 {
		t.Errorf("the stale event: %s, %q, %q, %d attempts; its message: %s, %q, %q, %d attempts",
			ev.State, ev.Note, ev.LastError, ev.Attempts, m.State, m.Note, m.LastError, m.Attempts)
	}
	if slices.Contains(bodies(s), `{"o":"a","v":"1"}`) {
		t.Error("the stale event was sent")
	}
}

// An operator who replays an event wants it, and it changes nothing for others.
func TestReplayOfAStaleMessage(t *testing.T) {
	t.Parallel()
	store, s := openStore(t), newSink(t)
	in := watched(t, store, s.URL, nil)
	run(t, in)
	deliver(in, versioned("a", "5"))
	settled(t, store, "a-5", driver.StateDone)
	deliver(in, versioned("a", "1"))
	settled(t, store, "a-1", driver.StateSkipped)
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "a-1"}); err != nil {
		t.Fatal(err)
	}
	settled(t, store, "a-1", driver.StateDone)
	deliver(in, versioned("a", "4"))
	settled(t, store, "a-4", driver.StateSkipped)
	if diff := cmp.Diff([]string{`{"o":"a","v":"5"}`, `{"o":"a","v":"1"}`}, bodies(s)); diff != "" {
		t.Errorf("the destination got (-want +got):\n%s", diff)
	}
}

// lonely is a destination that takes one request for each object at a time.
type lonely struct {
	*sink
	mu   sync.Mutex
	busy map[string]bool
	met  bool
}

func newLonely(t *testing.T) *lonely {
	l := &lonely{sink: &sink{}, busy: make(map[string]bool)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		object := string(body[:len(`{"o":"a"`)])
		l.mu.Lock()
		l.met = l.met || l.busy[object]
		l.busy[object] = true
		l.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.sink.ServeHTTP(w, r)
		l.mu.Lock()
		l.busy[object] = false
		l.mu.Unlock()
	}))
	t.Cleanup(l.Close)
	return l
}

// Versions that are due together go out one after the other: the destination never
// has a newer one before an older one.
func TestVersionsDueTogether(t *testing.T) {
	t.Parallel()
	store, s := openStore(t), newLonely(t)
	in := watched(t, store, s.URL, nil)
	for _, v := range []int{3, 1, 4, 2, 5} {
		for _, o := range []string{"a", "b"} {
			deliver(in, versioned(o, fmt.Sprint(v)))
		}
	}
	run(t, in)
	for _, o := range []string{"a", "b"} {
		settled(t, store, o+"-5", driver.StateDone)
		var want []string
		for v := 1; v <= 5; v++ {
			id := fmt.Sprint(o, "-", v)
			waitFor(t, func() bool {
				// A slow machine may give one back, and find it stale then.
				state := eventState(t, store, id).State
				return state == driver.StateDone || state == driver.StateSkipped
			})
			if eventState(t, store, id).State == driver.StateDone {
				want = append(want, fmt.Sprintf(`{"o":%q,"v":"%d"}`, o, v))
			}
		}
		got := slices.DeleteFunc(bodies(s.sink), func(b string) bool { return b[:len(`{"o":"a"`)] != fmt.Sprintf(`{"o":%q`, o) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of object %s the destination got (-want +got):\n%s", o, diff)
		}
	}
	if s.met {
		t.Error("two versions of one object were sent at a time")
	}
}

// A version that has to be tried again is stale by then.
func TestRetryOfAnOvertakenMessage(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	var overtaken atomic.Bool
	in := watched(t, store, "", func(c *hookonce.Config) {
		c.Destinations[0] = hookonce.Destination{Name: "app", Sender: hookonce.SenderFunc(func(_ context.Context, m *hookonce.Outgoing) error {
			if m.EventID == "a-1" && !overtaken.Load() {
				return hookonce.RetryAfter(time.Millisecond, errors.New("not yet"))
			}
			overtaken.Store(true)
			return nil
		})}
	})
	deliver(in, versioned("a", "1"))
	run(t, in)
	waitFor(t, func() bool { return len(eventState(t, store, "a-1").Tries) > 0 })
	deliver(in, versioned("a", "2"))
	settled(t, store, "a-2", driver.StateDone)
	ev := settled(t, store, "a-1", driver.StateSkipped)
	for _, try := range ev.Tries {
		if try.Outcome != "retry" {
			t.Errorf("the attempts were %q, want none that was sent", outcomes(ev))
		}
	}
}

// What one route sent says nothing of another.
func TestRoutesWatchOnTheirOwn(t *testing.T) {
	t.Parallel()
	store, first, second := openStore(t), newSink(t), newSink(t)
	in := watched(t, store, first.URL, func(c *hookonce.Config) {
		c.Destinations = append(c.Destinations, hookonce.Destination{Name: "other", URL: second.URL, AllowPrivate: true})
		c.Routes = append(c.Routes, hookonce.Route{Name: "low", To: "other", Where: func(ev *hookonce.Event) (bool, error) {
			return ev.ID != "a-2", nil
		}})
	})
	run(t, in)
	deliver(in, versioned("a", "2"))
	settled(t, store, "a-2", driver.StateDone)
	deliver(in, versioned("a", "1"))
	ev := settled(t, store, "a-1", driver.StateDone) // as far as one route is concerned
	got := []string{ev.Messages[0].Route, ev.Messages[0].State, ev.Messages[1].Route, ev.Messages[1].State}
	if diff := cmp.Diff([]string{"all", driver.StateSkipped, "low", driver.StateSent}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// holding is a Sender that holds the version it names until it is let go.
type holding struct {
	version         string
	arrived, letGo  chan struct{}
	mu              sync.Mutex
	began, finished []string
}

func newHolding(version string) *holding {
	return &holding{version: version, arrived: make(chan struct{}), letGo: make(chan struct{})}
}

func (h *holding) Send(_ context.Context, m *hookonce.Outgoing) error {
	h.mu.Lock()
	h.began = append(h.began, m.EventID)
	h.mu.Unlock()
	if m.EventID == h.version {
		close(h.arrived)
		<-h.letGo
	}
	h.mu.Lock()
	h.finished = append(h.finished, m.EventID)
	h.mu.Unlock()
	return nil
}

func (h *holding) said() (began, finished []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.began), slices.Clone(h.finished)
}

func heldEngine(t *testing.T, store driver.Store, h *holding) *hookonce.Engine {
	t.Helper()
	return watched(t, store, "", func(c *hookonce.Config) {
		c.Destinations[0] = hookonce.Destination{Name: "app", Sender: h}
	})
}

// messageState returns the state of the only message of an event, and its attempts.
func messageState(t *testing.T, store driver.Store, id string) (string, int) {
	t.Helper()
	m := eventState(t, store, id).Messages[0]
	return m.State, m.Attempts
}

func TestObjectInFlight(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held, later, state string
		began              []string
	}{
		"a newer version waits":             {"a-1", "2", driver.StateDone, []string{"a-1", "a-2"}},
		"an older one is stale by its turn": {"a-3", "2", driver.StateSkipped, []string{"a-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, h := openStore(t), newHolding(tt.held)
			in := heldEngine(t, store, h)
			run(t, in)
			deliver(in, versioned("a", tt.held[2:]))
			<-h.arrived
			deliver(in, versioned("a", tt.later))
			later := "a-" + tt.later
			waitFor(t, func() bool { state, _ := messageState(t, store, later); return state == driver.StateSending })
			if began, _ := h.said(); len(began) != 1 {
				t.Errorf("began %q while the first was sent", began)
			}
			close(h.letGo)
			settled(t, store, tt.held, driver.StateDone)
			settled(t, store, later, tt.state)
			if began, _ := h.said(); !slices.Equal(began, tt.began) {
				t.Errorf("began %q, want %q", began, tt.began)
			}
		})
	}
}

// Who waits for long is given back: it costs no attempt, and the slot is another's.
func TestWaitingIsGivenBack(t *testing.T) {
	t.Parallel()
	store, h := openStore(t), newHolding("a-1")
	in := heldEngine(t, store, h)
	run(t, in)
	deliver(in, versioned("a", "1"))
	<-h.arrived
	deliver(in, versioned("a", "2"))
	waitFor(t, func() bool { state, _ := messageState(t, store, "a-2"); return state == driver.StateSending })
	waitFor(t, func() bool {
		state, attempts := messageState(t, store, "a-2")
		return state == driver.StatePending && attempts == 0
	})
	deliver(in, versioned("b", "1"))
	settled(t, store, "b-1", driver.StateDone)
	close(h.letGo)
	if ev := settled(t, store, "a-2", driver.StateDone); ev.Attempts != 1 {
		t.Errorf("%d attempts, want 1", ev.Attempts)
	}
}

// A relay that is replaced finishes what it sends; its successor waits for it too.
func TestObjectInFlightOfAnOldRelay(t *testing.T) {
	t.Parallel()
	store, h, s := openStore(t), newHolding("a-1"), newSink(t)
	in := heldEngine(t, store, h)
	run(t, in)
	deliver(in, versioned("a", "1"))
	<-h.arrived
	cfg := settings(s.URL)
	watching(cfg)
	reload(t, in, cfg)
	deliver(in, versioned("a", "2"))
	waitFor(t, func() bool { state, _ := messageState(t, store, "a-2"); return state == driver.StateSending })
	if n := len(s.got()); n > 0 {
		t.Errorf("%d requests while the old relay was sending", n)
	}
	close(h.letGo)
	settled(t, store, "a-2", driver.StateDone)
	if _, finished := h.said(); len(finished) != 1 || len(s.got()) != 1 {
		t.Errorf("finished %q, then %q", finished, bodies(s))
	}
}

func TestStoppingGivesWaitingBack(t *testing.T) {
	t.Parallel()
	store, h := openStore(t), newHolding("a-1")
	in := heldEngine(t, store, h)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- in.Run(ctx) }()
	deliver(in, versioned("a", "1"))
	<-h.arrived
	deliver(in, versioned("a", "2"))
	waitFor(t, func() bool { state, _ := messageState(t, store, "a-2"); return state == driver.StateSending })
	cancel()
	waitFor(t, func() bool {
		state, attempts := messageState(t, store, "a-2")
		return state == driver.StatePending && attempts == 0
	})
	close(h.letGo)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if began, finished := h.said(); len(began) != 1 || len(finished) != 1 {
		t.Errorf("began %q, finished %q, want the first alone", began, finished)
	}
	settled(t, store, "a-1", driver.StateDone)
}

// versionsStore counts the calls of Versions, and fails them while broken.
type versionsStore struct {
	driver.Store
	broken atomic.Bool
	calls  atomic.Int64
}

func (s *versionsStore) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	s.calls.Add(1)
	if s.broken.Load() {
		return nil, errors.New("injected")
	}
	return s.Store.Versions(ctx, objects)
}

// Without knowing what was applied nothing is sent that may be stale.
func TestVersionsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store, s := &versionsStore{Store: openStore(t)}, newSink(t)
	store.broken.Store(true)
	in := watched(t, store, s.URL, nil)
	run(t, in)
	deliver(in, versioned("a", "1"))
	waitFor(t, func() bool { return store.calls.Load() >= 2 })
	waitFor(t, func() bool {
		state, attempts := messageState(t, store, "a-1")
		return state == driver.StatePending && attempts == 0
	})
	if n := len(s.got()); n > 0 {
		t.Errorf("%d requests", n)
	}
	store.broken.Store(false)
	if ev := settled(t, store, "a-1", driver.StateDone); ev.Attempts != 1 {
		t.Errorf("%d attempts, want 1", ev.Attempts)
	}
}

// Relays outlive the setup of sources: the rules are those of now.
func TestReloadOfStaleRules(t *testing.T) {
	t.Parallel()
	store, s := &versionsStore{Store: openStore(t)}, newSink(t)
	in := newEngine(t, store, func(c *hookonce.Config) { *c = *settings(s.URL) })
	run(t, in)
	deliver(in, versioned("a", "9"))
	settled(t, store, "a-9", driver.StateDone)
	if n := store.calls.Load(); n > 0 {
		t.Errorf("%d looks at versions without a rule", n)
	}
	with := settings(s.URL)
	watching(with)
	reload(t, in, with)
	deliver(in, versioned("a", "3"))
	settled(t, store, "a-3", driver.StateDone) // the first one that was watched
	deliver(in, versioned("a", "2"))
	settled(t, store, "a-2", driver.StateSkipped)
	reload(t, in, settings(s.URL))
	deliver(in, versioned("a", "1"))
	settled(t, store, "a-1", driver.StateDone)
}
