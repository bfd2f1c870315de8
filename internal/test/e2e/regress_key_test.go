package e2e

import (
	"net"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const keySettings = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
destinations:
  app: {url: "${HOSTILE}", timeout: 2s, retry: {attempts: 1000, first: 20ms, max: 50ms}}
routes:
  - {name: all, to: app}
`

// Defect class: the key that a destination dedupes by is generated again where it must be kept: for
// each retry, in each process, or when an event is reopened. The destination then does the work
// twice. The key must stay the same over retries, a restart, a killed process whose request had
// arrived, and a redelivery that reopens.
func TestEveryRetryBearsTheSameKey(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		refuses := says(500, "", "")
		h := &hostile{answer: refuses}
		h.start(t, false)
		w := newWorld(t, db, keySettings)
		w.env = append(w.env, "HOSTILE="+h.url())
		g := w.start(t)
		more := func(n int) {
			t.Helper()
			want := len(h.seen("")) + n
			g.Eventually(t, "more requests arrive", func() bool { return len(h.seen("")) >= want })
		}
		g.expect(t, play("e", ""), "200 ok")
		more(2)

		g.stop(t)
		g = w.start(t)
		more(2)

		held := make(chan struct{}, 1)
		h.behave(func(h *hostile, conn net.Conn) bool {
			select {
			case held <- struct{}{}:
			default: // the first one ended before the kill
			}
			return hangs("")(h, conn)
		})
		eventually.Receive(t, "a request arrives", held)
		g.kill()
		h.behave(refuses)
		g = w.start(t)
		more(2) // the first one once the killed process's lease has run out

		h.behave(says(410, "", ""))
		g.waitState(t, "play", "e", "dead")
		h.behave(refuses)
		if a := g.expect(t, play("e", ""), "200 duplicate"); !a.Reopened {
			t.Errorf("answered %s, want reopened", a.text)
		}
		more(2)
		g.stop(t)
		g = w.start(t)
		more(1)

		h.heal()
		detail := g.waitState(t, "play", "e", "done")
		requests := h.seen("e")
		oneKey(t, "e", requests)
		if did := h.did(); !slices.Equal(did, []string{"e"}) {
			t.Errorf("effects %q, want one", did)
		}
		if got := requests[len(requests)-1].header.Get("Hookonce-Replay"); detail.Generation != 1 || got != "1" {
			t.Errorf("generation %d, Hookonce-Replay %q, want 1 for both", detail.Generation, got)
		}
	})
}
