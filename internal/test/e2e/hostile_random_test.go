package e2e

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

const randomSettings = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id"}}
destinations:
  app: {url: "${HOSTILE}", secret: "${DESTINATION_SECRET}", timeout: 2s, retry: {attempts: 1000, first: 20ms, max: 100ms}}
routes:
  - {name: all, to: app}
`

// moody returns a destination that fails at first in random ways, sometimes before it does its work
// and sometimes after. Its choices depend only on seed, event and attempt.
func moody(seed uint64) *hostile {
	faults := []fault{
		says(500, "", "no"), says(503, "Retry-After: 1\n", ""), says(429, "", ""), says(301, "Location: /elsewhere\n", ""),
		says(404, "", ""), resets, breaksOff(""), breaksOff("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbrok"),
		breaksOff("garbage\r\n\r\n"), huge(500), hangs(""),
	}
	h := &hostile{}
	h.choose = func(r *received) fault {
		key := fnv.New64a()
		fmt.Fprint(key, r.eventID())
		ofEvent := rand.New(rand.NewPCG(seed, key.Sum64()))
		failures := ofEvent.IntN(4)
		attempt, err := strconv.Atoi(r.header.Get("Hookonce-Attempt"))
		if err != nil || attempt > failures {
			h.work(r)
			return taken
		}
		ofAttempt := rand.New(rand.NewPCG(seed+uint64(attempt), key.Sum64()))
		if ofAttempt.IntN(2) == 0 {
			h.work(r)
		}
		if ofAttempt.IntN(20) == 0 {
			return faults[len(faults)-1] // seldom, because it is slow
		}
		return faults[ofAttempt.IntN(len(faults)-1)]
	}
	return h
}

// A destination that fails at first and then succeeds does its work once for every event, though it
// dedupes by webhook-id alone.
func TestFailsFirstThenOneEffectUnderOneKey(t *testing.T) {
	events := group.Rounds(60, 200)
	anyStore(t, func(t *testing.T, db *database) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		h := moody(seed)
		h.start(t, false)
		w := newWorld(t, db, randomSettings)
		w.env = append(w.env, "HOSTILE="+h.url())
		g := w.start(t)
		g.acceptAll(t, events, func(i int) *delivery { return play(fmt.Sprintf("e-%d", i), "") })
		if all := g.settled(t); len(all) != events {
			t.Fatalf("%d events, want %d", len(all), events)
		}
		keys := make(map[string]bool)
		for i := range events {
			id := fmt.Sprintf("e-%d", i)
			requests := h.seen(id)
			oneKey(t, id, requests)
			for _, r := range requests {
				keys[r.id()] = true
			}
			checkCounted(t, g.played(t, id), requests)
		}
		if len(keys) != events {
			t.Errorf("%d keys of %d events", len(keys), events)
		}
		if n := len(h.seen("")); n <= events {
			t.Errorf("%d requests for %d events: nothing failed", n, events)
		}
		if did := h.did(); len(did) != events || len(slices.Compact(did)) != events {
			t.Errorf("%d effects, want each of %d events once", len(did), events)
		}
	})
}

// checkCounted checks that Hookonce-Attempt rises up to the attempt that succeeded, and that no
// attempt makes two requests. An attempt that ended early may have made none.
func checkCounted(t *testing.T, detail *eventDetail, requests []*received) {
	t.Helper()
	last := 0
	for _, r := range requests {
		n, err := strconv.Atoi(r.header.Get("Hookonce-Attempt"))
		if err != nil || n <= last {
			t.Errorf("%s: Hookonce-Attempt %q after %d", detail.EventID, r.header.Get("Hookonce-Attempt"), last)
		}
		last = n
	}
	tries := detail.Attempts
	if len(tries) != last || tries[len(tries)-1].Outcome != "sent" {
		t.Errorf("%s: attempts %+v, but the last request was of attempt %d", detail.EventID, tries, last)
	}
}
