package hookadmin_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// fail completes all due messages with a response.
func (g *gateway) fail(t *testing.T, outcome driver.MessageOutcome, response string) {
	t.Helper()
	p := new(driver.CompleteParams)
	for _, m := range g.lease(t) {
		p.Completions = append(p.Completions, driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 500, Error: fmt.Sprintf("answered 500: %q", response),
			Response: []byte(response), ResponseType: "text/x",
		})
	}
	if _, err := g.store.Complete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// again counts a duplicate of an event with another body.
func (g *gateway) again(t *testing.T, id, remote string, other []byte) {
	t.Helper()
	now := time.Now()
	if err := g.store.CountDeliveries(t.Context(), &driver.CountDeliveriesParams{
		Counts: []driver.DeliveryCount{{
			Key: driver.EventKey("lab", id), Duplicates: 1, OtherBodies: 1, Recent: []driver.Delivery{{At: now, Remote: remote, Gateway: "gw"}},
			Other: &driver.OtherBody{At: now, Headers: []byte(`{"X-A":["<secret>"]}`), Body: other, Size: 100_000},
		}},
		Clock: now, Now: noon.Add(time.Minute),
	}); err != nil {
		t.Fatal(err)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1", "e2")
	const remote = "<script>alert(1)</script>"
	g.again(t, "e1", remote, []byte("other\n"))
	g.again(t, "e2", "", []byte("\xff"))
	g.fail(t, driver.MessageDead, "<b>\r\n\tno</b>")
	shown := g.shown(t, "e1")
	at := "2026-01-31T12:01:00.000000Z"
	want := []any{
		map[string]any{"at": at, "by": "webhook", "remote": remote, "gateway": "gw", "same_body": false},
		map[string]any{"at": "2026-01-31T12:00:00.000000Z", "by": "webhook", "remote": "", "gateway": "", "same_body": true},
	}
	if diff := cmp.Diff(want, shown["deliveries"].(map[string]any)["recent"]); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	other := map[string]any{
		"at": at, "headers": map[string]any{"X-A": []any{"<secret>"}}, "body": "other\n", "body_base64": nil,
		"body_sha256": strings.Repeat("00", 32), "body_size": "100000",
	}
	if diff := cmp.Diff(other, shown["other_body"]); diff != "" {
		t.Errorf("other body (-want +got):\n%s", diff)
	}
	binary := g.shown(t, "e2")["other_body"].(map[string]any)
	if binary["body"] != nil || binary["body_base64"] != "/w==" {
		t.Errorf("a body that is not UTF-8 is %v", binary)
	}
	attempt := shown["attempts"].([]any)[0].(map[string]any)
	if attempt["response"] != "<b>\r\n\tno</b>" || attempt["response_base64"] != nil || attempt["response_type"] != "text/x" {
		t.Errorf("the attempt is %v", attempt)
	}
}

// Responses that are not readable text are base64.
func TestUnreadableResponses(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for i, response := range []string{"\xff", "a\x00b", "\x1b[2J", "\u0085"} {
		id := fmt.Sprint("e", i)
		g.enqueue(t, id)
		g.fail(t, driver.MessageDead, response)
		attempt := g.shown(t, id)["attempts"].([]any)[0].(map[string]any)
		if attempt["response"] != nil || attempt["response_base64"] != base64.StdEncoding.EncodeToString([]byte(response)) {
			t.Errorf("%q is shown as %v", response, attempt)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	const target = "/api/v1/events/lab/e1/redact"
	wantDetail(t, g.post(t, target, "{}"), http.StatusConflict, "Redact it when it is done, dead or skipped.")
	g.again(t, "e1", "", []byte("canary"))
	g.fail(t, driver.MessageDead, "canary")
	want := map[string]any{"source": "lab", "event_id": "e1", "redacted": true, "repeated": false, "remains": ""}
	for _, key := range []string{"k1", "k1", "k2", ""} {
		var header []string
		if key != "" {
			header = append(header, "Idempotency-Key: "+key)
		}
		if diff := cmp.Diff(want, readJSON[map[string]any](t, g.post(t, target, "{}", header...))); diff != "" {
			t.Errorf("answer with the key %q (-want +got):\n%s", key, diff)
		}
		want["repeated"] = true
	}
	shown := g.shown(t, "e1")
	if shown["redacted"] != true || shown["body_pruned"] != true || shown["state"] != "dead" || strings.Contains(fmt.Sprint(shown), "canary") {
		t.Errorf("after redacting, the event is %v", shown)
	}
	if diff := cmp.Diff([]string{"redacted"}, g.actions(t, "e1")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	wantDetail(t, g.post(t, "/api/v1/events/lab/e1/replay", `{"same_id":true}`), http.StatusGone, "redacted")
	wantDetail(t, g.post(t, "/api/v1/events/lab/e1/replay", `{"as_new":true}`, "Idempotency-Key: k1"), http.StatusUnprocessableEntity, "Use another key")
	g.wantState(t, "e1", "dead")
}

func TestRedactRefusals(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageSent)
	const target = "/api/v1/events/lab/e1/redact"
	wantProblem(t, g.post(t, "/api/v1/events/lab/none/redact", "{}"), http.StatusNotFound)
	wantProblem(t, g.get(t, target), http.StatusMethodNotAllowed)
	wantProblem(t, g.post(t, target, `{"all":true}`), http.StatusBadRequest)
	wantProblem(t, g.post(t, target+"?x=1", "{}"), http.StatusBadRequest)
	wantDetail(t, g.post(t, target, "{}", "Idempotency-Key: "+strings.Repeat("x", 256)), http.StatusBadRequest, "255 bytes")
	g.post(t, "/api/v1/events/lab/e1/replay", `{"same_id":true}`, "Idempotency-Key: k1")
	g.settle(t, driver.MessageSent)
	wantDetail(t, g.post(t, target, "{}", "Idempotency-Key: k1"), http.StatusUnprocessableEntity, "Use another key")
	if shown := g.shown(t, "e1"); shown["redacted"] != false || shown["body"] != "{}" {
		t.Errorf("the event is %v", shown)
	}
}

// blockedCounts is a real store whose writes of counts fail.
type blockedCounts struct{ driver.Store }

func (blockedCounts) CountDeliveries(context.Context, *driver.CountDeliveriesParams) error {
	return driver.ErrUnavailable
}

// A reader sees a duplicate as soon as its sender has the answer, in the API and in the dashboard. A
// failed write of the counts fails no reader.
func TestReadersSeeDuplicatesAtOnce(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]driver.Store{"written": rig.OpenSQLite(t), "failed": blockedCounts{rig.OpenSQLite(t)}} {
		g := newGatewayOn(t, store)
		deliver := func() {
			t.Helper()
			w := httptest.NewRecorder()
			g.engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/lab", strings.NewReader(`{"id":"e1"}`)))
			if w.Code != http.StatusOK {
				t.Fatalf("delivery: %d %s", w.Code, w.Body)
			}
		}
		deliver()
		for n, target := range []string{"/api/v1/events", "/api/v1/events/lab/e1", "/events", "/events/lab/e1"} {
			deliver()
			answer := g.get(t, target)
			if answer.status != http.StatusOK {
				t.Fatalf("%s: %s: %d %s", name, target, answer.status, answer.body)
			}
			want := fmt.Sprintf(`"duplicates":"%d"`, n+1)
			if name == "written" && strings.HasPrefix(target, "/api") && !strings.Contains(string(answer.body), want) {
				t.Errorf("%s: %s lacks %s: %s", name, target, want, answer.body)
			}
			if name == "written" {
				found, err := store.Event(t.Context(), "lab", "e1")
				if err != nil || found.Duplicates != int64(n+1) {
					t.Errorf("after %s there are %d duplicates with the error %v, want %d", target, found.Duplicates, err, n+1)
				}
			}
		}
	}
}
