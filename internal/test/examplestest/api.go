package examplestest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// API is the service that an example calls. It takes the work of each call from the body, and
// counts it by Idempotency-Key.
type API struct {
	URL string
	// Called receives a value in the middle of every call, if a receiver waits.
	Called chan struct{}

	mu    sync.Mutex
	calls map[string]map[string]int // count by body and key
}

// NewAPI starts an API that serves until the test ends.
func NewAPI(t testing.TB) *API {
	t.Helper()
	a := &API{Called: make(chan struct{}), calls: make(map[string]map[string]int)}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// ServeHTTP takes a call.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls[string(body)] == nil {
		a.calls[string(body)] = make(map[string]int)
	}
	a.calls[string(body)][r.Header.Get("Idempotency-Key")]++
	select {
	case a.Called <- struct{}{}:
	default:
	}
}

// Check checks that the API was called with the given number of bodies, each under one key of its
// own.
func (a *API) Check(t testing.TB, bodies int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	calls, keys := 0, make(map[string]string)
	for body, of := range a.calls {
		if len(of) != 1 {
			t.Errorf("the API was called for %q under %d keys", body, len(of))
		}
		for key, n := range of {
			if other, ok := keys[key]; ok || key == "" {
				t.Errorf("the API was called for %q and %q under the key %q", body, other, key)
			}
			keys[key], calls = body, calls+n
		}
	}
	if len(a.calls) != bodies {
		t.Errorf("the API was called for %d bodies, want %d", len(a.calls), bodies)
	}
	t.Logf("%d calls for %d bodies", calls, bodies)
}
