package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// selectLastFailures reads few messages, by their indexes, and then the last failed attempt of each. A
// message that waits for another attempt is due later than one that was never tried.
const selectLastFailures = `WITH candidate AS MATERIALIZED (
		SELECT number FROM (SELECT number FROM hookonce_message WHERE destination = ?1 AND state IN (0, 1) AND due_at > ?2
			ORDER BY due_at LIMIT ?3)
		UNION SELECT number FROM (SELECT number FROM hookonce_message WHERE destination = ?1 AND state IN (0, 1)
			ORDER BY due_at DESC LIMIT ?3)
		UNION SELECT number FROM (SELECT number FROM hookonce_message WHERE destination = ?1 AND state = 3
			ORDER BY received_at DESC LIMIT ?3)
	)
	SELECT m.destination, m.id, e.source, e.event_id, e.type, a.number, a.status_code, a.error, a.at
	FROM candidate c
	CROSS JOIN hookonce_message m ON m.number = c.number
	CROSS JOIN hookonce_attempt a ON a.message_id = m.id
		AND (a.generation, a.number) = (SELECT generation, number FROM hookonce_attempt
			WHERE message_id = m.id AND outcome <> 'sent' ORDER BY generation DESC, number DESC LIMIT 1)
	CROSS JOIN hookonce_event e ON e.id = m.event
	ORDER BY a.at DESC, m.id LIMIT ?4`

// Failures implements driver.Store.
func (s *Store) Failures(ctx context.Context, destinations []string, limit int) ([]driver.Failure, error) {
	var all []driver.Failure
	err := s.snapshot(ctx, "reading the last failures", func(ctx context.Context, tx *sql.Tx) error {
		for _, name := range destinations {
			rows, err := tx.QueryContext(ctx, selectLastFailures, name, clock(time.Time{}), driver.FailureCandidates, max(limit, 0))
			some, err := collect(rows, err, func(f *driver.Failure) error {
				var at int64
				err := rows.Scan(&f.Destination, &f.MessageID, &f.Source, &f.EventID, &f.Type, &f.Attempt, &f.StatusCode, &f.Error, &at)
				f.At = fromMicros(at)
				return err
			})
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
