// Package figures sums up deliveries, attempts, duplicates and claimed events in memory, with samples of the backlog, and adds the sums to the
// store from time to time. Counting costs a lock and a look-up in a map; no request waits for the
// database. The package also keeps refused requests until they are stored.
package figures

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// maxSums bounds the sums that wait to be written, about 4 MiB. A store that is away for hours
	// must not fill the memory.
	maxSums = 20_000
	// chunk bounds the figures of one commit. Each is a row in every resolution.
	chunk = 100
)

// Store is the part of driver.Store that takes figures.
type Store interface {
	AddFigures(ctx context.Context, p *driver.AddFiguresParams) error
}

// Sums hold the figures that are not written yet. Its methods may be called concurrently.
type Sums struct {
	store Store
	log   *slog.Logger

	writing sync.Mutex // held by Write

	mu      sync.Mutex
	pending map[key]*sum
	types   map[hour]int // the number of types among pending
	dropped int
}

// key is the identity of a sum. at is in seconds, at the beginning of a minute; of types, of an hour.
type key struct {
	of          driver.FigureKind
	at          int64
	name, label string
}

type sum struct {
	n       int64
	buckets [driver.FigureBuckets]int64
}

// hour is an hour of a source, as in key.
type hour struct {
	at     int64
	source string
}

// New returns empty sums.
func New(store Store, log *slog.Logger) *Sums {
	return &Sums{store: store, log: log, pending: make(map[key]*sum), types: make(map[hour]int)}
}

// Delivery counts a delivery that was answered at a time. source is "" if there is no such source.
// reason is "" unless the delivery was refused. took is 0 if it is unknown.
func (s *Sums) Delivery(at time.Time, source, outcome, reason string, took time.Duration) {
	minute := at.Unix() / 60 * 60
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key{driver.FigureDeliveries, minute, source, outcome}, took)
	if reason != "" {
		s.add(key{driver.FigureRefusals, minute, source, reason}, 0)
	}
}

// Attempt counts an attempt to send a message that ended at a time. took is 0 if nothing was sent.
func (s *Sums) Attempt(at time.Time, destination, outcome string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key{driver.FigureAttempts, at.Unix() / 60 * 60, destination, outcome}, took)
}

// Event counts an event that was claimed at a time.
func (s *Sums) Event(at time.Time, source, eventType string) {
	if len(eventType) > driver.MaxFigureText || !driver.IsText(eventType) {
		eventType = driver.OtherType
	}
	k := key{driver.FigureTypes, at.Unix() / 3600 * 3600, source, eventType}
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := (hour{k.at, source}); s.pending[k] == nil {
		if s.types[in] >= driver.MaxTypes {
			k.label = driver.OtherType
		} else {
			s.types[in]++
		}
	}
	s.add(k, 0)
}

// Duplicates counts n deliveries, at a time, of an event that was received at first.
func (s *Sums) Duplicates(at time.Time, source string, first time.Time, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.of(key{driver.FigureDuplicates, at.Unix() / 60 * 60, source, ""})
	if to == nil {
		s.dropped += n
		return
	}
	i, _ := slices.BinarySearch(driver.FigureDuplicates.Bounds(), at.Sub(first))
	to.n += int64(n)
	to.buckets[i] += int64(n)
}

// Backlog keeps a sample of the work that waits. Names without any get no figure, except for the
// name "", which shows that there was a sample.
func (s *Sums) Backlog(b *driver.Backlog) {
	minute := b.At.Unix() / 60 * 60
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample(minute, b, b.Sources, driver.BacklogEvents, driver.BacklogEventsAge)
	s.sample(minute, b, b.Destinations, driver.BacklogMessages, driver.BacklogMessagesAge)
}

// sample keeps the numbers and ages of a sample. The caller holds the lock.
func (s *Sums) sample(minute int64, b *driver.Backlog, all map[string]driver.Waiting, count, age string) {
	s.most(key{driver.FigureBacklog, minute, "", count}, 0)
	for name, w := range all {
		if w.Open == 0 {
			continue
		}
		s.most(key{driver.FigureBacklog, minute, name, count}, w.Open)
		if overdue := b.At.Sub(w.OldestDueAt); overdue >= time.Second && !w.OldestDueAt.IsZero() {
			s.most(key{driver.FigureBacklog, minute, name, age}, int64(overdue/time.Second))
		}
	}
}

// most raises a sample to n. The caller holds the lock.
func (s *Sums) most(k key, n int64) {
	to := s.of(k)
	if to == nil {
		s.dropped++
		return
	}
	to.n = max(to.n, n)
}

// add counts one. The caller holds the lock.
func (s *Sums) add(k key, took time.Duration) {
	to := s.of(k)
	if to == nil {
		s.dropped++
		return
	}
	to.n++
	if bounds := k.of.Bounds(); bounds != nil && took > 0 {
		i, _ := slices.BinarySearch(bounds, took)
		to.buckets[i]++
	}
}

// of returns the sum of k, or nil if too many wait already.
func (s *Sums) of(k key) *sum {
	to := s.pending[k]
	if to == nil && len(s.pending) < maxSums {
		to = new(sum)
		s.pending[k] = to
	}
	return to
}

// Write adds the sums to the store. It keeps the sums that certainly were not written for the next
// call. It drops sums with an unknown outcome, rather than count them twice, and those that the store
// refuses.
func (s *Sums) Write(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	pending, dropped := s.pending, s.dropped
	s.pending, s.types, s.dropped = make(map[key]*sum, len(pending)), make(map[hour]int), 0
	s.mu.Unlock()
	if dropped > 0 {
		s.log.Warn("figures dropped: too many wait for the database; charts and series lack them", slog.Int("dropped", dropped))
	}
	all := make([]driver.Figure, 0, len(pending))
	for k, of := range pending {
		all = append(all, driver.Figure{Of: k.of, At: time.Unix(k.at, 0), Name: k.name, Label: k.label, N: of.n, Buckets: of.buckets})
	}
	for len(all) > 0 {
		some := all[:min(len(all), chunk)]
		err := s.store.AddFigures(ctx, &driver.AddFiguresParams{Figures: some})
		if err == nil || errors.Is(err, driver.ErrCommitUnknown) || errors.Is(err, driver.ErrBadRow) {
			all = all[len(some):]
		}
		if err != nil {
			s.restore(all)
			return err
		}
	}
	return nil
}

// restore adds unwritten figures to those that were counted meanwhile.
func (s *Sums) restore(figures []driver.Figure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range figures {
		f := &figures[i]
		to := s.of(key{f.Of, f.At.Unix(), f.Name, f.Label})
		if to == nil {
			s.dropped += int(f.N)
			continue
		}
		if f.Of.Gauge() {
			to.n = max(to.n, f.N)
			continue
		}
		to.n += f.N
		for j, n := range f.Buckets {
			to.buckets[j] += n
		}
	}
}
