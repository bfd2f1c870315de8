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
	tests := []struct {
		name     string
		statuses []int
		attempts int
	}{
		{"out of attempts", []int{500, 500}, 2},
		{"answered 410", []int{410}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			s := newSink(t, tt.statuses...)
			in := forwarding(t, store, s.URL, hookonce.Retry{Attempts: tt.attempts, First: time.Millisecond, Max: time.Millisecond})
			deliver(in, delivery("1", "{}"))
			settled(t, store, "1", driver.StateDead)
			if n := len(s.got()); n != len(tt.statuses) {
				t.Fatalf("%d requests before the event was dead, want %d", n, len(tt.statuses))
			}

			got := deliver(in, delivery("1", "{}"))
			if diff := cmp.Diff(result{Code: 200, Status: "duplicate", Reopened: true}, got); diff != "" {
				t.Errorf("the redelivery (-want +got):\n%s", diff)
			}
			settled(t, store, "1", driver.StateDone)
			requests := s.got()
			last := requests[len(requests)-1]
			id := messageID("1", 0)
			if diff := cmp.Diff(received{ID: id, Key: id, Attempt: "1", Replay: "1", Body: "{}"}, last); diff != "" {
				t.Errorf("the request after reopening (-want +got):\n%s", diff)
			}
		})
	}
}

// leaseStore records the parameters of the first lease.
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

// The relay works by the settings of its destination.
func TestSettingsReachTheRelay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings hookonce.Destination
		want     driver.LeaseParams
	}{
		"defaults": {hookonce.Destination{}, driver.LeaseParams{Limit: 16, MaxAttempts: 20, For: 20 * time.Second}},
		"timeout, concurrency and retry": {
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
			store := &leaseStore{rig.OpenSQLite(t), make(chan driver.LeaseParams, 1)}
			tt.settings.Name, tt.settings.URL, tt.want.Destination = "app", "http://localhost/", "app"
			run(t, newEngine(t, store, func(c *hookonce.Config) { c.Destinations = []hookonce.Destination{tt.settings} }))
			if diff := cmp.Diff(tt.want, <-store.first); diff != "" {
				t.Errorf("the first lease (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrivateDestinationsMustBeAllowed(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: newSink(t).URL, Retry: hookonce.Retry{Attempts: 1}}}
		c.Routes = []hookonce.Route{{Name: "r", To: "app"}}
	})
	run(t, in)
	deliver(in, delivery("1", "{}"))
	if got := settled(t, store, "1", driver.StateDead).LastError; !strings.Contains(got, "not allowed") {
		t.Errorf("error %q, want one that says that the address is not allowed", got)
	}
}
