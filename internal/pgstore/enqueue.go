package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// enqueueSQL writes messages in the order of their keys: of two transactions that enqueue one id,
// the second waits for the first. It passes over ids that exist. The time is that of the statement,
// because the transaction may have begun long ago.
var enqueueSQL = statement(`
WITH given AS MATERIALIZED (
	SELECT i.*, clock_timestamp() AS now, (SELECT {schema}.durably()) AS durable
	FROM unnest(
		$1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[],
		$8::bytea[], $9::bytea[], $10::bytea[], $11::int[]
	) AS i (key, id, destination, source, event_id, type, cause, headers, body, body_sha256, cause_generation)
	WHERE NOT EXISTS (SELECT FROM {schema}.message m WHERE m.id = i.id)
), bodies AS (
	INSERT INTO {schema}.event (
		key, source, event_id, type, received_at, headers, body, body_sha256, work, outbox
	)
	SELECT key, source, event_id, type, now, headers, body, body_sha256, 0, true
	FROM given
	ORDER BY key
	ON CONFLICT (key) DO NOTHING
	RETURNING key
), messages AS (
	INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at, cause, cause_generation)
	SELECT id, key, 0, '', destination, now, now, now, cause, cause_generation
	FROM given
	WHERE (key IN (SELECT key FROM bodies)) IS TRUE
	RETURNING 1
)
SELECT (SELECT count(*) FROM given), (SELECT count(*) FROM messages)`)

// enqueueAgainSQL makes finished messages due again that an earlier generation of their event enqueued. It
// locks the rows of their bodies first, in the order of the keys, as all that change finished messages do.
// A message that becomes due again loses the attempt that sent it, so that attempt gets a row of its own.
var enqueueAgainSQL = statement(again(`
WITH setting AS MATERIALIZED (
	SELECT clock_timestamp() AS now, {schema}.durably() AS durable
), mine AS MATERIALIZED (
	SELECT i.*, e.pruned
	FROM (
		SELECT *
		FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::int[]) AS u (key, id, headers, body, cause_generation)
		ORDER BY key
	) i
	CROSS JOIN LATERAL (
		SELECT e.body IS NULL AS pruned FROM {schema}.event e WHERE e.key = i.key
		FOR NO KEY UPDATE
	) e
), kept AS MATERIALIZED (
	SELECT mine.*, m.generation, m.attempts, m.status_code, m.sent_at, m.took
	FROM mine
	CROSS JOIN LATERAL (
		SELECT * FROM {schema}.message m
		WHERE m.id = mine.id AND m.event_key = mine.key AND m.state >= 2 AND m.cause_generation < mine.cause_generation
		FOR UPDATE
	) m
), sent AS (
	INSERT INTO {schema}.attempt (message_id, generation, number, outcome, status_code, at, took)
	SELECT id, generation, attempts, 1, status_code, sent_at, took
	FROM kept
	WHERE sent_at IS NOT NULL
), bodies AS (
	UPDATE {schema}.event e
	SET headers = kept.headers, body = kept.body
	FROM kept
	WHERE e.key = kept.key AND kept.pruned
), again AS (
	UPDATE {schema}.message m
	SET `+messageAgainSQL+`, generation = kept.generation + 1, cause_generation = kept.cause_generation
	FROM kept, setting
	WHERE m.id = kept.id
)
INSERT INTO {schema}.history (event_key, at, action, generation, messages, message_id)
SELECT kept.key, setting.now, '`+driver.ActionReplayed+`', kept.generation + 1, 1, kept.id
FROM kept, setting`, "", false))

// enqueuedSQL counts messages that exist, those of concurrent transactions too.
var enqueuedSQL = statement(`
SELECT count(*) FROM unnest($1::text[]) AS i (id)
CROSS JOIN LATERAL (SELECT FROM {schema}.message m WHERE m.id = i.id LIMIT 1) m`)

// EnqueueOn implements [driver.Driver.EnqueueTx] on a connection in the caller's transaction. Of
// messages with the same id the first one counts. The error matches [driver.ErrNotStored] if the
// database dropped a row.
func (s *Store) EnqueueOn(ctx context.Context, conn Conn, messages []driver.OutboxMessage) error {
	const op = "enqueueing"
	seen := make(map[string]bool, len(messages))
	given := make([]*driver.OutboxMessage, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		if err := m.Check(); err != nil {
			return fmt.Errorf("%s: message %d: %w: %w", op, i, driver.ErrBadRow, err)
		}
		if !seen[m.ID] {
			seen[m.ID] = true
			given = append(given, m)
		}
	}
	if len(given) == 0 {
		return nil
	}
	var keys, causes, headers, bodies, hashes [][]byte
	var ids, destinations, sources, eventIDs, types []string
	var generations []int32
	later := false
	for _, m := range given {
		key, hash := driver.OutboxKey(m.ID), sha256.Sum256(m.Body)
		keys, hashes = append(keys, key[:]), append(hashes, hash[:])
		headers, bodies = append(headers, notNil(m.Headers)), append(bodies, notNil(m.Body))
		ids, destinations = append(ids, m.ID), append(destinations, m.Destination)
		sources, eventIDs, types = append(sources, m.Source), append(eventIDs, m.EventID), append(types, m.Type)
		var cause []byte // NULL if there is none
		if m.Cause != (driver.Key{}) {
			cause = bytes.Clone(m.Cause[:])
		}
		causes = append(causes, cause)
		generations = append(generations, int32(m.CauseGeneration))
		later = later || m.CauseGeneration > 0
	}
	if later { // first, because no other session can prune a locked row before the other statement
		err := scan(ctx, conn, noRows, s.text(enqueueAgainSQL), keys, ids, headers, bodies, generations)
		if err != nil {
			return readFailed(s.pools.Work, op, err)
		}
	}
	var unknown, written, found int64
	err := scan(ctx, conn, func(r Rows) error { return r.Scan(&unknown, &written) }, s.text(enqueueSQL),
		keys, ids, destinations, sources, eventIDs, types, causes, headers, bodies, hashes, generations)
	if err == nil && written < unknown {
		// A concurrent transaction wrote the others, or a trigger dropped them.
		err = scan(ctx, conn, func(r Rows) error { return r.Scan(&found) }, s.text(enqueuedSQL), ids)
		if err == nil && found < int64(len(ids)) {
			return fmt.Errorf("%s: %w", op, driver.ErrNotStored)
		}
	}
	return readFailed(s.pools.Work, op, err) // nothing is committed here
}
