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
    secrets: ["${GITHUB_SECRET}"]
  stripe:
    provider: stripe
    secrets: ["${STRIPE_SECRET}"]
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
	eachStore(t, func(t *testing.T, db *database) {
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

			{"not JSON", labDelivery("lab", now, `hello`), "400", ""},
			{"no body", labDelivery("lab", now, ``), "400", ""},
			{"null", labDelivery("lab", now, `null`), "400", ""},
			{"array", labDelivery("lab", now, `[{"id":"1"}]`), "400", ""},
			{"no id", labDelivery("lab", now, `{"type":"a"}`), "400", ""},
			{"id null", labDelivery("lab", now, `{"id":null}`), "400", ""},
			{"id empty", labDelivery("lab", now, `{"id":""}`), "400", ""},
			{"id is an object", labDelivery("lab", now, `{"id":{}}`), "400", ""},
			{"id is a bool", labDelivery("lab", now, `{"id":true}`), "400", ""},
			{"two ids", labDelivery("lab", now, `{"id":"1","id":"2"}`), "400", ""},
			{"two ids, one escaped", labDelivery("lab", now, `{"id":"1","\u0069d":"1"}`), "400", ""},
			{"id with NUL", labDelivery("lab", now, `{"id":"a\u0000b"}`), "400", ""},
			{"id with line feed", labDelivery("lab", now, `{"id":"a\nb"}`), "400", ""},
			{"id with lone surrogate", labDelivery("lab", now, `{"id":"\ud800"}`), "400", ""},
			{"id is not UTF-8", labDelivery("lab", now, "{\"id\":\"x\xff\"}"), "400", ""},
			{"id of 256 bytes", labDelivery("lab", now, fmt.Sprintf(event, strings.Repeat("i", 256), "")), "400", ""},
			{"two documents", labDelivery("lab", now, `{"id":"a"}{"id":"b"}`), "400", ""},
			{"trailing comma", labDelivery("lab", now, `{"id":"a",}`), "400", ""},
			{"byte order mark", labDelivery("lab", now, "\xef\xbb\xbf{\"id\":\"a\"}"), "400", ""},
			{"malformed, to quarantine", stripeDelivery(now, `not json`), "200 quarantined", ""},
			{"GitHub without an id", push("x").with("X-GitHub-Delivery", ""), "400", ""},

			{"id of 255 bytes", labDelivery("lab", now, fmt.Sprintf(event, strings.Repeat("i", 255), "")), "200 ok", ""},
			{"large number", labDelivery("lab", now, `{"id":9007199254740993}`), "200 ok", `{"status":"ok","event_id":"9007199254740993"}`},
			{"its neighbour", labDelivery("lab", now, `{"id":9007199254740992}`), "200 ok", `{"status":"ok","event_id":"9007199254740992"}`},
			{"number and text", labDelivery("lab", now, `{"id":"9007199254740992"}`), "200 duplicate", ""},
			{"ID beside id", labDelivery("lab", now, `{"id":"low","ID":"up"}`), "200 ok", `{"status":"ok","event_id":"low"}`},
			{"escaped", labDelivery("lab", now, `{"id":"l\u006fw"}`), "200 duplicate", `{"status":"duplicate","event_id":"low"}`},
			{"hostile text", labDelivery("lab", now, `{"id":"'; drop table <script>${jndi:x} ../../%2e"}`), "200 ok", `{"status":"ok","event_id":"'; drop table <script>${jndi:x} ../../%2e"}`},
			{"huge exponent", labDelivery("lab", now, `{"id":"exp","n":1e131071}`), "200 ok", ""},
			{"NUL in the body", labDelivery("lab", now, `{"id":"nul","n":"\u0000"}`), "200 ok", ""},
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
		if kept != 22 {
			t.Errorf("%d rows in the quarantine, want 22", kept)
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
	g.expect(t, labDelivery("zipped", time.Now(), `{"id":"plain"}`), "200 ok")
	// The destination gets the signed bytes and their content type.
	got := w.sink.next(t)
	if got.body != wire || got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("forwarded %d bytes as %q, want the %d bytes unchanged", len(got.body), got.header.Get("Content-Encoding"), len(wire))
	}
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

const deadSettings = `
database: ${DATABASE_URL}
sources:
  github: {provider: github, secrets: ["${GITHUB_SECRET}"]}
  lab:
    provider: none
    event: {id: "body:id"}
    redelivery: ack
destinations:
  app: {url: "${SINK}/hooks", retry: {attempts: 1}}
routes:
  - {name: all, to: app}
`

func TestRedeliveryOfADeadEvent(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, deadSettings)
		w.sink.answerWith(failing(1 << 30))
		g := w.start(t)
		acked := newDelivery("lab", `{"id":"acked"}`)
		g.expect(t, push("gh-1"), "200 ok")
		g.expect(t, acked, "200 ok")
		g.waitState(t, "github", "gh-1", "dead")
		g.waitState(t, "lab", "acked", "dead")

		w.sink.answerWith(failing(0))
		a := g.expect(t, push("gh-1"), "200 duplicate")
		if !a.Reopened || a.EventID != "gh-1" {
			t.Errorf("answered %s, want reopened", a.text)
		}
		if a := g.expect(t, acked, "200 duplicate"); a.Reopened {
			t.Errorf("answered %s, but the source has redelivery ack", a.text)
		}
		detail := g.waitState(t, "github", "gh-1", "done")
		if detail.Generation != 1 {
			t.Errorf("generation %d, want 1", detail.Generation)
		}
		got := w.sink.requests("gh-1")
		if len(got) != 2 || got[0].id() != got[1].id() {
			t.Errorf("%d requests, want 2 under one webhook-id", len(got))
		}
		if a := g.expect(t, push("gh-1"), "200 duplicate"); a.Reopened {
			t.Errorf("answered %s, but the event was done", a.text)
		}
		if detail := g.event(t, "lab", "acked"); detail.State != "dead" || len(w.sink.requests("acked")) != 1 {
			t.Errorf("the event acked is %s and was sent %d times", detail.State, len(w.sink.requests("acked")))
		}
	})
}

func TestReplayGuard(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, strings.Replace(standardSettings, "provider: github\n", "provider: github\n    replay_guard: true\n", 1))
		g := w.start(t)
		body := `{"ref":"refs/heads/main"}`
		g.expect(t, githubDelivery("gh-1", "push", body), "200 ok")
		g.expect(t, githubDelivery("gh-2", "push", body), "200 duplicate")
		g.expect(t, githubDelivery("gh-3", "push", body+" "), "200 ok")
		if all := g.waitAllDone(t, "github"); len(all) != 2 {
			t.Errorf("%d events, want 2", len(all))
		}
	})
	t.Run("watched only", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
		g := w.start(t)
		body := `{"ref":"refs/heads/main"}`
		g.expect(t, githubDelivery("gh-1", "push", body), "200 ok")
		g.expect(t, githubDelivery("gh-2", "push", body), "200 ok")
		if detail := g.event(t, "github", "gh-2"); detail.Deliveries.RepeatOf != "gh-1" {
			t.Errorf("gh-2 is shown as a repeat of %q, want gh-1", detail.Deliveries.RepeatOf)
		}
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
	g.eventually(t, "the log has the error id "+id, func() bool { return strings.Contains(g.log.text(), id) })
}
