package e2e

import (
	"slices"
	"strings"
	"testing"
)

// Defect class: a permanently failed event keeps its identity claimed, so every later delivery is
// answered as a duplicate and dropped. The sender believes that all is well, but the event never
// takes effect. A delivery of a dead event must reopen it, each time that it dies, until the
// destination is mended; of concurrent copies, one reopens it.
func TestDuplicateOfADeadEventReopensIt(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		h := &hostile{answer: says(410, "", "")}
		h.start(t, false)
		// Few attempts, so that an event which uses them up is dead too.
		few := strings.NewReplacer("attempts: 1000", "attempts: 3", "timeout: 2s", "timeout: 5m")
		w := newWorld(t, db, few.Replace(keySettings))
		w.env = append(w.env, "HOSTILE="+h.url())
		g := w.start(t)
		dead := func(generation, requests int) {
			t.Helper()
			detail := g.waitState(t, "play", "e", "dead")
			if got := len(h.seen("e")); detail.Generation != generation || got != requests {
				t.Errorf("dead in generation %d after %d requests, want generation %d after %d", detail.Generation, got, generation, requests)
			}
		}
		reopen := func() {
			t.Helper()
			if a := g.expect(t, play("e", ""), "200 duplicate"); !a.Reopened {
				t.Errorf("answered %s, want reopened", a.text)
			}
		}
		g.expect(t, play("e", ""), "200 ok")
		dead(0, 1)
		reopen() // the destination is unchanged
		dead(1, 2)
		h.behave(says(500, "", ""))
		reopen()
		dead(2, 5) // it had all of its attempts again
		g.stop(t)
		g = w.start(t)

		h.behave(holds) // mended, but slow: the event is open while the copies arrive
		const copies = 32
		got := atOnce(copies, func(int) *answer { return g.deliver(t, play("e", "")) })
		checkAnswers(t, "of copies of a dead event", map[string]int{"200 duplicate": copies}, got)
		h.heal()
		if detail := g.waitState(t, "play", "e", "done"); detail.Generation != 3 {
			t.Errorf("generation %d, want 3, because one copy reopened it", detail.Generation)
		}
		if a := g.expect(t, play("e", ""), "200 duplicate"); a.Reopened {
			t.Errorf("answered %s, but the event was done", a.text)
		}
		requests := h.seen("e")
		oneKey(t, "e", requests)
		if did := h.did(); len(requests) != 6 || !slices.Equal(did, []string{"e"}) {
			t.Errorf("%d requests and the effects %q, want 6 requests and one effect", len(requests), did)
		}
	})
}
