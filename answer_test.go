package hookonce_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/problem"
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

// The answer to an event is the JSON that encoding/json writes, whatever its id is.
func TestAnswerIsJSON(t *testing.T) {
	t.Parallel()
	for _, id := range append(rig.HostileTexts(), "", "evt_1", `a"b\c`, "<b>&'", "\x00\x1f\x7f", "\u2028é😀", strings.Repeat("x", 3000)) {
		for i := range 4 {
			duplicate, reopened := i%2 == 1, i/2 == 1
			answer := struct {
				Status   string `json:"status"`
				EventID  string `json:"event_id"`
				Reopened bool   `json:"reopened,omitempty"`
			}{"ok", id, reopened}
			if duplicate {
				answer.Status = "duplicate"
			}
			if want, got := problem.JSON(answer), hookonce.AnswerTo(id, duplicate, reopened); string(got) != string(want) {
				t.Errorf("answer %q, want %q", got, want)
			}
		}
	}
}
