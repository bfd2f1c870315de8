package pgstore

// The statements of this file that look for events share their arguments: $1 the time (NULL means
// the database's clock); $2 and $3 the sources with windows of their own, and these in
// microseconds; $4 the window of the other sources; $5 the shortest window; $6 and $7 the event
// before the chunk; $8 the size of a chunk; $9 how many events to look at for it.

// pastSQL is the condition that an event e is past its window. It looks the window of the source up
// for each event, so that the index on received_at is read in order and only as far as necessary.
const pastSQL = `
	e.received_at < (SELECT now FROM setting) - $5::bigint * interval '1 microsecond'
	AND e.received_at < (SELECT now FROM setting) - coalesce(
		(SELECT w.keep FROM windows w WHERE w.source = e.source), $4::bigint
	) * interval '1 microsecond'
	AND (e.received_at, e.key) > ($6::timestamptz, $7::bytea)`

// finishedSQL is the condition that an event e has no unfinished work.
const finishedSQL = `
	NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state NOT IN (2, 4))
	AND (e.work = 0 OR EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state IN (2, 4)))`

// pruneSettingsSQL bounds how long a process that stops between two statements keeps its locks.
const pruneSettingsSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now, set_config('idle_in_transaction_session_timeout', '5s', true)
), windows AS MATERIALIZED (
	SELECT * FROM unnest($2::text[], $3::bigint[]) AS w (source, keep)
)`

// walkEventsSQL finds events that are past their window, oldest first.
const walkEventsSQL = `
	SELECT e.received_at, e.key
	FROM {schema}.event e
	WHERE ` + pastSQL + `
	ORDER BY e.received_at, e.key`

// walkBodiesSQL finds the events of walkEventsSQL that have a body.
const walkBodiesSQL = `
	SELECT e.received_at, e.key
	FROM {schema}.event e
	WHERE e.body IS NOT NULL AND ` + pastSQL + `
	ORDER BY e.received_at, e.key`

// lockPast returns the statement that locks a chunk of the removable events of a walk.
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

// lastPast returns the statement that finds the last of the $8 + 1 events of a walk that were
// looked at, if there were so many.
func lastPast(walk string) string { return pruneSettingsSQL + walk + ` OFFSET $8::int LIMIT 1` }

// pruneEventsSQL removes the finished events among $1, with all their rows. It runs after lockPast
// in the same transaction: once an event's row is locked no row is added to it, and a new statement
// sees all the rows added before. One statement removes all of them: if the event went first, the
// next claim of its key would find the other rows.
//
// It never waits, so it cannot cause a deadlock: an event stays if its state, its body or one of its
// messages is locked.
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
), responses AS (
	DELETE FROM {schema}.attempt_response r USING victim_message v WHERE r.message_id = v.id
), handler_attempts AS (
	DELETE FROM {schema}.event_attempt a USING victim v WHERE a.key = v.key
), messages AS (
	DELETE FROM {schema}.message m USING victim_message v WHERE m.id = v.id
), states AS (
	DELETE FROM {schema}.event_state s USING victim v WHERE s.key = v.key
), counts AS (
	DELETE FROM {schema}.delivery_count c USING victim v WHERE c.key = v.key
), others AS (
	DELETE FROM {schema}.other_body o USING victim v WHERE o.key = v.key
), histories AS (
	DELETE FROM {schema}.history h USING victim v WHERE h.event_key = v.key
), bodies AS (
	DELETE FROM {schema}.body_seen b USING victim v WHERE b.key = v.key
), events AS (
	DELETE FROM {schema}.event e USING victim v WHERE e.key = v.key RETURNING e.key
)
SELECT count(*) FROM events`

// pruneBodiesSQL removes the bodies and headers of the finished events among $1, with their other
// bodies and the responses of their messages, and keeps the columns that detect duplicates. It runs after lockPast in the same transaction, because only a
// new statement sees a replay that ended between the snapshot and the lock of lockPast.
const pruneBodiesSQL = `
WITH emptied AS (
	UPDATE {schema}.event e SET headers = NULL, body = NULL
	FROM unnest($1::bytea[]) AS k (key)
	WHERE e.key = k.key AND ` + finishedSQL + `
	RETURNING e.key
), others AS (
	DELETE FROM {schema}.other_body o USING emptied e WHERE o.key = e.key
), responses AS (
	DELETE FROM {schema}.attempt_response r USING emptied e, {schema}.message m
	WHERE m.event_key = e.key AND r.message_id = m.id
)
SELECT count(*) FROM emptied`

// pruneQuarantineAgeSQL has the shared arguments $1 to $4, and $5 the size of a chunk.
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

// pruneVersionsSQL has the shared arguments $1 to $5, and $6 the size of a chunk. Versions that a
// run has locked stay.
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

// pruneQuarantineRowsSQL keeps the newest rows of each source: $2 of the sources $1, and $3 of the
// others. It removes up to $4 rows.
const pruneQuarantineRowsSQL = `
WITH windows AS MATERIALIZED (
	SELECT * FROM unnest($1::text[], $2::bigint[]) AS w (source, keep)
), ranked AS MATERIALIZED (
	SELECT key, source, row_number() OVER (PARTITION BY source ORDER BY last_at DESC, key) AS place
	FROM {schema}.quarantine
), victim AS MATERIALIZED (
	SELECT q.key
	FROM {schema}.quarantine q
	WHERE q.key IN (
		SELECT r.key FROM ranked r
		WHERE r.place > coalesce((SELECT w.keep FROM windows w WHERE w.source = r.source), $3::bigint)
		LIMIT $4::int
	)
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.quarantine q USING victim v WHERE q.key = v.key RETURNING q.key
)
SELECT count(*) FROM gone`
