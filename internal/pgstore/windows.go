package pgstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// registerWindowsSQL stores windows, in the order of their sources, so that two processes do not
// wait for each other. It writes only rows that are new or were seen ten minutes ago: every process
// calls it once a minute. A row that was seen in the future, before the clock was set back, is
// written too.
var registerWindowsSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now
)
INSERT INTO {schema}.source_window (source, dedupe_window, retention, quarantine_rows, last_seen)
SELECT i.source, i.dedupe_window, i.retention, i.quarantine_rows, setting.now
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS i (source, dedupe_window, retention, quarantine_rows)
CROSS JOIN setting
WHERE NOT EXISTS (
	SELECT FROM {schema}.source_window w
	WHERE (w.source, w.dedupe_window, w.retention, w.quarantine_rows) = (i.source, i.dedupe_window, i.retention, i.quarantine_rows)
		AND w.last_seen BETWEEN setting.now - interval '10 minutes' AND setting.now
)
ORDER BY i.source
ON CONFLICT (source, dedupe_window, retention, quarantine_rows) DO UPDATE SET last_seen = excluded.last_seen`)

// windowsSQL returns the longest windows of each source among those seen after $2 microseconds
// before the present time $1. It always returns at least one row, with the time.
var windowsSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now
)
SELECT setting.now, coalesce(w.source, ''), coalesce(max(w.dedupe_window), 0), coalesce(max(w.retention), 0),
	coalesce(max(w.quarantine_rows), 0)
FROM setting
LEFT JOIN {schema}.source_window w ON w.last_seen > setting.now - $2::bigint * interval '1 microsecond'
GROUP BY setting.now, w.source`)

// forgetWindowsSQL removes rows that were not seen for $2 microseconds before the time $1. It
// passes over rows that a process is renewing.
var forgetWindowsSQL = statement(`
DELETE FROM {schema}.source_window
WHERE (source, dedupe_window, retention, quarantine_rows) IN (
	SELECT w.source, w.dedupe_window, w.retention, w.quarantine_rows
	FROM {schema}.source_window w
	WHERE w.last_seen <= $1::timestamptz - $2::bigint * interval '1 microsecond'
	FOR UPDATE SKIP LOCKED
)`)

// RegisterWindows implements [driver.Store].
func (s *Store) RegisterWindows(ctx context.Context, p *driver.PruneParams) error {
	all, err := p.Windows()
	if err != nil {
		return err
	}
	sources := slices.Sorted(maps.Keys(all))
	var dedupe, retention, rows []int64
	for _, source := range sources {
		k := all[source]
		dedupe, retention = append(dedupe, k.DedupeWindow.Microseconds()), append(retention, k.Retention.Microseconds())
		rows = append(rows, k.QuarantineRows)
	}
	return write(ctx, s.pools.Receive, "registering windows", noRows, s.text(registerWindowsSQL), clock(p.Now), sources, dedupe, retention, rows)
}

// longestWindows returns the windows to follow, and the present time. It fixes that time: an event
// that is past a window of p at that time was claimed before it, by a process that had registered
// its windows by then.
func (s *Store) longestWindows(ctx context.Context, p *driver.PruneParams) (driver.Windows, time.Time, error) {
	all, err := p.Windows()
	if err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time
	err = read(ctx, s.pools.Work, "reading the registered windows", func(r Rows) error {
		var source string
		var dedupe, retention, rows int64
		if err := r.Scan(&now, &source, &dedupe, &retention, &rows); err != nil {
			return err
		}
		all.Extend(source, driver.Kept{SourceWindows: driver.SourceWindows{
			DedupeWindow: time.Duration(dedupe) * time.Microsecond, Retention: time.Duration(retention) * time.Microsecond,
		}, QuarantineRows: rows})
		return nil
	}, s.text(windowsSQL), clock(p.Now), driver.WindowsHold.Microseconds())
	return all, now, err
}
