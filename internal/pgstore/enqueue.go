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
		$8::bytea[], $9::bytea[], $10::bytea[]
	) AS i (key, id, destination, source, event_id, type, cause, headers, body, body_sha256)
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
	INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at, cause)
	SELECT id, key, 0, '', destination, now, now, now, cause
	FROM given
	WHERE (key IN (SELECT key FROM bodies)) IS TRUE
	RETURNING 1
)
SELECT (SELECT count(*) FROM given), (SELECT count(*) FROM messages)`)

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
	}
	var unknown, written, found int64
	err := scan(ctx, conn, func(r Rows) error { return r.Scan(&unknown, &written) }, s.text(enqueueSQL),
		keys, ids, destinations, sources, eventIDs, types, causes, headers, bodies, hashes)
	if err == nil && written < unknown {
		// A concurrent transaction wrote the others, or a trigger dropped them.
		err = scan(ctx, conn, func(r Rows) error { return r.Scan(&found) }, s.text(enqueuedSQL), ids)
		if err == nil && found < int64(len(ids)) {
			return fmt.Errorf("%s: %w", op, driver.ErrNotStored)
		}
	}
	return readFailed(s.pools.Work, op, err) // nothing is committed here
}
