package e2e

import (
	"strings"
	"testing"
	"time"
)

func TestReplayedIDTakesEffectOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		now := time.Now()
		for _, d := range []struct {
			id    string
			first *delivery
			again *delivery // signed again where the sender would sign again
		}{
			{"gh-1", push("gh-1"), push("gh-1")},
			{"evt_1", stripeDelivery(now, stripeBody("evt_1", "invoice.paid")), stripeDelivery(now.Add(time.Second), stripeBody("evt_1", "invoice.paid"))},
			{"msg_1", standardDelivery(now, "msg_1", `{"type":"a"}`), standardDelivery(now.Add(time.Second), "msg_1", `{"type":"a"}`)},
			{"lab-1", labDelivery("lab", now, `{"id":"lab-1","type":"a"}`), labDelivery("lab", now.Add(time.Second), `{"id":"lab-1","type":"a"}`)},
			{"bare-1", newDelivery("bare", `{"id":"bare-1"}`), newDelivery("bare", `{"id":"bare-1"}`)},
			{"17", newDelivery("bare", `{"id":17}`), newDelivery("bare", `{"id":"17"}`)}, // the same id
		} {
			if a := g.expect(t, d.first, "200 ok"); a.EventID != d.id {
				t.Errorf("%s: the answer has event_id %q, want %q", d.first.source, a.EventID, d.id)
			}
			for _, again := range []*delivery{d.first, d.again, d.again} {
				if a := g.expect(t, again, "200 duplicate"); a.EventID != d.id {
					t.Errorf("%s: the answer to a duplicate has event_id %q, want %q", d.first.source, a.EventID, d.id)
				}
			}
			detail := g.waitState(t, d.first.source, d.id, "done")
			if got := w.sink.requests(d.id); len(got) != 1 {
				t.Errorf("%s: the destination got %d requests, want 1", d.first.source, len(got))
			}
			if len(detail.Attempts) != 1 || detail.Attempts[0].Outcome != "sent" {
				t.Errorf("%s: attempts %+v, want one, sent", d.first.source, detail.Attempts)
			}
			// Counts are written in groups, so they may come late.
			g.eventually(t, "the duplicates of "+d.id+" are counted", func() bool {
				return g.event(t, d.first.source, d.id).Deliveries.Count == "4"
			})
		}
	})
}

func TestIDOlderThanWindowIsFresh(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, "dedupe_window: 1s\nretention: 1s\n"+standardSettings)
		g := w.start(t)
		g.expect(t, push("gh-1"), "200 ok")
		first := w.sink.next(t)
		g.waitState(t, "github", "gh-1", "done")
		// The window counts from the first delivery, so duplicates do not renew it.
		g.eventually(t, "the id can be claimed again", func() bool {
			return g.deliver(t, push("gh-1")).short() == "200 ok"
		})
		second := w.sink.next(t)
		if second.body != first.body || second.eventID() != "gh-1" {
			t.Errorf("the second request does not belong to the event: %+v", second)
		}
	})
}

// The prune command frees ids too.
func TestPruneCommandFreesIDs(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		g.expect(t, push("gh-1"), "200 ok")
		g.waitState(t, "github", "gh-1", "done")
		if out := w.run(t, "prune"); out.code != 0 {
			t.Fatalf("prune: exit code %d: %s", out.code, out.stderr)
		}
		g.expect(t, push("gh-1"), "200 duplicate") // the window is 30 days

		// A shorter window waits for the longer one of the gateway.
		w.configure(t, "dedupe_window: 1ms\nretention: 1ms\n"+standardSettings)
		prune := func() {
			t.Helper()
			if out := w.run(t, "prune"); out.code != 0 {
				t.Fatalf("prune: exit code %d: %s", out.code, out.stderr)
			}
		}
		prune()
		g.expect(t, push("gh-1"), "200 duplicate")
		db.age(t)
		prune()
		if g.event(t, "github", "gh-1") != nil {
			t.Error("prune left the identity past the window")
		}
		g.expect(t, push("gh-1"), "200 ok")
		g.waitState(t, "github", "gh-1", "done")
		if got := w.sink.requests("gh-1"); len(got) != 2 {
			t.Errorf("the destination got %d requests, want 2", len(got))
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
