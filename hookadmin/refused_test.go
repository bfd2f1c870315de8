package hookadmin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

func (g *gateway) addRefused(t *testing.T, requests ...driver.RefusedRequest) {
	t.Helper()
	if err := g.store.AddRefused(t.Context(), &driver.AddRefusedParams{Requests: requests}); err != nil {
		t.Fatal(err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	empty := readJSON[map[string]any](t, g.get(t, "/api/v1/refused"))
	if want := (map[string]any{"refused": []any{}, "next": ""}); !cmp.Equal(empty, want) {
		t.Errorf("an empty store lists %v", empty)
	}
	g.addRefused(t,
		driver.RefusedRequest{
			ErrorID: "e1", At: noon, Source: "lab", Reason: "signature_wrong", Status: 401, Method: "POST", Remote: "203.0.113.9:80", Gateway: "gw",
			Headers: []byte(`{"A":["<1 bytes>"]}`), Body: []byte("<b>"), BodySize: 1 << 60,
		},
		driver.RefusedRequest{
			ErrorID: "e2", At: noon.Add(time.Hour), Reason: "unknown_source", Status: 404, Method: "GET", Headers: []byte("not JSON"),
			Body: []byte("\xff"), BodySize: -1,
		})
	e1 := map[string]any{
		"id": "e1", "at": "2026-01-31T12:00:00.000000Z", "source": "lab", "reason": "signature_wrong", "status": 401.0, "method": "POST",
		"remote": "203.0.113.9:80", "gateway": "gw", "headers": map[string]any{"A": []any{"<1 bytes>"}}, "body": "<b>", "body_base64": nil,
		"body_size": "1152921504606846976",
	}
	e2 := map[string]any{
		"id": "e2", "at": "2026-01-31T13:00:00.000000Z", "source": "", "reason": "unknown_source", "status": 404.0, "method": "GET",
		"remote": "", "gateway": "", "headers": map[string]any{}, "body": nil, "body_base64": "/w==", "body_size": nil,
	}
	first := readJSON[map[string]any](t, g.get(t, "/api/v1/refused?limit=1"))
	next, _ := first["next"].(string)
	if diff := cmp.Diff([]any{e2}, first["refused"]); diff != "" || next == "" {
		t.Errorf("next %q (-want +got):\n%s", next, diff)
	}
	for query, want := range map[string][]any{
		"":                             {e2, e1},
		"?limit=1&cursor=" + next:      {e1},
		"?source=lab":                  {e1},
		"?reason=unknown_source":       {e2},
		"?remote=203.0.113.9:80":       {e1},
		"?id=e1":                       {e1},
		"?id=urn:hookonce:error:e1":    {e1},
		"?since=2026-01-31T12:00:01Z":  {e2},
		"?until=2026-01-31T13:00:00Z":  {e1},
		"?source=lab&reason=handshake": {},
	} {
		got := readJSON[map[string]any](t, g.get(t, "/api/v1/refused"+query))
		if diff := cmp.Diff(want, got["refused"]); diff != "" || got["next"] != "" {
			t.Errorf("%s: next %v (-want +got):\n%s", query, got["next"], diff)
		}
	}
	for query, want := range map[string]string{
		"limit=201": "limit: ", "limit=0": "limit: ", "cursor=zzz": "cursor: ", "type=a": `"type": unknown parameter`, "source=%00": "source: ",
		"reason=no": `reason: "no" is unknown; use unknown_source,`, "since=1h&until=2h": "until: must be later", "since=x": "since: ",
	} {
		wantDetail(t, g.get(t, "/api/v1/refused?"+query), http.StatusBadRequest, want)
	}
}

// TestRefusedBodyIsCut: the beginning of a text is a text, even if it ends within a character.
func TestRefusedBodyIsCut(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for i, cut := range []string{"", "a", "aa", "aaa"} {
		long := (cut + strings.Repeat("\U0001F600", driver.MaxRefusedBody))[:driver.MaxRefusedBody]
		id := fmt.Sprint("e", i)
		g.addRefused(t, driver.RefusedRequest{ErrorID: id, At: noon, Reason: "method", Body: []byte(long), BodySize: 9000})
		got := readJSON[map[string]any](t, g.get(t, "/api/v1/refused?id="+id))["refused"].([]any)[0].(map[string]any)
		if text, ok := got["body"].(string); !ok || !strings.HasPrefix(long, text) || len(long)-len(text) > 3 {
			t.Errorf("%d: the body is %.20v… and %.20v…", i, got["body"], got["body_base64"])
		}
	}
}
