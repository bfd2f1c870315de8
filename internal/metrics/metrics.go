package metrics

import (
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// Metrics are the metrics of one gateway, or of the engine of another program. All methods may be called concurrently.
type Metrics struct {
	registry              *prometheus.Registry
	sources, destinations labels

	deliveries, refused                                          *prometheus.CounterVec
	ack                                                          *prometheus.HistogramVec
	lastEvent                                                    *prometheus.GaugeVec
	claim, claimSize                                             prometheus.Histogram
	attempts                                                     *prometheus.CounterVec
	attempt                                                      *prometheus.HistogramVec
	dead, barred, refusedRows                                    *prometheus.CounterVec
	reopened, replayed, discarded, stale, other, lost, unordered *prometheus.CounterVec
	reconciled, reconcileFailures                                *prometheus.CounterVec
	store                                                        *prometheus.HistogramVec
	storeErrors, pruned                                          *prometheus.CounterVec
	reloadWorked, reloadedAt                                     prometheus.Gauge
	certificate                                                  *prometheus.GaugeVec
	certificateFailures, handshakeErrors                         *prometheus.CounterVec

	// StreamClients is the number of clients that follow the live event stream.
	StreamClients prometheus.Gauge

	database *database // nil before Watch
	settling sync.Mutex
}

// ForEngine returns the metrics of an engine alone: those that an Observer and the database tell.
func ForEngine() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.makeOfDeliveries()
	m.makeOfWork()
	return m
}

// New returns the metrics of a gateway that starts with valid settings. version and revision are
// those of the program.
func New(version, revision string) *Metrics {
	m := ForEngine()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.store = m.histograms("store_seconds", "Duration of a call of the database.", secondsOfAnswer, "op")
	m.storeErrors = m.counters("store_errors_total", "Calls of the database that failed.", "op", "class")
	m.makeOfTLS()
	info := m.gauges("build_info", "Always 1; the labels tell the version.", "version", "revision", "goversion")
	info.WithLabelValues(version, revision, runtime.Version()).Set(1)
	m.StreamClients = m.gauge("stream_clients", "Clients that follow the live event stream of this gateway.")
	m.reloadWorked = m.gauge("config_last_reload_successful", "1 if the last reading of the settings succeeded, otherwise 0.")
	m.reloadedAt = m.gauge("config_last_reload_success_timestamp_seconds", "When settings were read successfully the last time, as Unix time.")
	m.Reloaded(true)
	m.storeZeros()
	return m
}

func (m *Metrics) makeOfDeliveries() {
	m.deliveries = m.counters("deliveries_total", "Answered deliveries.", "source", "outcome")
	m.refused = m.counters("refused_total", "Refused deliveries.", "source", "reason")
	m.ack = m.histograms("ack_seconds", "Time from the first byte of a delivery to its answer.", secondsOfAnswer, "source")
	m.lastEvent = m.gauges("source_last_event_timestamp_seconds",
		"When this gateway accepted the last delivery of the source, as Unix time; 0 if it did not.", "source")
	m.claim = m.histogram("claim_seconds", "Duration of a statement that claims a batch of events.", secondsOfAnswer)
	m.claimSize = m.histogram("claim_batch_size", "Events in a statement that claims.", prometheus.ExponentialBuckets(1, 2, 11))
	m.reopened = m.counters("reopened_total", "Dead events that a delivery reopened.", "source")
	m.other = m.counters("other_body_total", "Duplicates whose body differs from the first one.", "source")
	m.unordered = m.counters("unordered_total", "New messages of routes, and events of handlers, with an order whose key or version is missing.", "source")
	m.reconciled = m.counters("reconciled_total", "Events that never arrived by webhook, which this gateway claimed from the provider's list.", "source")
	m.reconcileFailures = m.counters("reconcile_failures_total", "Times that this gateway could not read the provider's list of events.", "source")
	m.lost = m.counters("unrouted_total", "New events that matched no route and have no consumer.", "source")
}

