package hookadmin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// quarantineID returns the id of a quarantined request.
func quarantineID(source, body string) string {
	key := driver.BodyKey(source, sha256.Sum256([]byte(body)))
	return hex.EncodeToString(key[:])
}

// quarantine stores a request without a usable event.
func (g *gateway) quarantine(t *testing.T, source, body string, at time.Time) {
	t.Helper()
	err := g.store.Quarantine(t.Context(), &driver.QuarantineParams{Now: at, Requests: []driver.Quarantined{{
		Source: source, BodyHash: sha256.Sum256([]byte(body)), Headers: []byte(`{"X-Two":["a","b"]}`), Body: []byte(body), Reason: "no id",
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	empty := readJSON[map[string]any](t, g.get(t, "/api/v1/quarantine"))
	if want := (map[string]any{"requests": []any{}, "next": ""}); !cmp.Equal(empty, want) {
		t.Errorf("an empty store lists %v", empty)
	}
	g.quarantine(t, "lab", "<text>", noon)
	g.quarantine(t, "lab", "<text>", noon.Add(time.Hour))
	g.quarantine(t, "shop", "\xff\x00", noon.Add(time.Minute))
	text := map[string]any{
		"id":     quarantineID("lab", "<text>"),
		"source": "lab", "reason": "no id", "count": "2", "first_at": "2026-01-31T12:00:00.000000Z",
		"last_at": "2026-01-31T13:00:00.000000Z", "headers": map[string]any{"X-Two": []any{"a", "b"}},
		"body": "<text>", "body_base64": nil, "body_sha256": hexSHA256("<text>"),
	}
	binary := map[string]any{
		"id":     quarantineID("shop", "\xff\x00"),
		"source": "shop", "reason": "no id", "count": "1", "first_at": "2026-01-31T12:01:00.000000Z",
		"last_at": "2026-01-31T12:01:00.000000Z", "headers": text["headers"],
		"body": nil, "body_base64": "/wA=", "body_sha256": hexSHA256("\xff\x00"),
	}
	first := readJSON[map[string]any](t, g.get(t, "/api/v1/quarantine?limit=1"))
	next, _ := first["next"].(string)
	if diff := cmp.Diff([]any{text}, first["requests"]); diff != "" || next == "" {
		t.Errorf("next %q (-want +got):\n%s", next, diff)
	}
	for query, want := range map[string][]any{
		"":                         {text, binary},
		"?source=shop":             {binary},
		"?source=none":             {},
		"?limit=1&cursor=" + next:  {binary},
		"?limit=20&source=&cursor": {text, binary},
	} {
		got := readJSON[map[string]any](t, g.get(t, "/api/v1/quarantine"+query))
		if diff := cmp.Diff(want, got["requests"]); diff != "" || got["next"] != "" {
			t.Errorf("%s: next %v (-want +got):\n%s", query, got["next"], diff)
		}
	}
	for query, want := range map[string]string{
		"limit=21": "limit: ", "limit=0": "limit: ", "cursor=zzz": "cursor: ", "id=a": `"id": unknown parameter`, "source=%00": "source: ",
	} {
		wantDetail(t, g.get(t, "/api/v1/quarantine?"+query), http.StatusBadRequest, want)
	}
}

func TestQuarantinedRequest(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.quarantine(t, "lab", "<text>", noon)
	want := map[string]any{
		"id": quarantineID("lab", "<text>"), "source": "lab", "reason": "no id", "count": "1", "first_at": "2026-01-31T12:00:00.000000Z",
		"last_at": "2026-01-31T12:00:00.000000Z", "headers": map[string]any{"X-Two": []any{"a", "b"}},
		"body": "<text>", "body_base64": nil, "body_sha256": hexSHA256("<text>"),
	}
	path := "/api/v1/quarantine/" + quarantineID("lab", "<text>")
	if diff := cmp.Diff(want, readJSON[map[string]any](t, g.get(t, path))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantDetail(t, g.get(t, path+"?source=lab"), http.StatusBadRequest, "no parameters")
	for _, id := range []string{quarantineID("lab", "other"), "x", quarantineID("lab", "<text>")[1:], strings.ToUpper(quarantineID("lab", "<text>"))} {
		wantDetail(t, g.get(t, "/api/v1/quarantine/"+id), http.StatusNotFound, "There is no such quarantined request.")
		wantDetail(t, g.post(t, "/api/v1/quarantine/"+id+"/retry", "{}"), http.StatusNotFound, "There is no such quarantined request.")
	}
}

func TestRetryQuarantined(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	retry := func(source, body string) *answer {
		t.Helper()
		return g.post(t, "/api/v1/quarantine/"+quarantineID(source, body)+"/retry", "{}")
	}
	body := `{"id":"a/b"}`
	for _, want := range []map[string]any{
		{"claimed": 1.0, "duplicates": 0.0},
		{"claimed": 0.0, "duplicates": 1.0},
	} {
		g.quarantine(t, "lab", body, noon)
		want["id"], want["source"], want["event_ids"] = quarantineID("lab", body), "lab", []any{"a/b"}
		want["reopened"], want["kept"] = 0.0, 0.0
		if diff := cmp.Diff(want, readJSON[map[string]any](t, retry("lab", body))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		wantProblem(t, retry("lab", body), http.StatusNotFound)
	}
	if got := g.shown(t, "a/b")["body"]; got != body {
		t.Errorf("the event has the body %v, want that of the request", got)
	}

	g.quarantine(t, "lab", `{"id":null}`, noon)
	wantDetail(t, retry("lab", `{"id":null}`), http.StatusUnprocessableEntity, "stays in the quarantine: event id: body:id")
	shown := readJSON[map[string]any](t, g.get(t, "/api/v1/quarantine/"+quarantineID("lab", `{"id":null}`)))
	if reason, _ := shown["reason"].(string); !strings.HasPrefix(reason, "event id: body:id") || shown["count"] != "1" {
		t.Errorf("the request has the reason %q and the count %v, want the new reason and 1", reason, shown["count"])
	}
	g.quarantine(t, "gone", body, noon)
	wantDetail(t, retry("gone", body), http.StatusConflict, "not in the settings")
	elsewhere := `{"id":"elsewhere"}`
	if err := g.store.Quarantine(t.Context(), &driver.QuarantineParams{Now: noon, Requests: []driver.Quarantined{{
		Source: "lab", BodyHash: sha256.Sum256([]byte(elsewhere)), Headers: []byte("{}"), Body: []byte(elsewhere), Reason: "no id", Handled: true,
	}}}); err != nil {
		t.Fatal(err)
	}
	wantDetail(t, retry("lab", elsewhere), http.StatusConflict, "Another program handles")
	g.quarantine(t, "gone", body, noon.Add(time.Hour))
	if got := g.column(t, "/api/v1/quarantine", "requests", "source"); !cmp.Equal(got, []string{"gone", "lab", "lab"}) {
		t.Errorf("the quarantine has requests of %q, want those that stay", got)
	}
	wantProblem(t, g.post(t, "/api/v1/quarantine/"+quarantineID("gone", body)+"/retry", `{"x":1}`), http.StatusBadRequest)
}
