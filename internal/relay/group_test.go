package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// holding sends messages, and holds those of one event until it is released.
type holding struct {
	event           string
	arrived, letGo  chan struct{}
	mu              sync.Mutex
	began, finished []string // event ids
}

func newHolding(event string) *holding {
	return &holding{event: event, arrived: make(chan struct{}), letGo: make(chan struct{})}
}

func (h *holding) send(_ context.Context, m *driver.Message) error {
	h.mu.Lock()
	h.began = append(h.began, m.EventID)
	h.mu.Unlock()
	if m.EventID == h.event {
		close(h.arrived) // panics if it is sent twice
		<-h.letGo
	}
	h.mu.Lock()
	h.finished = append(h.finished, m.EventID)
	h.mu.Unlock()
	return nil
}

// said returns the ids of the events whose sends have begun and finished.
func (h *holding) said() (began, finished []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.began), slices.Clone(h.finished)
}

// A destination that stays keeps its relay: with one slot, which is in use, that relay leases
// nothing. A changed destination gets another relay, beside the old one.
func TestSetWhileRunning(t *testing.T) {
	t.Parallel()
	inner, h, other := rig.OpenSQLite(t), newHolding("1"), newHolding("")
	store := &leaseStore{Store: inner}
	one := destination(h.send, func(d *relay.Destination) { d.Concurrency = 1 })
	elsewhere := destination(other.send, func(d *relay.Destination) { d.Name = "elsewhere" })
	g := newGroup(store, nil, one)
	claim(t, inner, "1", "{}")
	claim(t, inner, "2", "{}")
	run(t, g)
	<-h.arrived
	set(g, one, elsewhere)
	// Time for another relay of the first destination to lease, if there were one.
	eventually.True(t, "the other destination is looked at ten times", func() bool { g.WakeAll(); return store.count("elsewhere") >= 10 })
	if n := store.count("app"); n != 1 {
		t.Errorf("the unchanged destination has leased %d times, want once", n)
	}
	changed := newHolding("")
	set(g, destination(changed.send, nil), elsewhere)
	settled(t, inner, "2", driver.StateSent)
	if began, _ := changed.said(); !slices.Equal(began, []string{"2"}) {
		t.Errorf("the changed destination began to send %q, want the second message", began)
	}
	close(h.letGo)
	settled(t, inner, "1", driver.StateSent)
	if ev := eventOf(t, inner, "1"); ev.Attempts != 1 {
		t.Errorf("the first message has %d attempts, want 1: the old relay finishes it", ev.Attempts)
	}
	if began, _ := h.said(); !slices.Equal(began, []string{"1"}) {
		t.Errorf("the old relay began to send %q, want the first message alone", began)
	}
}

// The caller hands the circuit of a destination on to the changed one.
func TestSetKeepsAnOpenCircuit(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	claimMany(t, store, 12, "{}")
	schedule := func(d *relay.Destination) {
		d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 2, First: time.Minute, Max: time.Minute}
	}
	broken := destination(func(context.Context, *driver.Message) error { return errors.New("down") }, schedule)
	g := newGroup(store, nil, broken)
	run(t, g)
	eventually.True(t, "the circuit opens", func() bool { return broken.Circuit.Status().Open })

	mended := newHolding("")
	changed := destination(mended.send, func(d *relay.Destination) {
		schedule(d)
		d.Circuit = broken.Circuit
	})
	set(g, changed)
	if status := changed.Circuit.Status(); !status.Open || status.Failures != 10 {
		t.Errorf("circuit %+v, want it open", status)
	}
	if began, _ := mended.said(); len(began) > 0 {
		t.Errorf("behind an open circuit %d messages were sent", len(began))
	}

	set(g, destination(mended.send, schedule)) // with a circuit of its own
	eventually.True(t, "the two untried messages are sent", func() bool {
		sent := 0
		for i := range 12 {
			// A retry has a random delay, so some may be sent, too.
			if m := messageOf(t, store, fmt.Sprint(i)); m.State == driver.StateSent && m.Attempts == 1 {
				sent++
			}
		}
		return sent == 2
	})
}

