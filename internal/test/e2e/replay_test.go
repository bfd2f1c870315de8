package e2e

import (
	"strings"
	"testing"
	"time"
)

func TestIDOlderThanWindowIsFresh(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, "dedupe_window: 1s\nretention: 1s\n"+standardSettings)
		g := w.start(t)
		g.expect(t, push("gh-1"), "200 ok")
		first := w.sink.next(t)
		g.waitState(t, "github", "gh-1", "done")
		g.Eventually(t, "the event is pruned", func() bool { return g.event(t, "github", "gh-1") == nil })
		g.expect(t, push("gh-1"), "200 ok")
		second := w.sink.next(t)
		if second.body != first.body || second.eventID() != "gh-1" {
			t.Errorf("the second request does not belong to the event: %+v", second)
		}
	})
}

func TestForgedRequestCannotClaim(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		now := time.Now()
		for _, d := range []struct {
			id, signature string
			real          *delivery
		}{
			{"gh-1", "X-Hub-Signature-256", push("gh-1")},
			{"evt_1", "Stripe-Signature", stripeDelivery(now, stripeBody("evt_1", "a"))},
			{"msg_1", "Webhook-Signature", standardDelivery(now, "msg_1", `{"type":"a"}`)},
			{"lab-1", "X-Lab-Signature", labDelivery("lab", now, `{"id":"lab-1"}`)},
		} {
			signature := d.real.header.Get(d.signature)
			forged := d.real.with(d.signature, signature[:len(signature)-8]+"00000000")
			a := g.expect(t, forged, "401")
			if strings.Contains(a.text, signature) {
				t.Errorf("the refusal reveals the right signature: %s", a.text)
			}
			if got := g.events(t, "id="+d.id); len(got) != 0 {
				t.Errorf("the forged request became an event: %+v", got)
			}
			g.expect(t, d.real, "200 ok")
			g.expect(t, forged, "401")
			g.waitState(t, d.real.source, d.id, "done")
			if got := w.sink.requests(d.id); len(got) != 1 {
				t.Errorf("%s: the destination got %d requests, want 1", d.id, len(got))
			}
		}
	})
}
