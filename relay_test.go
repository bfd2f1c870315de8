package hookonce_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

func TestStoppedRelayFinishesWhatItSends(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived) // a second request would panic
		<-release
	}))
	t.Cleanup(s.Close)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: s.URL, AllowPrivate: true}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- in.Run(ctx) }()
	deliver(in, delivery("1", "{}"))
	<-arrived
	cancel()
	select {
	case err := <-stopped:
		t.Fatalf("Run returned (%v) while a message was being sent", err)
	default:
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := eventState(t, store, "1").State; got != driver.StateDone {
		t.Errorf("the event is %s, want done: its answer came before the process ended", got)
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

// With a cooldown of a minute nothing can be sent after the failures that open
// the circuit, so the attempts that were spent do not change any more.
func TestOpenCircuitSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	const events = 40
	store, s := openStore(t), newSink(t, slices.Repeat([]int{500}, events)...)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{
			Name: "app", URL: s.URL, AllowPrivate: true, Concurrency: 1, Retry: hookonce.Retry{Attempts: 2, First: time.Minute},
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	})
	for i := range events {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- in.Run(ctx) }()
	waitFor(t, func() bool { return in.Destinations()[0].Circuit.Open })
	cancel()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if got := in.Destinations()[0].Circuit.Failures; got != 10 {
		t.Errorf("%d failures in a row, want 10", got)
	}
	if n := len(s.got()); n != 10 {
		t.Errorf("the destination got %d requests, want 10", n)
	}
	spent := 0
	page, err := store.Messages(t.Context(), &driver.MessageFilter{Limit: driver.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range page.Messages {
		spent += m.Attempts
		if m.State != driver.StatePending {
			t.Errorf("message of event %s is %s", m.EventID, m.State)
		}
	}
	if spent != 10 {
		t.Errorf("%d attempts were spent, want 10", spent)
	}
}

func TestCircuitClosesWhenTheDestinationIsBack(t *testing.T) {
	t.Parallel()
	const events = 40
	log := &lines{}
	store, s := openStore(t), newSink(t, slices.Repeat([]int{500}, 13)...)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{
			Name: "app", URL: s.URL, AllowPrivate: true, Concurrency: 1,
			Retry: hookonce.Retry{Attempts: 5, First: 5 * time.Millisecond, Max: 5 * time.Millisecond},
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
		c.Logger = log.logger()
	})
	for i := range events {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	for i := range events {
		settled(t, store, fmt.Sprint(i), driver.StateDone)
	}
	if n := len(s.got()); n != events+13 {
		t.Errorf("the destination got %d requests, want %d", n, events+13)
	}
	if got := in.Destinations()[0].Circuit; got != (hookonce.CircuitStatus{}) {
		t.Errorf("circuit %+v, want it closed", got)
	}
	var told []string
	for _, line := range log.all() {
		for _, text := range []string{"circuit opened", "circuit closed"} {
			if strings.Contains(line, text) {
				told = append(told, text)
			}
		}
	}
	if diff := cmp.Diff([]string{"circuit opened", "circuit closed"}, told); diff != "" {
		t.Errorf("the log tells (-want +got):\n%s", diff)
	}
}

// picky answers by body: 200, or the status that the body names.
func picky(t *testing.T) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, received{ID: r.Header.Get("webhook-id"), Body: string(body)})
		status := http.StatusOK
		_, _ = fmt.Sscanf(string(body), `{"refuse":%d}`, &status)
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

// Messages that fail for what they are do not keep the others from being sent:
// those that are refused leave the circuit closed, and behind those that break the
// destination an open one lets through what it has not tried yet.
func TestBadMessagesHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	const bad = 60
	for status, most := range map[int]int{
		400: bad + 1, // each once, in the order they came
		500: 12,      // those that open the circuit, and two probes
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			store, s := openStore(t), picky(t)
			in := newEngine(t, store, func(c *hookonce.Config) {
				c.Destinations = []hookonce.Destination{{
					Name: "app", URL: s.URL, AllowPrivate: true, Concurrency: 1,
					Retry: hookonce.Retry{Attempts: 20, First: 20 * time.Millisecond, Max: time.Hour},
				}}
				c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
			})
			for i := range bad {
				deliver(in, delivery(fmt.Sprint(i), fmt.Sprintf(`{"refuse":%d}`, status)))
			}
			deliver(in, delivery("good", "{}"))
			run(t, in)
			settled(t, store, "good", driver.StateDone)
			place := slices.IndexFunc(s.got(), func(r received) bool { return r.Body == "{}" }) + 1
			if status == 500 && place > most {
				t.Errorf("the good message was the %dth to be sent, want it among the first %d", place, most)
			}
			if open := in.Destinations()[0].Circuit.Open; status == 400 && open {
				t.Error("refused messages opened the circuit")
			}
		})
	}
}

func TestRateIsKeptBelowASecond(t *testing.T) {
	t.Parallel()
	store, s := openStore(t), newSink(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{
			Name: "app", URL: s.URL, AllowPrivate: true, Rate: hookonce.Rate{Count: 1, Per: time.Millisecond},
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	})
	const events = 90 // at one each poll they would take longer than the test waits
	for i := range events {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	waitFor(t, func() bool { return len(s.got()) == events })
}
