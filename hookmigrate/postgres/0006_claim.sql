-- The schema of hookonce on PostgreSQL, version 6: claims as a function, so that their
-- statements are planned once in each session, rather than for each batch. A plan that
-- is kept must follow the indexes, however small its tables were when it was made.

-- What was never tried and what was have an index each since step 3, and both
-- together do what this one did.
DROP INDEX {schema}.event_state_due;

-- Claims a batch, whose keys are in ascending order without repetition: in that order
-- the rows are written, so that no two batches wait for one another. It is one call, so
-- that a process which stops in the middle holds nothing open.
--
-- What is known already never reaches an INSERT, which might wait for it. The bodies that
-- a batch is the first to bring come before its events, all of them; a void row is taken
-- over; under guard 2 an event whose body another event has is left out. work is 1 for
-- what is queued, 2 for what is done by the transaction of the claim.
--
-- With synchronous standbys it writes to the log, so that the commit of a batch of
-- nothing but duplicates waits for them too: the first delivery's wait may have been cut
-- off, and its event, which is visible by then, stand on the primary alone.
--
-- The first row has the place 0 and tells how many were claimed. What has no row of its
-- own was, and there is nothing else to say of it.
--
-- "(x IN (SELECT ...)) IS TRUE" keeps the planner from making a join of it, which may be
-- a nested loop over the whole batch; it hashes the list. Look-ups for each of a batch
-- have a LIMIT, so that they can only be nested loops over an index. The states of
-- messages are not written like the conditions of the indexes on open and on dead ones,
-- so that the planner cannot think of reading all of such an index for one event, which
-- costs nothing as long as it is small.
CREATE FUNCTION {schema}.claim(
	lock_timeout text, at timestamptz,
	keys bytea[], sources text[], event_ids text[], types text[], occurred timestamptz[],
	headers bytea[], bodies bytea[], body_hashes bytea[], body_keys bytea[], guards integer[], works integer[],
	message_ids text[], message_keys bytea[], message_routes text[], message_destinations text[],
	OUT place bigint, OUT n_claimed integer, OUT lock_before text,
	OUT is_claimed boolean, OUT body_taken boolean, OUT known_sha256 bytea, OUT is_dead boolean, OUT seen_key bytea, OUT seen_id text
) RETURNS SETOF record
LANGUAGE plpgsql ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	n            integer := cardinality(claim.keys);
	moment       timestamptz := coalesce(claim.at, now());
	bound        text;
	guarded      boolean := 0 < ANY (claim.guards);
	-- What there is of the same keys.
	known_keys   bytea[];
	known_hashes bytea[];
	known_dead   boolean[];
	-- What there is of the same bodies.
	seen_bodies  bytea[];
	seen_keys    bytea[];
	seen_ids     text[];
	-- What this batch is the first to bring.
	new_bodies   bytea[];
	new_keys     bytea[];
	claimed      bytea[];
