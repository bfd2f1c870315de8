package pgstore

const (
	// claimSQL makes a claim, by a function of the schema that each
	// session plans once.
	claimSQL = `
SELECT place, n_claimed, lock_before, is_claimed, body_taken, known_sha256, is_dead, seen_key, seen_id
FROM {schema}.claim(
	$1::text, $2::timestamptz,
	$3::bytea[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bytea[],
	$10::bytea[], $11::bytea[], $12::int[], $13::int[],
	$14::text[], $15::text[], $16::text[], $17::text[], $18::bytea[], $19::text[], $20::text[], $21::text[]
)`

	// unclaimSQL deletes the event of a test.
	unclaimSQL = `DELETE FROM {schema}.event WHERE key = $1::bytea`

	// knownSQL finds the keys that exist already, by a function of the schema. It runs
	// before the rest of the claims is sent.
	knownSQL = `SELECT key, body_sha256, is_dead FROM {schema}.known($1::bytea[])`

	// confirmSQL waits until the commits before it are durable.
	confirmSQL = `SELECT {schema}.confirm()`

	// lookUpSQL reads the rows that a claim could not see. Each look-up is a LATERAL with a LIMIT,
	// so that the planner can only probe an index: it plans joins as scans of whole tables while
	// the tables are small.
	lookUpSQL = `
SELECT i.place, known.body_sha256, coalesce(known.dead, false), seen.key, seen.event_id
FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int[])
	WITH ORDINALITY AS i (key, body_key, body_sha256, guard, place)
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
	SELECT b.key, e.event_id -- no id: the event holds another body, and the row is void
	FROM {schema}.body_seen b
	LEFT JOIN {schema}.event e ON e.key = b.key AND e.body_sha256 = i.body_sha256
	WHERE i.guard > 0 AND b.body_key = i.body_key
	LIMIT 1
) seen ON true`
)
