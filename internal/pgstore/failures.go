package pgstore

import (
	"context"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// failuresSQL reads few messages of each destination, by their indexes, and then the last failed
// attempt of each. A message that waits for another attempt is due later than one that was never tried.
var failuresSQL = statement(`
SELECT d.name, f.id, f.source, f.event_id, f.type, f.number, coalesce(f.status_code, 0), coalesce(f.error, ''), f.at
FROM unnest($1::text[]) WITH ORDINALITY AS d (name, place)
CROSS JOIN LATERAL (
	SELECT m.id, e.source, e.event_id, e.type, a.number, a.status_code, a.error, a.at
	FROM (
		(SELECT id, event_key FROM {schema}.message WHERE destination = d.name AND state IN (0, 1) AND due_at > now()
		ORDER BY due_at LIMIT $2::int)
		UNION
		(SELECT id, event_key FROM {schema}.message WHERE destination = d.name AND state IN (0, 1)
		ORDER BY due_at DESC LIMIT $2::int)
		UNION
		(SELECT id, event_key FROM {schema}.message WHERE destination = d.name AND state = 3
		ORDER BY received_at DESC LIMIT $2::int)
	) m
	CROSS JOIN LATERAL (
		SELECT number, status_code, error, at FROM {schema}.attempt
		WHERE message_id = m.id AND outcome <> 1
		ORDER BY generation DESC, number DESC
		LIMIT 1
	) a
	CROSS JOIN LATERAL (SELECT source, event_id, type FROM {schema}.event WHERE key = m.event_key OFFSET 0) e
	ORDER BY a.at DESC, m.id COLLATE "C"
	LIMIT $3::int
) f
ORDER BY d.place, f.at DESC, f.id COLLATE "C"`)

// Failures implements [driver.Store].
func (s *Store) Failures(ctx context.Context, destinations []string, limit int) ([]driver.Failure, error) {
	names := slices.DeleteFunc(slices.Clone(destinations), func(name string) bool { return !driver.IsText(name) })
	var all []driver.Failure
	err := read(ctx, s.pools.Admin, "reading the last failures", func(r Rows) error {
		var f driver.Failure
		var attempt, status int64
		err := r.Scan(&f.Destination, &f.MessageID, &f.Source, &f.EventID, &f.Type, &attempt, &status, &f.Error, &f.At)
		f.Attempt, f.StatusCode, f.At = int(attempt), int(status), f.At.UTC()
		all = append(all, f)
		return err
	}, s.text(failuresSQL), names, int32(driver.FailureCandidates), int32(max(limit, 0)))
	if err != nil {
		return nil, err
	}
	return all, nil
}
