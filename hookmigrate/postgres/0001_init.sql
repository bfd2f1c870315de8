-- The schema of hookonce on PostgreSQL, version 1.
--
-- Everything that belongs to one event stands in this one schema, and nothing
-- spans schemas, so a database may hold any number of them.
--
-- There are no foreign keys, on purpose. A foreign key to event would make each
-- write to a state row or a message lock the event's row, and the rows of an
-- event are always written, and always removed, by one statement each.
--
-- States are numbers: 0 pending, 1 running or sending, 2 done or sent, 3 dead,
-- 4 skipped.

DO $$
BEGIN
	-- CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even
	-- where the schema is there already.
	IF to_regnamespace('{schema}') IS NULL THEN
		CREATE SCHEMA {schema};
	END IF;
END
$$;

CREATE TABLE {schema}.schema_migration (
	version    integer PRIMARY KEY,
	name       text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);

-- The identities. Only claims insert here and only pruning changes anything: an
-- open UPDATE of a row would make every claim of its key wait, ON CONFLICT DO
-- NOTHING or not. What changes while an event is worked on stands in event_state
-- and message.
CREATE TABLE {schema}.event (
	key         bytea PRIMARY KEY CHECK (octet_length(key) = 32),
	source      text NOT NULL,
	event_id    text NOT NULL,
	type        text NOT NULL,
	occurred_at timestamptz,
	received_at timestamptz NOT NULL DEFAULT now(),
	headers     bytea,
	body        bytea,
	body_sha256 bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
	work        smallint NOT NULL,             -- 0: its messages alone; 1: it has a row in event_state
	watched     boolean NOT NULL DEFAULT false -- its body was compared with those before
);

CREATE INDEX event_received ON {schema}.event (received_at);

-- What retention has still to remove. Without it each pass would read all the
-- identities that outlive their bodies.
CREATE INDEX event_body_kept ON {schema}.event (received_at) WHERE body IS NOT NULL;

