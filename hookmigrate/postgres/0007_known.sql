-- The schema of hookonce on PostgreSQL, version 7: duplicates are told without a claim,
-- and taking looks up a row once.

-- Tells of those of the keys whose events are there: what is enough to answer duplicates,
-- by the tens of thousands when a sender delivers everything again. Where there is more to
-- do than to look, it finds nothing and leaves them to claim(): that refuses a server which
-- refuses writes, and waits for standbys. As there, the plan is kept and follows the
-- indexes, however small the tables were when it was made.
CREATE FUNCTION {schema}.known(keys bytea[], OUT key bytea, OUT body_sha256 bytea, OUT is_dead boolean) RETURNS SETOF record
LANGUAGE plpgsql ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	IF current_setting('transaction_read_only') = 'on' OR current_setting('synchronous_standby_names') <> '' THEN
		RETURN;
	END IF;
	RETURN QUERY
	SELECT e.key, e.body_sha256,
		CASE WHEN e.work = 1 THEN
			EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3)
		ELSE
			EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state > 2 AND m.state < 4)
			AND NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state < 2)
		END
	FROM {schema}.event e
	WHERE e.key = ANY (known.keys);
END
$$;

COMMENT ON FUNCTION {schema}.known(bytea[]) IS 'For hookonce itself: which events are there.';

-- As before, but that the row which is locked is the row which is changed, rather than
-- looked up by its key again (one that somebody has changed in between may be left for the
-- next call); and that the plan is kept, which took longer to make than
-- to run. It must follow the indexes on what is due, whatever the tables were like when
-- it was made: sorting would read all that is due. The LIMIT of the look-up of an event
-- leaves it nothing but a probe of an index.
CREATE OR REPLACE FUNCTION {schema}.take(source text, n integer DEFAULT 1) RETURNS SETOF {schema}.taken_event
LANGUAGE plpgsql ROWS 10
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
	-- one until there are enough: none is locked that is not taken, but one that somebody
	-- changed in the same moment.
	RETURN QUERY
	WITH due AS MATERIALIZED (
		SELECT s.ctid, s.key, s.due_at
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
			SELECT l.ctid, l.key, l.due_at FROM {schema}.event_state l
			WHERE l.ctid = c.ctid AND l.key = c.key AND l.state = 0 AND l.due_at <= moment
			FOR UPDATE SKIP LOCKED
		) s
		WHERE c.key NOT IN (SELECT unnest(ARRAY(SELECT unnest(r.keys) FROM {schema}.run r)))
		LIMIT take.n
	), taken AS (
		UPDATE {schema}.event_state s
		SET state = 2, attempts = s.attempts + 1, processed_at = now(), failed_at = NULL, last_error = NULL, note = ''
		FROM due
		WHERE s.ctid = due.ctid
		RETURNING s.key, s.generation, s.key_generation, s.attempts, due.due_at
	)
	SELECT e.source, e.event_id, e.type, t.generation, t.attempts,
		'hookonce_' || left(encode(sha256(convert_to('idempotency', 'UTF8') || t.key || int8send(t.key_generation)), 'hex'), 40),
		e.occurred_at, e.received_at, convert_from(e.headers, 'UTF8'), e.body
	FROM taken t
	CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = t.key LIMIT 1) e
	ORDER BY t.due_at, t.key;
END
$$;

INSERT INTO {schema}.schema_migration (version, name) VALUES (7, 'known');
