package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpCanary is a credential for the collector.
const otlpCanary = "otlp-canary-c2VjcmV0"

// traceCollector is an OTLP collector.
type traceCollector struct {
	server *httptest.Server

	mu       sync.Mutex
	spans    []*otlp.Span
	services map[string]bool
	raw      strings.Builder // all requests in text form
	headers  http.Header     // of the last request
}

func newTraceCollector(t testing.TB) *traceCollector {
	c := &traceCollector{services: map[string]bool{}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

// environment returns the variables that make a gateway export to c.
func (c *traceCollector) environment() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.server.URL, "OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_SERVICE_NAME=gateway-1",
		"OTEL_EXPORTER_OTLP_HEADERS=x-key=" + otlpCanary,
	}
}

func (c *traceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header
	c.raw.WriteString(request.String())
	for _, of := range request.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				c.services[a.Value.GetStringValue()] = true
			}
		}
		for _, s := range of.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// named returns the spans of a name with an attribute; any for "".
func (c *traceCollector) named(name, attribute, value string) (found []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == "hookonce "+name && (attribute == "" || attributeOf(s, attribute) == value) {
			found = append(found, s)
		}
	}
	return found
}

func attributeOf(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

const (
	senderTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	senderSpan  = "00f067aa0ba902b7"
)

// One trace leads from the sender to the attempt, although the gateway is killed in between.
func TestTraceFromDeliveryToAttempt(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		traces := newTraceCollector(t)
		w := newWorld(t, db, standardSettings)
		w.env = append(w.env, traces.environment()...)
		w.sink.answerWith(func(*received) int { return http.StatusServiceUnavailable })
		g := w.start(t)
		g.expect(t, push("gh-1").with("Traceparent", "00-"+senderTrace+"-"+senderSpan+"-01").with("Tracestate", "vendor=1"), "200 ok")
		failed := w.sink.next(t)
		g.Eventually(t, "the receiving and the first attempt are exported", func() bool {
			return len(traces.named("receive", "", "")) > 0 && len(traces.named("attempt", "hookonce.outcome", "retry")) > 0
		})
		var line string // it may come after the span
		g.Eventually(t, "the first attempt is in the log", func() bool {
			line = lineWith(g.Log(), "sending failed; retrying")
			return line != ""
		})
		if !strings.Contains(line, `"trace_id":"`+senderTrace+`"`) {
			t.Errorf("the log line of the attempt lacks the trace id: %s", line)
		}
		g.kill()
		w.sink.answerWith(func(*received) int { return http.StatusOK })
		g = w.start(t)
		g.waitState(t, "github", "gh-1", "done")
		g.Eventually(t, "the last attempt is exported", func() bool { return len(traces.named("attempt", "hookonce.outcome", "sent")) > 0 })

		receive, sent := traces.named("receive", "", "")[0], traces.named("attempt", "hookonce.outcome", "sent")[0]
		if hex.EncodeToString(receive.ParentSpanId) != senderSpan || hex.EncodeToString(receive.TraceId) != senderTrace {
			t.Errorf("receive has trace %x and parent %x, want those of the sender", receive.TraceId, receive.ParentSpanId)
		}
		if got := attributeOf(receive, "hookonce.event_id"); got != "gh-1" || attributeOf(receive, "hookonce.source") != "github" {
			t.Errorf("receive has the event id %q, and attributes %v", got, receive.Attributes)
		}
		for _, name := range []string{"verify", "claim", "attempt"} {
			for _, s := range traces.named(name, "", "") {
				if string(s.TraceId) != string(receive.TraceId) || string(s.ParentSpanId) != string(receive.SpanId) {
					t.Errorf("%s has trace %x and parent %x, want %x and %x", name, s.TraceId, s.ParentSpanId, receive.TraceId, receive.SpanId)
				}
				if s.EndTimeUnixNano < s.StartTimeUnixNano || s.StartTimeUnixNano < receive.StartTimeUnixNano {
					t.Errorf("%s lasts from %d to %d, and receive began at %d", name, s.StartTimeUnixNano, s.EndTimeUnixNano, receive.StartTimeUnixNano)
				}
			}
		}
		all := w.sink.requests("gh-1")
		last := all[len(all)-1]
		want := "00-" + senderTrace + "-" + hex.EncodeToString(sent.SpanId) + "-01"
		if got := last.header.Get("Traceparent"); got != want || last.header.Get("Tracestate") != "vendor=1" {
			t.Errorf("the destination got %s and %q, want %s", got, last.header.Get("Tracestate"), want)
		}
		if failed.header.Get("Traceparent") == last.header.Get("Traceparent") {
			t.Error("two attempts have one span")
		}
		if !traces.services["gateway-1"] || traces.headers.Get("X-Key") != otlpCanary {
			t.Errorf("services %v, key %q", traces.services, traces.headers.Get("X-Key"))
		}
	})
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// A forged delivery does not continue the trace that it names: its span has a link.
func TestTraceOfARefusedDelivery(t *testing.T) {
	t.Parallel()
	traces := newTraceCollector(t)
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	w.env = append(w.env, traces.environment()...)
	g := w.start(t)
	g.expect(t, push("gh-1").with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)).
		with("Traceparent", "00-"+senderTrace+"-"+senderSpan+"-01"), "401")
	g.Eventually(t, "its span is exported", func() bool { return len(traces.named("receive", "hookonce.reason", "signature_wrong")) == 1 })
	s := traces.named("receive", "", "")[0]
	if hex.EncodeToString(s.TraceId) == senderTrace || len(s.ParentSpanId) > 0 || len(s.Links) != 1 || hex.EncodeToString(s.Links[0].TraceId) != senderTrace {
		t.Errorf("trace %x, parent %x, links %v; want a trace of its own and a link", s.TraceId, s.ParentSpanId, s.Links)
	}
}

// A collector that is away, or that fails, disturbs nothing, and is mentioned in the log.
func TestFailingCollector(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.NotFoundHandler())
	url := strings.Replace(away.URL, "http://", "http://user:"+otlpCanary+"@", 1)
	away.Close()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	w.env = append(w.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_EXPORTER_OTLP_TIMEOUT=200")
	g := w.start(t)
	for _, id := range []string{"gh-1", "gh-2", "gh-3"} {
		g.expect(t, push(id), "200 ok")
		g.waitState(t, "github", id, "done")
	}
	g.Eventually(t, "the log mentions the failure", func() bool { return strings.Contains(g.Log(), "exporting traces failed") })
	g.stop(t)
	if text := g.Log(); strings.Contains(text, otlpCanary) {
		t.Errorf("the log holds the credential of the collector:\n%s", text)
	}
}

func TestTraceSettingsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	env := w.env
	for _, tt := range []struct{ variable, want string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "http/protobuf"},
		{"OTEL_EXPORTER_OTLP_HEADERS=" + otlpCanary, "name=value"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlpCanary + ":4318", "not a URL"},
		{"OTEL_TRACES_EXPORTER=zipkin", "otlp and none"},
	} {
		w.env = append(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/v1/traces", tt.variable)
		out := w.run(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		if out.code != 1 || !strings.Contains(out.stderr, tt.want) || strings.Contains(out.stderr, otlpCanary) {
			t.Errorf("%s: code %d, want 1 and %q: %s", tt.variable, out.code, tt.want, out.stderr)
		}
	}
}
