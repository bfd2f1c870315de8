package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	hookonce "github.com/hookonce/hookonce"
)

// A series that appears with its first event has no earlier value, so a rate or an increase misses
// that event. The functions below make the series that can be foreseen.

// add adds n to a counter, and makes its series if n is 0.
func add(vec *prometheus.CounterVec, n int, values ...string) {
	vec.WithLabelValues(values...).Add(float64(n))
}

func (m *Metrics) deliveryZeros() {
	add(m.deliveries, 0, "", "refused") // an unknown path
	add(m.refused, 0, "", "unknown_source")
	for _, source := range m.sources.values() {
		for _, outcome := range deliveryOutcomes {
			add(m.deliveries, 0, source, outcome)
		}
		for _, reason := range hookonce.RefusalReasons() {
			if reason != "unknown_source" {
				add(m.refused, 0, source, reason)
			}
		}
		for _, vec := range []*prometheus.CounterVec{m.reopened, m.replayed, m.discarded, m.stale, m.other, m.lost} {
			add(vec, 0, source)
		}
		add(m.dead, 0, source, "")
		m.ack.WithLabelValues(source)
		m.lastEvent.WithLabelValues(source)
	}
}

func (m *Metrics) workZeros() {
	for _, destination := range m.destinations.values() {
		add(m.dead, 0, "", destination)
		for _, a := range messageAttempts {
			add(m.attempts, 0, ofMessage, destination, a[0], a[1])
		}
		// The other outcomes have their histograms once they occur: each is 15 series.
		m.attempt.WithLabelValues(ofMessage, destination, "sent", "2xx")
	}
	for _, kind := range prunedKinds {
		add(m.pruned, 0, kind)
	}
}

func (m *Metrics) storeZeros() {
	for _, op := range operations {
		m.store.WithLabelValues(op)
		for _, class := range errorClasses {
			add(m.storeErrors, 0, op, class.name)
		}
	}
}
