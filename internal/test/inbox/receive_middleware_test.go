package inbox_test

import (
	"bytes"
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
	log := &rig.Log{}
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Logger = log.Logger() })
	for name, read := range map[string]func(*http.Request){
		"all of it": func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"a part":    func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 3)) },
		"closed":    func(r *http.Request) { _ = r.Body.Close() },
		"no body":   func(r *http.Request) { r.Body = nil },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				read(r)
				in.ServeHTTP(w, r)
			}))
			defer server.Close()
			const body = `{"a":1}`
			r := delivery(name, body)
			sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+r.URL.Path, bytes.NewReader([]byte(body)))
			if err != nil {
				t.Fatal(err)
			}
			sent.Header = r.Header
			resp, err := http.DefaultClient.Do(sent)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				t.Errorf("the answer is %d, want 503 with Retry-After", resp.StatusCode)
			}
		})
	}
	if text := log.Text(); strings.Count(text, "by a middleware") != 4 {
		t.Errorf("the log does not tell why, each time:\n%s", text)
	}
}
