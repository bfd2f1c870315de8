package inbox_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A quarantined delivery gets the same answer as an accepted one.
func TestAckAnswersQuarantinedDeliveries(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Sources[0].Malformed = hookonce.MalformedQuarantine
		c.Sources[0].Ack = &hookonce.Ack{Body: "[accepted]", Status: 202}
		c.Sources[0].Event.ID = "body:id"
	})
	for _, body := range []string{`{"id":1}`, `{"id":null}`} {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, delivery("1", body))
		if w.Code != 202 || w.Body.String() != "[accepted]" {
			t.Errorf("%s: answer %d %s, want 202 [accepted]", body, w.Code, w.Body)
		}
	}
}

// The answer and the log line of a refusal have the same error id.
func TestRefusalsAreLoggedWithTheirID(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Logger = log.Logger() })
	forged := delivery("1", "{}")
	forged.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	get := delivery("1", "{}")
	get.Method = http.MethodGet
	unknown := delivery("1", "{}")
	unknown.URL.Path = "/webhooks/canary"
	for _, r := range []*http.Request{forged, get, unknown} {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		id := w.Body.String()
		id = id[strings.LastIndex(id, ":")+1 : strings.LastIndex(id, `"`)]
		if !slices.ContainsFunc(log.Lines(), func(line string) bool { return strings.Contains(line, "error_id="+id) }) {
			t.Errorf("answer %d: no line has the error id %q", w.Code, id)
		}
	}
	if strings.Contains(strings.Join(log.Lines(), ""), "canary") {
		t.Error("the log holds the path of an unknown source, which can be any text")
	}
}
