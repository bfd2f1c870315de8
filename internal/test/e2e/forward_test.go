package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The trace headers of a delivery.
const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	theirSpan = "b7ad6b7169203331"
)

func TestForwardedRequest(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		// The body may be binary when the id is in a header.
		body := "\x00\x01\xff\xfe{\"not\": json\r\n" + string([]byte{0x80, 0})
		d := githubDelivery("gh-1", "push", body)
		for name, value := range map[string]string{
			"Content-Type":       "application/octet-stream; charset=x",
			"X-Custom":           "kept",
			"User-Agent":         "GitHub-Hookshot/1",
			"Authorization":      "Bearer " + credentialInQuery,
			"Cookie":             "a=" + credentialInQuery,
			"X-Forwarded-For":    "203.0.113.9",
			"X-Forwarded-Host":   "elsewhere.example",
			"Webhook-Id":         "theirs",
			"Webhook-Signature":  "v1,theirs",
			"Webhook-Timestamp":  "1",
			"Idempotency-Key":    "theirs",
			"Hookonce-Attempt":   "99",
			"Hookonce-Source":    "theirs",
			"Hookonce-Replay":    "7",
			"Keep-Alive":         "timeout=5",
			"Proxy-Authenticate": "Basic",
			"Te":                 "trailers",
			"Traceparent":        "00-" + traceID + "-" + theirSpan + "-01",
			"Tracestate":         "vendor=kept",
		} {
			d.header.Set(name, value)
		}
		d.header.Add("X-Several", "one")
		d.header.Add("X-Several", "two")
		g.expect(t, d, "200 ok")

		got := w.sink.next(t)
		if got.method != http.MethodPost || got.path != "/hooks" || got.body != body {
			t.Errorf("%s %s with body %q, want POST /hooks with %q", got.method, got.path, got.body, body)
		}
		checkSigned(t, got, destinationKey)
		trace := regexp.MustCompile(`^00-` + traceID + `-([0-9a-f]{16})-01$`).FindStringSubmatch(got.header.Get("Traceparent"))
		if trace == nil || trace[1] == theirSpan {
			t.Errorf("traceparent %q, want another span of the trace %s", got.header.Get("Traceparent"), traceID)
		}
		want := http.Header{
			"Content-Type":        {"application/octet-stream; charset=x"},
			"Content-Length":      {strconv.Itoa(len(body))},
			"Host":                {w.sink.server.Listener.Addr().String()},
			"User-Agent":          {"GitHub-Hookshot/1"},
			"X-Custom":            {"kept"},
			"Tracestate":          {"vendor=kept"},
			"X-Several":           {"one", "two"},
			"X-Github-Delivery":   {"gh-1"},
			"X-Github-Event":      {"push"},
			"X-Hub-Signature-256": {githubSignature(body)},
			"Idempotency-Key":     {got.id()},
			"Hookonce-Source":     {"github"},
			"Hookonce-Event-Id":   {"gh-1"},
			"Hookonce-Event-Type": {"push"},
			"Hookonce-Attempt":    {"1"},
		}
		header := got.header.Clone()
		for _, checked := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Accept-Encoding", "Traceparent"} {
			header.Del(checked)
		}
		if diff := cmp.Diff(want, header); diff != "" {
			t.Errorf("headers of the forwarded request (-want +got):\n%s", diff)
		}

		detail := g.waitState(t, "github", "gh-1", "done")
		if string(detail.BodyBase64) != body {
			t.Errorf("the API shows the body %q, want %q", detail.BodyBase64, body)
		}
		if got := detail.Headers["Authorization"]; !slices.Equal(got, []string{"<secret>"}) {
			t.Errorf("the API shows Authorization as %q", got)
		}
	})
}

// checkSigned checks a signature against the Standard Webhooks specification.
func checkSigned(t *testing.T, r *received, key string) {
	t.Helper()
	id, stamp := r.id(), r.header.Get("Webhook-Timestamp")
	if id == "" || slices.Contains([]byte(id), '.') {
		t.Errorf("webhook-id %q, want one without a dot", id)
	}
	if want := standardSignature(key, id, stamp, r.body); r.header.Get("Webhook-Signature") != want {
		t.Errorf("webhook-signature %q, want %q", r.header.Get("Webhook-Signature"), want)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || r.at.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		t.Errorf("webhook-timestamp %q is not of now", stamp)
	}
}

func TestRetryKeepsTheID(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		w.sink.answerWith(failing(3))
		g := w.start(t)
		g.expect(t, push("gh-1"), "200 ok")
		detail := g.waitState(t, "github", "gh-1", "done")
		requests := w.sink.requests("gh-1")
		var attempts []string
		for _, r := range requests {
			attempts = append(attempts, r.header.Get("Hookonce-Attempt"))
			checkSigned(t, r, destinationKey)
			if r.id() != requests[0].id() || r.body != requests[0].body {
				t.Errorf("attempt %s has another webhook-id or body", r.header.Get("Hookonce-Attempt"))
			}
			if r.header.Get("Hookonce-Replay") != "" {
				t.Errorf("Hookonce-Replay is %q on a retry, want none", r.header.Get("Hookonce-Replay"))
			}
		}
		if diff := cmp.Diff([]string{"1", "2", "3", "4"}, attempts); diff != "" {
			t.Errorf("Hookonce-Attempt (-want +got):\n%s", diff)
		}
		var outcomes []string
		for _, a := range detail.Attempts {
			outcomes = append(outcomes, fmt.Sprint(a.Number, " ", a.Outcome, " ", *a.StatusCode))
		}
		if diff := cmp.Diff([]string{"1 retry 500", "2 retry 500", "3 retry 500", "4 sent 200"}, outcomes); diff != "" {
			t.Errorf("attempts in the API (-want +got):\n%s", diff)
		}
	})
}

