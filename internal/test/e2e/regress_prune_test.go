package e2e

import (
	"slices"
	"testing"
)

const tinyWindows = "dedupe_window: 1s\nretention: 1s\n"

const pruneSettings = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
destinations:
  down: {url: "${DOWN}", timeout: 10s, retry: {attempts: 1000, first: 50ms, max: 100ms}}
  gone: {url: "${GONE}"}
  well: {url: "${SINK}/well"}
routes:
  - {name: down, types: [down, both], to: down}
  - {name: gone, types: [gone], to: gone}
  - {name: well, types: [well, both], to: well}
`

// Defect class: upkeep removes old rows without checking whether they are finished. While a
// destination is down for longer than the retention, the bodies of waiting messages are removed, or
// whole events, and no error says so. Age may remove only finished work: a waiting message and a
// dead letter keep their identity and their body, and go out unchanged.
func TestAgeRemovesNothingThatIsOwed(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		down, gone := &hostile{}, &hostile{answer: says(410, "", "")}
		down.start(t, true)
		gone.start(t, false)
		w := newWorld(t, db, pruneSettings+tinyWindows)
		w.env = append(w.env, "DOWN="+down.url(), "GONE="+gone.url())
		g := w.start(t)
		owed := map[string]string{"waits": "running", "half": "running", "dead": "dead"}
		g.expect(t, play("waits", "down"), "200 ok")
		g.expect(t, play("half", "both"), "200 ok")
		g.expect(t, play("dead", "gone"), "200 ok")
		g.waitState(t, "play", "dead", "dead")

		// The witness is younger than the other events, and is pruned.
		g.expect(t, play("witness", "well"), "200 ok")
		removed := func(id string) {
			t.Helper()
			g.Eventually(t, id+" is pruned", func() bool {
				if out := w.run(t, "prune"); out.code != 0 {
					t.Errorf("prune ended with code %d: %s", out.code, out.stderr)
				}
				return g.event(t, "play", id) == nil
			})
		}
		removed("witness")
		for id, state := range owed {
			detail := g.played(t, id)
			if detail.State != state || detail.Body == nil || detail.Headers == nil {
				t.Errorf("%s is %s (with a body: %t), want %s with its body", id, detail.State, detail.Body != nil, state)
			}
		}
		if a := g.expect(t, play("waits", "down"), "200 duplicate"); a.Reopened {
			t.Errorf("answered %s, but the event was not dead", a.text)
		}

		down.heal()
		gone.heal()
		if a := g.expect(t, play("dead", "gone"), "200 duplicate"); !a.Reopened {
			t.Errorf("answered %s, want reopened", a.text)
		}
		for _, id := range []string{"waits", "half", "dead"} {
			removed(id) // so it was finished
		}
		if did := down.did(); !slices.Equal(did, []string{"half", "waits"}) {
			t.Errorf("the destination that was down has the effects %q", did)
		}
		if did := gone.did(); !slices.Equal(did, []string{"dead"}) {
			t.Errorf("the destination that was removed has the effects %q", did)
		}
		for id, d := range map[string]*delivery{"waits": play("waits", "down"), "half": play("half", "both")} {
			if got := down.seen(id); len(got) == 0 || got[0].body != d.body {
				t.Errorf("%s arrived changed", id)
			}
		}
		got := gone.seen("dead")
		oneKey(t, "dead", got)
		if len(got) != 2 {
			t.Errorf("the dead letter was sent %d times, want 2", len(got))
		}
	})
}