-- The state of events that a handler or an SQL consumer works on. Others have
-- the state of their messages.
CREATE TABLE {schema}.event_state (
	key          bytea PRIMARY KEY,
	state        smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
	attempts     integer NOT NULL DEFAULT 0,
	generation   integer NOT NULL DEFAULT 0,
	due_at       timestamptz NOT NULL,
	processed_at timestamptz,
	failed_at    timestamptz,
	note         text NOT NULL DEFAULT '',
	last_error   text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX event_state_dead ON {schema}.event_state (key) WHERE state = 3;

CREATE TABLE {schema}.message (
	id          text PRIMARY KEY,
	event_key   bytea NOT NULL,
	generation  integer NOT NULL,
	route       text NOT NULL,
	destination text NOT NULL,
	state       smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
	attempts    integer NOT NULL DEFAULT 0,
	token       bigint NOT NULL DEFAULT 0, -- of the last lease; only ever grows
	due_at      timestamptz NOT NULL,      -- while sending: when the lease runs out
	status_code integer,
	created_at  timestamptz NOT NULL,
	sent_at     timestamptz,
	failed_at   timestamptz,
	note        text NOT NULL DEFAULT '',
	last_error  text
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05);

-- A lease moves due_at to its end, so a lease that ran out is simply due again
-- and this one index serves both. A second index on what is being sent would
-- cost most of the lease rate.
CREATE INDEX message_due ON {schema}.message (destination, due_at) WHERE state IN (0, 1);
CREATE INDEX message_event ON {schema}.message (event_key);
CREATE INDEX message_dead ON {schema}.message (event_key) WHERE state = 3;

CREATE TABLE {schema}.attempt (
	message_id  text NOT NULL,
	generation  integer NOT NULL,
	number      integer NOT NULL,
	outcome     smallint NOT NULL CHECK (outcome BETWEEN 1 AND 3), -- 1 sent, 2 retry, 3 dead
	status_code integer,
	error       text,
	at          timestamptz NOT NULL,
	took        bigint NOT NULL, -- microseconds
	PRIMARY KEY (message_id, generation, number)
);

-- How often an event arrived again.
CREATE TABLE {schema}.delivery_count (
	key          bytea PRIMARY KEY,
	duplicates   bigint NOT NULL,
	other_bodies bigint NOT NULL,
	repeats      bigint NOT NULL,
	last_at      timestamptz
) WITH (fillfactor = 80);

-- Which event first brought a body, for sources whose event ids are not signed.
-- A row whose event holds another body is void: it is left by a claim that
-- lost its key to a concurrent one, and the next claim of that body takes it over.
CREATE TABLE {schema}.body_seen (
	body_key bytea PRIMARY KEY CHECK (octet_length(body_key) = 32),
	key      bytea NOT NULL,
	seen_at  timestamptz NOT NULL
);

CREATE INDEX body_seen_event ON {schema}.body_seen (key);

-- Verified requests without a usable event, by source and body.
CREATE TABLE {schema}.quarantine (
	key         bytea PRIMARY KEY CHECK (octet_length(key) = 32),
	source      text NOT NULL,
	body_sha256 bytea NOT NULL,
	headers     bytea NOT NULL,
	body        bytea NOT NULL,
	reason      text NOT NULL,
	count       bigint NOT NULL,
	first_at    timestamptz NOT NULL,
	last_at     timestamptz NOT NULL
);

CREATE INDEX quarantine_newest ON {schema}.quarantine (source, last_at);

-- Every event with its state. For hookonce itself; its columns may change.
CREATE VIEW {schema}.event_overview AS
SELECT
	e.key, e.source, e.event_id, e.type,
	CASE
		WHEN s.key IS NOT NULL THEN ('{pending,running,done,dead,skipped}'::text[])[s.state + 1]
		WHEN m.open > 0 THEN 'running'
		WHEN m.dead > 0 THEN 'dead'
		WHEN m.skipped > 0 AND m.sent = 0 THEN 'skipped'
		ELSE 'done'
	END AS state,
	CASE
		WHEN s.key IS NOT NULL THEN s.note
		WHEN m.messages = 0 THEN 'no route'
		WHEN m.skipped > 0 AND m.sent + m.open + m.dead = 0 THEN m.note
		ELSE ''
	END AS note,
	coalesce(s.attempts, m.attempts, 0) AS attempts,
	coalesce(s.generation, m.generation, 0) AS generation,
	coalesce(d.duplicates, 0) AS duplicates,
	e.received_at,
	e.occurred_at,
	CASE
		WHEN s.key IS NOT NULL THEN s.processed_at
		WHEN m.messages = 0 THEN e.received_at
		WHEN m.open + m.dead = 0 AND m.sent > 0 THEN m.sent_at
	END AS processed_at,
	CASE
		WHEN s.key IS NOT NULL THEN s.failed_at
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
		max(note) FILTER (WHERE state = 4) AS note,
		(array_agg(last_error ORDER BY failed_at DESC NULLS LAST, due_at DESC)
			FILTER (WHERE last_error IS NOT NULL))[1] AS last_error
	FROM {schema}.message
	WHERE event_key = e.key
) m;

-- The two views that users may rely on.
CREATE VIEW {schema}.events AS
SELECT
	source, event_id, type, state, note, attempts, generation, duplicates,
	received_at, occurred_at, processed_at, failed_at, last_error,
	convert_from(headers, 'UTF8') AS headers, body
FROM {schema}.event_overview;

CREATE VIEW {schema}.dead_letters AS
SELECT
	source, event_id, type, state, note, attempts, generation, duplicates,
	received_at, occurred_at, processed_at, failed_at, last_error,
	convert_from(headers, 'UTF8') AS headers, body
FROM {schema}.event_overview
WHERE state = 'dead'
	-- Implied by the state, and found by two small indexes.
	AND key IN (
		SELECT event_key FROM {schema}.message WHERE state = 3
		UNION ALL
		SELECT key FROM {schema}.event_state WHERE state = 3
	);

INSERT INTO {schema}.schema_migration (version, name) VALUES (1, 'init');
