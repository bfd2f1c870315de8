package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	withoutApp = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
destinations:
  well: {url: "${SINK}/well"}
`
	appDestination = `  app: {url: "${HOSTILE}", timeout: 10s, retry: {attempts: 1000, first: 20ms, max: 50ms}}
`
	wellRoute = `routes:
  - {name: well, types: [well], to: well}
`
	appRoute = `  - {name: app, types: [app], to: app}
`
)

// reload makes the gateway read new settings.
func (g *gateway) reload(t testing.TB, w *world, settings string) {
	t.Helper()
	const line = "settings reloaded"
	w.configure(t, settings)
	before := strings.Count(g.Log(), line)
	g.Signal(t, syscall.SIGHUP)
	g.Eventually(t, "the log says: "+line, func() bool { return strings.Count(g.Log(), line) > before })
}

// Defect class: a destination is removed from the settings, or misspelt for a day, and its waiting
// messages are dropped as undeliverable, use up their attempts, or are pruned. A message to a
// missing destination must be held, over reloads and restarts, and go out under its key when the
// destination is back.
func TestMessagesOfARemovedDestinationAreHeld(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		with, without := withoutApp+appDestination+wellRoute+appRoute, withoutApp+wellRoute
		h := &hostile{answer: says(410, "", "")}
		h.start(t, false)
		w := newWorld(t, db, with)
		w.env = append(w.env, "HOSTILE="+h.url())
		g := w.start(t)
		g.expect(t, play("dead", "app"), "200 ok")
		g.waitState(t, "play", "dead", "dead")
		h.behave(says(500, "", ""))
		ids := []string{"dead", "held-1", "held-2", "held-3"}
		for _, id := range ids[1:] {
			g.expect(t, play(id, "app"), "200 ok")
		}
		g.Eventually(t, "each was tried", func() bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return len(h.seen(id)) == 0 })
		})

		g.reload(t, w, without)
		if a := g.expect(t, play("dead", "app"), "200 duplicate"); !a.Reopened {
			t.Errorf("answered %s, want reopened", a.text)
		}
		g.Eventually(t, "nothing is under way", func() bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return g.played(t, id).Messages[0].State != "pending" })
		})
		requests := len(h.seen(""))
		held := func(when string) {
			t.Helper()
			g.expect(t, play(when, "well"), "200 ok") // other work continues
			g.waitState(t, "play", when, "done")
			w.pruneNow(t, without)
			if left := g.events(t, ""); len(left) != len(ids) {
				t.Errorf("%s: %d events are left after pruning, want the %d open ones", when, len(left), len(ids))
			}
			for _, id := range ids {
				detail := g.played(t, id)
				if detail.State != "running" || detail.Messages[0].State != "pending" || detail.Body == nil {
					t.Errorf("%s: %s is %s, its message %s, with a body: %t", when, id, detail.State, detail.Messages[0].State, detail.Body != nil)
				}
			}
			if n := len(h.seen("")); n != requests {
				t.Errorf("%s: the removed destination got %d more requests", when, n-requests)
			}
		}
		held("after a reload")
		g.stop(t)
		g = w.start(t)
		held("after a restart")
		g.kill()
		g = w.start(t)
		held("after a kill")

		h.heal()
		g.reload(t, w, with)
		for _, id := range ids {
			g.waitState(t, "play", id, "done")
			oneKey(t, id, h.seen(id))
		}
		if did := h.did(); !slices.Equal(did, ids) {
			t.Errorf("effects %q, want %q", did, ids)
		}
	})
}
