package e2e

import (
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
	anyStore(t, func(t *testing.T, db *database) {
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

const routeSettings = `
database: ${DATABASE_URL}
sources:
  github: {provider: github, secrets: ["${GITHUB_WEBHOOK_SECRET}"]}
  stripe: {provider: stripe, secrets: ["${STRIPE_WEBHOOK_SECRET}"]}
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
	anyStore(t, func(t *testing.T, db *database) {
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
