package keyfetch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/keyfetch"
)

// TestConfirm checks that a confirmation is one GET, and that only 2xx confirms.
func TestConfirm(t *testing.T) {
	t.Parallel()
	const secret = "token-of-the-subscription"
	for status, confirmed := range map[int]bool{200: true, 204: true, 302: false, 403: false, 500: false} {
		asked := make(chan string, 2)
		k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Method + " " + r.Host + r.URL.RequestURI()
			w.Header().Set("Location", "https://example.com/elsewhere")
			w.WriteHeader(status)
		})
		err := k.Confirm(t.Context(), "https://example.com/?a=b&Token="+secret)
		if (err == nil) != confirmed || err != nil && !errors.Is(err, keyfetch.ErrUnavailable) {
			t.Errorf("answer %d: error %v", status, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the URL: %v", err)
		}
		if got := <-asked; got != "GET example.com/?a=b&Token="+secret || k.asked.Load() != 1 {
			t.Errorf("%d requests, the first is %s", k.asked.Load(), got)
		}
	}
}

// TestConfirmRefuses checks that some URLs are not fetched.
func TestConfirmRefuses(t *testing.T) {
	t.Parallel()
	k := newKeys(t, func(http.ResponseWriter, *http.Request) { t.Error("the URL was fetched") })
	for _, url := range []string{"http://example.com/", "https://u:p@example.com/", "https://", "example.com", "https://example.com/#x"} {
		if err := k.Confirm(t.Context(), url); !errors.Is(err, keyfetch.ErrUnavailable) {
			t.Errorf("%s: error %v", url, err)
		}
	}
	if err := keyfetch.New(nil).Confirm(t.Context(), "https://127.0.0.1:1/"); !errors.Is(err, keyfetch.ErrUnavailable) {
		t.Errorf("a private address: error %v", err)
	}
}

// Requests at once may share an HTTP/2 connection that has no stream left for them.
func TestConfirmAtOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2, server.Config.HTTP2 = true, &http.HTTP2Config{MaxConcurrentStreams: 1}
	server.StartTLS()
	t.Cleanup(server.Close)
	f := keyfetch.New(&keyfetch.Options{Timeout: patience, RootCAs: roots(server), Dial: to(server)})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 8 {
				if err := f.Confirm(t.Context(), "https://example.com/"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
