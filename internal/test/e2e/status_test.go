package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const statusSettings = `
database: ${DATABASE_URL}
sources:
  github:
    provider: github
    secrets: ["${GITHUB_WEBHOOK_SECRET}"]
  stripe:
    provider: stripe
    secrets: ["${STRIPE_WEBHOOK_SECRET}"]
    malformed: quarantine
  lab:` + labKeys + `  zipped:` + labKeys + `    content_encoding: [gzip]
  rated:` + labKeys + `    rate: 2/h
  small:
    provider: none
    event: {id: "body:id"}
    max_body: 100
  polite:
    provider: none
    event: {id: "body:id"}
    ack: {body: "[accepted]", content_type: text/plain}
  list:
    provider: none
    event: {batch: "body:items", id: "item:id", type: "item:kind"}
destinations:
  app: {url: "${SINK}/hooks"}
routes:
  - {name: all, to: app}
`

func TestStatusTable(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, statusSettings)
		g := w.start(t)
		now := time.Now()
		bare := func(source, body string) *delivery { return newDelivery(source, body) }
		event := `{"id":"%s","type":"a","pad":"%s"}`

		for _, c := range []struct {
			name string
			d    *delivery
			want string
			body string // of the answer, if it is fixed
		}{
			{"unknown source", bare("nobody", `{"id":"1"}`), "404", ""},
			{"upper case", bare("GitHub", `{"id":"1"}`), "404", ""},
			{"not signed", bare("github", `{"id":"1"}`), "401", ""},

			{"malformed", labDelivery("lab", now, `hello`), "400", ""},
			{"malformed, to quarantine", stripeDelivery(now, `not json`), "200 quarantined", ""},
			{"GitHub without an id", push("x").with("X-GitHub-Delivery", ""), "400", ""},

			{"1 MiB exactly", labDelivery("lab", now, fmt.Sprintf(event, "big", strings.Repeat("x", 1<<20-len(fmt.Sprintf(event, "big", ""))))), "200 ok", ""},
			{"1 MiB and a byte", labDelivery("lab", now, fmt.Sprintf(event, "big", strings.Repeat("x", 1+1<<20-len(fmt.Sprintf(event, "big", ""))))), "413", ""},
			{"max_body kept", bare("small", fmt.Sprintf(`{"id":"s","pad":"%s"}`, strings.Repeat("x", 100))), "413", ""},

			{"compressed", push("zip").with("Content-Encoding", "gzip"), "415", ""},
			{"br", push("zip").with("Content-Encoding", "br"), "415", ""},
			{"gzip, gzip", labDelivery("zipped", now, `{}`).with("Content-Encoding", "gzip, gzip"), "415", ""},
			{"identity", push("identity").with("Content-Encoding", "identity"), "200 ok", ""},

			{"own acknowledgement", bare("polite", `{"id":"p"}`), "200", "[accepted]"},
			{"the same of a duplicate", bare("polite", `{"id":"p"}`), "200", "[accepted]"},
			{"batch", bare("list", `{"items":[{"id":"1"},{"id":"2"},{"id":"1"}]}`), "200 ok", `{"status":"ok","events":3,"duplicates":1}`},
			{"batch again", bare("list", `{"items":[{"id":"2"},{"id":"3"}]}`), "200 ok", `{"status":"ok","events":2,"duplicates":1}`},
			{"batch that is none", bare("list", `{"items":"no"}`), "400", ""},

			{"rate 1", labDelivery("rated", now, `{"id":"1"}`), "200 ok", ""},
			{"rate 2", labDelivery("rated", now, `{"id":"2"}`), "200 ok", ""},
			{"rate 3", labDelivery("rated", now, `{"id":"3"}`), "429", ""},
			{"unverified does not use it", labDelivery("rated", now, `{"id":"4"}`).with("X-Lab-Signature", ""), "401", ""},
		} {
			a := g.deliver(t, c.d)
			if a.short() != c.want || c.body != "" && strings.TrimSpace(a.text) != c.body {
				t.Errorf("%s: %s %s, want %s %s", c.name, a.short(), a.text, c.want, c.body)
			}
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			a, err := g.send(method, "/webhooks/github", push("method"))
			if err != nil || a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST" {
				t.Errorf("%s: %+v, %v, want 405 with Allow: POST", method, a, err)
			}
		}
		// Every authentic and malformed body is kept once.
		kept := number(t, db.open(t), `SELECT count(*) FROM `+db.table("quarantine"))
		if kept != 4 {
			t.Errorf("%d rows in the quarantine, want 4", kept)
		}
	})
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), statusSettings)
	g := w.start(t)
	zipped := func(body string) *delivery {
		return labDelivery("zipped", time.Now(), body).with("Content-Encoding", "gzip")
	}
	wire := zip(t, `{"id":"z-1","type":"a"}`)
	g.expect(t, zipped(wire), "200 ok")
	g.expect(t, zipped(wire), "200 duplicate")
	// The destination gets the signed bytes and their content type.
	got := w.sink.next(t)
	if got.body != wire || got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("forwarded %d bytes as %q, want the %d bytes unchanged", len(got.body), got.header.Get("Content-Encoding"), len(wire))
	}
	g.expect(t, labDelivery("zipped", time.Now(), `{"id":"plain"}`), "200 ok")
	bomb := zip(t, `{"id":"bomb","pad":"`+strings.Repeat("x", 8<<20)+`"}`)
	g.expect(t, zipped(bomb), "413")
	g.expect(t, zipped(bomb).with("X-Lab-Signature", ""), "401")
	g.expect(t, zipped(bomb).with("X-Lab-Signature", strings.Repeat("0", 64)), "401")
	g.expect(t, zipped("not gzip"), "400")
	g.expect(t, zipped(wire[:len(wire)-3]), "400")
	if g.event(t, "zipped", "bomb") != nil {
		t.Error("the bomb became an event")
	}
}

