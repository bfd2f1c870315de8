package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The statements of Stats count up to a limit ($1), in the order of an index; see inOrderSQL. Names are
// found by steps through an index, from one name to the next.
var (
	statsSQL = statement(`
WITH RECURSIVE fresh AS (
	(SELECT s.source FROM {schema}.event_state s WHERE ` + freshSQL + ` ORDER BY s.source LIMIT 1)
	UNION ALL
	SELECT (SELECT s.source FROM {schema}.event_state s WHERE s.source > n.source AND ` + freshSQL + ` ORDER BY s.source LIMIT 1)
	FROM fresh n WHERE n.source IS NOT NULL
), tried AS (
	(SELECT s.source FROM {schema}.event_state s WHERE ` + triedSQL + ` ORDER BY s.source LIMIT 1)
	UNION ALL
	SELECT (SELECT s.source FROM {schema}.event_state s WHERE s.source > n.source AND ` + triedSQL + ` ORDER BY s.source LIMIT 1)
	FROM tried n WHERE n.source IS NOT NULL
), pending AS (
	SELECT p.n, p.oldest FROM fresh f CROSS JOIN LATERAL (
		SELECT count(*) AS n, min(due_at) FILTER (WHERE due_at < {schema}.parked()) AS oldest FROM (
			SELECT s.due_at FROM {schema}.event_state s WHERE s.source = f.source AND ` + freshSQL + ` ORDER BY s.due_at LIMIT $1::bigint
		) s
	) p
	UNION ALL
	SELECT p.n, p.oldest FROM tried t CROSS JOIN LATERAL (
		SELECT count(*), min(due_at) FILTER (WHERE due_at < {schema}.parked()) FROM (
			SELECT s.due_at FROM {schema}.event_state s WHERE s.source = t.source AND ` + triedSQL + ` ORDER BY s.due_at LIMIT $1::bigint
		) s
	) p (n, oldest)
)
SELECT least($1::bigint, (SELECT coalesce(sum(n), 0)::bigint FROM pending)), (SELECT min(oldest) FROM pending),
	least($1::bigint,
		(SELECT count(*) FROM (SELECT 1 FROM {schema}.message WHERE state = 3 ORDER BY received_at LIMIT $1::bigint) m)
		+ (SELECT count(*) FROM (SELECT 1 FROM {schema}.event_state WHERE state = 3 ORDER BY received_at LIMIT $1::bigint) s)),
	(SELECT count(*) FROM (SELECT 1 FROM {schema}.quarantine ORDER BY last_at LIMIT $1::bigint) q)`)

	// destinationStatsSQL counts the messages that are due, and those that come, apart: a lease ends
	// later than now, so the messages being sent stand behind all that are due.
	destinationStatsSQL = statement(`
WITH RECURSIVE open AS (
	(SELECT destination FROM {schema}.message WHERE state IN (0, 1) ORDER BY destination LIMIT 1)
	UNION ALL
	SELECT (SELECT m.destination FROM {schema}.message m
		WHERE m.destination > o.destination AND m.state IN (0, 1) ORDER BY m.destination LIMIT 1)
	FROM open o WHERE o.destination IS NOT NULL
), dead AS (
	(SELECT destination FROM {schema}.message WHERE state = 3 ORDER BY destination LIMIT 1)
	UNION ALL
	SELECT (SELECT m.destination FROM {schema}.message m
		WHERE m.destination > d.destination AND m.state = 3 ORDER BY m.destination LIMIT 1)
	FROM dead d WHERE d.destination IS NOT NULL
), name AS (
	SELECT destination FROM open WHERE destination IS NOT NULL
	UNION
	SELECT destination FROM dead WHERE destination IS NOT NULL
)
SELECT n.destination, least($1::bigint, o.pending), least($1::bigint, o.sending), d.n, o.oldest, h.n
FROM name n
CROSS JOIN LATERAL (
	SELECT count(*) FILTER (WHERE state = 0) AS pending, count(*) FILTER (WHERE state = 1) AS sending,
		min(due_at) FILTER (WHERE state = 0 AND due_at < {schema}.parked()) AS oldest
	FROM (
		(SELECT m.state, m.due_at FROM {schema}.message m
			WHERE m.destination = n.destination AND m.state IN (0, 1) AND m.due_at < now() ORDER BY m.due_at LIMIT $1::bigint)
		UNION ALL
		(SELECT m.state, m.due_at FROM {schema}.message m
			WHERE m.destination = n.destination AND m.state IN (0, 1) AND m.due_at >= now() ORDER BY m.due_at LIMIT $1::bigint)
	) m
) o
CROSS JOIN LATERAL (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.message m WHERE m.destination = n.destination AND m.state = 3 ORDER BY m.received_at LIMIT $1::bigint
	) m
) d
CROSS JOIN LATERAL (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.ordered_message l WHERE l.destination = n.destination AND l.state = 1 ORDER BY l.destination, l.line LIMIT $1::bigint
	) l
) h
ORDER BY n.destination COLLATE "C"`)
)

// Stats implements [driver.Store].
func (s *Store) Stats(ctx context.Context) (*driver.Stats, error) {
	var stats *driver.Stats
	err := s.pools.Admin.Transaction(ctx, Snapshot, func(conn Conn) error {
		stats = &driver.Stats{}
		if err := conn.Script(ctx, inOrderSQL); err != nil {
			return err
		}
		err := scan(ctx, conn, func(r Rows) error {
			var oldest *time.Time
			err := r.Scan(&stats.EventsPending, &oldest, &stats.DeadLetters, &stats.Quarantined)
			stats.OldestPendingAt = timeOf(oldest)
			return err
		}, s.text(statsSQL), int64(driver.CountLimit))
		if err != nil {
			return err
		}
		return scan(ctx, conn, func(r Rows) error {
			var d driver.DestinationStats
			var oldest *time.Time
			err := r.Scan(&d.Destination, &d.Pending, &d.Sending, &d.Dead, &oldest, &d.HeldLines)
			d.OldestDueAt = timeOf(oldest)
			stats.Destinations = append(stats.Destinations, d)
			return err
		}, s.text(destinationStatsSQL), int64(driver.CountLimit))
	})
	if err != nil {
		return nil, readFailed(s.pools.Admin, "counting open work", err)
	}
	return stats, nil
}
