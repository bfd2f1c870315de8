-- The schema of hookonce on PostgreSQL, version 4: what applications in any
-- language call. The functions run with the rights of whoever calls them, and
-- find nothing by the search path.

-- As before, but without the rows that only hold what a message carries, and
-- running where a handler is at it.
CREATE OR REPLACE VIEW {schema}.event_overview AS
SELECT
	e.key, e.source, e.event_id, e.type,
	CASE
		-- Not correlated, so the runs are read once, whatever is listed.
		WHEN s.state = 0 AND e.key IN (SELECT unnest(r.keys) FROM {schema}.run r) THEN 'running'
		WHEN s.key IS NOT NULL THEN ('{pending,running,done,dead,skipped}'::text[])[s.state + 1]
		WHEN m.open > 0 THEN 'running'
		WHEN m.dead > 0 THEN 'dead'
		WHEN m.skipped > 0 AND m.sent = 0 THEN 'skipped'
		ELSE 'done'
	END AS state,
	CASE
		WHEN s.key IS NOT NULL THEN s.note
		WHEN m.messages = 0 THEN 'no route'
		WHEN m.open + m.dead = 0 THEN m.note
		ELSE ''
	END AS note,
	coalesce(s.attempts, m.attempts, 0) AS attempts,
	coalesce(greatest(s.generation, m.generation), 0) AS generation,
	coalesce(d.duplicates, 0) AS duplicates,
	e.received_at,
	e.occurred_at,
	CASE
		WHEN s.key IS NOT NULL THEN CASE s.state WHEN 2 THEN s.processed_at END
		WHEN m.messages = 0 THEN e.received_at
		WHEN m.open + m.dead = 0 AND m.sent > 0 THEN m.sent_at
	END AS processed_at,
	CASE
		WHEN s.key IS NOT NULL THEN CASE s.state WHEN 3 THEN s.failed_at END
		WHEN m.open = 0 AND m.dead > 0 THEN m.failed_at
	END AS failed_at,
	coalesce(CASE WHEN s.key IS NOT NULL THEN s.last_error ELSE m.last_error END, '') AS last_error,
	e.headers,
	e.body,
	e.body_sha256,
	e.watched,
	coalesce(d.other_bodies, 0) AS other_bodies,
	coalesce(d.repeats, 0) AS repeats,
	greatest(e.received_at, d.last_at) AS last_at
FROM {schema}.event e
LEFT JOIN {schema}.event_state s ON s.key = e.key
LEFT JOIN {schema}.delivery_count d ON d.key = e.key
CROSS JOIN LATERAL (
	SELECT
		count(*) AS messages,
		count(*) FILTER (WHERE state IN (0, 1)) AS open,
		count(*) FILTER (WHERE state = 2) AS sent,
		count(*) FILTER (WHERE state = 3) AS dead,
		count(*) FILTER (WHERE state = 4) AS skipped,
		max(attempts) AS attempts,
		max(generation) AS generation,
		max(sent_at) AS sent_at,
		max(failed_at) AS failed_at,
		coalesce(
			max(note) FILTER (WHERE state = 4 AND note <> 'replayed as new'),
			CASE WHEN count(*) FILTER (WHERE state = 2) = 0 THEN max(note) FILTER (WHERE state = 4) END,
			''
		) AS note,
		(array_agg(last_error ORDER BY failed_at DESC NULLS LAST, due_at DESC)
			FILTER (WHERE last_error IS NOT NULL))[1] AS last_error
	FROM {schema}.message
	WHERE event_key = e.key
) m
WHERE NOT e.outbox;

COMMENT ON VIEW {schema}.events IS
	'Every event with its state: pending, running, done, dead or skipped. Columns are only ever added.';
COMMENT ON VIEW {schema}.dead_letters IS
	'The events that are dead: out of attempts, or failed for good. They stay until replayed or discarded.';

-- Keys are hashes over strings, each preceded by its length in bytes.
CREATE FUNCTION {schema}.hash_strings(parts text[]) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT sha256(string_agg(int4send(octet_length(b)) || b, '' ORDER BY place))
	FROM unnest(parts) WITH ORDINALITY AS p (part, place)
	CROSS JOIN LATERAL (SELECT convert_to(part, 'UTF8') AS b) AS bytes
