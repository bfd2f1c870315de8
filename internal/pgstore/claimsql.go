package pgstore

var (
	// claimSQL makes a claim, by a function of the schema that each
	// session plans once.
	claimSQL = statement(`
SELECT place, n_claimed, lock_before, received_at, token, paused, is_claimed, body_taken, known_sha256, is_dead, seen_key, seen_id
FROM {schema}.claim(
	$1::text, $2::timestamptz,
	$3::bytea[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bytea[],
	$10::bytea[], $11::bytea[], $12::int[], $13::int[],
	$14::text[], $15::text[], $16::text[], $17::text[], $18::bytea[], $19::text[], $20::text[], $21::bigint[], $22::text[]
)`)

	// claimOrderedSQL makes a claim with messages that are in lines.
	claimOrderedSQL = statement(`
SELECT place, n_claimed, lock_before, received_at, token, paused, is_claimed, body_taken, known_sha256, is_dead, seen_key, seen_id
FROM {schema}.claim_ordered(
	$1::text, $2::timestamptz,
	$3::bytea[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bytea[],
	$10::bytea[], $11::bytea[], $12::int[], $13::int[],
	$14::text[], $15::text[], $16::text[], $17::text[], $18::bytea[], $19::text[], $20::text[], $21::bigint[], $22::text[],
	$23::text[], $24::bytea[], $25::text[], $26::bytea[], $27::int[]
)`)

	// insertNewSQL inserts the new ones of some events, in one transaction with their state rows. It
	// returns whether the server is safe, how many events were new and, if some were not, the keys of
	// those that were. insertRoutedSQL also inserts their messages, leased or not as the claim function does
	// it, and returns the leases as that function does. $1 is lock_timeout; $2 and $3 allow fsync and
	// full_page_writes to be off; $4 is the time of a test.
	//
	// It writes the events in their order, so that no two batches wait for each other. If nothing is
	// new, the commit waits for the events' own commits. If a state row or a message was dropped, a
	// division by zero undoes the statement.
	insertNewSQL    = statement(insertEvents + insertedEvents + ` FROM event_new`)
	insertRoutedSQL = statement(insertEvents + `, message_given AS MATERIALIZED (
	SELECT m.id, m.event_key, m.route, m.destination,
		CASE WHEN EXISTS (SELECT FROM {schema}.paused_destination p WHERE p.destination = m.destination) THEN 0 ELSE m.lease END AS lease
	FROM (
		SELECT unnest($16::text[]) AS id, unnest($17::bytea[]) AS event_key, unnest($18::text[]) AS route,
			unnest($19::text[]) AS destination, unnest($20::bigint[]) AS lease
	) m
	WHERE m.event_key IN (SELECT key FROM event_new)
), message_new AS (
	INSERT INTO {schema}.message (
		id, event_key, generation, route, destination, received_at, created_at, state, attempts, due_at
	)
	SELECT m.id, m.event_key, 0, m.route, m.destination, coalesce($4::timestamptz, now()), coalesce($4::timestamptz, now()),
		CASE WHEN m.lease > 0 THEN 1 ELSE 0 END, CASE WHEN m.lease > 0 THEN 1 ELSE 0 END,
		coalesce($4::timestamptz, now()) + m.lease * interval '1 microsecond'
	FROM message_given m
	RETURNING true
)` + insertedEvents + `,
	1 / CASE WHEN (SELECT count(*) FROM message_given) = (SELECT count(*) FROM message_new) THEN 1 ELSE 0 END,
	coalesce($4::timestamptz, now()), (extract(epoch FROM now()) * 1000000)::bigint,
	(SELECT array_agg(convert_to(p.destination, 'UTF8')) FROM {schema}.paused_destination p WHERE p.destination = ANY ($19::text[]))
FROM event_new`)

	// insertOneSQL inserts an event without messages as insertNewSQL does. It returns a row if the event was
	// new. For one event a statement without arrays and sums costs the database much less.
	insertOneSQL = statement(`
WITH event_new AS (
	INSERT INTO {schema}.event (
		key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, remote, gateway
	)
	SELECT $5::bytea, $6::text, $7::text, $8::text, $9::timestamptz, coalesce($4::timestamptz, now()), $10::bytea, $11::bytea, $12::bytea,
		$13::int2, $14::text, $15::text
	WHERE ` + safeSQL + raiseSQL + `
	ON CONFLICT (key) DO NOTHING
	RETURNING work
), state_new AS (
	INSERT INTO {schema}.event_state (key, source, type, received_at, due_at)
	SELECT $5::bytea, $6::text, $8::text, coalesce($4::timestamptz, now()), coalesce($4::timestamptz, now()) FROM event_new WHERE work = 1
	RETURNING true
)
SELECT 1 / CASE WHEN work <> 1 OR EXISTS (SELECT FROM state_new) THEN 1 ELSE 0 END FROM event_new`)

	// safeSQL is whether the server is safe, as the function claim checks it. raiseSQL raises the settings
	// of the transaction as the functions claim and durably do it, and is true.
	safeSQL = `(current_setting('fsync') = 'on' OR $2::bool OR {schema}.is_covered('fsync'))
		AND (current_setting('full_page_writes') = 'on' OR $3::bool OR {schema}.is_covered('full_page_writes'))`
	raiseSQL = `
		AND set_config('lock_timeout', $1::text, true) IS NOT NULL
		AND CASE WHEN current_setting('synchronous_commit') = 'off'
			OR current_setting('synchronous_commit') = 'local' AND current_setting('synchronous_standby_names') <> ''
		THEN set_config('synchronous_commit', 'on', true) ELSE '' END IS NOT NULL
		AND CASE WHEN current_setting('client_min_messages') = 'error' THEN set_config('client_min_messages', 'warning', true) ELSE '' END IS NOT NULL`

	insertEvents = `
WITH event_new AS (
	INSERT INTO {schema}.event (
		key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, remote, gateway
	)
	SELECT i.key, i.source, i.event_id, i.type, i.occurred_at, coalesce($4::timestamptz, now()), i.headers, i.body, i.body_sha256,
		i.work, i.remote, i.gateway
	FROM (
		SELECT unnest($5::bytea[]) AS key, unnest($6::text[]) AS source, unnest($7::text[]) AS event_id, unnest($8::text[]) AS type,
			unnest($9::timestamptz[]) AS occurred_at, unnest($10::bytea[]) AS headers, unnest($11::bytea[]) AS body,
			unnest($12::bytea[]) AS body_sha256, unnest($13::int2[]) AS work, unnest($14::text[]) AS remote, unnest($15::text[]) AS gateway
	) i
	WHERE (SELECT ` + safeSQL + raiseSQL + `)
	ON CONFLICT (key) DO NOTHING
	RETURNING key, source, type, work
), state_new AS (
	INSERT INTO {schema}.event_state (key, source, type, received_at, due_at)
	SELECT key, source, type, coalesce($4::timestamptz, now()), coalesce($4::timestamptz, now()) FROM event_new WHERE work = 1
	RETURNING true
)`
	insertedEvents = `
SELECT ` + safeSQL + `, count(*)::int,
	CASE WHEN count(*) < cardinality($5::bytea[]) THEN array_agg(key) END,
	CASE WHEN count(*) = 0 THEN {schema}.confirm()::text END,
	1 / CASE WHEN count(*) FILTER (WHERE work = 1) = (SELECT count(*) FROM state_new) THEN 1 ELSE 0 END`

	// unclaimSQL deletes the event of a test.
	unclaimSQL = statement(`DELETE FROM {schema}.event WHERE key = $1::bytea`)

	// knownSQL finds the keys that exist already, by a function of the schema. It runs
	// before the rest of the claims is sent.
	knownSQL = statement(`SELECT key, body_sha256, is_dead FROM {schema}.known($1::bytea[])`)

	// confirmSQL waits until the commits before it are durable.
	confirmSQL = statement(`SELECT {schema}.confirm()`)

	// lookUpSQL reads the rows that a claim could not see. Each look-up is a LATERAL with a LIMIT,
	// so that the planner can only probe an index: it plans joins as scans of whole tables while
	// the tables are small. For the conditions on the states of messages see the claim function.
	lookUpSQL = statement(`
SELECT i.place, known.body_sha256, coalesce(known.dead, false), seen.key, seen.event_id
FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int[])
	WITH ORDINALITY AS i (key, body_key, body_sha256, guard, place)
LEFT JOIN LATERAL (
	SELECT e.body_sha256,
		CASE WHEN e.work = 1 THEN
			EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3)
		ELSE
			EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state > 2 AND m.state < 4)
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
) seen ON true`)
)
