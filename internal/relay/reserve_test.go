package relay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// unclaimed returns the message of newClaim(id) before its claim.
func unclaimed(id string, body string) *driver.Message {
	c := newClaim(id, body)
	m := c.Messages[0]
	return &driver.Message{
		ID: m.ID, Key: c.Key, Source: c.Source, EventID: id, Route: m.Route, Destination: m.Destination, Headers: c.Headers, Body: c.Body,
	}
}

// claimReserved claims the event of a reservation, with its message leased to it, and returns the lease and
// the time of the event.
func claimReserved(t *testing.T, store driver.Store, id string, r *relay.Reservation) (token int64, receivedAt time.Time) {
	t.Helper()
	c := newClaim(id, "{}")
	c.Messages[0].LeaseFor = r.LeaseFor()
	got, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}})
	if err != nil || len(got[0].Leases) != 1 {
		t.Fatalf("claim: %+v, %v", got, err)
	}
	return got[0].Leases[0].Token, got[0].ReceivedAt
}

// reserve waits until the relay of m has room for it.
func reserve(t *testing.T, g *relay.Group, m *driver.Message) *relay.Reservation {
	t.Helper()
	var r *relay.Reservation
	eventually.True(t, "there is a place", func() bool { r = g.Reserve(m); return r != nil })
	return r
}

// A message that its claim has leased is sent from memory: no statement leases it.
func TestReservedMessageIsSent(t *testing.T) {
	t.Parallel()
	inner := rig.OpenSQLite(t)
	store := &leaseStore{Store: inner}
	var got atomic.Pointer[driver.Message]
	g := newGroup(store, nil, destination(func(_ context.Context, m *driver.Message) error {
		got.Store(m)
		return nil
	}, nil))
	run(t, g)
	r := reserve(t, g, unclaimed("1", "{}"))
	leases := store.count("app")
	token, at := claimReserved(t, inner, "1", r)
	r.Send(token, at)
	ev := settled(t, inner, "1", driver.StateSent)
	if n := store.count("app"); n != leases {
		t.Errorf("%d statements leased messages, want none", n-leases)
	}
	want := unclaimed("1", "{}")
	want.Token, want.Attempt, want.ReceivedAt = token, 1, ev.ReceivedAt
	if diff := cmp.Diff(want, got.Load()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if n := ev.Messages[0].Attempts; n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func TestNoReservation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change  func(*relay.Destination)
		options func(*relay.Options)
		before  int // reservations that there are
		bytes   int // of the body of each of them
		message *driver.Message
	}{
		"an unknown destination": {message: &driver.Message{Destination: "other"}},
		"only one attempt":       {change: func(d *relay.Destination) { d.Retry.Attempts = 1 }},
		"a long timeout":         {change: func(d *relay.Destination) { d.Timeout = time.Minute + time.Second }},
		"a large body":           {message: unclaimed("1", string(make([]byte, 256<<10+1)))},
		"a used-up rate":         {change: func(d *relay.Destination) { d.Rate = limit.New(1, time.Hour) }, before: 1},
		"no room":                {change: func(d *relay.Destination) { d.Concurrency = 2 }, before: 2},
		"much in memory":         {change: func(d *relay.Destination) { d.Concurrency = 64 }, before: 32, bytes: 256 << 10},
		"a stale rule":           {options: func(o *relay.Options) { o.MayBeStale = func(*driver.Message) bool { return true } }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &leaseStore{Store: rig.OpenSQLite(t)}
			g := newGroup(store, tt.options, destination(func(context.Context, *driver.Message) error { return nil }, tt.change))
			run(t, g)
			// Once a second lease has begun, the relay knows from the first one that nothing is due.
			eventually.True(t, "the destination is looked at twice", func() bool { g.WakeAll(); return store.count("app") >= 2 })
			for range tt.before {
				defer reserve(t, g, unclaimed("2", string(make([]byte, tt.bytes)))).Cancel()
			}
			m := tt.message
			if m == nil {
				m = unclaimed("1", "{}")
			}
			if r := g.Reserve(m); r != nil {
				r.Cancel()
				t.Error("there is a reservation")
			}
		})
	}
}

