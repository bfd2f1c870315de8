package pgstore

// The statements of this file that look for events share their arguments: $1 the
// time, or NULL for the database's clock; $2, $3 the sources that differ and
// their windows, in microseconds; $4 the window of the others; $5 the shortest
// of all; $6, $7 the event behind which to go on; $8 the size of a chunk; $9 how many
// events are looked at for it.

// pastSQL is the condition on an event e to be past its window. The window of
// its source is looked up for each, so that the index on received_at is read in
// its order and no further than it has to be.
const pastSQL = `
	e.received_at < (SELECT now FROM setting) - $5::bigint * interval '1 microsecond'
	AND e.received_at < (SELECT now FROM setting) - coalesce(
		(SELECT w.keep FROM windows w WHERE w.source = e.source), $4::bigint
	) * interval '1 microsecond'
	AND (e.received_at, e.key) > ($6::timestamptz, $7::bytea)`

// finishedSQL is the condition on an event e to owe nothing.
const finishedSQL = `
	NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state NOT IN (2, 4))
	AND (e.work = 0 OR EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state IN (2, 4)))`

// pruneSettingsSQL bounds for how long a process that stopped between two
// statements keeps its locks.
const pruneSettingsSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now, set_config('idle_in_transaction_session_timeout', '5s', true)
), windows AS MATERIALIZED (
	SELECT * FROM unnest($2::text[], $3::bigint[]) AS w (source, keep)
)`

// walkEventsSQL finds the events that are past their window, the oldest first.
const walkEventsSQL = `
	SELECT e.received_at, e.key
	FROM {schema}.event e
	WHERE ` + pastSQL + `
	ORDER BY e.received_at, e.key`

// walkBodiesSQL finds those of them that have a body.
const walkBodiesSQL = `
	SELECT e.received_at, e.key
	FROM {schema}.event e
	WHERE e.body IS NOT NULL AND ` + pastSQL + `
	ORDER BY e.received_at, e.key`

// lockPast returns the statement that locks a chunk of the events of a walk that may go.
func lockPast(walk, lock string) string {
	return pruneSettingsSQL + `
