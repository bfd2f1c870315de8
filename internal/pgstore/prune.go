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
	if result.Events, err = inChunks(chunk, identities, func(w *windows) (*chunkResult, error) {
		return s.pruneChunk(ctx, "pruning events", s.sql.pastEvents, s.sql.pruneEvents, w, chunk)
	}); err != nil {
		return nil, err
	}
	if result.Bodies, err = inChunks(chunk, bodies, func(w *windows) (*chunkResult, error) {
		return s.pruneChunk(ctx, "pruning bodies", s.sql.pastBodies, s.sql.pruneBodies, w, chunk)
	}); err != nil {
		return nil, err
	}
	if _, err := s.pruneAll(ctx, "pruning versions", s.sql.pruneVersions, chunk,
		identities.now, identities.sources, identities.keep, identities.rest, identities.shortest); err != nil {
		return nil, err
	}
	const quarantine = "pruning the quarantine"
	old, err := s.pruneAll(ctx, quarantine, s.sql.pruneQuarantineAge, chunk, bodies.now, bodies.sources, bodies.keep, bodies.rest)
	if err != nil {
		return nil, err
	}
	result.Quarantined = old
	if p.QuarantineRows > 0 {
		surplus, err := s.pruneAll(ctx, quarantine, s.sql.pruneQuarantineRows, chunk, int64(p.QuarantineRows))
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

	afterTime *time.Time // the event behind which to go on
	afterKey  []byte
}

// arguments returns the arguments that statements on events share.
func (w *windows) arguments(chunk int) []any {
	return []any{w.now, w.sources, w.keep, w.rest, w.shortest, w.afterTime, w.afterKey, int32(chunk)}
}

func windowsOf(p *driver.PruneParams, all time.Duration, of func(driver.SourceWindows) time.Duration) *windows {
	w := &windows{now: clock(p.Now), sources: []string{}, keep: []int64{}, rest: all.Microseconds()}
	w.afterTime, w.afterKey = &time.Time{}, []byte{}
	w.shortest = w.rest
	for source, own := range p.Sources {
		if d := of(own); d > 0 && driver.IsText(source) {
			w.sources, w.keep = append(w.sources, source), append(w.keep, d.Microseconds())
			w.shortest = min(w.shortest, d.Microseconds())
		}
	}
	return w
}

// chunkResult is what came of one chunk of events.
type chunkResult struct {
	changed, looked int64
	lastTime        *time.Time
	lastKey         []byte
}

// inChunks runs prune on one chunk of events after the other, from the oldest.
// Events that stay are passed once.
func inChunks(chunk int, w *windows, prune func(*windows) (*chunkResult, error)) (total int64, err error) {
	for {
		c, err := prune(w)
		if err != nil {
			return total, after(err, total)
		}
		total += c.changed
		if c.looked < int64(chunk) {
			return total, nil
		}
		w.afterTime, w.afterKey = c.lastTime, c.lastKey
	}
}

// pruneChunk locks a chunk of the events that may go, and removes what may go of
// them.
func (s *Store) pruneChunk(ctx context.Context, what, lock, remove string, w *windows, chunk int) (*chunkResult, error) {
	var c chunkResult
	err := s.pools.Work.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		keys := make([][]byte, 0, chunk)
		if err := scan(ctx, conn, func(r Rows) error {
			var key []byte
			err := r.Scan(&c.lastTime, &key)
			keys = append(keys, key)
			return err
		}, lock, w.arguments(chunk)...); err != nil || len(keys) == 0 {
			return err
		}
		c.looked, c.lastKey = int64(len(keys)), keys[len(keys)-1]
		return scan(ctx, conn, func(r Rows) error { return r.Scan(&c.changed) }, remove, keys)
	})
	return &c, writeFailed(s.pools.Work, what, err)
}

// pruneAll runs a statement that removes up to a chunk of rows until it removes
// less. The size of a chunk is its last argument.
func (s *Store) pruneAll(ctx context.Context, what, sql string, chunk int, args ...any) (total int64, err error) {
	for {
		var gone int64
		err := write(ctx, s.pools.Work, what, func(r Rows) error {
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
