package hookmetrics_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmetrics"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/metrics"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// ofGateway are the beginnings of names that only the gateway has.
var ofGateway = []string{"build_info", "config_", "stream_clients", "store_", "tls_"}

// A program has the gateway's metrics under the gateway's names, in a registry that has Go's, too.
func TestCollector(t *testing.T) {
	t.Parallel()
	source := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more")}
	store := rig.OpenSQLite(t)
	m := hookmetrics.New()
	cfg := &hookonce.Config{Sources: []hookonce.Source{source}, Observer: m.Observer(), Logger: slog.New(slog.DiscardHandler)}
	in, err := hookonce.New(store, nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), m.Collector(in.Engine, store))
	for range 2 {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, hooktest.NewRequest(t, source, "{}", hooktest.WithEventType("push"), hooktest.WithEventID("d1")))
		if w.Code != http.StatusOK {
			t.Fatalf("answered %d %s", w.Code, w.Body)
		}
	}
	if err := m.Reload(in.Engine, &hookonce.Config{Sources: []hookonce.Source{source, {
		Name: "later", Provider: provider.GitHub, Secrets: source.Secrets,
	}}}); err != nil {
		t.Fatal(err)
	}

	got := namesOf(t, registry)
	if n := deliveries(t, registry, "gh", "ok"); n != 1 {
		t.Errorf("%v new deliveries, want 1", n)
	}
	if n := deliveries(t, registry, "gh", "duplicate"); n != 1 {
		t.Errorf("%v duplicates, want 1", n)
	}
	if n := deliveries(t, registry, "later", "ok"); n != 0 {
		t.Errorf("the new source has %v deliveries, want its metric at 0", n)
	}

	gateway := metrics.New("", "")
	gateway.Watch(metrics.Watched{Engine: in.Engine, Store: store})
	want := slices.DeleteFunc(namesOf(t, gateway.Registry()), func(name string) bool {
		return slices.ContainsFunc(ofGateway, func(begin string) bool { return strings.HasPrefix(name, "hookonce_"+begin) })
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-gateway +program):\n%s", diff)
	}
}

// namesOf returns the names of the metrics of hookonce.
func namesOf(t *testing.T, from prometheus.Gatherer) (names []string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "hookonce_") {
			names = append(names, f.GetName())
		}
	}
	return names
}

// deliveries returns the value of a counter; -1 if there is none.
func deliveries(t *testing.T, from prometheus.Gatherer, source, outcome string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "hookonce_deliveries_total" && labels["source"] == source && labels["outcome"] == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}
