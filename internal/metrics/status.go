package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// status collects the metrics that the engine and the pools answer from memory, and whether the engine is ready.
type status struct {
	Watched
	metrics *Metrics
}

var (
	ackTimeout      = described("ack_timeout_seconds", "Time within which a delivery is answered.", "source")
	dedupeWindow    = described("dedupe_window_seconds", "How long the identity of an event stays claimed.", "source")
	providerRetry   = described("provider_retry_seconds", "How long the provider repeats a delivery; 0 if unknown.", "source")
	readyGauge      = described("ready", "1 while this gateway can claim deliveries, otherwise 0.")
	circuitOpen     = described("circuit_open", "1 while this gateway only probes the destination, otherwise 0.", "destination")
	poolConnections = described("pool_connections", "Connections to the database, and their largest number (max).", "state")
)

// Describe implements prometheus.Collector.
func (s *status) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{ackTimeout, dedupeWindow, providerRetry, readyGauge, circuitOpen, poolConnections} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *status) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	for _, source := range s.Engine.Operator().Sources() {
		if s.metrics.sources.of(source.Name) != source.Name {
			continue // the others have no common value
		}
		gauge(ackTimeout, source.AckTimeout.Seconds(), source.Name)
		gauge(dedupeWindow, source.DedupeWindow.Seconds(), source.Name)
		gauge(providerRetry, source.ProviderRetries.Seconds(), source.Name)
	}
	open := map[string]float64{}
	for _, d := range s.Engine.Operator().Destinations() {
		value := s.metrics.destinations.of(d.Name)
		open[value] = max(open[value], truth(d.Circuit.Open))
	}
	for value, is := range open {
		gauge(circuitOpen, is, value)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	to <- prometheus.MustNewConstMetric(readyGauge, prometheus.GaugeValue, truth(s.Engine.Ready(ctx) == nil))
	pool := s.Store.Pool()
	gauge(poolConnections, float64(pool.InUse), "in_use")
	gauge(poolConnections, float64(pool.Idle), "idle")
	gauge(poolConnections, float64(pool.Max), "max")
}

// readyTimeout bounds the question whether the engine is ready, in a scrape.
const readyTimeout = 2 * time.Second

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
