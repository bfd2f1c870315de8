package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

const (
	circuitCooldown = 250 * time.Millisecond // equals retry.first in circuitSettings
	circuitSettings = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
destinations:
  down: {url: "${HOSTILE}", retry: {attempts: 5, first: 250ms, max: 250ms}, concurrency: 16}
  well: {url: "${SINK}/well"}
routes:
  - {name: down, types: [down], to: down}
  - {name: well, types: [well], to: well}
`
)

// A destination that is down costs its messages no attempts: after ten failures in a row one
// message is tried in each cooldown. Without the circuit, this outage would use up the attempts of
// all of them.
func TestOpenCircuitSpendsNoAttempts(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		const (
			events = 100
			burst  = 16 + 10     // the sends under way, and the failures that open the circuit
			enough = burst + 10  // several cooldowns
			beside = events / 10 // for the other destination
			latest = "well-%d"   // the last of these
			down   = "down-%d"
			status = http.StatusServiceUnavailable
		)
		h := &hostile{answer: says(status, "", "")}
		h.start(t, false)
		w := newWorld(t, db, circuitSettings)
		w.env = append(w.env, "HOSTILE="+h.url())
		g := w.start(t)
		began := time.Now()
		g.acceptAll(t, events, func(i int) *delivery { return play(fmt.Sprintf(down, i), "down") })
		g.eventually(t, "the outage lasted", func() bool { return len(h.seen("")) >= enough })
		for i := range beside {
			g.expect(t, play(fmt.Sprintf(latest, i), "well"), "200 ok")
			g.waitState(t, "play", fmt.Sprintf(latest, i), "done")
		}
		requests := len(h.seen(""))
		cooldowns := int(time.Since(began) / circuitCooldown)
		if most := burst + cooldowns + 1; requests > most {
			t.Errorf("%d requests in an outage of %d cooldowns, want %d at most", requests, cooldowns, most)
		}
		if dead := g.events(t, "state=dead"); len(dead) != 0 {
			t.Errorf("%d events are dead", len(dead))
		}

		h.heal()
		if all := g.settled(t); len(all) != events+beside {
			t.Errorf("%d events, want %d", len(all), events+beside)
		}
		tries := 0
		for i := range events {
			id := fmt.Sprintf(down, i)
			detail := g.played(t, id)
			if n := len(detail.Attempts); n != detail.Messages[0].Attempts {
				t.Errorf("%s: %d attempts were counted, but %d requests arrived", id, detail.Messages[0].Attempts, n)
			}
			tries += len(detail.Attempts)
			oneKey(t, id, h.seen(id))
		}
		if n := len(h.seen("")); n != tries {
			t.Errorf("the audit shows %d attempts, but %d requests arrived", tries, n)
		}
		if did := h.did(); len(did) != events || len(slices.Compact(did)) != events {
			t.Errorf("%d effects, want each of %d events once", len(did), events)
		}
	})
}
