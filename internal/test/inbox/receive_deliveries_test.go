package inbox_test

import (
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// The deliveries of an event name the client that a trusted proxy names, and this host. A reader
// that asks for fresh counts sees all of them at once.
func TestDeliveriesOfAnEvent(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	send := func(id, peer, client, body string) {
		deliver(in, delivery(id, body, func(r *http.Request) {
			r.RemoteAddr = peer
			r.Header.Set("X-Forwarded-For", client)
		}))
	}
	began := time.Now()
	send("1", "10.0.0.1:1", "198.51.100.1", `{"a":1}`)
	send("1", "[2001:db8::7]:2", "198.51.100.2", `{"a":1}`)
	send("1", "10.0.0.1:3", "2001:db8::1", `{"a":2}`)
	send("2", "10.0.0.1:4", "198.51.100.1", `{"a":1}`) // the body of 1: the id is not signed
	if err := in.Operator().FreshCounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := store.Event(t.Context(), "gh", "1")
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	want := []driver.Delivery{
		{Remote: "2001:db8::1", Gateway: host},
		{Remote: "2001:db8::7", Gateway: host, SameBody: true},
		{Remote: "198.51.100.1", Gateway: host, SameBody: true},
	}
	if diff := cmp.Diff(want, got.Recent, cmpopts.IgnoreFields(driver.Delivery{}, "At")); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	for i, d := range got.Recent {
		if d.At.Before(began.Add(-time.Second)) || i > 0 && d.At.After(got.Recent[i-1].At) {
			t.Errorf("the times of the deliveries are %v", got.Recent)
		}
	}
	if got.OtherBody == nil || string(got.OtherBody.Body) != `{"a":2}` || !strings.Contains(string(got.OtherBody.Headers), "2001:db8::1") {
		t.Errorf("the other body is %+v", got.OtherBody)
	}
	if got.Duplicates != 2 || got.Deliveries.Count != 3 || got.Deliveries.OtherBodies != 1 || got.Deliveries.Repeats != 1 {
		t.Errorf("%d duplicates, and the counts %+v; want 2 duplicates with one other body, and one repeat", got.Duplicates, got.Deliveries)
	}
	if repeat := eventState(t, store, "2").Deliveries; repeat.Count != 1 || repeat.RepeatOf != "1" {
		t.Errorf("the counts of the repeat are %+v", repeat)
	}
}
