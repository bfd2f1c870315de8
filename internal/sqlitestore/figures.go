package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// perBucket returns the text of each bucket of a rollup, joined. Every %d in it is the number of the
// bucket, from 0.
func perBucket(text string) string {
	all := make([]string, driver.FigureBuckets)
	for i := range all {
		all[i] = strings.ReplaceAll(text, "%d", fmt.Sprint(i))
	}
	return strings.Join(all, ", ")
}

var addRollup = `INSERT INTO hookonce_rollup (kind, resolution, start, name, label, n, ` + perBucket(`b%d`) + `)
		VALUES (?, ?, ?, ?, ?, ?` + strings.Repeat(`, ?`, driver.FigureBuckets) + `)
		ON CONFLICT (kind, resolution, start, name, label) DO UPDATE SET
			n = CASE WHEN kind = ` + gauge + ` THEN max(n, excluded.n) ELSE n + excluded.n END, ` + perBucket(`b%d = b%d + excluded.b%d`)

// gauge is the number of the one kind whose figures are samples; see driver.FigureKind.Gauge.
var gauge = strconv.Itoa(int(driver.FigureBacklog))

const (
	// A new type of an hour that has ?5 types already becomes the type ?6.
	addType = `INSERT INTO hookonce_type_rollup (source, type, start, n)
		SELECT ?1, CASE
			WHEN EXISTS (SELECT 1 FROM hookonce_type_rollup WHERE source = ?1 AND type = ?2 AND start = ?3) THEN ?2
			WHEN (SELECT count(*) FROM hookonce_type_rollup WHERE start = ?3 AND source = ?1 AND type <> ?6) < ?5 THEN ?2
			ELSE ?6
		END, ?3, ?4 WHERE true
		ON CONFLICT (source, type, start) DO UPDATE SET n = n + excluded.n`

	findRollups = `SELECT EXISTS (SELECT 1 FROM hookonce_rollup WHERE kind = ? AND resolution = ? AND start < ?)`
	findTypes   = `SELECT EXISTS (SELECT 1 FROM hookonce_type_rollup WHERE start < ?)`

	deleteRollups = `DELETE FROM hookonce_rollup WHERE kind = ?1 AND resolution = ?2 AND (start, name, label) IN (
		SELECT start, name, label FROM hookonce_rollup WHERE kind = ?1 AND resolution = ?2 AND start < ?3 ORDER BY start LIMIT ?4)`
	deleteTypes = `DELETE FROM hookonce_type_rollup WHERE (source, type, start) IN (
		SELECT source, type, start FROM hookonce_type_rollup WHERE start < ? ORDER BY start LIMIT ?)`
)

// AddFigures implements driver.Store.
func (s *Store) AddFigures(ctx context.Context, p *driver.AddFiguresParams) error {
	const op = "adding figures"
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	sums, types := driver.Rollups(p.Figures)
	if len(p.Figures) == 0 {
		return nil
	}
	return s.write(ctx, op, func(t *writeTx) error {
		if err := t.each(len(sums), func(t *writeTx, i int) error {
			f := &sums[i]
			args := []any{int(f.Of), int(f.Resolution), f.At.UnixMicro(), f.Name, f.Label, f.N}
			for _, n := range f.Buckets {
				args = append(args, n)
			}
			_, err := t.exec(addRollup, args...)
			return err
		}); err != nil {
			return err
		}
		return t.each(len(types), func(t *writeTx, i int) error {
			f := &types[i]
			_, err := t.exec(addType, f.Name, f.Label, f.At.UnixMicro(), f.N, driver.MaxTypes, driver.OtherType)
			return err
		})
	})
}

// seriesQuery returns the query of a series, and its arguments.
func seriesQuery(f *driver.SeriesFilter) (query string, args []any) {
	table, name, label, buckets := `hookonce_rollup`, `name`, `label`, `, `+perBucket(`sum(b%d)`)
	var c clause
	if f.Of == driver.FigureTypes {
		table, name, label, buckets = `hookonce_type_rollup`, `source`, `type`, ``
	} else {
		c.add(`kind = ? AND resolution = ?`, int(f.Of), int(f.Resolution))
	}
	c.add(`start >= ? AND start < ?`, ceilMicros(f.Since), ceilMicros(f.Until))
	c.equal(name, f.Name)
	c.equal(label, f.Label)
	sum, by, shown := `sum(n)`, `start, `+label, `''`
	if f.Of.Gauge() {
		sum = `CASE WHEN label IN ('` + driver.BacklogEvents + `', '` + driver.BacklogMessages + `') THEN sum(n) ELSE max(n) END`
	}
	if f.ByName {
		by, shown = `start, `+name+`, `+label, name
	}
	query = `SELECT start, ` + shown + `, ` + label + `, ` + sum + buckets + ` FROM ` + table + c.where() +
		` GROUP BY ` + by + ` ORDER BY ` + by + ` LIMIT ?`
	return query, append(c.args, f.Limit+1)
}

// Series implements driver.Store. It reads for at most 5 s.
func (s *Store) Series(ctx context.Context, f *driver.SeriesFilter) (points []driver.Point, err error) {
	err = s.snapshot(ctx, "reading figures", func(ctx context.Context, tx *sql.Tx) error {
		query, args := seriesQuery(f)
		rows, err := tx.QueryContext(ctx, query, args...)
		points, err = collect(rows, err, func(p *driver.Point) error {
			var at int64
			into := []any{&at, &p.Name, &p.Label, &p.N}
			if f.Of != driver.FigureTypes {
				for i := range p.Buckets {
					into = append(into, &p.Buckets[i])
				}
			}
			err := rows.Scan(into...)
			p.At = fromMicros(at)
			return err
		})
		return err
	})
	return points, err
}

// figures removes figures that are older than they are kept. It takes the write lock only if there
// are any.
func (r *pruner) figures(ctx context.Context) error {
	for kind := driver.FigureDeliveries; kind < driver.FigureTypes; kind++ {
		for _, resolution := range driver.Resolutions() {
			before := r.before(resolution.Kept())
			if err := r.old(ctx, findRollups, deleteRollups, int(kind), int(resolution), before); err != nil {
				return err
			}
		}
	}
	return r.old(ctx, findTypes, deleteTypes, r.before(driver.ByHour.Kept()))
}

// old runs remove while find finds rows. Both have the same arguments; those of remove end with the
// most rows to remove at a time.
func (r *pruner) old(ctx context.Context, find, remove string, args ...any) error {
	var found bool
	if err := r.store.reader.QueryRowContext(ctx, find, args...).Scan(&found); err != nil {
		return r.store.failed(ctx, opPrune, err)
	}
	if !found {
		return nil
	}
	var removed int64 // not part of the result
	return r.repeat(ctx, &removed, remove, append(args, r.lock())...)
}
