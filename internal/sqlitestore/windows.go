package sqlitestore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	opRegister = "registering windows"
	// renewAfter is the age of a registered window that is written again: every process registers
	// its windows once a minute.
	renewAfter = 10 * time.Minute
)

const (
	countRenewed = `SELECT count(*) FROM hookonce_source_window
		WHERE source = ? AND dedupe_window = ? AND retention = ? AND quarantine_rows = ? AND last_seen BETWEEN ? AND ?`

	registerWindow = `INSERT INTO hookonce_source_window (source, dedupe_window, retention, quarantine_rows, last_seen)
		VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (source, dedupe_window, retention, quarantine_rows) DO UPDATE SET last_seen = excluded.last_seen`

	selectWindows = `SELECT source, max(dedupe_window), max(retention), max(quarantine_rows)
		FROM hookonce_source_window WHERE last_seen > ? GROUP BY source`

	countForgotten = `SELECT count(*) FROM hookonce_source_window WHERE last_seen <= ?`

	forgetWindows = `DELETE FROM hookonce_source_window WHERE last_seen <= ?`
)

// RegisterWindows implements driver.Store. It waits for the writer only if there is something to
// write.
func (s *Store) RegisterWindows(ctx context.Context, p *driver.PruneParams) error {
	all, err := p.Windows()
	if err != nil {
		return err
	}
	now := clock(p.Now)
	var missing []string
	for _, source := range slices.Sorted(maps.Keys(all)) {
		// A row that was seen in the future, before the clock was set back, is written too.
		args := append(windowArgs(source, all[source]), now-renewAfter.Microseconds(), now)
		var renewed int
		if err := s.reader.QueryRowContext(ctx, countRenewed, args...).Scan(&renewed); err != nil {
			return s.failed(ctx, opRegister, err)
		}
		if renewed == 0 {
			missing = append(missing, source)
		}
	}
	return s.writeEach(ctx, opRegister, p.Now, len(missing), func(t *writeTx, i int) error {
		_, err := t.exec(registerWindow, append(windowArgs(missing[i], all[missing[i]]), t.now)...)
		return err
	})
}

func windowArgs(source string, k driver.Kept) []any {
	return []any{source, k.DedupeWindow.Microseconds(), k.Retention.Microseconds(), k.QuarantineRows}
}

// longestWindows returns the windows to follow. now is a time before the call: an event that is
// past a window of p at that time was claimed before it, by a process that had registered its
// windows by then.
func (s *Store) longestWindows(ctx context.Context, p *driver.PruneParams, now int64) (driver.Windows, error) {
	all, err := p.Windows()
	if err != nil {
		return nil, err
	}
	type registered struct {
		source                  string
		dedupe, retention, rows int64
	}
	rows, err := s.reader.QueryContext(ctx, selectWindows, now-driver.WindowsHold.Microseconds())
	found, err := collect(rows, err, func(r *registered) error { return rows.Scan(&r.source, &r.dedupe, &r.retention, &r.rows) })
	if err != nil {
		return nil, s.failed(ctx, opPrune, err)
	}
	for _, r := range found {
		all.Extend(r.source, driver.Kept{SourceWindows: driver.SourceWindows{
			DedupeWindow: time.Duration(r.dedupe) * time.Microsecond, Retention: time.Duration(r.retention) * time.Microsecond,
		}, QuarantineRows: r.rows})
	}
	return all, nil
}

// forgetWindows removes registered windows that do not hold any more.
func (r *pruner) forgetWindows(ctx context.Context) error {
	before := r.before(driver.WindowsHold)
	var n int
	if err := r.store.reader.QueryRowContext(ctx, countForgotten, before).Scan(&n); err != nil {
		return r.store.failed(ctx, opPrune, err)
	}
	if n == 0 {
		return nil
	}
	return r.write(ctx, opPrune, func(t *writeTx) error {
		_, err := t.exec(forgetWindows, before)
		return err
	})
}
