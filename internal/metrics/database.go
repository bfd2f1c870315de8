package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookonce/hookonce/driver"
)

const (
	// cachedFor is how long an answer of the database serves scrapes.
	cachedFor = 15 * time.Second
	// askTimeout bounds the questions of one scrape: Prometheus waits for 10 s by default.
	askTimeout = 5 * time.Second

	// The most rows that are counted for one number, and for all numbers of a kind together.
	maxCounted, maxCountedInAll = 10_000, 100_000
	minCounted                  = 100
)

// database collects the metrics that the database answers. It asks at most once in cachedFor,
// and only if somebody scrapes. If the database does not answer, the last figures stand.
type database struct {
	Watched
	metrics *Metrics

	mu     sync.Mutex
	asked  time.Time // guarded by mu, like last and offset
	last   driver.Backlog
	offset time.Duration
}

var (
	eventsPending   = described("events_pending", "Events that wait for a handler or an SQL consumer, counted up to a limit.", "source")
	eventsOldest    = described("events_oldest_pending_seconds", "How long the oldest pending event has been due.", "source")
	messagesPending = described("messages_pending", "Messages that wait or are being sent, counted up to a limit.", "destination")
	messagesOldest  = described("messages_oldest_due_seconds", "How long the oldest pending message has been due.", "destination")
	deadLetters     = described("dead_letters", "Events (source) and messages (destination) that are dead, counted up to a limit.", "source", "destination")
	heldLines       = described("held_lines", "Objects whose order waits at a dead letter, counted up to a limit.", "source", "destination")
	databaseBytes   = described("database_bytes", "Size of hookonce's tables and indexes, or of the SQLite file.")
	logBytes        = described("sqlite_log_bytes", "Size of SQLite's write-ahead log; 0 on PostgreSQL.")
	clockOffset     = described("clock_offset_seconds", "This machine's clock minus the database's.")
)

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (d *database) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{eventsPending, eventsOldest, messagesPending, messagesOldest, deadLetters, heldLines, databaseBytes, logBytes, clockOffset} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *database) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked.IsZero() || time.Since(d.asked) >= cachedFor {
		d.ask()
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for source, w := range d.grouped(&d.metrics.sources, d.last.Sources) {
		gauge(eventsPending, float64(w.Open), source)
		gauge(eventsOldest, d.age(w.OldestDueAt), source)
		gauge(deadLetters, float64(w.Dead), source, "")
		gauge(heldLines, float64(w.HeldLines), source, "")
	}
	for destination, w := range d.grouped(&d.metrics.destinations, d.last.Destinations) {
		gauge(messagesPending, float64(w.Open), destination)
		gauge(messagesOldest, d.age(w.OldestDueAt), destination)
		gauge(deadLetters, float64(w.Dead), "", destination)
		gauge(heldLines, float64(w.HeldLines), "", destination)
	}
	gauge(databaseBytes, float64(d.last.Bytes))
	gauge(logBytes, float64(d.last.LogBytes))
	gauge(clockOffset, d.offset.Seconds())
}

// ask asks the database. d.mu is held.
func (d *database) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	p := &driver.BacklogParams{}
	for _, s := range d.Engine.Operator().Sources() {
		p.Sources = append(p.Sources, s.Name)
	}
	for _, t := range d.Engine.Operator().Destinations() {
		p.Destinations = append(p.Destinations, t.Name)
	}
	p.Limit = min(max(maxCountedInAll/max(len(p.Sources), len(p.Destinations), 1), minCounted), maxCounted)
	// The errors are counted in store_errors_total.
	if b, err := d.Store.Backlog(ctx, p); err == nil {
		d.last = *b
	}
	if !d.OneClock {
		if skew, _, err := d.Engine.Operator().Clock(ctx); err == nil {
			d.offset = skew
		}
	}
	d.asked = time.Now()
}

// expire makes the next scrape ask.
func (d *database) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = time.Time{}
}

// age returns for how many seconds due is past, by the database's clock.
func (d *database) age(due time.Time) float64 {
	if due.IsZero() {
		return 0
	}
	return max(0, d.last.At.Sub(due).Seconds())
}

// grouped returns the work of each value of a label.
func (d *database) grouped(names *labels, all map[string]driver.Waiting) map[string]driver.Waiting {
	grouped := map[string]driver.Waiting{}
	for _, value := range names.values() {
		grouped[value] = driver.Waiting{}
	}
	for name, w := range all {
		value := names.of(name)
		sum, ok := grouped[value]
		if !ok {
			continue // a reload took the name away
		}
		sum.Open, sum.Dead, sum.HeldLines = sum.Open+w.Open, sum.Dead+w.Dead, sum.HeldLines+w.HeldLines
		if sum.OldestDueAt.IsZero() || !w.OldestDueAt.IsZero() && w.OldestDueAt.Before(sum.OldestDueAt) {
			sum.OldestDueAt = w.OldestDueAt
		}
		grouped[value] = sum
	}
	return grouped
}
