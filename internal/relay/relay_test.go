package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// newClaim returns a claim of the source "lab" with one message to the destination "app".
func newClaim(id, body string) driver.Claim {
	key := driver.EventKey("lab", id)
	return driver.Claim{
		Key: key, Source: "lab", EventID: id, Headers: []byte("{}"), Body: []byte(body),
		Messages: []driver.NewMessage{{ID: driver.MessageID(key, 0, "r"), Route: "r", Destination: "app"}},
	}
}

func claimAll(t *testing.T, store driver.Store, all []driver.Claim) {
	t.Helper()
	slices.SortFunc(all, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: all}); err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, store driver.Store, id, body string) {
	t.Helper()
	claimAll(t, store, []driver.Claim{newClaim(id, body)})
}

// claimMany claims n events in one commit, of the ids "0", "1" and so on.
func claimMany(t *testing.T, store driver.Store, n int, body string) {
	t.Helper()
	var all []driver.Claim
	for i := range n {
		all = append(all, newClaim(fmt.Sprint(i), body))
	}
	claimAll(t, store, all)
}

// sender sends a message. A destination calls it instead of HTTP.
type sender func(ctx context.Context, m *driver.Message) error

// destination returns the destination "app", which has three attempts at once.
func destination(send sender, change func(*relay.Destination)) *relay.Destination {
	d := &relay.Destination{
		Name: "app", Timeout: 30 * time.Second, Concurrency: 16, Rate: limit.New(0, 0),
		Retry: driver.Retry{Attempts: 3, First: time.Millisecond, Max: time.Millisecond},
	}
	if send != nil {
		d.Sender = func(ctx context.Context, m *driver.Message, _, _ http.Header) error {
			return send(ctx, m)
		}
	}
	if change != nil {
		change(d)
	}
	if d.Circuit == nil {
		d.Circuit = relay.NewCircuit(d.Retry)
	}
	return d
}

// byHTTP sets where d sends to.
func byHTTP(url string) func(*relay.Destination) {
	return func(d *relay.Destination) {
		d.HTTP = send.Target{URL: url, Timeout: d.Timeout, AllowPrivate: true}
	}
}

// set replaces the destinations of g by these.
func set(g *relay.Group, all ...*relay.Destination) {
	byName := make(map[string]*relay.Destination)
	for _, d := range all {
		byName[d.Name] = d
	}
	g.Set(byName)
}

// newGroup returns a group that sends to these destinations once it runs. No message is stale.
func newGroup(store relay.Store, change func(*relay.Options), all ...*relay.Destination) *relay.Group {
	o := relay.Options{
		HTTP: send.New(nil), Log: slog.New(slog.DiscardHandler), Observe: func(*relay.Observed) {},
		MayBeStale: func(*driver.Message) bool { return false },
		ObjectOf:   func(*driver.Message) (driver.ObjectVersion, bool) { return driver.ObjectVersion{}, false },
	}
	if change != nil {
		change(&o)
	}
	g := relay.NewGroup(store, o)
	set(g, all...)
	return g
}

// logTo makes a group log to l.
func logTo(l *rig.Log) func(*relay.Options) {
	return func(o *relay.Options) { o.Log = l.Logger() }
}

// run runs g until the returned function is called, at the latest until the end of the test.
func run(t *testing.T, g *relay.Group) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

func eventOf(t *testing.T, store driver.Store, id string) *driver.EventDetail {
	t.Helper()
	ev, err := store.Event(t.Context(), "lab", id)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// messageOf returns the only message of an event.
func messageOf(t *testing.T, store driver.Store, id string) driver.MessageDetail {
	t.Helper()
	return eventOf(t, store, id).Messages[0]
}

// settled waits until the message of an event is in a state, and returns the event.
func settled(t *testing.T, store driver.Store, id, state string) *driver.EventDetail {
	t.Helper()
	eventually.True(t, "message "+id+" is "+state, func() bool { return messageOf(t, store, id).State == state })
	return eventOf(t, store, id)
}

// A rate that is used up holds messages back, and costs them no attempt. A lease that finds nothing
// takes nothing of it.
func TestUsedUpRate(t *testing.T) {
	t.Parallel()
	inner := rig.OpenSQLite(t)
	store := &leaseStore{Store: inner}
	var calls atomic.Int64
	g := newGroup(store, nil, destination(func(context.Context, *driver.Message) error {
		calls.Add(1)
		return nil
	}, func(d *relay.Destination) { d.Rate = limit.New(2, time.Hour) }))
	stop := run(t, g)
	eventually.True(t, "messages are leased", func() bool { return store.count("app") > 0 })
	claimMany(t, inner, 5, "{}")
	eventually.True(t, "two messages are sent", func() bool { g.WakeAll(); return calls.Load() == 2 })
	stop()
	states := make(map[string]int)
	for i := range 5 {
		m := messageOf(t, inner, fmt.Sprint(i))
		states[fmt.Sprintf("%s after %d", m.State, m.Attempts)]++
	}
	if diff := cmp.Diff(map[string]int{"sent after 1": 2, "pending after 0": 3}, states); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
