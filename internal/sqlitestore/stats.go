package sqlitestore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

const (
	countPending     = `SELECT count(*), min(due_at) FROM hookonce_event_state WHERE state = 0`
	countDeadEvents  = `SELECT count(*) FROM hookonce_event_state WHERE state = 3`
	countQuarantined = `SELECT count(*) FROM hookonce_quarantine`

	countOpen = `SELECT destination, sum(state = 0), sum(state = 1), min(CASE state WHEN 0 THEN due_at END)
		FROM hookonce_message WHERE state IN (0, 1) GROUP BY destination`

	countDead = `SELECT destination, count(*) FROM hookonce_message WHERE state = 3 GROUP BY destination`
)

// Stats implements driver.Store. It reads for at most 5 s.
func (s *Store) Stats(ctx context.Context) (*driver.Stats, error) {
	stats := &driver.Stats{}
	err := s.snapshot(ctx, "counting open work", func(ctx context.Context, tx *sql.Tx) error {
		var oldest sql.NullInt64
		if err := tx.QueryRowContext(ctx, countPending).Scan(&stats.EventsPending, &oldest); err != nil {
			return err
		}
		stats.OldestPendingAt = fromNullMicros(oldest)
		if err := tx.QueryRowContext(ctx, countDeadEvents).Scan(&stats.DeadLetters); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, countQuarantined).Scan(&stats.Quarantined); err != nil {
			return err
		}
		return destinationStats(ctx, tx, stats)
	})
	if err != nil {
		return nil, err
	}
	return stats, nil
}

// destinationStats counts by destination, and adds the dead messages up.
func destinationStats(ctx context.Context, tx *sql.Tx, stats *driver.Stats) error {
	rows, err := tx.QueryContext(ctx, countOpen)
	if err != nil {
		return err
	}
	stats.Destinations, err = collect(rows, func(d *driver.DestinationStats) error {
		var oldest sql.NullInt64
		err := rows.Scan(&d.Destination, &d.Pending, &d.Sending, &oldest)
		d.OldestDueAt = fromNullMicros(oldest)
		return err
	})
	if err != nil {
		return err
	}
	if rows, err = tx.QueryContext(ctx, countDead); err != nil {
		return err
	}
	dead, err := collect(rows, func(d *driver.DestinationStats) error { return rows.Scan(&d.Destination, &d.Dead) })
	if err != nil {
		return err
	}
	for _, d := range dead {
		stats.DeadLetters += d.Dead
		i, found := slices.BinarySearchFunc(stats.Destinations, d.Destination, func(d driver.DestinationStats, name string) int {
			return strings.Compare(d.Destination, name)
		})
		if !found {
			stats.Destinations = slices.Insert(stats.Destinations, i, driver.DestinationStats{Destination: d.Destination})
		}
		stats.Destinations[i].Dead = d.Dead
	}
	return nil
}
