package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Static secrets of this test alone.
const (
	oldToken   = "canary-old-token-5b1e0c7d9a42"
	newToken   = "canary-new-token-e83f6a10b7c5"
	queryToken = "canary-query-token-41d0/c9+e7"
	password   = "canary-password-7c2a9e4b8d16"
)

const tokenSettings = `
database: ${DATABASE_URL}
sources:
  header:
    provider: token
    token: {at: "header:X-Legacy-Token", prefix: "Bearer "}
    secrets: ["` + oldToken + `", "` + newToken + `"]
    event: {id: "body:id"}
    malformed: quarantine
  query:
    provider: token
    token: {at: "query:key"}
    secrets: ["` + queryToken + `"]
    event: {id: "body:id"}
  basic:
    provider: basic
    secrets: ["office:` + password + `"]
    event: {id: "body:id"}
destinations:
  app: {url: "${SINK}/hooks"}
routes:
  - {name: all, to: app}
`

// A post without the secret of a source claims nothing, so it cannot turn the sender's own event into a
// duplicate. The secret itself is in no table, page, answer, log line or forwarded request, not even where
// a proxy copied it into another header.
func TestStaticSecrets(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, tokenSettings)
		g := w.launch(t, "--config", "hookonce.yaml", "--log-level", "debug")
		g.waitReady(t)
		const escaped = "canary-query-token-41d0%2Fc9%2Be7"
		credentials := base64.StdEncoding.EncodeToString([]byte("office:" + password))
		for _, tt := range []struct {
			source, id, query    string
			header, value, wrong string
		}{
			{"header", "h-1", "", "X-Legacy-Token", "Bearer " + oldToken, "Bearer " + oldToken + "x"},
			{"header", "h-2", "", "X-Legacy-Token", "Bearer " + newToken, newToken},
			{"header", "h-3", "", "X-Legacy-Token", "Bearer " + newToken, ""},
			{"query", "q-1", "?key=" + escaped, "X-Query-String", "a=b&key=" + escaped, ""},
			{"basic", "b-1", "", "Authorization", "Basic " + credentials, "Basic " + credentials[4:]},
		} {
			d := newDelivery(tt.source, `{"id":"`+tt.id+`"}`, "X-Kind", "kept", "X-Copy", strings.TrimPrefix(tt.value, "Bearer "))
			send := func(query, value, want string) {
				t.Helper()
				sent := d.with(tt.header, value)
				if value == "" {
					sent.header.Del(tt.header)
				}
				a, err := g.send(http.MethodPost, "/webhooks/"+tt.source+query, sent)
				if err != nil || a.short() != want {
					t.Errorf("%s%s with %s %q: %v, %v, want %s", tt.source, query, tt.header, value, a, err, want)
				}
			}
			send("?key=wrong", tt.wrong, "401")
			send("", tt.wrong, "401")
			if events := g.events(t, "source="+tt.source+"&id="+tt.id); len(events) > 0 {
				t.Errorf("a post without the secret claimed %v", events)
			}
			send(tt.query, tt.value, "200 ok")
			send(tt.query, tt.value, "200 duplicate")
			g.waitState(t, tt.source, tt.id, "done")
		}
		malformed := newDelivery("header", `{"no":"id"}`, "X-Legacy-Token", "Bearer "+newToken)
		g.expect(t, malformed, "200 quarantined")

		c := &canaryHunt{T: t, g: g, places: map[string]string{}}
		c.crawl("/")
		c.dump(db)
		for _, path := range []string{
			"events", "events.ndjson", "refused", "quarantine", "sources", "events/header/h-1", "events/query/q-1", "events/basic/b-1",
		} {
			c.places[path] = c.get("/api/v1/"+path, "")
		}
		for _, r := range w.sink.requests("") {
			c.places["the request for "+r.eventID()] = fmt.Sprint(r.header) + r.body
			if r.header.Get("X-Kind") != "kept" {
				t.Errorf("another header is not forwarded: %v", r.header)
			}
		}
		g.stop(t)
		c.places["log"] = g.Log()
		shown := c.places["events/header/h-1"]
		if !strings.Contains(shown, "X-Legacy-Token") || !strings.Contains(shown, "secret") {
			t.Errorf("the event does not show where the secret stood: %s", shown)
		}
		nowhere := func(string, string) bool { return false }
		c.lookFor([]string{oldToken, newToken, queryToken, escaped, password, credentials}, nowhere)
	})
}
