package inbox_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A middleware that reads the body must not make authentic deliveries look forged: the sender would give up.
func TestBodyReadByAMiddleware(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	for name, read := range map[string]func(*http.Request){
		"all of it": func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"a part":    func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 3)) },
		"closed":    func(r *http.Request) { _ = r.Body.Close() },
		"no body":   func(r *http.Request) { r.Body = nil },
	} {
		for i := range 4 {
			chunked, http2 := i%2 == 1, i/2 == 1
			if chunked && name == "a part" {
				continue // nothing tells how long the body was
			}
			t.Run(fmt.Sprint(name, ", chunked ", chunked, ", HTTP/2 ", http2), func(t *testing.T) {
				log := &rig.Log{}
				in := newEngine(t, store, func(c *hookonce.Config) { c.Logger = log.Logger() })
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					read(r)
					in.ServeHTTP(w, r)
				}))
				server.EnableHTTP2 = http2
				server.StartTLS()
				defer server.Close()
				const body = `{"a":1}`
				r := delivery("e1", body)
				sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+r.URL.Path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if sent.Header = r.Header; chunked {
					sent.ContentLength = -1
				}
				resp, err := server.Client().Do(sent)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("the answer is %d, want 503 with Retry-After", resp.StatusCode)
				}
				if text := log.Text(); !strings.Contains(text, "by a middleware") {
					t.Errorf("the log does not tell why:\n%s", text)
				}
			})
		}
	}
}

// Anyone can send an empty chunked body. Without a signature it is no delivery that a middleware could have spoilt.
func TestEmptyChunkedBodyWithoutASignature(t *testing.T) {
	t.Parallel()
	r := delivery("e1", "", func(r *http.Request) { r.ContentLength = -1 })
	r.Header.Del(githubSignature)
	if got := deliver(newEngine(t, rig.OpenSQLite(t), func(*hookonce.Config) {}), r).Code; got != http.StatusUnauthorized {
		t.Errorf("the answer is %d, want 401", got)
	}
}
