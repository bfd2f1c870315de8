package pgstore

// What is known about the claims i(key, body_key, body_sha256, guard). Each look-up
// is a LATERAL with a LIMIT, so that the planner can only probe an index: as
// plain joins they are planned as scans of whole tables while these are small,
// and such a plan may be kept while they grow. "state < 2" are the open ones; it
// is not written like the condition of the index for leasing, so that the
// planner cannot think of reading all of that index for one event.
const knownSQL = `
	LEFT JOIN LATERAL (
		SELECT e.body_sha256,
			CASE WHEN e.work = 1 THEN
				EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3)
			ELSE
				EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state = 3)
				AND NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state < 2)
			END AS dead
		FROM {schema}.event e
		WHERE e.key = i.key
		LIMIT 1
	) known ON true
	LEFT JOIN LATERAL (
		SELECT b.key, e.event_id -- no id: the row is void
		FROM {schema}.body_seen b
		LEFT JOIN {schema}.event e ON e.key = b.key AND e.body_sha256 = i.body_sha256
		WHERE i.guard > 0 AND b.body_key = i.body_key
		LIMIT 1
	) seen ON true`

// claimSQL claims a batch. Its parts run in an order that data flow forces:
//
//	setting   bounds every wait for a lock below, and notes the bound before it
//	input     the batch, with what the statement's snapshot knows of it; what
//	          is known already never reaches an INSERT, which might wait for it
//	body_new  the bodies that this batch is the first to bring, all of them
//	          before the first event; a void row is taken over
//	claimed   the events; one whose body another event has, under BodyRefuse, is
//	          left out
//	barrier   with synchronous standbys: writes to the log, so that the commit of
//	          a batch of nothing but duplicates waits for them too. The first
//	          delivery's wait may have been cut off, and its event, which is
//	          visible by then, stand on the primary alone
//	the rest  what the claimed events owe; work is 1 for what is queued, 2 for what
//	          is done by the transaction of the claim
//
// "x IN (SELECT ...) IS TRUE" keeps the planner from turning the IN into a join,
// which may be a nested loop over the whole batch; it hashes the list instead.
const claimSQL = `
WITH setting AS MATERIALIZED (
	SELECT b.lock_before, set_config('lock_timeout', $1::text, true), coalesce($2::timestamptz, now()) AS now
	FROM (SELECT current_setting('lock_timeout') AS lock_before OFFSET 0) b
), input AS MATERIALIZED (
	SELECT i.*, setting.now, setting.lock_before, known.body_sha256 AS known_sha256, known.dead, seen.key AS seen_key, seen.event_id AS seen_id
	FROM setting
	CROSS JOIN unnest(
		$3::bytea[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bytea[],
		$10::bytea[], $11::bytea[], $12::int[], $13::int[]
	) WITH ORDINALITY AS i (
		key, source, event_id, type, occurred_at, headers, body, body_sha256, body_key, guard, work, place
	)` + knownSQL + `
), body_new AS (
	INSERT INTO {schema}.body_seen AS b (body_key, key, seen_at)
	SELECT DISTINCT ON (body_key) body_key, key, now
	FROM input
	WHERE guard > 0 AND known_sha256 IS NULL AND seen_id IS NULL
	ORDER BY body_key, key
	ON CONFLICT (body_key) DO UPDATE SET key = excluded.key, seen_at = excluded.seen_at
	WHERE ((b.body_key, b.key) IN (
		SELECT body_key, seen_key FROM input WHERE seen_key IS NOT NULL AND seen_id IS NULL
	)) IS TRUE
	RETURNING b.body_key, b.key
), bodies AS MATERIALIZED (
	SELECT count(*) AS n FROM body_new
), claimed AS (
	INSERT INTO {schema}.event (
		key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, watched
	)
	SELECT key, source, event_id, type, occurred_at, now, headers, body, body_sha256, least(work, 1), guard > 0
	FROM input
	WHERE known_sha256 IS NULL
		AND (SELECT n FROM bodies) >= 0 -- always: it is here to have all bodies inserted first
		AND (guard < 2 OR ((body_key, key) IN (SELECT body_key, key FROM body_new)) IS TRUE)
	ORDER BY key
	ON CONFLICT (key) DO NOTHING
	RETURNING key
), states AS (
	INSERT INTO {schema}.event_state (key, source, type, state, attempts, due_at, processed_at)
	SELECT key, source, type, CASE work WHEN 1 THEN 0 ELSE 2 END, work - 1, now, CASE work WHEN 2 THEN now END
	FROM input
	WHERE work > 0 AND (key IN (SELECT key FROM claimed)) IS TRUE
), messages AS (
	INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at)
	SELECT m.id, m.event_key, 0, m.route, m.destination, setting.now, setting.now, setting.now
	FROM setting
	CROSS JOIN unnest($14::text[], $15::bytea[], $16::text[], $17::text[]) AS m (id, event_key, route, destination)
	WHERE (m.event_key IN (SELECT key FROM claimed)) IS TRUE
), barrier AS MATERIALIZED (
	SELECT count(pg_logical_emit_message(true, 'hookonce', '')) AS n
	FROM setting
	WHERE current_setting('synchronous_standby_names') <> ''
)
SELECT
	place,
	(SELECT n FROM barrier) IS NOT NULL AND (key IN (SELECT key FROM claimed)) IS TRUE,
	((body_key, key) IN (SELECT body_key, key FROM body_new)) IS TRUE,
	known_sha256, coalesce(dead, false), seen_key, seen_id, lock_before
FROM input`

// lookUpSQL reads what a claim's own snapshot could not see.
const lookUpSQL = `
SELECT i.place, known.body_sha256, coalesce(known.dead, false), seen.key, seen.event_id
FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int[])
	WITH ORDINALITY AS i (key, body_key, body_sha256, guard, place)` + knownSQL
