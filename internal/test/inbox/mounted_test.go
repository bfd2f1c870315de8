package inbox_test

import (
	"fmt"
	"net/http"
	"testing"
)

// TestMounted mounts an Inbox as applications do: under a prefix that is cut off, under a wildcard, and behind a router that
// sets the name.
func TestMounted(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	in := inbox(t, l, handling(effectOf(l)), nil)
	named := http.NewServeMux()
	named.Handle("POST /hooks/{source}", in)
	for path, handler := range map[string]http.Handler{
		"/api/webhooks/gh": http.StripPrefix("/api", in),
		"/hooks/gh":        named,
		"/any/path/at/all": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.SetPathValue("source", "gh")
			in.ServeHTTP(w, r)
		}),
	} {
		r := delivery(path, fmt.Sprintf(`{"id":%q}`, path))
		r.URL.Path = path
		if got := deliver(handler, r); got != ok {
			t.Errorf("%s: got %+v, want ok", path, got)
		}
	}
	for _, path := range []string{"/api/webhooks/gh", "/gh", "/webhooks/gh/"} {
		r := delivery(path, "{}")
		r.URL.Path = path
		if got := deliver(in, r); got.Code != http.StatusNotFound {
			t.Errorf("%s alone: got %+v, want 404", path, got)
		}
	}
}
