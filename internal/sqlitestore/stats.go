package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The statements of Stats count up to a limit (?1), in the order of an index. Names are found by steps
// through an index, from one name to the next.
const (
	countPending = `SELECT
		(SELECT count(*) FROM (SELECT 1 FROM hookonce_event_state INDEXED BY hookonce_event_state_fresh WHERE ` + fresh + ` LIMIT ?1))
		+ (SELECT count(*) FROM (SELECT 1 FROM hookonce_event_state INDEXED BY hookonce_event_state_tried WHERE ` + tried + ` LIMIT ?1))`

	selectOldestPending = `WITH RECURSIVE fresh (source) AS (
			SELECT (SELECT source FROM hookonce_event_state WHERE ` + fresh + ` ORDER BY source LIMIT 1)
			UNION ALL
			SELECT (SELECT s.source FROM hookonce_event_state s WHERE s.source > f.source AND ` + fresh + ` ORDER BY s.source LIMIT 1)
			FROM fresh f WHERE f.source IS NOT NULL
		), tried (source) AS (
			SELECT (SELECT source FROM hookonce_event_state WHERE ` + tried + ` ORDER BY source LIMIT 1)
			UNION ALL
			SELECT (SELECT s.source FROM hookonce_event_state s WHERE s.source > t.source AND ` + tried + ` ORDER BY s.source LIMIT 1)
			FROM tried t WHERE t.source IS NOT NULL
		)
		SELECT min(due_at) FROM (
			SELECT (SELECT min(due_at) FROM hookonce_event_state WHERE source = f.source AND ` + fresh + ` AND due_at < ` + parked + `) AS due_at FROM fresh f
			UNION ALL
			SELECT (SELECT min(due_at) FROM hookonce_event_state WHERE source = t.source AND ` + tried + ` AND due_at < ` + parked + `) FROM tried t
		)`

	countDeadEvents  = `SELECT count(*) FROM (SELECT 1 FROM hookonce_event_state WHERE state = 3 ORDER BY received_at LIMIT ?1)`
	countDead        = `SELECT count(*) FROM (SELECT 1 FROM hookonce_message WHERE state = 3 ORDER BY received_at LIMIT ?1)`
	countQuarantined = `SELECT count(*) FROM (SELECT 1 FROM hookonce_quarantine ORDER BY last_at LIMIT ?1)`

	selectStuckDestinations = `WITH RECURSIVE open (name) AS (
			SELECT (SELECT destination FROM hookonce_message WHERE state IN (0, 1) ORDER BY destination LIMIT 1)
			UNION ALL
			SELECT (SELECT m.destination FROM hookonce_message m WHERE m.destination > o.name AND m.state IN (0, 1) ORDER BY m.destination LIMIT 1)
			FROM open o WHERE o.name IS NOT NULL
		), dead (name) AS (
			SELECT (SELECT destination FROM hookonce_message WHERE state = 3 ORDER BY destination LIMIT 1)
			UNION ALL
			SELECT (SELECT m.destination FROM hookonce_message m WHERE m.destination > d.name AND m.state = 3 ORDER BY m.destination LIMIT 1)
			FROM dead d WHERE d.name IS NOT NULL
		)
		SELECT name FROM open WHERE name IS NOT NULL UNION SELECT name FROM dead WHERE name IS NOT NULL ORDER BY name`
)

// countOfDestination counts the messages that are due, and those that come, apart: a lease ends
// later than now, so the messages being sent stand behind all that are due.
var countOfDestination = `SELECT coalesce(sum(state = 0), 0), coalesce(sum(state = 1), 0), min(CASE WHEN state = 0 AND due_at < ` + parked + ` THEN due_at END),
			(SELECT count(*) FROM (SELECT 1 FROM hookonce_message WHERE destination = ?2 AND state = 3 ORDER BY received_at LIMIT ?1)),
			(SELECT count(*) FROM (SELECT 1 FROM hookonce_ordered_message WHERE destination = ?2 AND state = 1 LIMIT ?1))
		FROM (
			SELECT * FROM (SELECT state, due_at FROM hookonce_message
				WHERE destination = ?2 AND state IN (0, 1) AND due_at < ?3 ORDER BY due_at LIMIT ?1)
			UNION ALL
			SELECT * FROM (SELECT state, due_at FROM hookonce_message
				WHERE destination = ?2 AND state IN (0, 1) AND due_at >= ?3 ORDER BY due_at LIMIT ?1)
		)`

// Stats implements driver.Store. It reads for at most 5 s.
func (s *Store) Stats(ctx context.Context) (*driver.Stats, error) {
	const limit = driver.CountLimit
	stats := &driver.Stats{}
	err := s.snapshot(ctx, "counting open work", func(ctx context.Context, tx *sql.Tx) error {
		var oldest sql.NullInt64
		if err := tx.QueryRowContext(ctx, countPending, limit).Scan(&stats.EventsPending); err != nil {
			return err
		}
		stats.EventsPending = min(stats.EventsPending, limit)
		if err := tx.QueryRowContext(ctx, selectOldestPending).Scan(&oldest); err != nil {
			return err
		}
		stats.OldestPendingAt = fromNullMicros(oldest)
		var deadEvents, dead int64
		for query, n := range map[string]*int64{countDeadEvents: &deadEvents, countDead: &dead, countQuarantined: &stats.Quarantined} {
			if err := tx.QueryRowContext(ctx, query, limit).Scan(n); err != nil {
				return err
			}
		}
		stats.DeadLetters = min(deadEvents+dead, limit)
		names, err := column[string](ctx, tx, selectStuckDestinations)
		if err != nil {
			return err
		}
		now := clock(time.Time{})
		for _, name := range names {
			d := driver.DestinationStats{Destination: name}
			if err := tx.QueryRowContext(ctx, countOfDestination, limit, name, now).Scan(&d.Pending, &d.Sending, &oldest, &d.Dead, &d.HeldLines); err != nil {
				return err
			}
			d.Pending, d.Sending, d.OldestDueAt = min(d.Pending, limit), min(d.Sending, limit), fromNullMicros(oldest)
			stats.Destinations = append(stats.Destinations, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stats, nil
}
