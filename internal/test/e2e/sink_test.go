package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// received is one request that a destination got.
type received struct {
	method, path string
	header       http.Header
	body         string
	at           time.Time
}

// id returns the webhook-id.
func (r *received) id() string { return r.header.Get("Webhook-Id") }

// eventID returns the event id that the gateway sent.
func (r *received) eventID() string { return r.header.Get("Hookonce-Event-Id") }

// sink is a destination that keeps all requests.
type sink struct {
	server  *httptest.Server
	arrived chan *received

	mu     sync.Mutex
	all    []*received
	answer func(*received) int
}

func newSink(t testing.TB) *sink {
	s := &sink{
		arrived: make(chan *received, 1<<14),
		answer:  func(*received) int { return http.StatusOK },
	}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *sink) url(path string) string { return s.server.URL + path }

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off, so it did not arrive
	}
	got := &received{method: r.Method, path: r.URL.Path, header: r.Header, body: string(body), at: time.Now()}
	got.header.Set("Host", r.Host)
	s.mu.Lock()
	s.all = append(s.all, got)
	status := s.answer(got)
	s.mu.Unlock()
	s.arrived <- got
	w.WriteHeader(status)
}

// answerWith makes the sink answer with what f returns from now on. Calls of f
// do not overlap.
func (s *sink) answerWith(f func(*received) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// failing answers 500 to the first n requests, and 200 from then on.
func failing(n int) func(*received) int {
	return func(*received) int {
		if n > 0 {
			n--
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
}

// next returns the next request, in the order of arrival.
func (s *sink) next(t testing.TB) *received {
	t.Helper()
	return eventually.Receive(t, "a request arrives at the sink", s.arrived)
}

// requests returns the requests that arrived for an event, or all for "".
func (s *sink) requests(eventID string) []*received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ofEvent(s.all, eventID)
}

// ofEvent returns the requests for an event, or all for "".
func ofEvent(all []*received, eventID string) []*received {
	var out []*received
	for _, r := range all {
		if eventID == "" || r.eventID() == eventID {
			out = append(out, r)
		}
	}
	return out
}
