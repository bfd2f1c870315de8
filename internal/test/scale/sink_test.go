package scale

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// sink is the destination of the gateways. It counts what arrives by webhook-id, as an application does that does
// the work of each once.
type sink struct {
	server *httptest.Server

	mu      sync.Mutex
	effects map[string]*effect // by webhook-id
	wrong   []string
}

// effect is the work that one webhook-id stands for.
type effect struct {
	event, path string
	requests    int
}

func newSink(t testing.TB) *sink {
	s := &sink{effects: make(map[string]*effect)}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // cut off, so it did not arrive
	}
	id, event := r.Header.Get("Webhook-Id"), r.Header.Get("Hookonce-Event-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.effects[id]
	if e == nil {
		e = &effect{event: event, path: r.URL.Path}
		s.effects[id] = e
	}
	if e.requests++; id == "" || e.event != event || e.path != r.URL.Path {
		s.wrong = append(s.wrong, fmt.Sprintf("webhook-id %q came for %q at %s and for %q at %s", id, e.event, e.path, event, r.URL.Path))
	}
}

// taken returns how many webhook-ids each event has at each path, how many requests were not the first of their
// webhook-id, and the wrong requests.
func (s *sink) taken() (effects map[string]map[string]int, again int, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	effects = make(map[string]map[string]int)
	for e := range maps.Values(s.effects) {
		if effects[e.event] == nil {
			effects[e.event] = make(map[string]int)
		}
		effects[e.event][e.path]++
		again += e.requests - 1
	}
	return effects, again, s.wrong
}
