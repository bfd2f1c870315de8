package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/observe"
)

// The values of the labels outcome, of deliveries and attempts, and code.
var (
	deliveryOutcomes = tell.DeliveryOutcomes()
	// messageAttempts are the outcomes of attempts to send, each with its code. "none" is the code of
	// an attempt without an HTTP answer.
	messageAttempts = [][2]string{
		{"sent", "2xx"},
		{"skipped", noCode},
		{"retry", "2xx"},
		{"retry", "3xx"},
		{"retry", "4xx"},
		{"retry", "5xx"},
		{"retry", noCode},
		{"dead", "3xx"},
		{"dead", "4xx"},
		{"dead", "5xx"},
		{"dead", noCode},
	}
	prunedKinds = []string{"events", "bodies", "quarantined"}
)

const (
	ofMessage = "message"
	noCode    = "none"
)

// Observer returns the observer for the engine.
func (m *Metrics) Observer() *observe.Observer {
	return &observe.Observer{
		Direct:   true,
		Delivery: m.observeDelivery, Claim: m.observeClaim, Attempt: m.observeAttempt, Operated: m.observeOperated, Pruned: m.observePruned,
		Reconciled: m.observeReconciled,
		RowRefused: func(r observe.RowRefused) {
			m.refusedRows.WithLabelValues(m.sources.of(r.Source), m.destinations.of(r.Destination)).Inc()
		},
		Barred: func(destination string) { m.barred.WithLabelValues(m.destinations.of(destination)).Inc() },
	}
}

func (m *Metrics) observeDelivery(d observe.Delivery) {
	source := m.sources.of(d.Source)
	m.deliveries.WithLabelValues(source, d.Outcome).Inc()
	if d.Reason != "" {
		m.refused.WithLabelValues(source, d.Reason).Inc()
	}
	if source == "" {
		return
	}
	measure(m.ack.WithLabelValues(source), d.Took, d.TraceID)
	if d.Events > 0 {
		m.lastEvent.WithLabelValues(source).Set(float64(time.Now().UnixMilli()) / 1e3)
	}
	add(m.reopened, d.Reopened, source)
	add(m.other, d.OtherBodies, source)
	add(m.lost, d.Unrouted, source)
	add(m.unordered, d.Unordered, source)
	add(m.dead, d.Undecided, source, "")
}

// measure adds a duration, with the trace as its exemplar if there is one.
func measure(h prometheus.Observer, took time.Duration, traceID string) {
	if with, ok := h.(prometheus.ExemplarObserver); ok && traceID != "" {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	h.Observe(took.Seconds())
}

// add adds n to a counter. It does nothing for 0, which is most frequent.
func add(vec *prometheus.CounterVec, n int, values ...string) {
	if n > 0 {
		vec.WithLabelValues(values...).Add(float64(n))
	}
}

func (m *Metrics) observeClaim(c observe.Claim) {
	m.claim.Observe(c.Took.Seconds())
	m.claimSize.Observe(float64(c.Size))
}

func (m *Metrics) observeAttempt(a observe.Attempt) {
	source, destination, code := m.sources.of(a.Source), m.destinations.of(a.Destination), codeClass(a.StatusCode)
	m.attempts.WithLabelValues(a.Kind, destination, a.Outcome, code).Inc()
	if a.Took > 0 {
		measure(m.attempt.WithLabelValues(a.Kind, destination, a.Outcome, code), a.Took, a.TraceID)
	}
	switch {
	case a.Outcome == "skipped":
		m.stale.WithLabelValues(source).Inc()
	case a.Outcome == "dead" && a.Kind == ofMessage:
		m.dead.WithLabelValues("", destination).Inc()
	case a.Outcome == "dead":
		m.dead.WithLabelValues(source, "").Inc()
	}
}

func codeClass(status int) string {
	if status < 100 || status > 599 {
		return noCode
	}
	return strconv.Itoa(status/100) + "xx"
}

func (m *Metrics) observeOperated(o observe.Operated) {
	to := m.replayed
	if o.Action == "discarded" {
		to = m.discarded
	}
	add(to, o.Count, m.sources.of(o.Source))
}

func (m *Metrics) observeReconciled(r observe.Reconciled) {
	source := m.sources.of(r.Source)
	add(m.reconciled, r.Claimed, source)
	if r.Err != nil {
		m.reconcileFailures.WithLabelValues(source).Inc()
	}
}

func (m *Metrics) observePruned(p observe.Pruned) {
	for i, n := range []int64{p.Events, p.Bodies, p.Quarantined} {
		add(m.pruned, int(n), prunedKinds[i])
	}
}