// Only 2xx is success, 410 is final, and redirects are not followed.
func TestAnswersOfADestination(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	w.sink.answerWith(func(r *received) int {
		code, err := strconv.Atoi(r.eventID())
		if err != nil || r.header.Get("Hookonce-Attempt") != "1" {
			return http.StatusOK
		}
		return code
	})
	g := w.start(t)
	for code, want := range map[string]struct {
		state    string
		requests int
	}{
		"200": {"done", 1}, "204": {"done", 1}, "301": {"done", 2}, "307": {"done", 2}, "400": {"done", 2},
		"404": {"done", 2}, "410": {"dead", 1}, "429": {"done", 2}, "503": {"done", 2},
	} {
		g.expect(t, newDelivery("bare", `{"id":"`+code+`"}`), "200 ok")
		g.waitState(t, "bare", code, want.state)
		if got := w.sink.requests(code); len(got) != want.requests {
			t.Errorf("a destination that answers %s first got %d requests, want %d", code, len(got), want.requests)
		}
	}
}

const routeSettings = `
database: ${DATABASE_URL}
sources:
  github: {provider: github, secrets: ["${GITHUB_SECRET}"]}
  stripe: {provider: stripe, secrets: ["${STRIPE_SECRET}"]}
destinations:
  billing: {url: "${SINK}/billing", secret: "${DESTINATION_SECRET}"}
  audit: {url: "${SINK}/audit"}
routes:
  - name: invoices
    sources: [stripe]
    types: ["invoice.*", "charge.refunded"]
    to: billing
  - name: live
    sources: [stripe]
    where: 'body.livemode == true && body.type != "quiet"'
    to: audit
  - name: pushes
    sources: [github]
    types: [push]
    url: ${SINK}/inline
    retry: {attempts: 3, first: 50ms, max: 100ms}
`

func TestRoutes(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, routeSettings)
		g := w.start(t)
		now := time.Now()
		test := func(id, kind string) *delivery {
			return stripeDelivery(now, `{"id":"`+id+`","type":"`+kind+`","livemode":false}`)
		}
		for _, c := range []struct {
			id    string
			d     *delivery
			paths []string
		}{
			{"evt_both", stripeDelivery(now, stripeBody("evt_both", "invoice.paid")), []string{"/audit", "/billing"}},
			{"evt_live", stripeDelivery(now, stripeBody("evt_live", "customer.created")), []string{"/audit"}},
			{"evt_refund", test("evt_refund", "charge.refunded"), []string{"/billing"}},
			{"evt_prefix", test("evt_prefix", "charge.refunded.twice"), nil},
			{"evt_quiet", stripeDelivery(now, stripeBody("evt_quiet", "quiet")), nil},
			{"evt_test", test("evt_test", "customer.created"), nil},
			{"gh-1", push("gh-1"), []string{"/inline"}},
			{"gh-2", githubDelivery("gh-2", "ping", `{"zen":"x"}`), nil},
		} {
			g.expect(t, c.d, "200 ok")
			detail := g.waitState(t, c.d.source, c.id, "done")
			var paths []string
			ids := make(map[string]bool)
			for _, r := range w.sink.requests(c.id) {
				paths = append(paths, r.path)
				ids[r.id()] = true
				if signed := r.header.Get("Webhook-Signature") != ""; signed != (r.path == "/billing") {
					t.Errorf("%s to %s: signed: %t", c.id, r.path, signed)
				}
			}
			slices.Sort(paths)
			if diff := cmp.Diff(c.paths, paths); diff != "" {
				t.Errorf("%s: destinations (-want +got):\n%s", c.id, diff)
			}
			if len(ids) != len(c.paths) {
				t.Errorf("%s: %d webhook-ids for %d destinations", c.id, len(ids), len(c.paths))
			}
			wantNote := ""
			if c.paths == nil {
				wantNote = "no route"
			}
			if detail.Note != wantNote {
				t.Errorf("%s: note %q, want %q", c.id, detail.Note, wantNote)
			}
		}
		if got := len(g.events(t, "note=no+route")); got != 4 {
			t.Errorf("%d events are listed with the note no route, want 4", got)
		}
	})
}

// A destination that is down does not delay another.
func TestDestinationsAreIndependent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), routeSettings)
	w.sink.answerWith(func(r *received) int {
		if r.path == "/audit" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	g := w.start(t)
	g.expect(t, stripeDelivery(time.Now(), stripeBody("evt_1", "invoice.paid")), "200 ok")
	g.eventually(t, "one message is sent, the other waits for its retry", func() bool {
		detail := g.event(t, "stripe", "evt_1")
		states := make(map[string]string)
		for _, m := range detail.Messages {
			states[m.Destination] = fmt.Sprint(m.State, " ", m.Attempts)
		}
		return detail.State == "running" && states["billing"] == "sent 1" && states["audit"] == "pending 1"
	})
}
