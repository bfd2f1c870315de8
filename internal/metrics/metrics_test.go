package metrics_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/metrics"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
)

const secret = "canary-4f1d0c8e5a"

// gateway is an engine on SQLite with its metrics.
type gateway struct {
	*metrics.Metrics
	engine *hookonce.Engine
	store  driver.Store
}

func newGateway(t testing.TB, store driver.Store, change func(*hookonce.Config)) *gateway {
	t.Helper()
	m := metrics.New("v1", "abc")
	m.ExpectTLS("hooks.example.com")
	g := &gateway{Metrics: m, store: m.Store(store)}
	cfg := settings()
	cfg.Observer, cfg.Logger = m.Observer(), slog.New(slog.DiscardHandler)
	if change != nil {
		change(cfg)
	}
	var err error
	if g.engine, err = hookonce.NewEngine(g.store, cfg); err != nil {
		t.Fatal(err)
	}
	m.Watch(metrics.Watched{Engine: g.engine, Store: g.store, OneClock: true})
	return g
}

func settings() *hookonce.Config {
	return &hookonce.Config{
		Sources: []hookonce.Source{
			{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)},
			{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}},
		},
		Destinations: []hookonce.Destination{{Name: "app", URL: "http://app:3000/" + secret}},
		Routes:       []hookonce.Route{{Name: "all", Sources: []string{"gh"}, To: "app"}},
	}
}

// deliver delivers a request of GitHub that is signed with the secret.
func (g *gateway) deliver(path, id, body, with string) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", "push")
	mac := hmac.New(sha256.New, []byte(with))
	mac.Write([]byte(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	g.engine.ServeHTTP(w, r)
	return w.Code
}

// scrape returns the samples by their series.
func (g *gateway) scrape(t *testing.T) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("the scrape was answered %d: %s", w.Code, w.Body)
	}
	samples := map[string]string{"": w.Body.String()}
	for line := range strings.Lines(w.Body.String()) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			samples[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return samples
}

func wantSamples(t *testing.T, got, want map[string]string) {
	t.Helper()
	for series, value := range want {
		if got[series] != value {
			t.Errorf("%s is %q, want %q", series, got[series], value)
		}
	}
}

