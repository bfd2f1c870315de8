package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

// search returns the pool for a listing, and a function that the caller must call at the end. A
// search for a text has a pool of its own, so that no number of them holds up other calls.
func (s *Store) search(op string, forText bool) (DB, func(), error) {
	if !forText {
		return s.pools.Admin, func() {}, nil
	}
	select {
	case s.searching <- struct{}{}:
		return s.pools.Search, func() { <-s.searching }, nil
	default:
		return nil, nil, fmt.Errorf("%s: %w", op, driver.ErrSearching)
	}
}

// arg adds an argument and returns its number as SQL.
func (c *condition) arg(value any) string {
	c.args = append(c.args, value)
	return fmt.Sprintf("$%d", len(c.args))
}

// step returns the condition that a row is within a step, on its columns for the time of the event
// and its key. The conditions on the time alone are implied by the others; the planner estimates them
// better.
func (c *condition) step(s walk.Step, receivedAt, key string) string {
	sql := "true"
	row := func(at *driver.Cursor, bound, operator string) {
		time := c.arg(&at.At) + "::timestamptz"
		sql += " AND " + receivedAt + " " + bound + " " + time + " AND (" + receivedAt + ", " + key + ") " + operator + " (" + time + ", " + c.arg(at.Key[:]) + "::bytea)"
	}
	if !s.After.IsZero() {
		row(&s.After, "<=", "<")
	}
	if !s.End.IsZero() {
		row(&s.End, ">=", ">=")
	}
	if !s.Since.IsZero() {
		sql += " AND " + receivedAt + " >= " + c.arg(&s.Since) + "::timestamptz"
	}
	return sql
}

// received returns the condition on the time of the event.
func (c *condition) received(receivedAt string, since, until time.Time) string {
	sql := "true"
	if !since.IsZero() {
		sql += " AND " + receivedAt + " >= " + c.arg(roundUp(since)) + "::timestamptz"
	}
	if !until.IsZero() {
		sql += " AND " + receivedAt + " < " + c.arg(roundUp(until)) + "::timestamptz"
	}
	return sql
}

// stepSQL makes the server walk the index that a step is made for, and look other rows up one by one. A
// step is small, but the server may expect that no row of it matches, and read a whole table instead.
const stepSQL = inOrderSQL + "; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL max_parallel_workers_per_gather = 0"

// pointsSQL makes the server look rows up one by one, each by one index. Without statistics of a new table, it may expect that
// few messages are open, and read the whole index of them for each row.
const pointsSQL = "SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; " +
	"SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"

// readStep runs a statement of a step.
func readStep(ctx context.Context, db DB, op string, each func(Rows) error, sql string, args ...any) error {
	return readWith(ctx, stepSQL, db, op, each, sql, args...)
}

// readPoints runs a statement for rows whose keys are known.
func readPoints(ctx context.Context, db DB, op string, each func(Rows) error, sql string, args ...any) error {
	return readWith(ctx, pointsSQL, db, op, each, sql, args...)
}

func readWith(ctx context.Context, settings string, db DB, op string, each func(Rows) error, sql string, args ...any) error {
	return readFailed(db, op, db.Transaction(ctx, Snapshot, func(conn Conn) error {
		if err := conn.Script(ctx, settings); err != nil {
			return err
		}
		return scan(ctx, conn, each, sql, args...)
	}))
}

// edgeOf reads the last row of a query that returns places, in the order of the listing. place is the
// list of the columns of a place.
func edgeOf(ctx context.Context, db DB, op, candidates, place string, args []any) (last driver.Cursor, count int, err error) {
	err = readStep(ctx, db, op, func(r Rows) error {
		var n int64
		var key []byte
		if err := r.Scan(&n, &last.At, &key, &last.ID); err != nil {
			return err
		}
		count, last.Key, last.At = int(n), driver.Key(key), last.At.UTC()
		return nil
	}, "SELECT n, "+place+" FROM (SELECT c.*, row_number() OVER () AS n FROM ("+candidates+") c) c ORDER BY n DESC LIMIT 1", args...)
	return last, count, err
}

