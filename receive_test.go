package hookonce_test

import (
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestPathsThatNameNoSource(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), nil)
	for _, path := range []string{
		"/", "/webhooks", "/webhooks/", "/webhooks/other", "/webhooks/gh/", "//webhooks/gh", "/webhooks//gh",
		"/x/../webhooks/gh", "/webhooks%2Fgh", "/webhooks/%67h", "/webhooks/gh%00", "/webhooks/GH",
	} {
		r := delivery("1", "{}")
		u, err := url.Parse("http://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = u
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		if w.Code != 404 {
			t.Errorf("%s: answer %d, want 404", path, w.Code)
		}
	}
}
