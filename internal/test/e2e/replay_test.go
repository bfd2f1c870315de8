package e2e

import (
	"fmt"
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

func TestDuplicateWithAnotherBody(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		g.expect(t, githubDelivery("gh-1", "push", `{"first":true}`), "200 ok")
		g.expect(t, githubDelivery("gh-1", "push", `{"first":false}`), "200 duplicate")
		g.waitState(t, "github", "gh-1", "done")
		if got := w.sink.requests(""); len(got) != 1 || got[0].body != `{"first":true}` {
			t.Errorf("the destination got %d requests, want one with the first body", len(got))
		}
		g.eventually(t, "the event shows the other body", func() bool {
			return g.event(t, "github", "gh-1").Deliveries.OtherBodies == "1"
		})
	})
}

// changes returns all small changes to a delivery that this test knows.
func changes(d *delivery, signature string) map[string]*delivery {
	value := d.header.Get(signature)
	flip := func(i int) string {
		b := []byte(value)
		if b[i] == '0' {
			b[i] = '1'
		} else {
			b[i] = '0'
		}
		return string(b)
	}
	twice := d.with(signature, value)
	twice.header.Add(signature, value)
	out := map[string]*delivery{
		"body: first byte":         d.withBody("[" + d.body[1:]),
		"body: last byte":          d.withBody(d.body[:len(d.body)-1] + "]"),
		"body: line feed added":    d.withBody(d.body + "\n"),
		"body: space added":        d.withBody(strings.Replace(d.body, ":", ": ", 1)),
		"body: cut":                d.withBody(d.body[:len(d.body)-1]),
		"body: empty":              d.withBody(""),
		"signature: missing":       d.with(signature, ""),
		"signature: blank":         d.with(signature, " "),
		"signature: twice":         twice,
		"signature: last byte":     d.with(signature, flip(len(value)-1)),
		"signature: middle":        d.with(signature, flip(len(value)-20)),
		"signature: cut by one":    d.with(signature, value[:len(value)-1]),
		"signature: cut to prefix": d.with(signature, value[:len(value)-40]),
		"signature: one byte more": d.with(signature, value+"0"),
		"signature: bytes more":    d.with(signature, value+"00"),
		"signature: 0x":            d.with(signature, "0x"+value),
	}
	return out
}

func TestChangedByteIs401(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		now := time.Now()
		later := func(header string, d *delivery) *delivery {
			stamp := d.header.Get(header)
			return d.with(header, stamp[:len(stamp)-1]+string('0'+(stamp[len(stamp)-1]-'0'+1)%10))
		}

		github := push("gh-1")
		table := changes(github, "X-Hub-Signature-256")
		hexMAC := strings.TrimPrefix(github.header.Get("X-Hub-Signature-256"), "sha256=")
		table["github: no prefix"] = github.with("X-Hub-Signature-256", hexMAC)
		table["github: sha1 prefix"] = github.with("X-Hub-Signature-256", "sha1="+hexMAC)
		table["github: zeros"] = github.with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
		table["github: not hex"] = github.with("X-Hub-Signature-256", "sha256="+strings.Repeat("zz", 32))
		table["github: empty"] = github.with("X-Hub-Signature-256", "sha256=")
		check401(t, g, "github", table)

		stripe := stripeDelivery(now, stripeBody("evt_1", "invoice.paid"))
		table = changes(stripe, "Stripe-Signature")
		value := stripe.header.Get("Stripe-Signature")
		stamp, v1, _ := strings.Cut(value, ",")
		for name, changed := range map[string]string{
			"t altered":    "t=" + later("T", (&delivery{header: map[string][]string{"T": {stamp[2:]}}})).header.Get("T") + "," + v1,
			"t twice":      stamp + "," + value,
			"t missing":    v1,
			"t empty":      "t=," + v1,
			"t is text":    "t=abc," + v1,
			"t negative":   "t=-" + stamp[2:] + "," + v1,
			"t with plus":  "t=+" + stamp[2:] + "," + v1,
			"t exponent":   "t=1e9," + v1,
			"t too long":   "t=" + strings.Repeat("9", 20) + "," + v1,
			"t in ms":      stamp + "000," + v1,
			"v1 missing":   stamp,
			"v0 instead":   stamp + "," + strings.Replace(v1, "v1=", "v0=", 1),
			"v1 times 100": stamp + "," + strings.Repeat("v1="+strings.Repeat("0", 64)+",", 100) + v1,
		} {
			table["stripe: "+name] = stripe.with("Stripe-Signature", changed)
		}
		check401(t, g, "stripe", table)

		standard := standardDelivery(now, "msg_1", `{"type":"a"}`)
		table = changes(standard, "Webhook-Signature")
		table["standard: another id"] = standard.with("Webhook-Id", "msg_2")
		table["standard: no id"] = standard.with("Webhook-Id", "")
		table["standard: another time"] = later("Webhook-Timestamp", standard)
		table["standard: no time"] = standard.with("Webhook-Timestamp", "")
		table["standard: v1a"] = standard.with("Webhook-Signature", "v1a"+standard.header.Get("Webhook-Signature")[2:])
		table["standard: id with a dot"] = standardDelivery(now, "msg.1", `{"type":"a"}`)
		check401(t, g, "standard", table)

		lab := labDelivery("lab", now, `{"id":"lab-1"}`)
		table = changes(lab, "X-Lab-Signature")
		table["lab: another time"] = later("X-Lab-Timestamp", lab)
		table["lab: no time"] = lab.with("X-Lab-Timestamp", "")
		check401(t, g, "lab", table)

		if got := g.events(t, ""); len(got) != 0 {
			t.Errorf("unverified requests became events: %+v", got)
		}
		for _, d := range []*delivery{github, stripe, standard, lab} {
			g.expect(t, d, "200 ok") // the unchanged delivery was right
		}
	})
}