// Only unverified requests from an address that sends too many are slowed down.
func TestUnverifiedFloodIs429(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), strings.Replace(standardSettings, "100000/s", "20/s", 1))
	g := w.start(t)
	forged := push("forged").with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	eventually.True(t, "a 429 in a flood of unverified requests", func() bool {
		counts := atOnce(200, func(int) *answer { return g.deliver(t, forged) })
		if counts["401"]+counts["429"] != 200 {
			t.Fatalf("answers %v, want 401 and 429 only", counts)
		}
		return counts["429"] > 0
	})
	g.expect(t, push("gh-1"), "200 ok")
}

// With "redelivery: ack" a delivery of a dead event does not reopen it.
func TestRedeliveryThatOnlyAcknowledges(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, `
database: ${DATABASE_URL}
sources: {lab: {provider: none, event: {id: "body:id"}, redelivery: ack}}
destinations: {app: {url: "${SINK}/hooks", retry: {attempts: 1}}}
routes: [{name: all, to: app}]
`)
		w.sink.answerWith(failing(1))
		g := w.start(t)
		d := newDelivery("lab", `{"id":"1"}`)
		g.expect(t, d, "200 ok")
		g.waitState(t, "lab", "1", "dead")
		if a := g.expect(t, d, "200 duplicate"); a.Reopened {
			t.Errorf("answered %s, want it not reopened", a.text)
		}
		if detail := g.event(t, "lab", "1"); detail.State != "dead" || len(w.sink.requests("1")) != 1 {
			t.Errorf("the event is %s and was sent %d times", detail.State, len(w.sink.requests("1")))
		}
	})
}

func TestReplayGuard(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, strings.Replace(standardSettings, "provider: github\n", "provider: github\n    replay_guard: true\n", 1))
		g := w.start(t)
		g.expect(t, githubDelivery("gh-1", "push", "{}"), "200 ok")
		g.expect(t, githubDelivery("gh-2", "push", "{}"), "200 duplicate")
	})
}

// The log contains a problem's error id, so that an operator can find a reported problem.
func TestProblemIsFoundInTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	g := w.start(t)
	a := g.expect(t, push("gh-1").with("X-Hub-Signature-256", ""), "401")
	var problem struct{ Instance string }
	if err := json.Unmarshal([]byte(a.text), &problem); err != nil {
		t.Fatal(err)
	}
	id := problem.Instance[strings.LastIndexAny(problem.Instance, ":/")+1:]
	g.Eventually(t, "the log has the error id "+id, func() bool { return strings.Contains(g.Log(), id) })
}
