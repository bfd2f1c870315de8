package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// defaultChunk is small enough for a chunk of a few milliseconds, so that pruning delays
	// deliveries no longer than that.
	defaultChunk = 200
	maxChunk     = 10_000
	// looks is how many events a chunk looks at for each event that it may remove: unfinished
	// events stay, and millions of them may come first.
	looks = 20
	// chunkTimeout bounds one chunk, so that a silent server does not block pruning for good.
	chunkTimeout = 30 * time.Second
)

// Prune implements [driver.Store]. It refuses windows that are not positive, instead of keeping
// nothing. Events go first, so that a body that goes with its event is not counted separately.
func (s *Store) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	longest, now, err := s.longestWindows(ctx, p)
	if err != nil {
		return nil, err
	}
	chunk := p.Chunk
	if chunk <= 0 {
		chunk = defaultChunk
	}
	chunk = min(chunk, maxChunk)
	identities := windowsOf(now, longest, func(k driver.Kept) int64 { return k.DedupeWindow.Microseconds() })
	bodies := windowsOf(now, longest, func(k driver.Kept) int64 { return k.Retention.Microseconds() })

	result := &driver.PruneResult{}
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
	if rows := windowsOf(now, longest, func(k driver.Kept) int64 { return k.QuarantineRows }); rows.shortest < math.MaxInt64 {
		surplus, err := s.pruneAll(ctx, p, quarantine, s.sql.pruneQuarantineRows, chunk, rows.sources, rows.keep, rows.rest)
		result.Quarantined += surplus
		if err != nil {
			return result, err
		}
	}
	if _, err := s.pruneAll(ctx, p, "pruning refused requests", s.sql.pruneRefused, chunk,
		bodies.now, bodies.sources, bodies.keep, bodies.rest, bodies.shortest); err != nil {
		return result, err
	}
	if err := s.pruneFigures(ctx, p, &now, chunk); err != nil {
		return result, err
	}
	if err := write(ctx, s.pools.Work, "pruning the feed", noRows, s.sql.pruneFeed, &now, driver.FeedKept.Microseconds()); err != nil {
		return result, err
	}
	if err := write(ctx, s.pools.Work, "pruning jobs", noRows, s.sql.jobs.prune, &now, driver.JobsKept.Microseconds()); err != nil {
		return result, err
	}
	return result, write(ctx, s.pools.Work, "forgetting windows", noRows, s.sql.forgetWindows, &now, driver.WindowsHold.Microseconds())
}

// windows are windows of one kind, of all sources, as arguments of the statements: microseconds or
// numbers of rows.
type windows struct {
	now      *time.Time
	sources  []string
	keep     []int64 // by the index of sources
	rest     int64   // of all other sources
	shortest int64
}

// arguments returns the shared arguments of statements on events, to go on behind last, followed by
// more.
func (w *windows) arguments(last *chunkResult, more ...any) []any {
	return append([]any{w.now, w.sources, w.keep, w.rest, w.shortest, last.lastTime, last.lastKey}, more...)
}

func windowsOf(now time.Time, longest driver.Windows, of func(driver.Kept) int64) *windows {
	w := &windows{now: &now, sources: []string{}, keep: []int64{}, rest: of(longest[""])}
	w.shortest = w.rest
	for source, kept := range longest {
		if source != "" {
			w.sources, w.keep = append(w.sources, source), append(w.keep, of(kept))
			w.shortest = min(w.shortest, of(kept))
		}
	}
	return w
}

// chunkResult is the result of one chunk of events.
type chunkResult struct {
	changed  int64
	more     bool // another chunk may follow
	lastTime *time.Time
	lastKey  []byte
}

// inChunks runs prune on one chunk after another, with pauses, until there are no more. prune gets
// the result of the chunk before, so that it passes each event once.
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

// pruneStatements are the statements of one chunk. op names the operation in errors, lock locks
// the removable events, last finds the last event that was looked at, and remove removes them.
type pruneStatements struct{ op, lock, last, remove string }

// pruneChunk removes the removable events of one chunk, which begins behind an event. It looks at a
// bounded number of events.
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
			// Events that other processes removed meanwhile are not counted. As many others wait
			// for the next time.
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
	return &c, writeFailed(s.pools.Work, sql.op, err)
}

// pruneAll repeats a statement that removes up to a chunk of rows until it removes fewer. The size
// of a chunk is its last argument.
func (s *Store) pruneAll(ctx context.Context, p *driver.PruneParams, op, sql string, chunk int, args ...any) (int64, error) {
	args = append(args, int32(chunk))
	return inChunks(ctx, p, func(ctx context.Context, _ *chunkResult) (*chunkResult, error) {
		var gone int64
		err := write(ctx, s.pools.Work, op, func(r Rows) error {
			return r.Scan(&gone)
		}, sql, args...)
		return &chunkResult{changed: gone, more: gone >= int64(chunk)}, err
	})
}

// after adds to an error how many rows were done before it, in transactions of their own.
func after(err error, done int64) error {
	if done == 0 {
		return err
	}
	return fmt.Errorf("after %d rows: %w", done, err)
}
