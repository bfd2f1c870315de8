package hookadmin_test

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// TestSearch finds each kind of thing by its id alone.
func TestSearch(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	g := newGateway(t)
	message := g.enqueue(t, "evt_1")[0]
	claim(t, g.store, event{source: "shop", id: "evt_1", typ: "paid", body: "{}", at: noon})
	know(t, g.store, "shop")
	traced := driver.Claim{
		Key: driver.EventKey("lab", "traced"), Source: "lab", EventID: "traced", Headers: []byte(`{"Traceparent":["00-` + trace + `-b7ad6b7169203331-01"]}`),
	}
	if _, err := g.store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{traced}, Now: noon}); err != nil {
		t.Fatal(err)
	}
	g.addRefused(t, driver.RefusedRequest{ErrorID: "00112233445566aa", At: noon, Source: "lab", Reason: "signature", Status: 401, Method: "POST"})
	g.quarantine(t, "lab", "x", noon)
	quarantined := g.column(t, "/api/v1/quarantine", "requests", "id")[0]
	key, err := hex.DecodeString(quarantined)
	if err != nil || len(key) != 32 {
		t.Fatal(quarantined)
	}
	for q, want := range map[string][]string{
		"evt_1": {"event lab evt_1", "event shop evt_1"},
		message: {"message lab evt_1 " + message}, "00112233445566aa": {"refused lab 00112233445566aa signature"},
		"urn:hookonce:error:00112233445566aa": {"refused lab 00112233445566aa signature"}, quarantined: {"quarantined lab " + quarantined + " "},
		trace: {"event lab traced"}, strings.ToUpper(trace): {"event lab traced"}, "00-" + trace + "-b7ad6b7169203331-01": {"event lab traced"},
		"b7ad6b7169203331": {}, "nothing": {}, "%": {}, strings.Repeat("0", 32): {}, strings.Repeat("0", 64): {}, "  evt_1 ": {"event lab evt_1", "event shop evt_1"},
	} {
		got := []string{}
		page := readJSON[struct {
			Hits []map[string]any
			Next string
		}](t, g.get(t, "/api/v1/search?q="+strings.ReplaceAll(strings.ReplaceAll(q, "%", "%25"), " ", "+")))
		for _, hit := range page.Hits {
			text := hit["kind"].(string) + " " + hit["source"].(string)
			for _, name := range []string{"event_id", "message_id", "id"} {
				if hit[name] != "" {
					text += " " + hit[name].(string)
				}
			}
			if kind := hit["kind"]; kind == "refused" || kind == "quarantined" {
				text += " " + hit["reason"].(string)
			}
			got = append(got, text)
		}
		if len(got) == 1 && strings.HasPrefix(got[0], "quarantined ") {
			got[0] = strings.TrimSuffix(got[0], " "+page.Hits[0]["reason"].(string)) + " "
		}
		sortHits(got)
		if diff := cmp.Diff(want, got); diff != "" || page.Next != "" {
			t.Errorf("search for %q (-want +got):\n%s", q, diff)
		}
	}
	for query, want := range map[string]string{
		"": "q: is required", "?q=": "q: is required", "?q=+": "q: is required", "?q=a&q=b": "q: given more than once", "?q=a%00": "q: ", "?q=a&cursor=x": "cursor: ",
		"?q=a&limit=3": "unknown parameter", "?q=" + strings.Repeat("x", 2048): "q: longer",
	} {
		wantDetail(t, g.get(t, "/api/v1/search"+query), http.StatusBadRequest, want)
	}
}

func sortHits(hits []string) {
	if len(hits) == 2 && hits[0] > hits[1] {
		hits[0], hits[1] = hits[1], hits[0]
	}
}

// searching is a store that has as many searches for a text as it may.
type searching struct{ driver.Store }

func (searching) Events(context.Context, *driver.EventFilter) (*driver.EventPage, error) {
	return nil, driver.ErrSearching
}

func TestTooManySearches(t *testing.T) {
	t.Parallel()
	g := newGatewayOn(t, searching{rig.OpenSQLite(t)})
	for _, path := range []string{"/api/v1/events?q=x", "/api/v1/events.ndjson?q=x", "/api/v1/search?q=x"} {
		got := g.get(t, path)
		wantDetail(t, got, http.StatusServiceUnavailable, "2 searches for a text run already")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
}
