package inbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestRetriesKeepTheKey(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	s := newSink(t, 500, 429)
	in := forwarding(t, store, s.URL, hookonce.Retry{Attempts: 5, First: time.Millisecond, Max: time.Millisecond})
	deliver(in, delivery("1", `{"n":1}`))
	ev := settled(t, store, "1", driver.StateDone)

	id := messageID("1", 0)
	want := []received{
		{ID: id, Key: id, Attempt: "1", Body: `{"n":1}`},
		{ID: id, Key: id, Attempt: "2", Body: `{"n":1}`},
		{ID: id, Key: id, Attempt: "3", Body: `{"n":1}`},
	}
	if diff := cmp.Diff(want, s.got()); diff != "" {
		t.Errorf("the destination got (-want +got):\n%s", diff)
	}
	wantTries := []driver.Attempt{
		{MessageID: id, Number: 1, Outcome: "retry", StatusCode: 500},
		{MessageID: id, Number: 2, Outcome: "retry", StatusCode: 429},
		{MessageID: id, Number: 3, Outcome: "sent", StatusCode: 200},
	}
	opts := cmpopts.IgnoreFields(driver.Attempt{}, "At", "Took", "Error")
	if diff := cmp.Diff(wantTries, ev.Tries, opts); diff != "" {
		t.Errorf("the audit trail (-want +got):\n%s", diff)
	}
}

// A delivery of a dead event sends its message again, with the same id.
func TestDeliveryReopensADeadEvent(t *testing.T) {
	t.Parallel()
	store, s := rig.OpenSQLite(t), newSink(t, 500, 410)
	in := forwarding(t, store, s.URL, quick)
	deliver(in, delivery("1", "{}"))
	settled(t, store, "1", driver.StateDead)
	if got := deliver(in, delivery("1", "{}")); got != reopened {
		t.Errorf("the redelivery is answered %+v, want %+v", got, reopened)
	}
	settled(t, store, "1", driver.StateDone)
	id := messageID("1", 0)
	want := []received{
		{ID: id, Key: id, Attempt: "1", Body: "{}"},
		{ID: id, Key: id, Attempt: "2", Body: "{}"},
		{ID: id, Key: id, Attempt: "1", Replay: "1", Body: "{}"},
	}
	if diff := cmp.Diff(want, s.got()); diff != "" {
		t.Errorf("the destination got (-want +got):\n%s", diff)
	}
}

// leaseStore records the parameters of the first leases.
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

// A relay works by the settings of its destination.
func TestSettingsReachTheRelay(t *testing.T) {
	t.Parallel()
	store := &leaseStore{rig.OpenSQLite(t), make(chan driver.LeaseParams, 3)}
	run(t, newEngine(t, store, func(c *hookonce.Config) {
		for _, d := range []hookonce.Destination{
			{Name: "defaults"},
			{Name: "retry", Timeout: 40 * time.Second, Concurrency: 4, Retry: hookonce.Retry{Attempts: 7}},
			{Name: "rate", Rate: hookonce.Rate{Count: 3, Per: time.Hour}},
		} {
			d.URL, d.AllowPrivate = "http://localhost/", true
			c.Destinations = append(c.Destinations, d)
		}
	}))
	got := make(map[string]driver.LeaseParams)
	for range 3 {
		p := <-store.first
		got[p.Destination] = p
	}
	want := map[string]driver.LeaseParams{
		"defaults": {Destination: "defaults", Limit: 16, MaxAttempts: 20, For: 20 * time.Second},
		"retry":    {Destination: "retry", Limit: 4, MaxAttempts: 7, For: 45 * time.Second},
		"rate":     {Destination: "rate", Limit: 3, MaxAttempts: 20, For: 20 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first leases (-want +got):\n%s", diff)
	}
}

// The address behind a name is checked when it is dialled: internal/send tests that.
func TestPrivateDestinationsMustBeAllowed(t *testing.T) {
	t.Parallel()
	_, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{
		Destinations: []hookonce.Destination{{Name: "app", URL: newSink(t).URL}},
	})
	if err == nil || !strings.Contains(err.Error(), "destinations.app.url") || !strings.Contains(err.Error(), "AllowPrivate") {
		t.Errorf("got the error %v, want one that names the destination and AllowPrivate", err)
	}
}
