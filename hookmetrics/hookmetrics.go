// Package hookmetrics gives Prometheus the metrics of a program that uses the library, under the gateway's
// names. So the gateway's alerts and its board in Grafana serve such programs, too. docs/observability.md
// lists the metrics. Those of the gateway alone are missing: of its settings, certificates, event stream and
// build, and the durations and errors of the calls of the database.
//
//	metrics := hookmetrics.New()
//	in, err := hookonce.New(db, mux, &hookonce.Config{Observer: metrics.Observer(), …})
//	…
//	prometheus.MustRegister(metrics.Collector(in.Engine, db))
package hookmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/metrics"
	"github.com/hookonce/hookonce/observe"
)

// Metrics are the metrics of one Inbox or Engine. All methods may be called concurrently.
type Metrics struct{ all *metrics.Metrics }

// New returns metrics that count nothing yet.
func New() *Metrics { return &Metrics{metrics.ForEngine()} }

// Observer returns the Observer for hookonce.Config, which counts.
func (m *Metrics) Observer() *observe.Observer { return m.all.Observer() }

// Collector returns the collector of in, which has the Observer of m, on its database. Call it once. A
// scrape asks the database for its backlog, at most every 15 s and for 5 s.
func (m *Metrics) Collector(in *hookonce.Engine, store driver.Store) prometheus.Collector {
	m.all.Watch(metrics.Watched{Engine: in, Store: store})
	return m.all.Registry()
}

// Reload is in.Reload, and gives new sources and destinations their metrics. Call it after Collector.
func (m *Metrics) Reload(in *hookonce.Engine, cfg *hookonce.Config) error {
	m.all.Expect(cfg)
	defer m.all.Settle()
	return in.Reload(cfg)
}