// Only so many messages are reserved as the relay has slots for, and each end of a reservation makes room.
func TestRoomOfReservations(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	g := newGroup(store, nil, destination(func(context.Context, *driver.Message) error { return nil },
		func(d *relay.Destination) { d.Concurrency = 4; d.Rate = limit.New(100, time.Hour) }))
	stop := run(t, g)
	for range 200 { // more than the rate: a canceled reservation gives its token back
		var held []*relay.Reservation
		held = append(held, reserve(t, g, unclaimed("1", "{}")))
		for r := g.Reserve(unclaimed("1", "{}")); r != nil; r = g.Reserve(unclaimed("1", "{}")) {
			held = append(held, r)
		}
		if len(held) > 4 {
			t.Fatalf("%d reservations for 4 slots", len(held))
		}
		for _, r := range held {
			r.Cancel()
		}
	}
	stop()
	if g.Reserve(unclaimed("1", "{}")) != nil {
		t.Error("there is a reservation after the end")
	}
}

// A group that stops while an event is being claimed gives its message back: it spends no attempt and is
// due for another process at once.
func TestStopDuringAReservation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *relay.Group, stop func()){
		"stop":    func(_ *relay.Group, stop func()) { stop() },
		"removal": func(g *relay.Group, _ func()) { set(g) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			g := newGroup(store, nil, destination(func(context.Context, *driver.Message) error {
				t.Error("sent")
				return nil
			}, nil))
			stop := run(t, g)
			r := reserve(t, g, unclaimed("1", "{}"))
			token, at := claimReserved(t, store, "1", r)
			ended := make(chan struct{})
			go func() { end(g, stop); close(ended) }()
			eventually.True(t, "another message has a place", func() bool {
				other := g.Reserve(unclaimed("2", "{}"))
				if other != nil {
					other.Cancel()
				}
				return other == nil
			})
			r.Send(token, at)
			m := settled(t, store, "1", driver.StatePending).Messages[0]
			if m.Attempts != 0 {
				t.Errorf("%d attempts, want none", m.Attempts)
			}
			<-ended
		})
	}
}

// slowRelease counts the statements that release leases, and holds the first one.
type slowRelease struct {
	driver.Store
	first, goOn chan struct{}
	calls       atomic.Int64
}

func (s *slowRelease) Release(ctx context.Context, p *driver.ReleaseParams) error {
	if s.calls.Add(1) == 1 {
		close(s.first)
		<-s.goOn
	}
	return s.Store.Release(ctx, p)
}

// Reserved messages that come while a group stops are given back together: a database that does not answer costs the
// stop one statement, and not one for each.
func TestStopGivesReservedMessagesBackTogether(t *testing.T) {
	t.Parallel()
	store := &slowRelease{Store: rig.OpenSQLite(t), first: make(chan struct{}), goOn: make(chan struct{})}
	g := newGroup(store, nil, destination(func(context.Context, *driver.Message) error { return nil },
		func(d *relay.Destination) { d.Concurrency = 5 })) // one more than are reserved
	stop := run(t, g)
	var send []func()
	for i := range 4 {
		id := fmt.Sprint(i)
		r := reserve(t, g, unclaimed(id, "{}"))
		token, at := claimReserved(t, store, id, r)
		send = append(send, func() { r.Send(token, at) })
	}
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	eventually.True(t, "another message has a place", func() bool {
		other := g.Reserve(unclaimed("other", "{}"))
		if other != nil {
			other.Cancel()
		}
		return other == nil
	})
	send[0]()
	<-store.first
	for _, one := range send[1:] {
		one()
	}
	close(store.goOn)
	<-ended
	if n := store.calls.Load(); n != 2 {
		t.Errorf("%d statements released 4 leases, want 2", n)
	}
}
