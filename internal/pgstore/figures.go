package pgstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// perBucket returns the text of each bucket of a rollup, joined. Every %d in it is the number of the
// bucket, from 0.
func perBucket(text, join string) string {
	all := make([]string, driver.FigureBuckets)
	for i := range all {
		all[i] = strings.ReplaceAll(text, "%d", fmt.Sprint(i))
	}
	return strings.Join(all, join)
}

// addRollupsSQL adds to the rows of $1 to $6. $7 holds the buckets of all rows, one row after the
// other.
var addRollupsSQL = statement(`
INSERT INTO {schema}.rollup AS r (kind, resolution, start, name, label, n, ` + perBucket("b%d", ", ") + `)
SELECT kind, resolution, start, name, label, n,
	` + perBucket(fmt.Sprintf("($7::bigint[])[((ord - 1) * %d + 1 + %%d)::int]", driver.FigureBuckets), ", ") + `
FROM unnest($1::smallint[], $2::smallint[], $3::timestamptz[], $4::text[], $5::text[], $6::bigint[])
	WITH ORDINALITY AS i (kind, resolution, start, name, label, n, ord)
ORDER BY ord
ON CONFLICT (kind, resolution, start, name, label) DO UPDATE SET
	n = CASE WHEN r.kind = ` + gauge + ` THEN greatest(r.n, excluded.n) ELSE r.n + excluded.n END,
	` + perBucket("b%d = r.b%d + excluded.b%d", ", "))

// gauge is the number of the one kind whose figures are samples; see driver.FigureKind.Gauge.
var gauge = strconv.Itoa(int(driver.FigureBacklog))

// addTypesSQL adds to the rows of $1 to $4. A new type of an hour that has $5 types already becomes
// the type $6.
var addTypesSQL = statement(`
WITH given AS MATERIALIZED (
	SELECT i.*, i.type = $6::text OR EXISTS (
		SELECT FROM {schema}.type_rollup t WHERE (t.source, t.type, t.start) = (i.source, i.type, i.start)
	) AS known
	FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[]) WITH ORDINALITY AS i (source, type, start, n, ord)
), hour AS MATERIALIZED (
	SELECT h.source, h.start, (
		SELECT count(*) FROM {schema}.type_rollup t WHERE t.start = h.start AND t.source = h.source AND t.type <> $6::text
	) AS types
	FROM (SELECT DISTINCT source, start FROM given) h
), named AS (
	SELECT g.source, g.start, g.n, CASE
		WHEN g.known OR h.types + row_number() OVER (PARTITION BY g.source, g.start, g.known ORDER BY g.ord) <= $5::bigint THEN g.type
		ELSE $6::text
	END AS type
	FROM given g
	JOIN hour h ON h.source = g.source AND h.start = g.start
)
INSERT INTO {schema}.type_rollup AS t (source, type, start, n)
SELECT source, type, start, sum(n)::bigint
FROM named
GROUP BY source, type, start
ORDER BY source COLLATE "C", type COLLATE "C", start
ON CONFLICT (source, type, start) DO UPDATE SET n = t.n + excluded.n`)

// AddFigures implements [driver.Store].
func (s *Store) AddFigures(ctx context.Context, p *driver.AddFiguresParams) error {
	const op = "adding figures"
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	sums, types := driver.Rollups(p.Figures)
	err := s.pools.Receive.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		if err := s.addRollups(ctx, conn, sums); err != nil {
			return err
		}
		return s.addTypes(ctx, conn, types)
	})
	return writeFailed(s.pools.Receive, op, err)
}

func (s *Store) addRollups(ctx context.Context, conn Conn, sums []driver.Rollup) error {
	if len(sums) == 0 {
		return nil
	}
	var kinds, resolutions []int16
	var starts []*time.Time
	var names, labels []string
	var ns, buckets []int64
	for i := range sums {
		f := &sums[i]
		kinds, resolutions = append(kinds, int16(f.Of)), append(resolutions, int16(f.Resolution))
		starts, names, labels = append(starts, &f.At), append(names, f.Name), append(labels, f.Label)
		ns, buckets = append(ns, f.N), append(buckets, f.Buckets[:]...)
	}
	return scan(ctx, conn, noRows, s.text(addRollupsSQL), kinds, resolutions, starts, names, labels, ns, buckets)
}

func (s *Store) addTypes(ctx context.Context, conn Conn, types []driver.Rollup) error {
	if len(types) == 0 {
		return nil
	}
	var sources, labels []string
	var starts []*time.Time
	var ns []int64
	for i := range types {
		f := &types[i]
		sources, labels = append(sources, f.Name), append(labels, f.Label)
		starts, ns = append(starts, &f.At), append(ns, f.N)
	}
	return scan(ctx, conn, noRows, s.text(addTypesSQL), sources, labels, starts, ns, int64(driver.MaxTypes), driver.OtherType)
}

