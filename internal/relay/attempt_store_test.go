package relay_test

import (
	"context"
	"errors"
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

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		send     func(attempt int) error
		state    string
		tries    string
		observed []string
	}{
		"sent": {func(int) error { return nil }, driver.StateSent, "1 sent", []string{"sent"}},
		"retried": {func(attempt int) error {
			if attempt < 3 {
				return errors.New("busy")
			}
			return nil
		}, driver.StateSent, "1 retry: busy; 2 retry: busy; 3 sent", []string{"retry", "retry", "sent"}},
		"out of attempts": {
			func(int) error { return errors.New("busy") },
			driver.StateDead, "1 retry: busy; 2 retry: busy; 3 dead: busy",
			[]string{"retry", "retry", "dead"},
		},
		"permanent": {
			func(int) error { return guard.Permanent(errors.New("no such user")) },
			driver.StateDead, "1 dead: no such user",
			[]string{"dead"},
		},
		"panic": {func(attempt int) error {
			if attempt == 1 {
				panic("boom")
			}
			return nil
		}, driver.StateSent, "1 retry: the Sender panicked: boom; 2 sent", []string{"retry", "sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			claim(t, store, "1", "the body")
			var observed []string
			stop := run(t, newGroup(store, func(o *relay.Options) {
				o.Observe = func(seen *relay.Observed) { observed = append(observed, seen.Outcome) }
			}, destination(func(_ context.Context, m *driver.Message) error {
				if string(m.Body) != "the body" || m.EventID != "1" || m.ID != driver.MessageID(m.Key, 0, "r") {
					t.Errorf("message %s of event %s with body %q", m.ID, m.EventID, m.Body)
				}
				return tt.send(m.Attempt)
			}, nil)))
			ev := settled(t, store, "1", tt.state)
			stop()
			if got := triesOf(ev); got != tt.tries {
				t.Errorf("attempts %q, want %q", got, tt.tries)
			}
			if diff := cmp.Diff(tt.observed, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// answers is an HTTP destination that answers with the next of its statuses, and with 200 when they
// are used up.
type answers struct {
	url string

	mu       sync.Mutex
	statuses []int
	bodies   []string // of the requests
}

func newAnswers(t *testing.T, statuses ...int) *answers {
	a := &answers{statuses: statuses}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies = append(a.bodies, string(body))
	status := http.StatusOK
	if len(a.statuses) > 0 {
		status, a.statuses = a.statuses[0], a.statuses[1:]
	}
	_, _ = fmt.Sscanf(string(body), `{"refuse":%d}`, &status) // the body decides, if it says so
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "3600")
	}
	w.WriteHeader(status)
	io.WriteString(w, strings.ToLower(http.StatusText(status)))
}

func (a *answers) got() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.bodies)
}

func TestAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		statuses []int
		state    string
		tries    string
		kept     string // the responses
	}{
		"sent":            {nil, driver.StateSent, "1 sent 200", ""},
		"retried":         {[]int{500, 404}, driver.StateSent, "1 retry 500: answered 500 Internal Server Error: internal server error; 2 retry 404: answered 404 Not Found: not found; 3 sent 200", "1 internal server error; 2 not found"},
		"out of attempts": {[]int{302, 503, 401}, driver.StateDead, "1 retry 302: answered 302 Found: found; 2 retry 503: answered 503 Service Unavailable: service unavailable; 3 dead 401: answered 401 Unauthorized: unauthorized", "1 found; 3 unauthorized"},
		"gone":            {[]int{410}, driver.StateDead, "1 dead 410: answered 410 Gone: gone", "1 gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			claim(t, store, "1", "{}")
			run(t, newGroup(store, nil, destination(nil, byHTTP(newAnswers(t, tt.statuses...).url))))
			ev := settled(t, store, "1", tt.state)
			if got := triesOf(ev); got != tt.tries {
				t.Errorf("attempts %q, want %q", got, tt.tries)
			}
			var kept []string
			for _, a := range ev.Tries {
				if a.Response != nil && a.ResponseType == "text/plain; charset=utf-8" {
					kept = append(kept, fmt.Sprintf("%d %s", a.Number, a.Response))
				}
			}
			if got := strings.Join(kept, "; "); got != tt.kept {
				t.Errorf("responses %q, want %q", got, tt.kept)
			}
		})
	}
}

// The destination's own delay: at least Retry-After over HTTP, exactly the delay of a Sender.
func TestDelayOfTheDestination(t *testing.T) {
	t.Parallel()
	later := func(context.Context, *driver.Message) error { return guard.RetryAfter(time.Hour, errors.New("busy")) }
	for name, tt := range map[string]struct {
		send     sender
		schedule time.Duration
		least    time.Duration
	}{
		"HTTP":                       {nil, time.Millisecond, time.Hour - 10*time.Minute},
		"Sender, later than planned": {later, time.Millisecond, time.Hour - 10*time.Minute},
		"Sender, earlier":            {later, 1000 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			claim(t, store, "1", "{}")
			url := newAnswers(t, 429).url
			run(t, newGroup(store, nil, destination(tt.send, func(d *relay.Destination) {
				byHTTP(url)(d)
				d.Retry.First, d.Retry.Max = tt.schedule, tt.schedule
			})))
			eventually.True(t, "an attempt is recorded", func() bool { return len(eventOf(t, store, "1").Tries) == 1 })
			now, err := store.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if due := messageOf(t, store, "1").DueAt.Sub(now); due < tt.least || due > time.Hour {
				t.Errorf("due in %s, want %s to 1h", due, tt.least)
			}
		})
	}
}

// triesOf returns the recorded attempts of an event as text.
func triesOf(ev *driver.EventDetail) string {
	var all []string
	for _, try := range ev.Tries {
		text := fmt.Sprint(try.Number, " ", try.Outcome)
		if try.StatusCode != 0 {
			text += fmt.Sprint(" ", try.StatusCode)
		}
		if try.Error != "" {
			text += ": " + try.Error
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