// TestRefusedRows has a trigger that refuses to change a message.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	g := newGateway(t, store, nil)
	if _, err := store.Writer().ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE UPDATE ON hookonce_message
		BEGIN SELECT RAISE(ABORT, 'not this one'); END`); err != nil {
		t.Fatal(err)
	}
	g.deliver("/webhooks/gh", "1", "{}", secret)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.engine.Run(ctx) }()
	series := `hookonce_refused_rows_total{destination="app",source=""}`
	eventually.True(t, "the refused message is counted", func() bool { return g.scrape(t)[series] == "1" })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	g.Observer().RowRefused(observe.RowRefused{Source: "gh"})
	wantSamples(t, g.scrape(t), map[string]string{
		series: "1", `hookonce_refused_rows_total{destination="",source="gh"}`: "1", `hookonce_refused_rows_total{destination="",source="lab"}`: "0",
	})
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), nil)
	const path = "/webhooks/gh"
	g.deliver(path, "1", "{}", secret)
	g.deliver(path, "1", `{"other":1}`, secret)
	g.deliver(path, "2", "{}", "forged")
	g.deliver("/webhooks/"+secret, "3", "{}", secret)
	g.deliver("/webhooks/lab", "4", `{"id":1}`, secret)
	got := g.scrape(t)
	wantSamples(t, got, map[string]string{
		`hookonce_deliveries_total{outcome="ok",source="gh"}`:                            "1",
		`hookonce_deliveries_total{outcome="duplicate",source="gh"}`:                     "1",
		`hookonce_deliveries_total{outcome="refused",source="gh"}`:                       "1",
		`hookonce_deliveries_total{outcome="refused",source=""}`:                         "1",
		`hookonce_refused_total{reason="signature_wrong",source="gh"}`:                   "1",
		`hookonce_refused_total{reason="unknown_source",source=""}`:                      "1",
		`hookonce_ack_seconds_count{source="gh"}`:                                        "3",
		`hookonce_other_body_total{source="gh"}`:                                         "1",
		`hookonce_unrouted_total{source="gh"}`:                                           "0",
		`hookonce_unrouted_total{source="lab"}`:                                          "1",
		`hookonce_claim_batch_size_sum`:                                                  "3",
		`hookonce_messages_pending{destination="app"}`:                                   "1",
		`hookonce_events_pending{source="gh"}`:                                           "0",
		`hookonce_store_seconds_count{op="claim"}`:                                       "3",
		`hookonce_clock_offset_seconds`:                                                  "0",
		`hookonce_build_info{goversion="` + goVersion + `",revision="abc",version="v1"}`: "1",
		`hookonce_ack_timeout_seconds{source="gh"}`:                                      "3",
	})
	if at := got[`hookonce_source_last_event_timestamp_seconds{source="gh"}`]; at == "0" || at == "" {
		t.Errorf("the last event of gh is at %q, want a time", at)
	}
	if strings.Contains(got[""], secret) {
		t.Errorf("a secret, or the text of a client, is in the metrics")
	}
}

func TestAttemptsAndOperators(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), nil)
	o := g.Observer()
	o.Attempt(observe.Attempt{Kind: "message", Source: "gh", Destination: "app", Outcome: "sent", StatusCode: 204, Took: 1})
	o.Attempt(observe.Attempt{Kind: "message", Source: "gh", Destination: "app", Outcome: "dead"})
	o.Attempt(observe.Attempt{Kind: "message", Source: "gh", Destination: "app", Outcome: "skipped"})
	o.Attempt(observe.Attempt{Kind: "handler", Source: "gh", Outcome: "dead", Took: 1})
	o.Operated(observe.Operated{Action: "replayed", Source: "gh", Count: 3})
	o.Operated(observe.Operated{Action: "discarded", Source: "gh", Count: 4})
	o.Pruned(observe.Pruned{Events: 1, Bodies: 2, Quarantined: 3})
	o.Barred("app")
	o.Reconciled(observe.Reconciled{Source: "gh", Seen: 9, Missing: 8, Claimed: 7})
	o.Reconciled(observe.Reconciled{Source: "gh", Ended: true, Err: hookonce.ErrReconcileKey})
	o.Delivery(observe.Delivery{Source: "gh", Outcome: "reopened", Events: 2, Reopened: 2, Undecided: 5})
	wantSamples(t, g.scrape(t), map[string]string{
		`hookonce_attempts_total{code="2xx",destination="app",kind="message",outcome="sent"}`:         "1",
		`hookonce_attempts_total{code="none",destination="app",kind="message",outcome="dead"}`:        "1",
		`hookonce_attempts_total{code="5xx",destination="app",kind="message",outcome="retry"}`:        "0",
		`hookonce_reconciled_total{source="gh"}`:                                                      "7",
		`hookonce_reconcile_failures_total{source="gh"}`:                                              "1",
		`hookonce_connections_barred_total{destination="app"}`:                                        "1",
		`hookonce_attempt_seconds_count{code="2xx",destination="app",kind="message",outcome="sent"}`:  "1",
		`hookonce_attempt_seconds_count{code="none",destination="app",kind="message",outcome="dead"}`: "",
		`hookonce_dead_letters_total{destination="app",source=""}`:                                    "1",
		`hookonce_dead_letters_total{destination="",source="gh"}`:                                     "6",
		`hookonce_stale_total{source="gh"}`:                                                           "1",
		`hookonce_replayed_total{source="gh"}`:                                                        "3",
		`hookonce_discarded_total{source="gh"}`:                                                       "4",
		`hookonce_reopened_total{source="gh"}`:                                                        "2",
		`hookonce_pruned_total{kind="bodies"}`:                                                        "2",
	})
}

// A reload makes the metrics of new names, removes those of old ones, and keeps the counts of the
// others. A refused one changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), nil)
	g.deliver("/webhooks/gh", "1", "{}", secret)
	g.scrape(t)
	reload := func(change func(*hookonce.Config)) error {
		cfg := settings()
		change(cfg)
		g.Expect(cfg)
		err := g.engine.Reload(cfg)
		g.Settle()
		g.Reloaded(err == nil)
		return err
	}
	if err := reload(func(c *hookonce.Config) { c.Sources[0].Name, c.Routes[0].To = "new", "nowhere" }); err == nil {
		t.Fatal("settings with a route to nowhere were accepted")
	}
	wantSamples(t, g.scrape(t), map[string]string{
		`hookonce_deliveries_total{outcome="ok",source="gh"}`:  "1",
		`hookonce_deliveries_total{outcome="ok",source="new"}`: "",
		`hookonce_config_last_reload_successful`:               "0",
	})
	err := reload(func(c *hookonce.Config) {
		c.Sources[1].Name, c.Destinations = "lab2", append(c.Destinations, hookonce.Destination{Name: "audit", URL: "http://audit/"})
	})
	if err != nil {
		t.Fatal(err)
	}
	got := g.scrape(t)
	wantSamples(t, got, map[string]string{
		`hookonce_deliveries_total{outcome="ok",source="gh"}`:            "1",
		`hookonce_deliveries_total{outcome="unavailable",source="lab2"}`: "0",
		`hookonce_messages_pending{destination="app"}`:                   "1",
		`hookonce_messages_pending{destination="audit"}`:                 "0",
		`hookonce_circuit_open{destination="audit"}`:                     "0",
		`hookonce_dead_letters{destination="audit",source=""}`:           "0",
		`hookonce_dead_letters_total{destination="audit",source=""}`:     "0",
		`hookonce_dedupe_window_seconds{source="lab2"}`:                  "2.592e+06",
		`hookonce_config_last_reload_successful`:                         "1",
		`hookonce_ready`:                                                 "1",
	})
	if strings.Contains(got[""], `"lab"`) {
		t.Errorf("metrics of the removed source are still there")
	}
}

// Beyond 200, names share one value.
func TestManyNames(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Sources = nil
		c.Routes[0].Sources = nil
		for i := range 203 {
			c.Sources = append(c.Sources, hookonce.Source{
				Name: fmt.Sprintf("s%03d", i), Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret),
			})
		}
	})
	for _, source := range []string{"s199", "s200", "s201"} {
		g.deliver("/webhooks/"+source, "1", "{}", secret)
	}
	wantSamples(t, g.scrape(t), map[string]string{
		`hookonce_deliveries_total{outcome="ok",source="s199"}`:  "1",
		`hookonce_deliveries_total{outcome="ok",source="other"}`: "2",
		`hookonce_deliveries_total{outcome="ok",source="s200"}`:  "",
		`hookonce_events_pending{source="other"}`:                "0",
		`hookonce_events_pending{source="s201"}`:                 "",
		`hookonce_ack_timeout_seconds{source="s199"}`:            "3",
		`hookonce_ack_timeout_seconds{source="other"}`:           "",
	})
}

var row = regexp.MustCompile("^\\| `(hookonce_[a-z_]+)` \\| ([a-z]+) \\| ([a-z, –]+) \\|")

// The table of docs/observability.md has every metric with its type and labels, and no other. All of them
// exist before the first delivery.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, real []string
	for line := range bytes.Lines(page) {
		if m := row.FindSubmatch(line); m != nil {
			labels := strings.Split(strings.ReplaceAll(string(m[3]), "–", ""), ", ")
			slices.Sort(labels)
			documented = append(documented, fmt.Sprintf("%s %s %s", m[1], m[2], strings.Join(labels, " ")))
		}
	}
	families, err := newGateway(t, rig.OpenSQLite(t), nil).Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "hookonce_") {
			continue
		}
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		slices.Sort(labels)
		real = append(real, fmt.Sprintf("%s %s %s", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " ")))
		for _, one := range f.GetMetric() {
			if h := one.GetHistogram(); h != nil && (h.Schema == nil || len(h.GetBucket()) == 0) {
				t.Errorf("%s is not both a classic and a native histogram", f.GetName())
			}
		}
	}
	slices.Sort(documented)
	slices.Sort(real)
	if diff := cmp.Diff(documented, real); diff != "" {
		t.Errorf("metrics (-documented +real):\n%s", diff)
	}
	for _, reason := range tell.Reasons() {
		if !bytes.Contains(page, []byte("`"+reason+"`")) {
			t.Errorf("docs/observability.md lacks the reason %s", reason)
		}
	}
}

// Native histograms travel as protobuf, which Prometheus asks for.
func TestHandlerSpeaksProtobuf(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), nil)
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	if body, err := io.ReadAll(w.Body); err != nil || !bytes.Contains(body, []byte("hookonce_ack_seconds")) ||
		!strings.Contains(w.Header().Get("Content-Type"), "protobuf") {
		t.Errorf("got %d bytes of %s, error %v, want protobuf", len(body), w.Header().Get("Content-Type"), err)
	}
}

// Durations of a sampled trace have its id as their exemplar, for a scraper that asks for OpenMetrics.
func TestExemplars(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), nil)
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	observer := g.Observer()
	observer.Delivery(observe.Delivery{Source: "gh", Outcome: "ok", Took: time.Millisecond, TraceID: traceID})
	observer.Attempt(observe.Attempt{
		Kind: "message", Source: "gh", Destination: "app", Outcome: "sent", StatusCode: 200, Took: time.Millisecond, TraceID: traceID,
	})
	observer.Delivery(observe.Delivery{Source: "lab", Outcome: "ok", Took: time.Millisecond})
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	var with []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, `# {trace_id="`+traceID+`"}`) {
			with = append(with, line[:strings.IndexByte(line, '{')])
		}
	}
	want := []string{"hookonce_ack_seconds_bucket", "hookonce_attempt_seconds_bucket"}
	slices.Sort(with)
	if diff := cmp.Diff(want, with); diff != "" {
		t.Errorf("series with exemplars (-want +got):\n%s", diff)
	}
}
