package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
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

// storm delivers copies of one event at the same moment, to all gateways in turn, several times
// over.
func storm(t *testing.T, w *world, gateways []*gateway) {
	t.Helper()
	want := map[string]int{"200 ok": 1, "200 duplicate": stormCopies - 1}
	for round := range stormRounds {
		id := fmt.Sprintf("storm-%d", round)
		d := push(id)
		got := atOnce(stormCopies, func(i int) *answer { return gateways[i%len(gateways)].deliver(t, d) })
		checkAnswers(t, fmt.Sprintf("in round %d", round), want, got)
	}
	g := gateways[0]
	for round := range stormRounds {
		id := fmt.Sprintf("storm-%d", round)
		detail := g.waitState(t, "github", id, "done")
		if got := w.sink.requests(id); len(got) != 1 || len(detail.Attempts) != 1 {
			t.Errorf("%s: %d forwarded requests, %d attempts, want 1 and 1", id, len(got), len(detail.Attempts))
		}
		g.eventually(t, "all copies of "+id+" are counted", func() bool {
			return g.event(t, "github", id).Deliveries.Count == fmt.Sprint(stormCopies)
		})
	}
	if got := g.events(t, ""); len(got) != stormRounds {
		t.Errorf("%d events, want %d", len(got), stormRounds)
	}
}

// TestStoppedGatewayHoldsNothing stops one of two gateways in the middle of its work. The other one
// can finish it: no claim stays open, and messages that the stopped one had leased are sent when
// the leases run out.
func TestStoppedGatewayHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "postgres"), standardSettings)
	stopped, other := w.start(t), w.start(t)

	const senders, perSender, stopAt = 8, 50, 100
	var (
		group  sync.WaitGroup
		acked  atomic.Int64
		enough = make(chan struct{})
	)
	for sender := range senders {
		group.Go(func() {
			for i := range perSender {
				a, err := stopped.tryDeliver(push(fmt.Sprintf("s%d-%d", sender, i)))
				if err != nil {
					continue // the gateway was stopped for longer than the sender waits
				}
				if a.status == http.StatusOK && acked.Add(1) == stopAt {
					close(enough)
				}
			}
		})
	}
	eventually.Receive(t, fmt.Sprintf("%d deliveries", stopAt), enough)
	stopped.signal(t, syscall.SIGSTOP)
	// The retries of all senders go to the running gateway.
	got := atOnce(senders*perSender, func(i int) *answer {
		return other.deliver(t, push(fmt.Sprintf("s%d-%d", i/perSender, i%perSender)))
	})
	if got["200 ok"]+got["200 duplicate"] != senders*perSender || got["200 duplicate"] < stopAt {
		t.Errorf("answers while the other gateway is stopped: %v", got)
	}
	if all := other.waitAllDone(t, "github"); len(all) != senders*perSender {
		t.Errorf("%d events, want %d", len(all), senders*perSender)
	}
	stopped.signal(t, syscall.SIGCONT)
	group.Wait()
	other.waitAllDone(t, "github")
	for i := range senders * perSender {
		id := fmt.Sprintf("s%d-%d", i/perSender, i%perSender)
		webhookIDs := make(map[string]bool)
		for _, r := range w.sink.requests(id) {
			webhookIDs[r.id()] = true
		}
		if len(webhookIDs) != 1 {
			t.Errorf("%s was forwarded under %d webhook-ids, want 1", id, len(webhookIDs))
		}
	}
}