// seriesSQL returns the query of a series, and false if no figure can match.
func (s *Store) seriesSQL(f *driver.SeriesFilter) (sql string, args []any, possible bool) {
	table, name, label, buckets := "rollup", "name", "label", ", "+perBucket("sum(b%d)::bigint", ", ")
	where := newCondition()
	if f.Of == driver.FigureTypes {
		table, name, label, buckets = "type_rollup", "source", "type", ""
	} else {
		where.add("kind = $%d::smallint AND resolution = $%d::smallint", int16(f.Of), int16(f.Resolution))
	}
	where.add("start >= $%d::timestamptz AND start < $%d::timestamptz", &f.Since, &f.Until)
	possible = where.equal(name, f.Name) && where.equal(label, f.Label)
	sum, by := "sum(n)", "start, "+label
	if f.Of.Gauge() {
		sum = "CASE WHEN label IN ('" + driver.BacklogEvents + "', '" + driver.BacklogMessages + "') THEN sum(n) ELSE max(n) END"
	}
	order := "start, " + label + ` COLLATE "C"`
	if f.ByName {
		by, order = by+", "+name, "start, "+name+` COLLATE "C", `+label+` COLLATE "C"`
	} else {
		name = "''"
	}
	sql = "SELECT start, " + name + ", " + label + ", (" + sum + ")::bigint" + buckets + " FROM " + s.schema + "." + table + where.sql() +
		" GROUP BY " + by + " ORDER BY " + order + where.limit(min(f.Limit, math.MaxInt32-1))
	return sql, where.args, possible
}

// Series implements [driver.Store].
func (s *Store) Series(ctx context.Context, f *driver.SeriesFilter) ([]driver.Point, error) {
	sql, args, possible := s.seriesSQL(f)
	if !possible {
		return nil, nil
	}
	var points []driver.Point
	err := read(ctx, s.pools.Admin, "reading figures", func(r Rows) error {
		var p driver.Point
		into := []any{&p.At, &p.Name, &p.Label, &p.N}
		if f.Of != driver.FigureTypes {
			for i := range p.Buckets {
				into = append(into, &p.Buckets[i])
			}
		}
		err := r.Scan(into...)
		p.At = p.At.UTC()
		points = append(points, p)
		return err
	}, sql, args...)
	return points, err
}

// pruneRollupsSQL removes the rows that are older than their kind and resolution is kept: $2 and $3
// are the pairs, $4 the microseconds for which they are kept, $1 is the present time. It removes up
// to $5 rows of each pair. A join with the table might read all of it, so the rows are found by their
// places, which FOR UPDATE holds.
var pruneRollupsSQL = statement(`
WITH victim AS MATERIALIZED (
	SELECT v.place
	FROM unnest($2::smallint[], $3::smallint[], $4::bigint[]) AS k (kind, resolution, keep)
	CROSS JOIN LATERAL (
		SELECT r.ctid AS place
		FROM {schema}.rollup r
		WHERE r.kind = k.kind AND r.resolution = k.resolution
			AND r.start < $1::timestamptz - k.keep * interval '1 microsecond'
		ORDER BY r.start
		LIMIT $5::int
		FOR UPDATE SKIP LOCKED
	) v
), gone AS (
	DELETE FROM {schema}.rollup r WHERE r.ctid = ANY (ARRAY(SELECT place FROM victim)) RETURNING r.kind
)
SELECT count(*) FROM gone`)

// pruneTypesSQL removes up to $3 rows that are older than $2 microseconds before the time $1.
var pruneTypesSQL = statement(`
WITH victim AS MATERIALIZED (
	SELECT t.ctid AS place
	FROM {schema}.type_rollup t
	WHERE t.start < $1::timestamptz - $2::bigint * interval '1 microsecond'
	ORDER BY t.start
	LIMIT $3::int
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.type_rollup t WHERE t.ctid = ANY (ARRAY(SELECT place FROM victim)) RETURNING t.start
)
SELECT count(*) FROM gone`)

// figures removes figures that are older than they are kept.
func (r *prunePass) figures(ctx context.Context) error {
	var kinds, resolutions []int16
	var kept []int64
	for kind := driver.FigureDeliveries; kind < driver.FigureTypes; kind++ {
		for _, of := range driver.Resolutions() {
			kinds, resolutions = append(kinds, int16(kind)), append(resolutions, int16(of))
			kept = append(kept, of.Kept().Microseconds())
		}
	}
	const op = "pruning figures"
	if _, err := r.all(ctx, op, r.store.text(pruneRollupsSQL), &r.now, kinds, resolutions, kept); err != nil {
		return err
	}
	_, err := r.all(ctx, op, r.store.text(pruneTypesSQL), &r.now, driver.ByHour.Kept().Microseconds())
	return err
}
