package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Every log line that concerns an event has its source and event_id, at every level.
func TestLogLinesNameTheirEvent(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.launch(t, "--config", "hookonce.yaml", "--log-level", "debug")
		g.waitReady(t)
		g.expect(t, push("gh-1"), "200 ok")
		g.expect(t, push("gh-1"), "200 duplicate")
		g.waitState(t, "github", "gh-1", "done")
		w.sink.answerWith(failing(2))
		g.expect(t, push("gh-2"), "200 ok")
		g.waitState(t, "github", "gh-2", "done")
		w.sink.answerWith(func(*received) int { return http.StatusGone })
		g.expect(t, push("gh-3"), "200 ok")
		g.waitState(t, "github", "gh-3", "dead")
		if a := g.expect(t, push("gh-3"), "200 duplicate"); !a.Reopened {
			t.Error("the delivery did not reopen the dead event")
		}
		g.waitState(t, "github", "gh-3", "dead")
		w.sink.answerWith(func(*received) int { return http.StatusOK })
		resp, err := g.client.Post("http://"+g.admin+"/api/v1/events/github/gh-3/replay", "application/json", strings.NewReader("{}"))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("replay: %v, %v", resp, err)
		}
		resp.Body.Close()
		g.waitState(t, "github", "gh-3", "done")
		g.stop(t)
		var seen []string
		for text := range strings.Lines(g.Log()) {
			var line struct {
				Msg, Source string
				EventID     string `json:"event_id"`
			}
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Errorf("not a line of JSON: %s", text)
				continue
			}
			seen = append(seen, line.Msg)
			concerns := slices.Contains(linesOfEvents, line.Msg) || strings.Contains(text, "gh-")
			if concerns && (line.Source != "github" || !strings.HasPrefix(line.EventID, "gh-")) {
				t.Errorf("a line about an event lacks source or event_id: %s", text)
			}
		}
		for _, line := range linesOfEvents {
			if !slices.Contains(seen, line) {
				t.Errorf("the scenario has no line %q, but %q", line, slices.Compact(slices.Sorted(slices.Values(seen))))
			}
		}
	})
}

// linesOfEvents are texts of log lines that concern one event.
var linesOfEvents = []string{
	"claimed", "duplicate", "dead event reopened by a delivery", "event replayed", "sending failed; retrying", "sending failed: dead", "sent",
}
