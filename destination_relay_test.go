package hookonce_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// received is what tests compare of a request that a destination got.
type received struct {
	ID, Key, Attempt, Replay, Body string
}

// sink is a destination that answers with the next of its statuses, and with
// 200 when they are used up.
type sink struct {
	*httptest.Server

	mu       sync.Mutex
	statuses []int
	requests []received
}

func newSink(t *testing.T, statuses ...int) *sink {
	s := &sink{statuses: statuses}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, received{
		ID: r.Header.Get("webhook-id"), Key: r.Header.Get("Idempotency-Key"),
		Attempt: r.Header.Get("Hookonce-Attempt"), Replay: r.Header.Get("Hookonce-Replay"), Body: string(body),
	})
	status := http.StatusOK
	if len(s.statuses) > 0 {
		status, s.statuses = s.statuses[0], s.statuses[1:]
	}
	w.WriteHeader(status)
}

func (s *sink) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.requests...)
}

// forwarding runs an inbox that forwards all events of gh to url.
func forwarding(t *testing.T, store driver.Store, url string, retry hookonce.Retry) *hookonce.Engine {
	t.Helper()
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: url, Retry: retry, AllowPrivate: true}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	})
	run(t, in)
	return in
}

// run runs an inbox until the test ends.
func run(t *testing.T, in *hookonce.Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := in.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-stopped })
}

func eventState(t *testing.T, store driver.Store, id string) *driver.EventDetail {
	t.Helper()
	ev, err := store.Event(t.Context(), "gh", id)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestRetriesKeepTheirKey(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := newSink(t, 500, 429)
	in := forwarding(t, store, s.URL, hookonce.Retry{Attempts: 5, First: time.Millisecond, Max: time.Millisecond})
	if got := deliver(in, delivery("1", `{"n":1}`)); got != ok {
		t.Fatalf("%+v", got)
	}
	waitFor(t, func() bool { return eventState(t, store, "1").State == driver.StateDone })

	id := driver.MessageID(driver.EventKey("gh", "1"), 0, "all")
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
	if diff := cmp.Diff(wantTries, eventState(t, store, "1").Tries, opts); diff != "" {
		t.Errorf("the audit trail (-want +got):\n%s", diff)
	}
}

func TestDeadAndReopened(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		statuses []int
		attempts int
	}{
		{"out of attempts", []int{500, 500}, 2},
		{"gone", []int{410}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t)
			s := newSink(t, tt.statuses...)
			in := forwarding(t, store, s.URL, hookonce.Retry{Attempts: tt.attempts, First: time.Millisecond, Max: time.Millisecond})
			deliver(in, delivery("1", "{}"))
			waitFor(t, func() bool { return eventState(t, store, "1").State == driver.StateDead })
			if n := len(s.got()); n != len(tt.statuses) {
				t.Fatalf("%d requests before it was dead, want %d", n, len(tt.statuses))
			}

			got := deliver(in, delivery("1", "{}"))
			if diff := cmp.Diff(result{Code: 200, Status: "duplicate", Reopened: true}, got); diff != "" {
				t.Errorf("the redelivery (-want +got):\n%s", diff)
			}
			waitFor(t, func() bool { return eventState(t, store, "1").State == driver.StateDone })
			requests := s.got()
			last := requests[len(requests)-1]
			id := driver.MessageID(driver.EventKey("gh", "1"), 0, "all")
			if diff := cmp.Diff(received{ID: id, Key: id, Attempt: "1", Replay: "1", Body: "{}"}, last); diff != "" {
				t.Errorf("after reopening (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDuplicatesAreCounted(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	in := newEngine(t, store, nil)
	deliver(in, delivery("1", "{}"))
	deliver(in, delivery("1", "{}"))
	deliver(in, delivery("1", `{"other":true}`))
	deliver(in, delivery("2", "{}")) // the body of 1 again, under an id that is not signed
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Run(ctx); err != nil { // writes what was counted, and returns
		t.Fatal(err)
	}
	want := driver.Deliveries{Count: 3, OtherBodies: 1, Repeats: 1}
	opts := cmpopts.IgnoreFields(driver.Deliveries{}, "FirstAt", "LastAt")
	if diff := cmp.Diff(want, eventState(t, store, "1").Deliveries, opts); diff != "" {
		t.Errorf("deliveries of 1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(driver.Deliveries{Count: 1, RepeatOf: "1"}, eventState(t, store, "2").Deliveries, opts); diff != "" {
		t.Errorf("deliveries of 2 (-want +got):\n%s", diff)
	}
}
