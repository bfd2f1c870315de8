package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookonce/hookonce/internal/tell"
)

// A series that appears with its first event has no earlier value, so a rate or an increase misses
// that event. The functions below make the series that can be foreseen.

func zero(vec *prometheus.CounterVec, values ...string) { vec.WithLabelValues(values...) }

func (m *Metrics) deliveryZeros() {
	zero(m.deliveries, "", "refused") // an unknown path
	zero(m.refused, "", "unknown_source")
	for _, source := range m.sources.values() {
		for _, outcome := range deliveryOutcomes {
			zero(m.deliveries, source, outcome)
		}
		for _, reason := range tell.Reasons() {
			if reason != "unknown_source" {
				zero(m.refused, source, reason)
			}
		}
		for _, vec := range []*prometheus.CounterVec{m.reopened, m.replayed, m.discarded, m.stale, m.other, m.lost, m.unordered, m.reconciled, m.reconcileFailures} {
			zero(vec, source)
		}
		zero(m.dead, source, "")
		zero(m.refusedRows, source, "")
		m.ack.WithLabelValues(source)
		m.lastEvent.WithLabelValues(source)
	}
}

func (m *Metrics) workZeros() {
	for _, destination := range m.destinations.values() {
		zero(m.dead, "", destination)
		zero(m.refusedRows, "", destination)
		zero(m.barred, destination)
		for _, a := range messageAttempts {
			zero(m.attempts, ofMessage, destination, a[0], a[1])
		}
		// The other outcomes have their histograms once they occur: each is 15 series.
		m.attempt.WithLabelValues(ofMessage, destination, "sent", "2xx")
	}
	for _, kind := range prunedKinds {
		zero(m.pruned, kind)
	}
}

func (m *Metrics) storeZeros() {
	for _, op := range operations() {
		m.store.WithLabelValues(op)
		for _, class := range errorClasses {
			zero(m.storeErrors, op, class.name)
		}
	}
}