BEGIN
	-- Nothing below would write for a batch of nothing but duplicates, and a server that
	-- refuses writes may be one that was replaced.
	IF current_setting('transaction_read_only') = 'on' THEN
		RAISE EXCEPTION 'cannot claim events in a read-only transaction' USING ERRCODE = 'read_only_sql_transaction';
	END IF;
	lock_before := current_setting('lock_timeout');
	bound := set_config('lock_timeout', claim.lock_timeout, true);

	SELECT array_agg(e.key), array_agg(e.body_sha256), array_agg(
		CASE WHEN e.work = 1 THEN
			EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3)
		ELSE
			EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state > 2 AND m.state < 4)
			AND NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state < 2)
		END)
	INTO known_keys, known_hashes, known_dead
	FROM {schema}.event e
	WHERE e.key = ANY (claim.keys);

	IF guarded THEN
		SELECT array_agg(b.body_key), array_agg(b.key), array_agg(b.event_id)
		INTO seen_bodies, seen_keys, seen_ids
		FROM (
			SELECT DISTINCT i.body_key, i.body_sha256
			FROM unnest(claim.body_keys, claim.body_hashes, claim.guards) AS i (body_key, body_sha256, guard)
			WHERE i.guard > 0
		) i
		CROSS JOIN LATERAL (
			SELECT b.body_key, b.key, e.event_id -- no id: the row is void
			FROM {schema}.body_seen b
			LEFT JOIN LATERAL (
				SELECT e.event_id FROM {schema}.event e WHERE e.key = b.key AND e.body_sha256 = i.body_sha256 LIMIT 1
			) e ON true
			WHERE b.body_key = i.body_key
			LIMIT 1
		) b;

		WITH body_new AS (
			INSERT INTO {schema}.body_seen AS b (body_key, key, seen_at)
			SELECT DISTINCT ON (i.body_key) i.body_key, i.key, moment
			FROM unnest(claim.keys, claim.body_keys, claim.guards) AS i (key, body_key, guard)
			WHERE i.guard > 0
				AND (i.key IN (SELECT unnest(known_keys))) IS NOT TRUE
				AND (i.body_key IN (SELECT s.body_key FROM unnest(seen_bodies, seen_ids) AS s (body_key, id) WHERE s.id IS NOT NULL)) IS NOT TRUE
			ORDER BY i.body_key, i.key
			ON CONFLICT (body_key) DO UPDATE SET key = excluded.key, seen_at = excluded.seen_at
			WHERE ((b.body_key, b.key) IN (
				SELECT s.body_key, s.key FROM unnest(seen_bodies, seen_keys, seen_ids) AS s (body_key, key, id) WHERE s.id IS NULL
			)) IS TRUE
			RETURNING b.body_key, b.key
		)
		SELECT array_agg(b.body_key), array_agg(b.key) INTO new_bodies, new_keys FROM body_new b;
	END IF;

	IF known_keys IS NULL OR cardinality(known_keys) < n THEN
		WITH event_new AS (
			INSERT INTO {schema}.event (
				key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, watched
			)
			SELECT i.key, i.source, i.event_id, i.type, i.occurred_at, moment, i.headers, i.body, i.body_sha256, least(i.work, 1), i.guard > 0
			FROM unnest(
				claim.keys, claim.sources, claim.event_ids, claim.types, claim.occurred, claim.headers, claim.bodies,
				claim.body_hashes, claim.body_keys, claim.guards, claim.works
			) AS i (key, source, event_id, type, occurred_at, headers, body, body_sha256, body_key, guard, work)
			WHERE (known_keys IS NULL OR (i.key IN (SELECT unnest(known_keys))) IS NOT TRUE)
				AND (i.guard < 2 OR ((i.body_key, i.key) IN (SELECT b.body_key, b.key FROM unnest(new_bodies, new_keys) AS b (body_key, key))) IS TRUE)
			ON CONFLICT (key) DO NOTHING
			RETURNING key
		)
		SELECT array_agg(e.key) INTO claimed FROM event_new e;
	END IF;

	IF claimed IS NOT NULL AND 0 < ANY (claim.works) THEN
		INSERT INTO {schema}.event_state (key, source, type, state, attempts, due_at, processed_at)
		SELECT i.key, i.source, i.type, CASE i.work WHEN 1 THEN 0 ELSE 2 END, i.work - 1, moment, CASE i.work WHEN 2 THEN moment END
		FROM unnest(claim.keys, claim.sources, claim.types, claim.works) AS i (key, source, type, work)
		WHERE i.work > 0 AND (cardinality(claimed) = n OR (i.key IN (SELECT unnest(claimed))) IS TRUE);
	END IF;
	IF claimed IS NOT NULL AND cardinality(claim.message_ids) > 0 THEN
		INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at)
		SELECT m.id, m.event_key, 0, m.route, m.destination, moment, moment, moment
		FROM unnest(claim.message_ids, claim.message_keys, claim.message_routes, claim.message_destinations)
			AS m (id, event_key, route, destination)
		WHERE cardinality(claimed) = n OR (m.event_key IN (SELECT unnest(claimed))) IS TRUE;
	END IF;

	IF current_setting('synchronous_standby_names') <> '' THEN
		PERFORM pg_logical_emit_message(true, 'hookonce', '');
	END IF;

	place := 0;
	n_claimed := coalesce(cardinality(claimed), 0);
	RETURN NEXT;
	IF NOT guarded AND n_claimed = n THEN
		RETURN;
	END IF;
	RETURN QUERY
	SELECT r.place, NULL::integer, NULL::text, r.is_claimed, r.body_taken, r.known_sha256, r.dead, r.seen_key, r.seen_id
	FROM (
		SELECT i.place, i.guard, (i.key IN (SELECT unnest(claimed))) IS TRUE AS is_claimed,
			((i.body_key, i.key) IN (SELECT b.body_key, b.key FROM unnest(new_bodies, new_keys) AS b (body_key, key))) IS TRUE AS body_taken,
			k.body_sha256 AS known_sha256, coalesce(k.dead, false) AS dead, s.key AS seen_key, s.id AS seen_id
		FROM unnest(claim.keys, claim.body_keys, claim.guards) WITH ORDINALITY AS i (key, body_key, guard, place)
		LEFT JOIN unnest(known_keys, known_hashes, known_dead) AS k (key, body_sha256, dead) ON k.key = i.key
		LEFT JOIN unnest(seen_bodies, seen_keys, seen_ids) AS s (body_key, key, id) ON i.guard > 0 AND s.body_key = i.body_key
	) r
	WHERE r.guard > 0 OR NOT r.is_claimed;
