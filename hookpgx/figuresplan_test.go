package hookpgx_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// plansOfFigures reads, adds and prunes figures and refused requests among many others, and has the server log the
// plans. None may read a whole table, whether or not the statistics include it.
func plansOfFigures(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string][]string{
		"analysed":            {"rows", "VACUUM"},
		"analysed when empty": {"VACUUM", "rows"},
	} {
		if name != "analysed when empty" && !group.Long() { // the harder one for the planner
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, plans := openExplained(t, nil)
			for _, table := range []string{"rollup", "type_rollup", "refused"} {
				w.exec(t, "ALTER TABLE {schema}."+table+" SET (autovacuum_enabled = off)")
			}
			now := time.Now().Truncate(time.Hour)
			for _, step := range fill {
				fillFigures(t, w, step, now)
			}
			for _, c := range figurePlanCases(t, w, now) {
				plans.bound(t, c.name, c.run)
			}
		})
	}
}

// fillFigures writes 60,000 minutes of deliveries, 60,000 hours of types and 20,000 refused requests.
func fillFigures(t *testing.T, w *world, step string, now time.Time) {
	t.Helper()
	if step == "VACUUM" {
		w.exec(t, "VACUUM ANALYZE {schema}.rollup")
		w.exec(t, "VACUUM ANALYZE {schema}.type_rollup")
		w.exec(t, "VACUUM ANALYZE {schema}.refused")
		return
	}
	w.exec(t, `INSERT INTO {schema}.rollup
		SELECT kind, 0, $1::timestamptz - i * interval '1 minute', 's' || s, 'ok', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
		FROM generate_series(0, 2) kind, generate_series(1, 2000) i, generate_series(1, 10) s`, now)
	w.exec(t, `INSERT INTO {schema}.type_rollup
		SELECT 's' || s, 't' || n, $1::timestamptz - i * interval '1 hour', 1
		FROM generate_series(1, 2000) i, generate_series(1, 10) s, generate_series(1, 3) n`, now)
	w.exec(t, `INSERT INTO {schema}.refused
		SELECT sha256(convert_to(s || ' ' || i, 'UTF8')), s || ' ' || i, $1::timestamptz - i * interval '1 second', 's' || s, 'method', 405, 'PUT', '', '',
			'', '', -1
		FROM generate_series(1, 1000) i, generate_series(1, 20) s`, now)
}

func figurePlanCases(t *testing.T, w *world, now time.Time) []planCase {
	t.Helper()
	series := func(f driver.SeriesFilter, want int) func() error {
		return func() error {
			f.Until, f.Limit = now, 10_000
			points, err := w.Series(t.Context(), &f)
			if err == nil && len(points) != want {
				err = fmt.Errorf("%d points, want %d", len(points), want)
			}
			return err
		}
	}
	return []planCase{
		{"an hour of deliveries", series(driver.SeriesFilter{Of: driver.FigureDeliveries, Since: now.Add(-time.Hour)}, 60)},
		{"an hour of a source", series(driver.SeriesFilter{Of: driver.FigureDeliveries, Name: "s3", Since: now.Add(-time.Hour)}, 60)},
		{"the hours of a type", series(driver.SeriesFilter{
			Of: driver.FigureTypes, Resolution: driver.ByHour, Name: "s3", Label: "t2", Since: now.Add(-1000 * time.Hour),
		}, 1000)},
		{"the types of a day", series(driver.SeriesFilter{Of: driver.FigureTypes, Resolution: driver.ByHour, Since: now.Add(-24 * time.Hour)}, 72)},
		{"adding", func() error {
			var figures []driver.Figure
			for i := range 50 {
				figures = append(figures, driver.Figure{Of: driver.FigureAttempts, At: now.Add(-time.Minute), Name: "s1", Label: fmt.Sprint(i), N: 1},
					driver.Figure{Of: driver.FigureTypes, At: now.Add(-time.Hour), Name: "s1", Label: fmt.Sprint(i), N: 1})
			}
			return w.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: figures})
		}},
		{"refused requests", refusedPage(t, w, driver.RefusedFilter{}, 50)},
		{"refused requests of a source", refusedPage(t, w, driver.RefusedFilter{Source: "s3", Since: now.Add(-10 * time.Second)}, 10)},
		{"adding refused requests", func() error {
			p := &driver.AddRefusedParams{}
			for i := range 50 {
				p.Requests = append(p.Requests, driver.RefusedRequest{ErrorID: fmt.Sprint("new", i), At: now, Source: "s1"})
			}
			return w.AddRefused(t.Context(), p)
		}},
		{"a refused request", refusedPage(t, w, driver.RefusedFilter{ErrorID: "new7"}, 1)},
		{"pruning", func() error {
			old := now.Add(-2 * 365 * 24 * time.Hour)
			return errors.Join(
				w.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: []driver.Figure{
					{Of: driver.FigureDeliveries, At: old, Name: "s1", Label: "ok", N: 1}, {Of: driver.FigureTypes, At: old, Name: "s1", Label: "t1", N: 1},
				}}),
				prunePass(t, w, now.Add(-2000*time.Minute).Add(driver.ByMinute.Kept())),
			)
		}},
	}
}

func refusedPage(t *testing.T, w *world, f driver.RefusedFilter, want int) func() error {
	return func() error {
		page, err := w.Refused(t.Context(), &f)
		if err == nil && len(page.Requests) != want {
			err = fmt.Errorf("%d requests, want %d", len(page.Requests), want)
		}
		return err
	}
}

func prunePass(t *testing.T, w *world, now time.Time) error {
	t.Helper()
	_, err := w.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Hour, Retention: 14 * 24 * time.Hour, Now: now})
	return err
}
