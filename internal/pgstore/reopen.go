package pgstore

import (
	"context"

	"github.com/hookonce/hookonce/driver"
)

// notEndedSQL is the condition that no handler of the dead state row s ended its transaction.
const notEndedSQL = `s.note <> '` + driver.NoteTxEnded + `'`

// reopenSQL reopens dead events that were not redacted. The lock on the event's row decides between concurrent calls. It
// lasts for this statement only, and the row is not changed. All messages are read again under
// their locks.
const reopenSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now, {schema}.durably() AS durable
), mine AS MATERIALIZED (
	SELECT e.key, e.work
	FROM (SELECT DISTINCT key FROM unnest($1::bytea[]) AS k (key) ORDER BY key) i
	CROSS JOIN LATERAL (
		SELECT e.key, e.work FROM {schema}.event e WHERE e.key = i.key AND NOT e.outbox AND e.body IS NOT NULL
		FOR NO KEY UPDATE SKIP LOCKED
	) e
), queued AS MATERIALIZED (
	SELECT s.key, s.generation
	FROM mine
	CROSS JOIN LATERAL (
		SELECT s.key, s.generation FROM {schema}.event_state s
		WHERE mine.work = 1 AND s.key = mine.key AND s.state = 3 AND NOT s.undecided AND ` + notEndedSQL + `
		FOR UPDATE SKIP LOCKED
	) s
), routed AS MATERIALIZED (
	SELECT m.id, m.key, m.generation
	FROM mine
	CROSS JOIN LATERAL (
		SELECT m.id, m.event_key AS key, m.generation FROM {schema}.message m
		WHERE mine.work = 0 AND m.event_key = mine.key AND m.state = 3
			AND NOT EXISTS (SELECT FROM {schema}.message o WHERE o.event_key = mine.key AND o.state < 2)
		FOR UPDATE SKIP LOCKED
	) m` + againSQL + reopenedSQL + `
SELECT key FROM next ORDER BY key`

// reopenedSQL follows againSQL, and records the reopening in the history.
const reopenedSQL = `, told AS (
	INSERT INTO {schema}.history (event_key, at, action, generation, messages)
	SELECT next.key, setting.now, '` + driver.ActionReopened + `', next.generation,
		(SELECT count(*) FROM routed r WHERE r.key = next.key)
	FROM next, setting
)`

// Reopen implements [driver.Store].
func (s *Store) Reopen(ctx context.Context, p *driver.ReopenParams) ([]driver.Key, error) {
	if len(p.Keys) == 0 {
		return nil, nil
	}
	var reopened []driver.Key
	err := write(ctx, s.pools.Receive, "reopening dead events", func(r Rows) error {
		var key []byte
		if err := r.Scan(&key); err != nil {
			return err
		}
		reopened = append(reopened, driver.Key(key))
		return nil
	}, s.sql.reopen, keyArgs(p.Keys), clock(p.Now))
	if err != nil {
		return nil, err
	}
	return reopened, nil
}
