package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

// search lets a search for a text begin. The caller must call release at its end. The readers that
// the searches do not use are left for other calls, and each step of a search is short, so that it
// does not hold up the checkpoints of the log.
func (s *Store) search(op string, forText bool) (release func(), err error) {
	if !forText {
		return func() {}, nil
	}
	select {
	case s.searching <- struct{}{}:
		return func() { <-s.searching }, nil
	default:
		return nil, fmt.Errorf("%s: %w", op, driver.ErrSearching)
	}
}

// step adds the condition that a row is within a step, on its columns for the time of the event and
// its key.
func (c *clause) step(s walk.Step, receivedAt, key string) {
	if !s.After.IsZero() {
		c.add(`(`+receivedAt+`, `+key+`) < (?, ?)`, s.After.At.UnixMicro(), s.After.Key[:])
	}
	if !s.End.IsZero() {
		c.add(`(`+receivedAt+`, `+key+`) >= (?, ?)`, s.End.At.UnixMicro(), s.End.Key[:])
	}
	if !s.Since.IsZero() {
		c.add(receivedAt+` >= ?`, s.Since.UnixMicro())
	}
}

// edgeQuery returns a query for the number and the place of the last row of a query for places, which
// are in the order of the listing.
func edgeQuery(candidates string, args []any) (string, []any) {
	return `SELECT n, received_at, key, id FROM (SELECT *, row_number() OVER () AS n FROM (` + candidates + `)) ORDER BY n DESC LIMIT 1`, args
}

func (s *Store) edgeOf(ctx context.Context, op, query string, args []any) (last driver.Cursor, count int, err error) {
	err = s.snapshot(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		_, err = collect(rows, err, func(*struct{}) error {
			var key []byte
			var at int64
			err := rows.Scan(&count, &at, &key, &last.ID)
			copy(last.Key[:], key)
			last.At = fromMicros(at)
			return err
		})
		return err
	})
	return last, count, err
}

// few returns a query, or "" if it returns more than most rows. It reads no more than that.
func (s *Store) few(ctx context.Context, op string, most int, query string, args ...any) (string, error) {
	if query == "" {
		return "", nil
	}
	var n int
	err := s.snapshot(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT count(*) FROM (%s LIMIT %d)`, query, most+1), args...).Scan(&n)
	})
	if err != nil || n > most {
		return "", err
	}
	return query, nil
}

const (
	// selectKnownSources steps through an index from one source to the next.
	selectKnownSources = `WITH RECURSIVE known (source) AS (
			SELECT (SELECT source FROM hookonce_type_rollup ORDER BY source LIMIT 1)
			UNION ALL
			SELECT (SELECT r.source FROM hookonce_type_rollup r WHERE r.source > k.source ORDER BY r.source LIMIT 1)
			FROM known k WHERE k.source IS NOT NULL
		)
		SELECT source FROM known WHERE source IS NOT NULL
		UNION SELECT source FROM hookonce_source_window WHERE source <> '' LIMIT 10000`

	selectFigureHours = `SELECT (SELECT min(start) FROM hookonce_type_rollup), (SELECT max(start) FROM hookonce_type_rollup)`

	selectTypeHours = `SELECT start FROM hookonce_type_rollup WHERE source = ? AND type = ? ORDER BY start DESC LIMIT ?`

	// selectSourceHours steps through an index from one hour to the next.
	selectSourceHours = `WITH RECURSIVE hour (start) AS (
			SELECT (SELECT max(start) FROM hookonce_type_rollup)
			UNION ALL
			SELECT (SELECT max(r.start) FROM hookonce_type_rollup r WHERE r.start < h.start) FROM hour h WHERE h.start IS NOT NULL
		)
		SELECT h.start FROM hour h
		WHERE EXISTS (SELECT 1 FROM hookonce_type_rollup r WHERE r.start = h.start AND r.source = ?) LIMIT ?`
)

// column reads the only column of a query.
func column[T any](ctx context.Context, tx *sql.Tx, query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // collect closes them
	return collect(rows, err, func(v *T) error { return rows.Scan(v) })
}

// knownSources returns the given sources, and those that the database knows.
func knownSources(ctx context.Context, tx *sql.Tx, given []string) ([]string, error) {
	found, err := column[string](ctx, tx, selectKnownSources)
	sources := slices.Concat(given, found)
	slices.Sort(sources)
	return slices.Compact(sources), err
}

// lookUps returns the keys of the events that may have an id. It returns false if the id stands for
// too many, or if id is "".
func (s *Store) lookUps(ctx context.Context, op, source, id string, given []string) (keys []driver.Key, ok bool, err error) {
	if id == "" {
		return nil, false, nil
	}
	sources := []string{source}
	if source == "" {
		err = s.snapshot(ctx, op, func(ctx context.Context, tx *sql.Tx) (err error) {
			sources, err = knownSources(ctx, tx, given)
			return err
		})
		if err != nil {
			return nil, false, err
		}
	}
	keys, ok = driver.KeysOf(sources, id)
	return keys, ok, nil
}

// spans returns the times that may hold events of a filter, by the figures.
func (s *Store) spans(ctx context.Context, f *driver.EventFilter) (spans []walk.Span, err error) {
	err = s.snapshot(ctx, opEvents, func(ctx context.Context, tx *sql.Tx) error {
		var oldest, newest sql.NullInt64
		if err := tx.QueryRowContext(ctx, selectFigureHours).Scan(&oldest, &newest); err != nil || !oldest.Valid {
			return err
		}
		starts, err := matchingHours(ctx, tx, f)
		hours := make([]time.Time, len(starts))
		for i := range hours {
			hours[i] = fromMicros(starts[i])
		}
		spans = walk.Hours(hours, fromMicros(oldest.Int64), fromMicros(newest.Int64))
		return err
	})
	return spans, err
}

func matchingHours(ctx context.Context, tx *sql.Tx, f *driver.EventFilter) ([]int64, error) {
	if f.Type == "" {
		return column[int64](ctx, tx, selectSourceHours, f.Source, walk.MaxHours)
	}
	sources := []string{f.Source}
	if f.Source == "" {
		var err error
		if sources, err = knownSources(ctx, tx, nil); err != nil {
			return nil, err
		}
	}
	var all []int64
	for _, source := range sources {
		// Types beyond the limit of an hour are counted as another type.
		for _, kind := range []string{f.Type, driver.OtherType} {
			starts, err := column[int64](ctx, tx, selectTypeHours, source, kind, walk.MaxHours)
			if err != nil {
				return nil, err
			}
			all = append(all, starts...)
		}
	}
	return all, nil
}