$$;

COMMENT ON FUNCTION {schema}.hash_strings(text[]) IS
	'For hookonce itself: the SHA-256 of strings, each preceded by its length in bytes.';

-- An id of several parts is shown joined by ':', and a part may hold a ':' too, so
-- the id that is shown tells of several keys. Those with more than 1,024 are looked
-- up by reading all events.
CREATE FUNCTION {schema}.find_event(source text, event_id text) RETURNS bytea
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- Of nothing string_to_array makes no piece, rather than an empty one.
	pieces text[] := CASE find_event.event_id WHEN '' THEN ARRAY[''] ELSE string_to_array(find_event.event_id, ':') END;
	gaps   integer := cardinality(pieces) - 1;
	parts  text[];
	keys   bytea[] := '{}';
BEGIN
	IF gaps > 10 THEN
		RETURN (
			SELECT e.key FROM {schema}.event e
			WHERE e.source = find_event.source AND e.event_id = find_event.event_id AND NOT e.outbox
			ORDER BY e.received_at LIMIT 1
		);
	END IF;
	FOR mask IN 0 .. (1 << gaps) - 1 LOOP
		parts := pieces[1:1];
		FOR gap IN 1 .. gaps LOOP
			IF mask & (1 << (gap - 1)) <> 0 THEN
				parts := parts || pieces[gap + 1];
			ELSE
				parts[cardinality(parts)] := parts[cardinality(parts)] || ':' || pieces[gap + 1];
			END IF;
		END LOOP;
		keys := keys || {schema}.hash_strings(ARRAY['event', find_event.source] || parts);
	END LOOP;
	RETURN (
		SELECT e.key FROM {schema}.event e
		WHERE e.key = ANY (keys) AND e.source = find_event.source AND e.event_id = find_event.event_id AND NOT e.outbox
		ORDER BY array_position(keys, e.key) LIMIT 1
	);
END
$$;

COMMENT ON FUNCTION {schema}.find_event(text, text) IS
	'For hookonce itself: the key of an event, by its source and its id as it is shown.';

-- Each call of take writes a row here and deletes it, and the trigger on the row
-- runs when the transaction is committed. A client that began the transaction by a
-- statement of its own commits it by another one, at another time. Where the time
-- is still that of the call, the commit is the end of that very statement:
-- autocommit, and nobody has worked on what was taken. The rows are never
-- committed, so they need not survive a crash.
CREATE UNLOGGED TABLE {schema}.take_call (
	called_at timestamptz NOT NULL
);

CREATE FUNCTION {schema}.refuse_autocommit() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NEW.called_at = statement_timestamp() THEN
		RAISE EXCEPTION 'take was called without a transaction: the events would be done, and nobody has worked on them'
			USING ERRCODE = 'no_active_sql_transaction',
				HINT = 'Send BEGIN, then take, then the work, then COMMIT, each as a statement of its own. Nothing was taken.';
	END IF;
	RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER refuse_autocommit AFTER INSERT ON {schema}.take_call
	DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_autocommit();

CREATE TYPE {schema}.taken_event AS (
	source          text,
	event_id        text,
	type            text,
	generation      integer,
	attempt         integer,
	idempotency_key text,
	occurred_at     timestamptz,
	received_at     timestamptz,
	headers         text,
	body            bytea
);

CREATE FUNCTION {schema}.take(source text, n integer DEFAULT 1) RETURNS SETOF {schema}.taken_event
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
					SELECT f.key, f.due_at FROM {schema}.event_state f
					WHERE f.source = take.source AND f.state = 0 AND f.attempts = 0 AND f.crashes = 0 AND f.due_at <= moment
					ORDER BY f.due_at
				) UNION ALL (
					SELECT t.key, t.due_at FROM {schema}.event_state t
					WHERE t.source = take.source AND t.state = 0 AND (t.attempts > 0 OR t.crashes > 0) AND t.due_at <= moment
					ORDER BY t.due_at
				)
			) u
			ORDER BY u.due_at
		) c
		CROSS JOIN LATERAL (
			SELECT l.key, l.due_at FROM {schema}.event_state l
			WHERE l.key = c.key AND l.state = 0 AND l.due_at <= moment
			FOR UPDATE SKIP LOCKED
		) s
		WHERE c.key NOT IN (SELECT unnest(r.keys) FROM {schema}.run r)
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