func check401(t *testing.T, g *gateway, source string, table map[string]*delivery) {
	t.Helper()
	for name, d := range table {
		if a := g.deliver(t, d); a.status != 401 {
			t.Errorf("%s: %s: %s, want 401", source, name, a.short())
		}
	}
}

// Rotation: one of several signatures, and one of several secrets, must be right.
func TestAnyOfSeveralSignatures(t *testing.T) {
	db := newDatabase(t, "sqlite")
	w := newWorld(t, db, strings.Replace(standardSettings, `secrets: ["${STRIPE_SECRET}"]`, `secrets: ["`+otherSecret+`", "${STRIPE_SECRET}"]`, 1))
	g := w.start(t)
	stripe := stripeDelivery(time.Now(), stripeBody("evt_1", "invoice.paid"))
	stamp, v1, _ := strings.Cut(stripe.header.Get("Stripe-Signature"), ",")
	wrong := "v1=" + strings.Repeat("0", 64)
	g.expect(t, stripe.with("Stripe-Signature", stamp+","+wrong+","+v1), "200 ok")
	g.expect(t, stripe.with("Stripe-Signature", stamp+","+v1+","+wrong), "200 duplicate")
	g.expect(t, stripe.with("Stripe-Signature", stamp+","+strings.ToUpper(v1[3:])+","+wrong), "401")
	g.expect(t, stripe.with("Stripe-Signature", stamp+",v1="+strings.ToUpper(v1[3:])), "200 duplicate")

	standard := standardDelivery(time.Now(), "msg_1", `{"type":"a"}`)
	right := standard.header.Get("Webhook-Signature")
	g.expect(t, standard.with("Webhook-Signature", "v1,"+strings.Repeat("A", 43)+"= "+right), "200 ok")
}

func TestTimestampTolerance(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		for source, sign := range map[string]func(at time.Time, id string) *delivery{
			"stripe":   func(at time.Time, id string) *delivery { return stripeDelivery(at, stripeBody(id, "a")) },
			"standard": func(at time.Time, id string) *delivery { return standardDelivery(at, id, `{"type":"a"}`) },
			"lab":      func(at time.Time, id string) *delivery { return labDelivery("lab", at, `{"id":"`+id+`"}`) },
		} {
			for _, c := range []struct {
				offset time.Duration
				want   string
			}{
				{-301 * time.Second, "401"},
				{-299 * time.Second, "200 ok"},
				{299 * time.Second, "200 ok"},
				{301 * time.Second, "401"},
				{-time.Hour, "401"},
				{time.Hour, "401"},
			} {
				if got := deliverAt(t, g, c.offset, sign); got != c.want {
					t.Errorf("%s: a timestamp %s off: %s, want %s", source, c.offset, got, c.want)
				}
			}
		}
	})
}

// deliverAt delivers with a timestamp that is off by offset. Timestamps have whole seconds and
// deliveries take time, so it repeats a run during which the offset crossed the limit.
func deliverAt(t *testing.T, g *gateway, offset time.Duration, sign func(time.Time, string) *delivery) string {
	t.Helper()
	const tolerance = 5 * time.Minute
	for try := range 50 {
		before := time.Now()
		stamp := before.Add(offset).Truncate(time.Second)
		got := g.deliver(t, sign(stamp, fmt.Sprintf("at%d-%d", int(offset.Seconds())+10_000, try))).short()
		outsideBefore := before.Sub(stamp).Abs() > tolerance
		outsideAfter := time.Since(stamp).Abs() > tolerance
		if outsideBefore == outsideAfter {
			return got
		}
	}
	t.Fatalf("no delivery fitted into the second that the offset %s leaves", offset)
	return ""
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

func TestIDsAreUniquePerSource(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		now := time.Now()
		same := []*delivery{
			push("same"),
			stripeDelivery(now, stripeBody("same", "a")),
			standardDelivery(now, "same", `{"type":"a"}`),
			labDelivery("lab", now, `{"id":"same"}`),
			newDelivery("bare", `{"id":"same"}`),
		}
		for _, d := range same {
			g.expect(t, d, "200 ok")
		}
		ids := make(map[string]bool)
		for _, d := range same {
			g.expect(t, d, "200 duplicate")
			g.waitState(t, d.source, "same", "done")
		}
		for _, got := range w.sink.requests("same") {
			ids[got.id()] = true
		}
		if len(ids) != len(same) {
			t.Errorf("the destination got %d webhook-ids, want %d", len(ids), len(same))
		}
	})
}

func TestForgedRequestCannotClaim(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
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
