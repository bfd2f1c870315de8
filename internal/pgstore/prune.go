package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// defaultChunk is so small that a chunk takes a few milliseconds: what arrives
	// meanwhile is answered late by no more.
	defaultChunk = 200
	maxChunk     = 10_000
	// looks is how many events are looked at for each that may be removed in a chunk:
	// those that owe something stay, and may stand before it by the millions.
	looks = 20
	// chunkTimeout bounds one chunk, so that a server that fell silent does not hold
	// pruning for good.
	chunkTimeout = 30 * time.Second
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
	if result.Events, err = inChunks(ctx, p, func(ctx context.Context, last *chunkResult) (*chunkResult, error) {
		return s.pruneChunk(ctx, &s.sql.pruneEvents, identities, last, chunk)
	}); err != nil {
		return result, err
	}
	if result.Bodies, err = inChunks(ctx, p, func(ctx context.Context, last *chunkResult) (*chunkResult, error) {
		return s.pruneChunk(ctx, &s.sql.pruneBodies, bodies, last, chunk)
	}); err != nil {
		return result, err
	}
	if _, err := s.pruneAll(ctx, p, "pruning versions", s.sql.pruneVersions, chunk,
		identities.now, identities.sources, identities.keep, identities.rest, identities.shortest); err != nil {
		return result, err
	}
	const quarantine = "pruning the quarantine"
	if result.Quarantined, err = s.pruneAll(ctx, p, quarantine, s.sql.pruneQuarantineAge, chunk,
		bodies.now, bodies.sources, bodies.keep, bodies.rest); err != nil {
		return result, err
	}
	if p.QuarantineRows > 0 {
		surplus, err := s.pruneAll(ctx, p, quarantine, s.sql.pruneQuarantineRows, chunk, int64(p.QuarantineRows))
		result.Quarantined += surplus
		return result, err
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

// arguments returns the arguments that statements on events share, for what is behind
// last, and more.
func (w *windows) arguments(last *chunkResult, more ...any) []any {
	return append([]any{w.now, w.sources, w.keep, w.rest, w.shortest, last.lastTime, last.lastKey}, more...)
}

func windowsOf(p *driver.PruneParams, all time.Duration, of func(driver.SourceWindows) time.Duration) *windows {
	w := &windows{now: clock(p.Now), sources: []string{}, keep: []int64{}, rest: all.Microseconds()}
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
	changed  int64
	more     bool // there may be more behind it
	lastTime *time.Time
	lastKey  []byte
}

// inChunks runs prune on one chunk after the other, and rests between them, until there is
// no more. prune is given what came of the chunk before: events that stay are passed once.
func inChunks(ctx context.Context, p *driver.PruneParams,
	prune func(context.Context, *chunkResult) (*chunkResult, error),
) (total int64, err error) {
	last := &chunkResult{lastTime: &time.Time{}, lastKey: []byte{}}
	for {
		began := time.Now()
		last, err = withTimeout(ctx, last, prune)
		if err != nil {
			return total, after(err, total)
		}
		total += last.changed
		if !last.more {
			return total, nil
		}
		if err := p.Pause(ctx, began); err != nil {
			return total, after(err, total)
		}
	}
}

func withTimeout(ctx context.Context, last *chunkResult,
	prune func(context.Context, *chunkResult) (*chunkResult, error),
) (*chunkResult, error) {
	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	return prune(ctx, last)
}

// pruneStatements are those of one chunk: what it does, for errors; which locks the events
// that may go; which finds the last that was looked at; which removes what may go.
type pruneStatements struct{ what, lock, last, remove string }

// pruneChunk removes what may go of the events behind one that was looked at: of a chunk
// of them, or of fewer if so many others were looked at.
func (s *Store) pruneChunk(ctx context.Context, sql *pruneStatements, w *windows, behind *chunkResult, chunk int) (*chunkResult, error) {
	var c chunkResult
	err := s.pools.Work.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		var keys [][]byte
		event := func(r Rows) error {
			c.more = true
			return r.Scan(&c.lastTime, &c.lastKey)
		}
		if err := scan(ctx, conn, func(r Rows) error {
			err := event(r)
			keys = append(keys, c.lastKey)
			return err
		}, sql.lock, w.arguments(behind, int32(chunk), int32(looks*chunk))...); err != nil {
			return err
		}
		if len(keys) < chunk {
			// What others removed meanwhile is not counted, and as many are passed
			// over until the next time.
			c.more = false
			if err := scan(ctx, conn, event, sql.last, w.arguments(behind, int32(looks*chunk-1))...); err != nil {
				return err
			}
		}
		if len(keys) == 0 {
			return nil
		}
		return scan(ctx, conn, func(r Rows) error { return r.Scan(&c.changed) }, sql.remove, keys)
	})
	return &c, writeFailed(s.pools.Work, sql.what, err)
}

// pruneAll runs a statement that removes up to a chunk of rows until it removes
// less. The size of a chunk is its last argument.
func (s *Store) pruneAll(ctx context.Context, p *driver.PruneParams, what, sql string, chunk int, args ...any) (int64, error) {
	args = append(args, int32(chunk))
	return inChunks(ctx, p, func(ctx context.Context, _ *chunkResult) (*chunkResult, error) {
		var gone int64
		err := write(ctx, s.pools.Work, what, func(r Rows) error {
			return r.Scan(&gone)
		}, sql, args...)
		return &chunkResult{changed: gone, more: gone >= int64(chunk)}, err
	})
}

// after adds to an error how much had been done before it, in transactions of
// their own.
func after(err error, done int64) error {
	if done == 0 {
		return err
	}
	return fmt.Errorf("after %d rows: %w", done, err)
}
