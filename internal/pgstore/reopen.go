package pgstore

import (
	"context"

	"github.com/hookonce/hookonce/driver"
)

// reopenSQL reopens dead events. The lock on the event's row decides between
// concurrent calls; it is held for this statement only, and nothing is written
// to that row. All messages are read again under their locks.
const reopenSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now
), mine AS MATERIALIZED (
	SELECT e.key, e.work
	FROM (SELECT DISTINCT key FROM unnest($1::bytea[]) AS k (key) ORDER BY key) i
	CROSS JOIN LATERAL (
		SELECT e.key, e.work FROM {schema}.event e WHERE e.key = i.key
		FOR NO KEY UPDATE SKIP LOCKED
	) e
), queued AS MATERIALIZED (
	SELECT s.key
	FROM mine
	CROSS JOIN LATERAL (
		SELECT s.key FROM {schema}.event_state s
		WHERE mine.work = 1 AND s.key = mine.key AND s.state = 3
		FOR UPDATE SKIP LOCKED
	) s
), routed AS MATERIALIZED (
	SELECT m.id, m.event_key, (
		SELECT max(g.generation) FROM {schema}.message g WHERE g.event_key = m.event_key
	) + 1 AS generation
	FROM mine
	CROSS JOIN LATERAL (
		SELECT m.id, m.event_key FROM {schema}.message m
		WHERE mine.work = 0 AND m.event_key = mine.key AND m.state = 3
			AND NOT EXISTS (SELECT FROM {schema}.message o WHERE o.event_key = mine.key AND o.state < 2)
		FOR UPDATE SKIP LOCKED
	) m
), states AS (
	UPDATE {schema}.event_state s
	SET state = 0, note = '', attempts = 0, generation = s.generation + 1, due_at = setting.now,
		processed_at = NULL, failed_at = NULL
	FROM queued, setting
	WHERE s.key = queued.key
	RETURNING s.key
), messages AS (
	UPDATE {schema}.message m
	SET state = 0, note = '', attempts = 0, generation = routed.generation, due_at = setting.now, failed_at = NULL
	FROM routed, setting
	WHERE m.id = routed.id
	RETURNING m.event_key
)
SELECT key FROM states
UNION
SELECT event_key FROM messages
ORDER BY 1`

// Reopen implements [driver.Store].
func (s *Store) Reopen(ctx context.Context, p *driver.ReopenParams) ([]driver.Key, error) {
	if len(p.Keys) == 0 {
		return nil, nil
	}
	keys := make([][]byte, len(p.Keys))
	for i := range p.Keys {
		keys[i] = p.Keys[i][:]
	}
	var reopened []driver.Key
	err := write(ctx, s.pools.Receive, "reopening dead events", func(r Rows) error {
		var key []byte
		if err := r.Scan(&key); err != nil {
			return err
		}
		reopened = append(reopened, driver.Key(key))
		return nil
	}, s.sql.reopen, keys, clock(p.Now))
	if err != nil {
		return nil, err
	}
	return reopened, nil
}