func (m *Metrics) makeOfWork() {
	m.attempts = m.counters("attempts_total", "Attempts to send messages, and runs of handlers.", "kind", "destination", "outcome", "code")
	m.attempt = m.histograms("attempt_seconds", "Duration of an attempt.", secondsOfAttempt, "kind", "destination", "outcome", "code")
	m.dead = m.counters("dead_letters_total", "Events (source) and messages (destination) that became dead in this gateway.", "source", "destination")
	m.barred = m.counters("connections_barred_total", "Times that a destination lost its kept connections for an hour.", "destination")
	m.refusedRows = m.counters("refused_rows_total",
		"Times that the database refused to change the row of an event (source) or a message (destination), which rests then.", "source", "destination")
	m.replayed = m.counters("replayed_total", "Events and dead letters that an operator replayed through this gateway.", "source")
	m.discarded = m.counters("discarded_total", "Dead letters that an operator discarded through this gateway.", "source")
	m.stale = m.counters("stale_total", "Messages and events that were skipped because a newer version was applied.", "source")
	m.pruned = m.counters("pruned_total", "Rows that this gateway pruned.", "kind")
}

// Registry has all metrics.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, // for exemplars
	})
}

// Watched is the gateway as the metrics see it.
type Watched struct {
	Engine *hookonce.Engine
	Store  driver.Store
	// OneClock says that the database has no clock of its own.
	OneClock bool
}

// Watch adds the metrics that are read from the engine and from the database. Call it once, before
// Handler.
func (m *Metrics) Watch(w Watched) {
	m.database = &database{Watched: w, metrics: m}
	m.registry.MustRegister(m.database, &status{Watched: w, metrics: m})
	m.Settle()
}

// Reloaded says whether a reading of the settings succeeded.
func (m *Metrics) Reloaded(worked bool) {
	if !worked {
		m.reloadWorked.Set(0)
		return
	}
	m.reloadWorked.Set(1)
	m.reloadedAt.Set(float64(time.Now().UnixMicro()) / 1e6)
}

// Expect makes room for the names of new settings, before a reload applies them: from then on they
// may occur. Settle follows, whether the reload succeeds or not.
func (m *Metrics) Expect(settings *hookonce.Config) {
	for i := range settings.Sources {
		m.sources.add(settings.Sources[i].Name)
	}
	for i := range settings.Destinations {
		m.destinations.add(settings.Destinations[i].Name)
	}
}

// Settle gives each source and destination of the engine its metrics, at 0, and removes those of all
// others.
func (m *Metrics) Settle() {
	m.settling.Lock()
	defer m.settling.Unlock()
	var sources, destinations []string
	for _, s := range m.database.Engine.Operator().Sources() {
		sources = append(sources, s.Name)
	}
	for _, d := range m.database.Engine.Operator().Destinations() {
		destinations = append(destinations, d.Name)
	}
	forget(m.sources.set(sources), "source", m.ofSources()...)
	forget(m.destinations.set(destinations), "destination", m.dead.MetricVec, m.refusedRows.MetricVec, m.barred.MetricVec, m.attempts.MetricVec, m.attempt.MetricVec)
	m.deliveryZeros()
	m.workZeros()
	m.database.expire()
}

func (m *Metrics) ofSources() []*prometheus.MetricVec {
	return []*prometheus.MetricVec{
		m.deliveries.MetricVec, m.refused.MetricVec, m.ack.MetricVec, m.lastEvent.MetricVec, m.dead.MetricVec, m.refusedRows.MetricVec, m.reopened.MetricVec,
		m.replayed.MetricVec, m.discarded.MetricVec, m.stale.MetricVec, m.other.MetricVec, m.lost.MetricVec, m.unordered.MetricVec, m.reconciled.MetricVec, m.reconcileFailures.MetricVec,
	}
}

func forget(values []string, label string, vecs ...*prometheus.MetricVec) {
	for _, value := range values {
		for _, vec := range vecs {
			vec.DeletePartialMatch(prometheus.Labels{label: value})
		}
	}
}
