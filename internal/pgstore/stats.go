package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// statsSQL counts everything in one snapshot. Each part reads a partial index on the states that it
// counts. There is a row for each destination, and one without a destination if there is none.
const statsSQL = `
SELECT pending.n, pending.oldest, dead.n, quarantine.n,
	d.destination, coalesce(d.pending, 0), coalesce(d.sending, 0), coalesce(d.dead, 0), d.oldest
FROM (
	SELECT coalesce(sum(n), 0)::bigint AS n, min(oldest) AS oldest FROM (
		SELECT count(*) AS n, min(s.due_at) AS oldest FROM {schema}.event_state s WHERE ` + freshSQL + `
		UNION ALL
		SELECT count(*), min(s.due_at) FROM {schema}.event_state s WHERE ` + triedSQL + `
	) s
) pending
CROSS JOIN (
	SELECT (SELECT count(*) FROM {schema}.message WHERE state = 3)
		+ (SELECT count(*) FROM {schema}.event_state WHERE state = 3) AS n
) dead
CROSS JOIN (
	SELECT count(*) AS n FROM {schema}.quarantine
) quarantine
LEFT JOIN (
	SELECT destination,
		count(*) FILTER (WHERE state = 0) AS pending,
		count(*) FILTER (WHERE state = 1) AS sending,
		count(*) FILTER (WHERE state = 3) AS dead,
		min(due_at) FILTER (WHERE state = 0) AS oldest
	FROM (
		SELECT destination, state, due_at FROM {schema}.message WHERE state IN (0, 1)
		UNION ALL
		SELECT destination, state, due_at FROM {schema}.message WHERE state = 3
	) m
	GROUP BY destination
) d ON true
ORDER BY d.destination COLLATE "C"`

// Stats implements [driver.Store].
func (s *Store) Stats(ctx context.Context) (*driver.Stats, error) {
	stats := &driver.Stats{}
	err := read(ctx, s.pools.Admin, "counting open work", func(r Rows) error {
		var d driver.DestinationStats
		var name *string
		var pendingSince, dueSince *time.Time
		if err := r.Scan(&stats.EventsPending, &pendingSince, &stats.DeadLetters, &stats.Quarantined,
			&name, &d.Pending, &d.Sending, &d.Dead, &dueSince); err != nil {
			return err
		}
		stats.OldestPendingAt = timeOf(pendingSince)
		if name != nil {
			d.Destination, d.OldestDueAt = *name, timeOf(dueSince)
			stats.Destinations = append(stats.Destinations, d)
		}
		return nil
	}, s.sql.stats)
	if err != nil {
		return nil, err
	}
	return stats, nil
}