SELECT past.received_at, past.key
FROM (` + walk + `
	LIMIT $9::int
) past
CROSS JOIN LATERAL (
	SELECT FROM {schema}.event e WHERE e.key = past.key AND ` + finishedSQL + ` LIMIT 1
	` + lock + ` SKIP LOCKED
) finished
ORDER BY past.received_at, past.key
LIMIT $8::int`
}

// lastPast returns the statement that finds the last of the $8 + 1 events of a walk that
// were looked at, if there were so many.
func lastPast(walk string) string { return pruneSettingsSQL + walk + ` OFFSET $8::int LIMIT 1` }

// pruneEventsSQL removes those of the events $1 that are finished, with all that
// belongs to them. It runs after lockPast, in its transaction: once an
// event's row is locked nobody adds to it any more, and a statement of its own
// sees all that was added until then. One statement removes it all: if the
// event went first, the next claim of its key would meet what was left.
//
// It never waits, so it is no part of a deadlock: an event stays if its state, a
// message or a body of it is locked.
const pruneEventsSQL = `
WITH candidate AS MATERIALIZED (
	SELECT e.key, e.work
	FROM unnest($1::bytea[]) AS k (key)
	CROSS JOIN LATERAL (
		SELECT e.key, e.work FROM {schema}.event e WHERE e.key = k.key AND ` + finishedSQL + ` LIMIT 1
	) e
), held_state AS MATERIALIZED (
	SELECT c.key
	FROM candidate c
	CROSS JOIN LATERAL (
		SELECT FROM {schema}.event_state s WHERE s.key = c.key AND s.state IN (2, 4)
		FOR UPDATE SKIP LOCKED
	) s
), held_message AS MATERIALIZED (
	SELECT m.id, c.key
	FROM candidate c
	CROSS JOIN LATERAL (
		SELECT m.id FROM {schema}.message m WHERE m.event_key = c.key AND m.state IN (2, 4)
		FOR UPDATE SKIP LOCKED
	) m
), held_body AS MATERIALIZED (
	SELECT b.body_key
	FROM candidate c
	CROSS JOIN LATERAL (
		SELECT b.body_key FROM {schema}.body_seen b WHERE b.key = c.key
		FOR UPDATE SKIP LOCKED
	) b
), victim AS MATERIALIZED (
	SELECT c.key
	FROM candidate c
	WHERE (c.work = 0 OR c.key IN (SELECT key FROM held_state))
		AND NOT EXISTS (
			SELECT FROM {schema}.message m
			WHERE m.event_key = c.key AND (m.id IN (SELECT id FROM held_message)) IS NOT TRUE
		)
		AND NOT EXISTS (
			SELECT FROM {schema}.body_seen b
			WHERE b.key = c.key AND (b.body_key IN (SELECT body_key FROM held_body)) IS NOT TRUE
		)
), victim_message AS MATERIALIZED (
	SELECT h.id FROM held_message h WHERE (h.key IN (SELECT key FROM victim)) IS TRUE
), attempts AS (
	DELETE FROM {schema}.attempt a USING victim_message v WHERE a.message_id = v.id
), handler_attempts AS (
	DELETE FROM {schema}.event_attempt a USING victim v WHERE a.key = v.key
), messages AS (
	DELETE FROM {schema}.message m USING victim_message v WHERE m.id = v.id
), states AS (
	DELETE FROM {schema}.event_state s USING victim v WHERE s.key = v.key
), counts AS (
	DELETE FROM {schema}.delivery_count c USING victim v WHERE c.key = v.key
), histories AS (
	DELETE FROM {schema}.history h USING victim v WHERE h.event_key = v.key
), bodies AS (
	DELETE FROM {schema}.body_seen b USING victim v WHERE b.key = v.key
), events AS (
	DELETE FROM {schema}.event e USING victim v WHERE e.key = v.key RETURNING e.key
)
SELECT count(*) FROM events`

// pruneBodiesSQL removes the bodies and headers of those of the events $1 that
// are finished, and keeps what tells duplicates apart. It runs after lockPast,
// in its transaction, and for the same reason as with pruneEventsSQL: a
// replay that ended between its snapshot and its lock is seen by this statement
// only. It is the only UPDATE of an event.
const pruneBodiesSQL = `
WITH emptied AS (
	UPDATE {schema}.event e SET headers = NULL, body = NULL
	FROM unnest($1::bytea[]) AS k (key)
	WHERE e.key = k.key AND ` + finishedSQL + `
	RETURNING e.key
)
SELECT count(*) FROM emptied`

// pruneQuarantineAgeSQL has the arguments $1 to $4 of the others, and $5 the
// size of a chunk.
const pruneQuarantineAgeSQL = pruneSettingsSQL + `
, victim AS MATERIALIZED (
	SELECT q.key
	FROM {schema}.quarantine q
	WHERE q.last_at < (SELECT now FROM setting) - coalesce(
		(SELECT w.keep FROM windows w WHERE w.source = q.source), $4::bigint
	) * interval '1 microsecond'
	LIMIT $5::int
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.quarantine q USING victim v WHERE q.key = v.key RETURNING q.key
)
SELECT count(*) FROM gone`

// pruneVersionsSQL has the arguments $1 to $5 of the others, and $6 the size of a
// chunk. What a run has locked stays.
const pruneVersionsSQL = pruneSettingsSQL + `
, victim AS MATERIALIZED (
	SELECT v.object
	FROM {schema}.object_version v
	WHERE v.applied_at < (SELECT now FROM setting) - $5::bigint * interval '1 microsecond'
		AND v.applied_at < (SELECT now FROM setting) - coalesce(
			(SELECT w.keep FROM windows w WHERE w.source = v.source), $4::bigint
		) * interval '1 microsecond'
	ORDER BY v.applied_at
	LIMIT $6::int
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.object_version o USING victim v WHERE o.object = v.object RETURNING o.object
)
SELECT count(*) FROM gone`

// pruneQuarantineRowsSQL keeps the $1 newest of each source and removes up to
// $2 of the others.
const pruneQuarantineRowsSQL = `
WITH ranked AS MATERIALIZED (
	SELECT key, row_number() OVER (PARTITION BY source ORDER BY last_at DESC, key) AS place
	FROM {schema}.quarantine
), victim AS MATERIALIZED (
	SELECT q.key
	FROM {schema}.quarantine q
	WHERE q.key IN (SELECT key FROM ranked WHERE place > $1::bigint LIMIT $2::int)
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.quarantine q USING victim v WHERE q.key = v.key RETURNING q.key
)
SELECT count(*) FROM gone`
