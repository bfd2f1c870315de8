-- The schema of hookonce on PostgreSQL, version 6: claims as a function, so that the
-- statement is planned once in each session, rather than for each batch. A plan that
-- is kept must follow the indexes, however small its tables were when it was made.

-- What was never tried and what was have an index each since step 3, and both
-- together do what this one did.
DROP INDEX {schema}.event_state_due;

-- Each look-up has a LIMIT, so that the planner can only probe an index. "state < 2"
-- are the open ones; it is not written like the condition of the index for leasing,
-- so that the planner cannot think of reading all of that index for one event.
-- The function is one query and sets nothing, so it is planned within its callers.
CREATE FUNCTION {schema}.known_claim(
	key bytea, body_key bytea, body_sha256 bytea, guard integer,
	OUT known_sha256 bytea, -- of the event of the same key
	OUT dead boolean,
	OUT seen_key bytea,     -- of the event that first brought the body
	OUT seen_id text        -- its id; NULL where that event holds another body: the row is void
) RETURNS SETOF record
LANGUAGE sql STABLE ROWS 1
AS $$
	SELECT known.body_sha256, known.dead, seen.key, seen.event_id
	FROM (SELECT) one
	LEFT JOIN LATERAL (
		SELECT e.body_sha256,
			CASE WHEN e.work = 1 THEN
				EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3)
			ELSE
				EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state = 3)
				AND NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state < 2)
			END AS dead
		FROM {schema}.event e
		WHERE e.key = known_claim.key
		LIMIT 1
	) known ON true
	LEFT JOIN LATERAL (
		SELECT b.key, e.event_id
		FROM {schema}.body_seen b
		LEFT JOIN {schema}.event e ON e.key = b.key AND e.body_sha256 = known_claim.body_sha256
		WHERE known_claim.guard > 0 AND b.body_key = known_claim.body_key
		LIMIT 1
	) seen ON true
$$;

COMMENT ON FUNCTION {schema}.known_claim(bytea, bytea, bytea, integer) IS
	'For hookonce itself: what there is of the event and of the body of a claim.';