END
$$;

COMMENT ON FUNCTION {schema}.claim(
	text, timestamptz, bytea[], text[], text[], text[], timestamptz[], bytea[], bytea[], bytea[], bytea[], integer[], integer[],
	text[], bytea[], text[], text[]
) IS 'For hookonce itself: claims events, with what they owe. Events that were not verified must not come in by it.';

-- As before, but that a row is locked where it was found, rather than looked up by its
-- key again: one that somebody has changed in between may be left for the next call. And the
-- keys of runs are taken for few: by the size of their table, which records come to and
-- go from, the planner would take them for hundreds of thousands.
CREATE OR REPLACE FUNCTION {schema}.take(source text, n integer DEFAULT 1) RETURNS SETOF {schema}.taken_event
LANGUAGE plpgsql ROWS 10
SET search_path = pg_catalog, pg_temp
-- The plan must follow the indexes, whatever is known of the tables: sorting would
-- read all that is due.
SET plan_cache_mode = force_custom_plan
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	moment timestamptz := clock_timestamp(); -- the transaction may have begun long ago
	stack  text;
	mark   tid;
BEGIN
	IF take.source IS NULL THEN
		RAISE EXCEPTION 'take needs the name of a source' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF take.n IS NULL OR take.n NOT BETWEEN 1 AND 1000 THEN
		RAISE EXCEPTION 'take was asked for % events: ask for 1 to 1000', coalesce(take.n::text, 'NULL')
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	-- Called by another function or a DO block, the work may be in the same statement.
	GET DIAGNOSTICS stack = PG_CONTEXT;
	IF strpos(stack, E'\n') = 0 THEN
		SET CONSTRAINTS {schema}.refuse_autocommit DEFERRED;
		INSERT INTO {schema}.take_call (called_at) VALUES (statement_timestamp()) RETURNING ctid INTO mark;
		DELETE FROM {schema}.take_call c WHERE c.ctid = mark;
	END IF;

	-- Two indexes in the order of due_at are merged, and their rows locked one by
	-- one until there are enough: no row is locked that is not taken.
	RETURN QUERY
	WITH due AS MATERIALIZED (
		SELECT s.key, s.due_at
		FROM (
			SELECT * FROM (
				(
					SELECT f.ctid, f.key, f.due_at FROM {schema}.event_state f
					WHERE f.source = take.source AND f.state = 0 AND f.attempts = 0 AND f.crashes = 0 AND f.due_at <= moment
					ORDER BY f.due_at
				) UNION ALL (
					SELECT t.ctid, t.key, t.due_at FROM {schema}.event_state t
					WHERE t.source = take.source AND t.state = 0 AND (t.attempts > 0 OR t.crashes > 0) AND t.due_at <= moment
					ORDER BY t.due_at
				)
			) u
			ORDER BY u.due_at
		) c
		CROSS JOIN LATERAL (
			SELECT l.key, l.due_at FROM {schema}.event_state l
			WHERE l.ctid = c.ctid AND l.key = c.key AND l.state = 0 AND l.due_at <= moment
			FOR UPDATE SKIP LOCKED
		) s
		WHERE c.key NOT IN (SELECT unnest(ARRAY(SELECT unnest(r.keys) FROM {schema}.run r)))
		LIMIT take.n
	), taken AS (
		UPDATE {schema}.event_state s
		SET state = 2, attempts = s.attempts + 1, processed_at = now(), failed_at = NULL, last_error = NULL, note = ''
		FROM due
		WHERE s.key = due.key
		RETURNING s.key, s.generation, s.key_generation, s.attempts, due.due_at
	)
	SELECT e.source, e.event_id, e.type, t.generation, t.attempts,
		'hookonce_' || left(encode(sha256(convert_to('idempotency', 'UTF8') || t.key || int8send(t.key_generation)), 'hex'), 40),
		e.occurred_at, e.received_at, convert_from(e.headers, 'UTF8'), e.body
	FROM taken t
	JOIN {schema}.event e ON e.key = t.key
	ORDER BY t.due_at, t.key;
END
$$;

INSERT INTO {schema}.schema_migration (version, name) VALUES (6, 'claim');
