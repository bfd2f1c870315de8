package e2e

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	stormCopies = 64
	stormRounds = 10
)

func TestStormOverTwoGateways(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "postgres"), standardSettings)
	storm(t, w, []*gateway{w.start(t), w.start(t)})
}

func TestStormOnOneGateway(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		storm(t, w, []*gateway{w.start(t)})
	})
}

// storm delivers copies of one event at the same moment, to all gateways in
// turn, several times.
func storm(t *testing.T, w *world, gateways []*gateway) {
	t.Helper()
	want := map[string]int{"200 ok": 1, "200 duplicate": stormCopies - 1}
	for round := range stormRounds {
		id := fmt.Sprintf("storm-%d", round)
		d := push(id)
		got := atOnce(stormCopies, func(i int) *answer { return gateways[i%len(gateways)].deliver(t, d) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("round %d: answers (-want +got):\n%s", round, diff)
		}
	}
	g := gateways[0]
	for round := range stormRounds {
		id := fmt.Sprintf("storm-%d", round)
		detail := g.waitState(t, "github", id, "done")
		if got := w.sink.requests(id); len(got) != 1 || len(detail.Attempts) != 1 {
			t.Errorf("%s: %d forwarded requests, %d attempts, want 1 and 1", id, len(got), len(detail.Attempts))
		}
		g.eventually(t, patience, "all copies of "+id+" are counted", func() bool {
			return g.event(t, "github", id).Deliveries.Count == fmt.Sprint(stormCopies)
		})
	}
	if got := g.events(t, ""); len(got) != stormRounds {
		t.Errorf("%d events, want %d", len(got), stormRounds)
	}
}