-- Claims a batch, whose keys are in ascending order without repetition. Its parts run
-- in an order that data flow forces:
--
--   setting   bounds every wait for a lock below, and notes the bound before it
--   input     the batch, with what the statement's snapshot knows of it; what
--             is known already never reaches an INSERT, which might wait for it
--   body_new  the bodies that this batch is the first to bring, all of them
--             before the first event; a void row is taken over
--   claimed   the events; one whose body another event has, under guard 2, is
--             left out
--   barrier   with synchronous standbys: writes to the log, so that the commit of
--             a batch of nothing but duplicates waits for them too. The first
--             delivery's wait may have been cut off, and its event, which is
--             visible by then, stand on the primary alone
--   the rest  what the claimed events owe; work is 1 for what is queued, 2 for what
--             is done by the transaction of the claim
--
-- "x IN (SELECT ...) IS TRUE" keeps the planner from turning the IN into a join,
-- which may be a nested loop over the whole batch; it hashes the list instead.
CREATE FUNCTION {schema}.claim(
	lock_timeout text, at timestamptz,
	keys bytea[], sources text[], event_ids text[], types text[], occurred timestamptz[],
	headers bytea[], bodies bytea[], body_hashes bytea[], body_keys bytea[], guards integer[], works integer[],
	message_ids text[], message_keys bytea[], message_routes text[], message_destinations text[],
	OUT place bigint, OUT is_claimed boolean, OUT body_taken boolean,
	OUT known_sha256 bytea, OUT is_dead boolean, OUT seen_key bytea, OUT seen_id text, OUT lock_before text
) RETURNS SETOF record
LANGUAGE plpgsql ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH setting AS MATERIALIZED (
		SELECT b.lock_before, set_config('lock_timeout', claim.lock_timeout, true), coalesce(claim.at, now()) AS now
		FROM (SELECT current_setting('lock_timeout') AS lock_before OFFSET 0) b
	), input AS MATERIALIZED (
		SELECT i.*, setting.now, setting.lock_before, known.known_sha256, known.dead, known.seen_key, known.seen_id
		FROM setting
		CROSS JOIN unnest(
			claim.keys, claim.sources, claim.event_ids, claim.types, claim.occurred, claim.headers, claim.bodies,
			claim.body_hashes, claim.body_keys, claim.guards, claim.works
		) WITH ORDINALITY AS i (
			key, source, event_id, type, occurred_at, headers, body, body_sha256, body_key, guard, work, place
		)
		CROSS JOIN LATERAL {schema}.known_claim(i.key, i.body_key, i.body_sha256, i.guard) known
	), body_new AS (
		INSERT INTO {schema}.body_seen AS b (body_key, key, seen_at)
		SELECT DISTINCT ON (i.body_key) i.body_key, i.key, i.now
		FROM input i
		WHERE i.guard > 0 AND i.known_sha256 IS NULL AND i.seen_id IS NULL
		ORDER BY i.body_key, i.key
		ON CONFLICT (body_key) DO UPDATE SET key = excluded.key, seen_at = excluded.seen_at
		WHERE ((b.body_key, b.key) IN (
			SELECT i.body_key, i.seen_key FROM input i WHERE i.seen_key IS NOT NULL AND i.seen_id IS NULL
		)) IS TRUE
		RETURNING b.body_key, b.key
	), inserted AS MATERIALIZED (
		SELECT count(*) AS n FROM body_new
	), claimed AS (
		INSERT INTO {schema}.event (
			key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, watched
		)
		SELECT i.key, i.source, i.event_id, i.type, i.occurred_at, i.now, i.headers, i.body, i.body_sha256, least(i.work, 1), i.guard > 0
		FROM input i
		WHERE i.known_sha256 IS NULL
			AND (SELECT n FROM inserted) >= 0 -- always: it is here to have all bodies inserted first
			AND (i.guard < 2 OR ((i.body_key, i.key) IN (SELECT b.body_key, b.key FROM body_new b)) IS TRUE)
		ORDER BY i.key
		ON CONFLICT (key) DO NOTHING
		RETURNING key
	), states AS (
		INSERT INTO {schema}.event_state (key, source, type, state, attempts, due_at, processed_at)
		SELECT i.key, i.source, i.type, CASE i.work WHEN 1 THEN 0 ELSE 2 END, i.work - 1, i.now, CASE i.work WHEN 2 THEN i.now END
		FROM input i
		WHERE i.work > 0 AND (i.key IN (SELECT c.key FROM claimed c)) IS TRUE
	), messages AS (
		INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at)
		SELECT m.id, m.event_key, 0, m.route, m.destination, setting.now, setting.now, setting.now
		FROM setting
		CROSS JOIN unnest(claim.message_ids, claim.message_keys, claim.message_routes, claim.message_destinations)
			AS m (id, event_key, route, destination)
		WHERE (m.event_key IN (SELECT c.key FROM claimed c)) IS TRUE
	), barrier AS MATERIALIZED (
		SELECT count(pg_logical_emit_message(true, 'hookonce', '')) AS n
		FROM setting
		WHERE current_setting('synchronous_standby_names') <> ''
	)
	SELECT
		i.place,
		(SELECT n FROM barrier) IS NOT NULL AND (i.key IN (SELECT c.key FROM claimed c)) IS TRUE,
		((i.body_key, i.key) IN (SELECT b.body_key, b.key FROM body_new b)) IS TRUE,
		i.known_sha256, coalesce(i.dead, false), i.seen_key, i.seen_id, i.lock_before
	FROM input i;
END
$$;

COMMENT ON FUNCTION {schema}.claim(
	text, timestamptz, bytea[], text[], text[], text[], timestamptz[], bytea[], bytea[], bytea[], bytea[], integer[], integer[],
	text[], bytea[], text[], text[]
) IS 'For hookonce itself: claims events, with what they owe. Events that were not verified must not come in by it.';

INSERT INTO {schema}.schema_migration (version, name) VALUES (6, 'claim');