func TestRemovedDestinationKeepsItsMessages(t *testing.T) {
	t.Parallel()
	store, h := rig.OpenSQLite(t), newHolding("")
	d := destination(h.send, nil)
	g := newGroup(store, nil, d)
	set(g) // while nothing runs
	claim(t, store, "1", "{}")
	run(t, g)
	g.Wake("app") // has no relay
	if m := messageOf(t, store, "1"); m.State != driver.StatePending {
		t.Errorf("the message is %s, want pending", m.State)
	}
	set(g, d)
	settled(t, store, "1", driver.StateSent)
	set(g)
	claim(t, store, "2", "{}")
	set(g, d)
	settled(t, store, "2", driver.StateSent)
}

// One dead destination delays no other.
func TestDestinationsAreApart(t *testing.T) {
	t.Parallel()
	store, h := rig.OpenSQLite(t), newHolding("1")
	claim(t, store, "1", "{}")
	both := newClaim("2", "{}") // to "app" by the route "r", and to "crm"
	both.Messages = append(both.Messages, driver.NewMessage{ID: driver.MessageID(both.Key, 0, "s"), Route: "s", Destination: "crm"})
	claimAll(t, store, []driver.Claim{both})
	one := func(d *relay.Destination) { d.Concurrency = 1 }
	refuse := func(context.Context, *driver.Message) error { return guard.Permanent(errors.New("refused")) }
	run(t, newGroup(store, nil, destination(h.send, one), destination(refuse, func(d *relay.Destination) { d.Name = "crm" })))
	<-h.arrived
	eventually.True(t, "the message is dead", func() bool { return eventOf(t, store, "2").Messages[1].State == driver.StateDead })
	if m := eventOf(t, store, "2").Messages[0]; m.State != driver.StatePending {
		t.Errorf("the message behind the held one is %s, want pending", m.State)
	}
	close(h.letGo)
	eventually.True(t, "the message is sent", func() bool { return eventOf(t, store, "2").Messages[0].State == driver.StateSent })
}

func TestStopFinishesSendsInProgress(t *testing.T) {
	t.Parallel()
	store, h := rig.OpenSQLite(t), newHolding("1")
	g := newGroup(store, nil, destination(h.send, nil))
	claim(t, store, "1", "{}")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { g.Run(ctx); close(ended) }()
	<-h.arrived
	cancel()
	select {
	case <-ended:
		t.Error("Run returned while a message was sent")
	default:
	}
	close(h.letGo)
	<-ended
	if got := messageOf(t, store, "1").State; got != driver.StateSent {
		t.Errorf("the message is %s, want sent: its outcome came before Run returned", got)
	}
}

func TestLeaseTakenWhileStoppingIsGivenBack(t *testing.T) {
	t.Parallel()
	store, h := rig.OpenSQLite(t), newHolding("")
	claim(t, store, "1", "{}")
	ctx, cancel := context.WithCancel(t.Context())
	newGroup(&leaseStore{Store: store, leased: cancel}, nil, destination(h.send, nil)).Run(ctx)
	began, _ := h.said()
	if m := messageOf(t, store, "1"); m.State != driver.StatePending || m.Attempts != 0 || len(began) > 0 {
		t.Errorf("the message is %s after %d attempts, sends %q; want it pending after none", m.State, m.Attempts, began)
	}
}

// After Run has returned, Set starts no relay.
func TestSetAfterRun(t *testing.T) {
	t.Parallel()
	inner, h := rig.OpenSQLite(t), newHolding("")
	store := &leaseStore{Store: inner}
	d := destination(h.send, nil)
	g := newGroup(store, nil)
	run(t, g)()
	set(g, d)
	g.WakeAll()
	if n := store.count("app"); n != 0 {
		t.Errorf("%d leases after the end", n)
	}
}