var (
	// knownSourcesSQL returns the sources of the figures of types and of the windows. It steps through
	// an index from one source to the next.
	knownSourcesSQL = statement(`
WITH RECURSIVE known AS (
	(SELECT source FROM {schema}.type_rollup ORDER BY source LIMIT 1)
	UNION ALL
	SELECT (SELECT r.source FROM {schema}.type_rollup r WHERE r.source > k.source ORDER BY r.source LIMIT 1)
	FROM known k WHERE k.source IS NOT NULL
)
SELECT source FROM known WHERE source IS NOT NULL
UNION
SELECT source FROM {schema}.source_window WHERE source <> ''
LIMIT 10000`)

	figureHoursSQL = statement(`SELECT min(start), max(start) FROM {schema}.type_rollup`)

	// typeHoursSQL returns the hours of a type ($2) of some sources ($1), latest first. Types beyond the
	// limit of an hour are counted as another type ($3).
	typeHoursSQL = statement(`
SELECT DISTINCT r.start
FROM unnest($1::text[]) s (source)
CROSS JOIN unnest(ARRAY[$2::text, $3::text]) t (type)
CROSS JOIN LATERAL (
	SELECT r.start FROM {schema}.type_rollup r
	WHERE r.source = s.source AND r.type = t.type ORDER BY r.start DESC LIMIT $4::int
) r
ORDER BY r.start DESC
LIMIT $4::int`)

	// sourceHoursSQL returns the hours of a source, latest first. It steps through an index from one hour
	// to the next.
	sourceHoursSQL = statement(`
WITH RECURSIVE hour AS (
	(SELECT start FROM {schema}.type_rollup ORDER BY start DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.start FROM {schema}.type_rollup r WHERE r.start < h.start ORDER BY r.start DESC LIMIT 1)
	FROM hour h WHERE h.start IS NOT NULL
)
SELECT h.start FROM hour h
WHERE EXISTS (SELECT FROM {schema}.type_rollup r WHERE r.start = h.start AND r.source = $1::text)
LIMIT $2::int`)
)

// knownSources returns the given sources, and those that the database knows.
func (s *Store) knownSources(ctx context.Context, op string, given []string) ([]string, error) {
	sources := slices.DeleteFunc(slices.Clone(given), func(name string) bool { return !driver.IsText(name) })
	err := read(ctx, s.pools.Admin, op, func(r Rows) error {
		var name string
		err := r.Scan(&name)
		sources = append(sources, name)
		return err
	}, s.text(knownSourcesSQL))
	slices.Sort(sources)
	return slices.Compact(sources), err
}

// lookUps returns the keys of the events that may have an id. It returns false if the id stands for
// too many, or if id is "".
func (s *Store) lookUps(ctx context.Context, op, source, id string, given []string) ([]driver.Key, bool, error) {
	if id == "" {
		return nil, false, nil
	}
	sources := []string{source}
	if source == "" {
		var err error
		if sources, err = s.knownSources(ctx, op, given); err != nil {
			return nil, false, err
		}
	}
	keys, ok := driver.KeysOf(sources, id)
	return keys, ok, nil
}

// spans returns the times that may hold events of a filter, by the figures.
func (s *Store) spans(ctx context.Context, op string, f *driver.EventFilter) ([]walk.Span, error) {
	var oldest, newest *time.Time
	if err := read(ctx, s.pools.Admin, op, func(r Rows) error { return r.Scan(&oldest, &newest) }, s.text(figureHoursSQL)); err != nil || oldest == nil {
		return nil, err
	}
	sql, args := s.text(sourceHoursSQL), []any{f.Source, int32(walk.MaxHours)}
	if f.Type != "" {
		sources := []string{f.Source}
		if f.Source == "" {
			var err error
			if sources, err = s.knownSources(ctx, op, nil); err != nil {
				return nil, err
			}
		}
		sql, args = s.text(typeHoursSQL), []any{sources, f.Type, driver.OtherType, int32(walk.MaxHours)}
	}
	var hours []time.Time
	err := readStep(ctx, s.pools.Admin, op, func(r Rows) error {
		var start time.Time
		err := r.Scan(&start)
		hours = append(hours, start.UTC())
		return err
	}, sql, args...)
	return walk.Hours(hours, oldest.UTC(), newest.UTC()), err
}
