package pgstore

// chunkSQL returns the statement that locks the removable events of one chunk of a walk. It begins behind
// the event $1, $2 and ends before the time $3. The walk is over the events of the sources $4, or of
// all others if $5 is true. It locks up to $6 events, and reads up to $7.
//
// If it locks fewer than $6, one more row without a place is the last event that it read, unless there
// were fewer than $7.
//
// Its plan needs the settings of holdTurnSQL.
func chunkSQL(condition string) string {
	return `
WITH past AS MATERIALIZED (
	SELECT e.received_at, e.key, e.ctid, e.source
	FROM {schema}.event e
	WHERE ` + condition + `(e.received_at, e.key) > ($1::timestamptz, $2::bytea) AND e.received_at < $3::timestamptz
	ORDER BY e.received_at, e.key
	LIMIT $7::int
), held AS MATERIALIZED (
	SELECT p.received_at, p.key, l.place
	FROM past p
	CROSS JOIN LATERAL (
		SELECT e.ctid AS place FROM {schema}.event e
		WHERE e.ctid = p.ctid AND e.key = p.key AND ` + finishedSQL + `
		LIMIT 1
		FOR UPDATE SKIP LOCKED
	) l
	WHERE (p.source = ANY ($4::text[])) <> $5::boolean
	LIMIT $6::int
)
SELECT received_at, key, place::text FROM held
UNION ALL
(SELECT received_at, key, NULL FROM past WHERE (SELECT count(*) FROM held) < $6::int OFFSET $7::int - 1 LIMIT 1)`
}

// finishedSQL is the condition that an event e has no unfinished work.
const finishedSQL = `
	NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state NOT IN (2, 4))
	AND (e.work = 0 OR EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state IN (2, 4)))`

// pruneEventsSQL removes the finished events at the places $1, with all their rows. It runs after chunkSQL
// in the same transaction: a locked row keeps its place and no row is added to its event, and a new
// statement sees all the rows added before. One statement removes all of them: if the event went first,
// the next claim of its key would find the other rows.
//
// It never waits, so it cannot cause a deadlock: an event stays if its state, its body or one of its
// messages is locked.
const pruneEventsSQL = `
WITH candidate AS MATERIALIZED (
	SELECT e.ctid AS place, e.key, e.work
	FROM unnest($1::text[]) AS k (place)
	CROSS JOIN LATERAL (
		SELECT e.ctid, e.key, e.work FROM {schema}.event e WHERE e.ctid = k.place::tid AND ` + finishedSQL + ` LIMIT 1
	) e
), held_state AS MATERIALIZED (
	SELECT c.key, s.place
	FROM candidate c
	CROSS JOIN LATERAL (
		SELECT s.ctid AS place FROM {schema}.event_state s WHERE s.key = c.key AND s.state IN (2, 4)
		FOR UPDATE SKIP LOCKED
	) s
	WHERE c.work <> 0
), held_message AS MATERIALIZED (
	SELECT m.id, c.key, m.place
	FROM candidate c
	CROSS JOIN LATERAL (
		SELECT m.id, m.ctid AS place FROM {schema}.message m WHERE m.event_key = c.key AND m.state IN (2, 4)
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
	SELECT c.key, c.place
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
	SELECT h.id, h.place FROM held_message h WHERE (h.key IN (SELECT key FROM victim)) IS TRUE
), victim_state AS MATERIALIZED (
	SELECT h.place FROM held_state h WHERE (h.key IN (SELECT key FROM victim)) IS TRUE
), attempts AS (
	DELETE FROM {schema}.attempt a USING victim_message v WHERE a.message_id = v.id
), responses AS (
	DELETE FROM {schema}.attempt_response r USING victim_message v WHERE r.message_id = v.id
), handler_attempts AS (
	DELETE FROM {schema}.event_attempt a USING victim v WHERE a.key = v.key
), messages AS (
	DELETE FROM {schema}.message m USING victim_message v WHERE m.ctid = v.place
), states AS (
	DELETE FROM {schema}.event_state s USING victim_state v WHERE s.ctid = v.place
), counts AS (
	DELETE FROM {schema}.delivery_count c USING victim v WHERE c.key = v.key
), others AS (
	DELETE FROM {schema}.other_body o USING victim v WHERE o.key = v.key
), histories AS (
	DELETE FROM {schema}.history h USING victim v WHERE h.event_key = v.key
), bodies AS (
	DELETE FROM {schema}.body_seen b USING victim v WHERE b.key = v.key
), events AS (
	DELETE FROM {schema}.event e USING victim v WHERE e.ctid = v.place RETURNING e.key
)
SELECT count(*) FROM events`

// pruneBodiesSQL removes the bodies and headers of the finished events at the places $1, with their other
// bodies and the responses of their messages, and keeps the columns that detect duplicates. It runs after
// chunkSQL in the same transaction, because only a new statement sees a replay that ended between the
// snapshot and the lock of chunkSQL.
const pruneBodiesSQL = `
WITH candidate AS MATERIALIZED (
	SELECT e.ctid AS place
	FROM unnest($1::text[]) AS k (place)
	CROSS JOIN LATERAL (
		SELECT e.ctid FROM {schema}.event e WHERE e.ctid = k.place::tid AND ` + finishedSQL + ` LIMIT 1
	) e
), emptied AS (
	UPDATE {schema}.event e SET headers = NULL, body = NULL
	FROM candidate c
	WHERE e.ctid = c.place
	RETURNING e.key
), others AS (
	DELETE FROM {schema}.other_body o USING emptied e WHERE o.key = e.key
), responses AS (
	DELETE FROM {schema}.attempt_response r USING emptied e, {schema}.message m
	WHERE m.event_key = e.key AND r.message_id = m.id
)
SELECT count(*) FROM emptied`

// The statements that follow share their first arguments: $1 the time (NULL means the database's
// clock); $2 and $3 the sources with windows of their own, and these in microseconds; $4 the window
// of the other sources; $5 the shortest window.
const pruneSettingsSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now
), windows AS MATERIALIZED (
	SELECT * FROM unnest($2::text[], $3::bigint[]) AS w (source, keep)
)`

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
