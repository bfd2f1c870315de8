package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The settings of two gateways on one database: both have the source and the destination shared,
// and only the first one has the destination mine.
const (
	bothKnow = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
destinations:
  shared: {url: "${SINK}/shared"}
%s
routes:
  - {name: shared, types: [shared], to: shared}
%s`
	mineDestination = `  mine: {url: "${MINE}", timeout: 1s, retry: {attempts: 1000, first: 20ms, max: 50ms}, rate: %s}`
	mineRoute       = `  - {name: mine, types: [mine], to: mine}`
)

// writeSettings writes a settings file beside the world's own.
func (w *world) writeSettings(t testing.TB, name, settings string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pruneNow prunes all finished rows: it sets them back beyond the windows of every process first.
func (w *world) pruneNow(t testing.TB, settings string) {
	t.Helper()
	w.db.age(t)
	w.writeSettings(t, "prune.yaml", settings)
	if out := w.run(t, "prune", "--config", "prune.yaml"); out.code != 0 {
		t.Errorf("prune ended with code %d: %s", out.code, out.stderr)
	}
}

// startWith starts a gateway with another settings file.
func (w *world) startWith(t testing.TB, name string) *gateway {
	t.Helper()
	g := w.launch(t, "--config", name)
	g.waitReady(t)
	return g
}

// Defect class: work is stored as "this event came", and the process that picks it up decides what
// to do. A process with other settings, such as an older one during a deployment, finds nothing to
// do and marks the event done. The work must be stored with the event by the process that claimed
// it; another process must not drop, skip, bury or prune work that it does not know.
func TestProcessWithoutTheRouteDropsNothing(t *testing.T) {
	t.Parallel()
	h := &hostile{answer: hangs("")}
	h.start(t, false)
	w := newWorld(t, newDatabase(t, "postgres"), "")
	w.env = append(w.env, "MINE="+h.url())
	knows := func(rate string) string { return fmt.Sprintf(bothKnow, fmt.Sprintf(mineDestination, rate), mineRoute) }
	ignorant := fmt.Sprintf(bothKnow, "", "")
	w.writeSettings(t, "a.yaml", knows("1/h"))
	w.writeSettings(t, "b.yaml", ignorant)
	a, b := w.startWith(t, "a.yaml"), w.startWith(t, "b.yaml")

	// One message is under way when A is killed; the rate limit holds the others back.
	open := []string{"under-way", "waits-1", "waits-2"}
	a.expect(t, play("under-way", "mine"), "200 ok")
	a.Eventually(t, "the first message is under way", func() bool { return len(h.seen("under-way")) > 0 })
	a.expect(t, play("waits-1", "mine"), "200 ok")
	a.expect(t, play("waits-2", "mine"), "200 ok")
	a.kill()

	for i := range 20 {
		b.expect(t, play(fmt.Sprintf("shared-%d", i), "shared"), "200 ok")
		b.waitState(t, "play", fmt.Sprintf("shared-%d", i), "done")
	}
	for _, id := range open {
		if a := b.expect(t, play(id, "mine"), "200 duplicate"); a.Reopened {
			t.Errorf("%s: answered %s, but the event was not dead", id, a.text)
		}
	}
	unroutedIsShown(t, w, b)
	b.stop(t)
	b = w.startWith(t, "b.yaml") // a starting gateway looks for open work
	b.expect(t, play("after", "shared"), "200 ok")
	b.waitState(t, "play", "after", "done")
	w.pruneNow(t, ignorant)
	var left []string
	for _, ev := range b.events(t, "") {
		left = append(left, ev.EventID)
		detail := b.played(t, ev.EventID)
		if detail.State != "running" || detail.Body == nil || len(detail.Messages) != 1 || len(detail.Attempts) > 1 {
			t.Errorf("%s: %s, with a body: %t, messages %+v, attempts %+v", ev.EventID, ev.State, detail.Body != nil, detail.Messages, detail.Attempts)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, open) {
		t.Fatalf("pruning left %q, want the open events %q", left, open)
	}
	if n := len(h.seen("waits-1")) + len(h.seen("waits-2")); n != 0 {
		t.Errorf("%d requests arrived for messages that no gateway could send", n)
	}

	h.heal()
	w.writeSettings(t, "a.yaml", knows("1000/s"))
	a = w.startWith(t, "a.yaml")
	for _, id := range open {
		a.waitState(t, "play", id, "done")
		oneKey(t, id, h.seen(id))
	}
	if did := h.did(); !slices.Equal(did, open) {
		t.Errorf("effects %q, want %q", did, open)
	}
}

// unroutedIsShown checks that an event without a route in the receiving gateway is done, says why,
// and can be found by that in the API and on the command line.
func unroutedIsShown(t *testing.T, w *world, g *gateway) {
	t.Helper()
	g.expect(t, play("unrouted", "mine"), "200 ok")
	detail := g.waitState(t, "play", "unrouted", "done")
	if detail.Note != "no route" || len(detail.Messages) != 0 {
		t.Errorf("the event without a route has the note %q and %d messages", detail.Note, len(detail.Messages))
	}
	if found := g.events(t, "note=no+route"); len(found) != 1 || found[0].EventID != "unrouted" {
		t.Errorf("events with the note no route: %+v, want the one event", found)
	}
	out := w.run(t, "events", "list", "--config", "b.yaml", "--note", "no route")
	if out.code != 0 || !strings.Contains(out.stdout, "unrouted") {
		t.Errorf("events list: code %d: %s%s", out.code, out.stdout, out.stderr)
	}
}
