package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	defaultChunk = 1000
	maxChunk     = 10_000
)

// Prune implements [driver.Store]. A window that is not positive is refused
// rather than taken for "keep nothing"; in SourceWindows it stands for that of
// all sources. Identities go first, so that a body that goes with its identity
// is not counted on its own.
func (s *Store) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	if p.DedupeWindow <= 0 || p.Retention <= 0 {
		return nil, errors.New("pruning: the dedupe window and the retention must be positive")
	}
	chunk := p.Chunk
	if chunk <= 0 {
		chunk = defaultChunk
	}
	chunk = min(chunk, maxChunk)
	identities := windowsOf(p, p.DedupeWindow, func(w driver.SourceWindows) time.Duration { return w.DedupeWindow })
	bodies := windowsOf(p, p.Retention, func(w driver.SourceWindows) time.Duration { return w.Retention })

	result := &driver.PruneResult{}
	var err error
	if result.Events, err = s.pruneEach(ctx, "pruning events", s.sql.pruneEvents, identities, chunk); err != nil {
		return nil, err
	}
	if result.Bodies, err = s.pruneEach(ctx, "pruning bodies", s.sql.pruneBodies, bodies, chunk); err != nil {
		return nil, err
	}
	old, err := s.pruneAll(ctx, s.sql.pruneQuarantineAge, chunk, bodies.now, bodies.sources, bodies.keep, bodies.rest)
	if err != nil {
		return nil, err
	}
	result.Quarantined = old
	if p.QuarantineRows > 0 {
		surplus, err := s.pruneAll(ctx, s.sql.pruneQuarantineRows, chunk, int64(p.QuarantineRows))
		if err != nil {
			return nil, err
		}
		result.Quarantined += surplus
	}
	return result, nil
}

// windows are the windows of all sources, in microseconds, as the statements
// take them.
type windows struct {
	now      *time.Time
	sources  []string
	keep     []int64 // of each of sources
	rest     int64   // of all others
	shortest int64
}

func windowsOf(p *driver.PruneParams, all time.Duration, of func(driver.SourceWindows) time.Duration) *windows {
	w := &windows{now: clock(p.Now), sources: []string{}, keep: []int64{}, rest: all.Microseconds()}
	w.shortest = w.rest
	for source, own := range p.Sources {
		if d := of(own); d > 0 && isText(source) {
			w.sources, w.keep = append(w.sources, source), append(w.keep, d.Microseconds())
			w.shortest = min(w.shortest, d.Microseconds())
		}
	}
	return w
}

// pruneEach runs a statement on one chunk of events after the other, from the
// oldest. Events that stay are passed once.
func (s *Store) pruneEach(ctx context.Context, what, sql string, w *windows, chunk int) (total int64, err error) {
	at, key := &time.Time{}, []byte{}
	for {
		var changed, looked int64
		var lastAt *time.Time
		var lastKey []byte
		err := write(ctx, s.pools.Work, what, func(r Rows) error {
			return r.Scan(&changed, &looked, &lastAt, &lastKey)
		}, sql, w.now, w.sources, w.keep, w.rest, w.shortest, at, key, int32(chunk))
		if err != nil {
			return total, after(err, total)
		}
		total += changed
		if looked < int64(chunk) {
			return total, nil
		}
		at, key = lastAt, lastKey
	}
}

// pruneAll runs a statement that removes up to a chunk of rows until it removes
// less. The size of a chunk is its last argument.
func (s *Store) pruneAll(ctx context.Context, sql string, chunk int, args ...any) (total int64, err error) {
	for {
		var gone int64
		err := write(ctx, s.pools.Work, "pruning the quarantine", func(r Rows) error {
			return r.Scan(&gone)
		}, sql, append(args, int32(chunk))...)
		if err != nil {
			return total, after(err, total)
		}
		total += gone
		if gone < int64(chunk) {
			return total, nil
		}
	}
}

// after adds to an error how much had been done before it, in transactions of
// their own.
func after(err error, done int64) error {
	if done == 0 {
		return err
	}
	return fmt.Errorf("after %d rows: %w", done, err)
}
