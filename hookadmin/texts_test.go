package hookadmin_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// badTexts are texts that no stored name, id or type can be, with the fault that an answer names.
var badTexts = map[string]string{
	"a\xffb":                  "is not valid UTF-8",
	"\xed\xa0\x80":            "is not valid UTF-8", // a surrogate
	"a\x00b":                  "holds a control character",
	"a\nb":                    "holds a control character",
	"\u0085":                  "holds a control character",
	strings.Repeat("x", 2048): "longer than ",
}

// Every text parameter of every path is refused with 400, its name and its fault.
func TestBadTextsInParameters(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	parameters := map[string][]string{
		"/api/v1/events":        {"source", "type", "state", "note", "id", "q", "since", "until", "limit", "cursor"},
		"/api/v1/events.ndjson": {"source", "type", "id", "q"},
		"/api/v1/events.csv":    {"source", "type", "id", "q"},
		"/api/v1/search":        {"q", "cursor"},
		"/api/v1/dead-letters":  {"source", "type", "state", "destination", "note", "signature", "id", "message_id", "q", "since", "until", "limit", "cursor"},
		"/api/v1/errors":        {"source", "destination", "signature", "since", "until", "limit", "cursor"},
		"/api/v1/jobs":          {"state", "limit", "cursor"},
		"/api/v1/messages":      {"source", "type", "state", "destination", "note", "id", "message_id", "q", "since", "until", "limit", "cursor"},
		"/api/v1/quarantine":    {"source", "limit", "cursor"},
		"/api/v1/refused":       {"source", "reason", "remote", "id", "since", "until", "limit", "cursor"},
		"/api/v1/series":        {"of", "source", "destination", "outcome", "reason", "type", "by", "resolution", "since", "until"},
		"/api/v1/stream":        {"source", "type", "kind", "destination", "outcome", "cursor"},
		"/debug/pprof/heap":     {"seconds", "debug"},
		"/events":               {"source", "type", "state", "note", "id", "q", "since", "until", "tz", "limit", "cursor", "refresh"},
		"/event":                {"source", "id", "body", "refresh"},
		"/event/body":           {"source", "id"},
		"/dead-letters":         {"source", "type", "destination", "note", "signature", "id", "message_id", "q", "since", "until", "tz", "limit", "cursor", "refresh"},
		"/refused":              {"source", "reason", "remote", "id", "since", "until", "tz", "limit", "cursor", "refresh"},
		"/quarantine":           {"source", "limit", "cursor", "refresh"},
		"/jobs":                 {"state", "limit", "cursor", "refresh"},
		"/search":               {"q", "cursor", "refresh"},
		"/":                     {"since", "until", "refresh"},
		"/sources/lab":          {"since", "until", "refresh"},
		"/destinations/billing": {"since", "until", "refresh"},
		"/sources":              {"refresh"},
	}
	for _, path := range slices.Sorted(maps.Keys(parameters)) {
		for _, name := range parameters[path] {
			for bad, fault := range badTexts {
				resp := g.get(t, path+"?"+name+"="+url.QueryEscape(bad))
				if text := string(resp.body); resp.status != http.StatusBadRequest || !strings.Contains(text, name) || !strings.Contains(text, fault) {
					t.Errorf("%s?%s=%.20q: %d %.400s", path, name, bad, resp.status, text)
				}
			}
		}
		if resp := g.get(t, path+"?x%00=1"); resp.status != http.StatusBadRequest {
			t.Errorf("%s with an unknown parameter: %d %.200s", path, resp.status, resp.body)
		}
	}
}