COMMENT ON FUNCTION {schema}.take(text, integer) IS
	'Locks up to n due events of a source, those due first, and marks them done in this transaction: work on them in it, and commit. ROLLBACK gives them back. After one that failed: ROLLBACK, then fail.';

CREATE FUNCTION {schema}.fail(
	source text, event_id text, error text,
	attempts integer DEFAULT 20, first interval DEFAULT '10 seconds', max interval DEFAULT '12 hours',
	permanent boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	moment  timestamptz := clock_timestamp();
	failed  bytea;
	s       record;
	number  integer;
	is_dead boolean;
	ceiling double precision; -- seconds
BEGIN
	IF fail.source IS NULL OR fail.event_id IS NULL OR fail.error IS NULL THEN
		RAISE EXCEPTION 'fail needs a source, an event id, and what the error was' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF fail.attempts IS NULL OR fail.attempts < 1 THEN
		RAISE EXCEPTION 'attempts is %: an event has at least one', coalesce(fail.attempts::text, 'NULL')
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF (fail.first > interval '0' AND fail.max >= fail.first AND fail.max <= interval '366 days') IS NOT TRUE THEN
		RAISE EXCEPTION 'first is % and max is %: use a positive first, and a max of at least first and at most a year',
			coalesce(fail.first::text, 'NULL'), coalesce(fail.max::text, 'NULL') USING ERRCODE = 'invalid_parameter_value';
	END IF;
	failed := {schema}.find_event(fail.source, fail.event_id);
	IF failed IS NULL THEN
		RAISE EXCEPTION 'source "%" has no event "%"', fail.source, fail.event_id
			USING ERRCODE = 'no_data_found', HINT = 'Give the source and the event_id that take returned.';
	END IF;

	SELECT e.* INTO s FROM {schema}.event_state e WHERE e.key = failed FOR UPDATE SKIP LOCKED;
	IF NOT FOUND AND EXISTS (SELECT FROM {schema}.event_state e WHERE e.key = failed) THEN
		RAISE EXCEPTION 'event "%" of source "%" is held by another transaction', fail.event_id, fail.source
			USING ERRCODE = 'lock_not_available', HINT = 'If that is the one that took it, end it by ROLLBACK first.'
				' Otherwise another consumer has taken it since, and the outcome is for that one to tell.';
	END IF;
	IF s.state = 2 AND s.processed_at = now() THEN -- as take writes it
		RAISE EXCEPTION 'event "%" of source "%" was taken by this transaction, which would commit it as done', fail.event_id, fail.source
			USING ERRCODE = 'active_sql_transaction', HINT = 'Send ROLLBACK, then call fail.';
	END IF;
	IF s.state IS DISTINCT FROM 0 OR EXISTS (SELECT FROM {schema}.run r WHERE failed = ANY (r.keys)) THEN
		RETURN (SELECT o.state FROM {schema}.event_overview o WHERE o.key = failed);
	END IF;

	number := s.attempts + 1;
	is_dead := coalesce(fail.permanent, false) OR number >= fail.attempts;
	ceiling := least(extract(epoch FROM fail.first) * 2.0 ^ least(s.attempts, 60), extract(epoch FROM fail.max));
	INSERT INTO {schema}.event_attempt (key, generation, number, outcome, error, at, took)
	VALUES (failed, s.generation, number, CASE WHEN is_dead THEN 3 ELSE 2 END, left(fail.error, 4096), moment, 0);
	UPDATE {schema}.event_state e
	SET state = CASE WHEN is_dead THEN 3 ELSE 0 END,
		attempts = number,
		-- A random time from none to all of it, so that what failed together does not come back together.
		due_at = CASE WHEN is_dead THEN e.due_at ELSE moment + random() * ceiling * interval '1 second' END,
		failed_at = CASE WHEN is_dead THEN moment END,
		last_error = left(fail.error, 4096)
	WHERE e.key = failed;
	RETURN CASE WHEN is_dead THEN 'dead' ELSE 'pending' END;
END
$$;

COMMENT ON FUNCTION {schema}.fail(text, text, text, integer, interval, interval, boolean) IS
	'Counts a failed attempt on a pending event, after the ROLLBACK of the transaction that took it: it is due again after a random time of up to first doubled with each attempt, at most max; or dead, where permanent or out of attempts. Returns its state.';

CREATE FUNCTION {schema}.enqueue(
	destination text, body bytea, type text DEFAULT '', headers jsonb DEFAULT '{}', id text DEFAULT NULL,
	source text DEFAULT '', event_id text DEFAULT ''
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	moment     timestamptz := clock_timestamp();
	message_id text := coalesce(nullif(enqueue.id, ''), 'msg_' || replace(gen_random_uuid()::text, '-', ''));
	given      jsonb := coalesce(enqueue.headers, '{}');
	lists      jsonb; -- header name to list of values
	cause      bytea;
	cause_type text;
BEGIN
	IF coalesce(enqueue.destination, '') = '' THEN
		RAISE EXCEPTION 'a message needs a destination' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF enqueue.body IS NULL THEN
		RAISE EXCEPTION 'a message needs a body' USING ERRCODE = 'null_value_not_allowed', HINT = 'An empty one is ''''.';
	END IF;
	IF length(message_id) > 255 OR message_id ~ '[^\x21-\x2d\x2f-\x7e]' THEN
		RAISE EXCEPTION 'the id of a message must be at most 255 characters of printable ASCII without ''.'' and spaces'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF jsonb_typeof(given) <> 'object' OR jsonb_path_exists(given, 'strict $.* ? (@.type() != "string" && @.type() != "array")')
		OR jsonb_path_exists(given, 'strict $.* ? (@.type() == "array")[*] ? (@.type() != "string")')
	THEN
		RAISE EXCEPTION 'the headers of a message must be an object of name to value, or to a list of values'
			USING ERRCODE = 'invalid_parameter_value', HINT = 'As in {"Content-Type": "text/plain", "X-Tag": ["a", "b"]}.';
	END IF;
	SELECT jsonb_object_agg(h.key, CASE jsonb_typeof(h.value) WHEN 'string' THEN jsonb_build_array(h.value) ELSE h.value END)
	INTO lists FROM jsonb_each(given) h;
	IF NOT EXISTS (SELECT FROM jsonb_object_keys(given) name WHERE lower(name) = 'content-type') THEN
		lists := coalesce(lists, '{}') || '{"Content-Type": ["application/json"]}';
	END IF;
	IF enqueue.source <> '' AND enqueue.event_id <> '' THEN
		cause := {schema}.find_event(enqueue.source, enqueue.event_id);
		SELECT e.type INTO cause_type FROM {schema}.event e WHERE e.key = cause;
	END IF;
	WITH carrier AS (
		INSERT INTO {schema}.event (key, source, event_id, type, received_at, headers, body, body_sha256, work, outbox)
		VALUES (
			{schema}.hash_strings(ARRAY['outbox', message_id]), coalesce(enqueue.source, ''), coalesce(enqueue.event_id, ''),
			coalesce(nullif(enqueue.type, ''), cause_type, ''), moment, convert_to(lists::text, 'UTF8'),
			enqueue.body, sha256(enqueue.body), 0, true
		)
		ON CONFLICT (key) DO NOTHING
		RETURNING key
	)
	INSERT INTO {schema}.message (id, event_key, generation, route, destination, due_at, created_at, received_at, cause)
	SELECT message_id, c.key, 0, '', enqueue.destination, moment, moment, moment, cause
	FROM carrier c;
	RETURN message_id;
END
$$;

COMMENT ON FUNCTION {schema}.enqueue(text, bytea, text, jsonb, text, text, text) IS
	'Writes a message to a destination in this transaction: it is sent if and only if that is committed. Returns its id. With an id that was enqueued before, nothing is written.';

INSERT INTO {schema}.schema_migration (version, name) VALUES (4, 'sql');