// Every text of every body is refused with 400, its key and its fault. JSON can only hold UTF-8, so
// an escape that is half of a character is refused too.
func TestBadTextsInBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	message := g.enqueue(t, "e1")[0]
	g.settle(t, driver.MessageDead)
	keys := map[string][]string{
		"/api/v1/dead-letters/replay": {
			"source", "type", "destination", "note", "signature", "ids", "message_ids", "q", "since", "until", "rate", "state",
		},
		"/api/v1/dead-letters/discard":           {"source", "ids"},
		"/api/v1/dead-letters/undo":              {"request_id"},
		"/api/v1/jobs":                           {"of", "action", "mode", "rate"},
		"/api/v1/events/lab/e1/replay":           {"note"},
		"/api/v1/events/lab/e1/redact":           nil,
		"/api/v1/messages/" + message + "/retry": nil,
	}
	for path, names := range keys {
		for _, name := range names {
			for bad, fault := range badTexts {
				if strings.HasPrefix(fault, "is not valid") {
					continue // no JSON
				}
				wantDetail(t, g.post(t, path, bodyWith(t, name, bad)), http.StatusBadRequest, `"`+name+`": `+fault)
			}
			for _, half := range []string{`\ud800`, `\uDBFFx`, `\udc00`, `a\ud800\u0041`, `\ud800\ud800\udc00`, `\\\ud800`} {
				body := strings.Replace(bodyWith(t, name, "#"), "#", half, 1)
				wantDetail(t, g.post(t, path, body), http.StatusBadRequest, "is one half of a character")
			}
		}
		wantDetail(t, g.post(t, path, `{"\ud800":true}`), http.StatusBadRequest, `at byte 3: \ud800 is one half of a character`)
	}
	for _, name := range []string{"source", "type", "destination", "state", "note", "signature", "ids", "message_ids", "q", "since", "until"} {
		for bad, fault := range badTexts {
			if strings.HasPrefix(fault, "is not valid") {
				continue
			}
			body := `{"action":"replay","filter":` + bodyWith(t, name, bad) + `}`
			wantDetail(t, g.post(t, "/api/v1/jobs", body), http.StatusBadRequest, `in "filter"`)
		}
		body := strings.Replace(`{"action":"replay","filter":`+bodyWith(t, name, "#")+`}`, "#", `\ud800`, 1)
		wantDetail(t, g.post(t, "/api/v1/jobs", body), http.StatusBadRequest, "is one half of a character")
	}
	// A whole character and an escaped backslash are texts.
	for _, body := range []string{`{"source":"\ud83d\ude00"}`, `{"source":"\\ud800"}`} {
		if resp := g.post(t, replayDead, body); resp.status != http.StatusOK {
			t.Errorf("%s: %d %s", body, resp.status, resp.body)
		}
	}
	g.wantState(t, "e1", "dead")
}

// bodyWith returns a body with one key. The keys of lists end with "ids".
func bodyWith(t *testing.T, name, text string) string {
	t.Helper()
	var value any = text
	if strings.HasSuffix(name, "ids") {
		value = []string{text}
	}
	raw, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Names, types and ids have the bounds of those that are stored, so that a listing that cannot have a row is
// refused instead of empty. The longest of each is found.
func TestBoundsOfTexts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	part := strings.Repeat("x", 255)
	longest := strings.Join(slices.Repeat([]string{part}, 8), ":")
	claim(t, g.store, event{source: "lab", id: longest, typ: "t", body: "{}", at: noon})
	for path, want := range map[string]int{
		"/api/v1/events?id=" + longest:              200,
		"/api/v1/search?q=" + longest:               200,
		"/events?id=" + longest:                     200,
		"/api/v1/events/lab/" + longest:             200,
		"/events/lab/" + longest:                    200,
		"/api/v1/events?id=" + part + "x":           400,
		"/events?id=" + part + "x":                  400,
		"/api/v1/events?id=" + longest + ":":        400,
		"/api/v1/events?type=" + part:               200,
		"/api/v1/events?type=" + part + "x":         400,
		"/api/v1/events?source=" + part[:63]:        200,
		"/api/v1/events?source=" + part[:64]:        400,
		"/api/v1/messages?destination=" + part[:64]: 400,
		"/api/v1/messages?message_id=" + part:       200,
		"/api/v1/messages?message_id=" + part + "x": 400,
		"/api/v1/events/lab/" + part + "x":          400,
		"/api/v1/events/" + part[:64] + "/e1":       400,
		"/events/" + part[:64] + "/e1":              400,
		"/api/v1/jobs/" + part:                      404,
		"/destinations/" + part[:63]:                404,
		"/destinations/" + part[:64]:                400,
		"/sources/%ff":                              400,
		"/jobs/%ff":                                 400,
		"/quarantine/%00":                           400,
	} {
		if resp := g.get(t, path); resp.status != want {
			t.Errorf("%.60s… with %d bytes: %d, want %d: %.300s", path, len(path), resp.status, want, resp.body)
		}
	}
	wantDetail(t, g.post(t, replayDead, `{"source":"lab","ids":["`+part+`x"]}`), 400, `"ids": longer than 255 bytes`)
	if resp := g.post(t, replayDead, `{"source":"lab","ids":["`+longest+`"]}`); resp.status != 200 {
		t.Errorf("the longest id: %d %s", resp.status, resp.body)
	}
	// The bound of names is that of the settings.
	for _, name := range []string{part[:63], part[:64]} {
		_, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{
			Sources: []hookonce.Source{{Name: name, Provider: provider.None, Event: provider.EventRules{ID: "body:id"}}},
		})
		if (err == nil) != (len(name) == 63) {
			t.Errorf("a source with a name of %d bytes: %v", len(name), err)
		}
	}
}
