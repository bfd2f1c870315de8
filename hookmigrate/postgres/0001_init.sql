-- The schema of hookonce on PostgreSQL.
--
-- From the first release on, steps are never edited; a change is a new file.
--
-- Everything that belongs to an event is in one schema, whose name hookmigrate fills in. Nothing
-- refers to another schema, so a database may hold any number of them.
--
-- States are numbers: 0 pending, 1 running (a message: sending), 2 done (a message: sent), 3 dead,
-- 4 skipped. Keys are SHA-256 hashes that the client computes.
--
-- There are no foreign keys, on purpose. A foreign key to event would make each write to a state
-- row or a message lock the event's row. All rows of an event are written in one transaction and
-- removed by one statement, so a foreign key would find nothing.
--
-- The order: events and the work on them, messages, history, duplicates, figures, refused requests, sources, views, functions,
-- schema_migration.

DO $$
BEGIN
	-- CREATE SCHEMA IF NOT EXISTS requires the right to create schemas even if the schema exists.
	IF to_regnamespace('{schema}') IS NULL THEN
		CREATE SCHEMA {schema};
	END IF;
END
$$;

-- Events: one row for each claimed event. The primary key is the claim: an INSERT that conflicts is
-- a duplicate.
--
-- Claims only insert, and only pruning updates or deletes. An open UPDATE of a row would block
-- every claim of its key, even with ON CONFLICT DO NOTHING. Columns that change while an event is
-- worked on are therefore in event_state and message.
--
-- A message that was enqueued by itself, without an event, has a row here too. The row holds the
-- message's body and headers, and outbox keeps it out of every listing of events.
CREATE TABLE {schema}.event (
	key         bytea PRIMARY KEY CHECK (octet_length(key) = 32),
	source      text NOT NULL,
	event_id    text NOT NULL,
	type        text NOT NULL,
	occurred_at timestamptz,                    -- by the sender's clock; null: the sender gave no time
	received_at timestamptz NOT NULL DEFAULT now(),
	work        smallint NOT NULL,              -- 0: only its messages; 1: it has a row in event_state
	watched     boolean NOT NULL DEFAULT false, -- its body is compared with earlier bodies, see body_seen
	outbox      boolean NOT NULL DEFAULT false, -- the body of an enqueued message, not an event
	body_sha256 bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
	headers     bytea,                          -- JSON; null once retention has removed it
	body        bytea                           -- null once retention has removed it
);

-- Listings of events and of messages, newest first; pruning of events, oldest first.
CREATE INDEX event_received ON {schema}.event (received_at);

-- Pruning of bodies. Without this index each pass would read all events that outlive their bodies.
CREATE INDEX event_body_kept ON {schema}.event (received_at) WHERE body IS NOT NULL;

-- The state of events that a handler or an SQL consumer works on. The state of any other event
-- follows from its messages, see event_overview.
--
-- The rows repeat the event's source and type, so that the search for due events does not read the
-- table event. hookonce never writes state 1: the table run holds the events of a run, and their
-- state stays 0.
--
-- Most rows are updated: fillfactor leaves room for the new version on the same page, and
-- autovacuum starts after 5 % dead rows, not 20 %.
CREATE TABLE {schema}.event_state (
	key            bytea PRIMARY KEY,
	source         text NOT NULL,
	type           text NOT NULL,
	state          smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
	attempts       integer NOT NULL DEFAULT 0,     -- of this generation
	crashes        integer NOT NULL DEFAULT 0,     -- interrupted runs of this generation
	generation     integer NOT NULL DEFAULT 0,     -- counts replays and reopenings
	key_generation integer NOT NULL DEFAULT 0,     -- of the last replay as new; idempotency keys contain it
	replayed       boolean NOT NULL DEFAULT false, -- by an operator: applied even if it is stale
	undecided      boolean NOT NULL DEFAULT false, -- dead or skipped, and its messages were never decided
	ended          boolean NOT NULL DEFAULT false, -- discarded, after its handler had ended its transaction
	queued         boolean NOT NULL DEFAULT false, -- undecided, and a handler or a consumer works on it after a replay
	due_at         timestamptz NOT NULL,
	retry_in       bigint NOT NULL DEFAULT 0,      -- microseconds from the last failed attempt to due_at
	processed_at   timestamptz,
	failed_at      timestamptz,
	note           text NOT NULL DEFAULT '',
	last_error     text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Pending events of a source in the order of due_at: taking and reserving them, and asking which
-- sources have any. Events that were never tried are taken in batches, and tried events one by one,
-- so each kind has its own index. Both together count and list all pending events.
CREATE INDEX event_state_fresh ON {schema}.event_state (source, due_at)
	WHERE state = 0 AND attempts = 0 AND crashes = 0;
CREATE INDEX event_state_tried ON {schema}.event_state (source, due_at)
	WHERE state = 0 AND (attempts > 0 OR crashes > 0);

-- Listings of running events, together with message_due and the table run. State 1 never occurs
-- here, so the index is empty; it lets a listing find that out without reading the table.
CREATE INDEX event_state_running ON {schema}.event_state (key) WHERE state = 1;

-- Dead events: the view dead_letters, listings of events and dead letters, and their count.
CREATE INDEX event_state_dead ON {schema}.event_state (key) WHERE state = 3;

-- Counts of the dead events of a source, up to a limit.
CREATE INDEX event_state_dead_source ON {schema}.event_state (source, due_at) WHERE state = 3;

-- Listings of skipped and of discarded events.
CREATE INDEX event_state_skipped ON {schema}.event_state (key) WHERE state = 4;

-- Runs of handlers: which events are in which run.
--
-- Another connection than the run's inserts the row before the first handler, and the commit of the
-- run deletes it. The run's transaction locks the state rows of its events until it ends. A row
-- whose events are not locked therefore belongs to an interrupted run. Losing a row costs only that
-- knowledge, so it is written with synchronous_commit = off.
--
-- Rows come and go all the time: autovacuum starts after 1,000 dead rows, whatever the size.
CREATE TABLE {schema}.run (
	id         bigint PRIMARY KEY, -- the transaction's number, see txid_current
	keys       bytea[] NOT NULL,
	started_at timestamptz NOT NULL,
	-- For a run of one event: the microseconds until the next attempt if the run is interrupted.
	-- Null: it is the last attempt. The process that notices may not know the schedule.
	retry_in   bigint,
	home       text NOT NULL DEFAULT '' -- where id is the number of a transaction, see run_home
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Failed attempts of handlers and SQL consumers, for the audit. A successful attempt is only in
-- event_state.
CREATE TABLE {schema}.event_attempt (
	key        bytea NOT NULL,
	generation integer NOT NULL,
	number     integer NOT NULL, -- from 1
	outcome    smallint NOT NULL CHECK (outcome BETWEEN 2 AND 3), -- 2 retry, 3 dead
	error      text NOT NULL,
	at         timestamptz NOT NULL,
	took       bigint NOT NULL,  -- microseconds
	PRIMARY KEY (key, generation, number)
);

-- Deliveries whose handler failed in the transaction of the claim, which rolled back the claim too.
-- Each row holds the request until the event is claimed, or until the failures make it a dead
-- event.
CREATE TABLE {schema}.inline_failure (
	key          bytea PRIMARY KEY CHECK (octet_length(key) = 32),
	source       text NOT NULL,
	event_id     text NOT NULL,
	type         text NOT NULL,
	occurred_at  timestamptz,
	headers      bytea NOT NULL,
	body         bytea NOT NULL,
	body_sha256  bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
	message_ids  text[] NOT NULL, -- with routes and destinations: the messages that the event gets
	routes       text[] NOT NULL,
	destinations text[] NOT NULL,
	failures     integer NOT NULL,
	last_error   text NOT NULL,
	first_at     timestamptz NOT NULL,
	last_at      timestamptz NOT NULL
);

-- Events that failed and were not delivered again for long: they become dead letters.
CREATE INDEX inline_failure_last ON {schema}.inline_failure (last_at);

-- The highest applied version of each object, for sources and routes that skip stale events.
-- Versions compare as bytes.
CREATE TABLE {schema}.object_version (
	object     bytea PRIMARY KEY CHECK (octet_length(object) = 32),
	source     text NOT NULL,
	version    bytea NOT NULL, -- empty: the row exists to be locked, and nothing was applied yet
	shown      text NOT NULL,  -- the version for people
	applied_at timestamptz NOT NULL
) WITH (fillfactor = 85);

-- Pruning of versions, oldest first.
CREATE INDEX object_version_applied ON {schema}.object_version (applied_at);

-- Messages to destinations: what to send, its lease and its outcome.
--
-- For fillfactor and autovacuum see event_state.
CREATE TABLE {schema}.message (
	id          text PRIMARY KEY,
	event_key   bytea NOT NULL,                 -- of the event that holds its body
	cause       bytea,                          -- the event that caused an enqueued message; null: none
	route       text NOT NULL,                  -- '' if it was enqueued
	destination text NOT NULL,
	state       smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
	replayed    boolean NOT NULL DEFAULT false, -- by an operator: sent even if it is stale
	generation  integer NOT NULL,
	attempts    integer NOT NULL DEFAULT 0,     -- of this generation
	-- The fencing token of the last lease; it only grows. It starts at the time, in microseconds:
	-- if an event is pruned and delivered again, its messages have the same ids as before, and a
	-- lease from before must not match them.
	token       bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000000)::bigint,
	received_at timestamptz NOT NULL,           -- of its event, for listings
	created_at  timestamptz NOT NULL,
	due_at      timestamptz NOT NULL,           -- while sending: the end of the lease
	retry_in    bigint NOT NULL DEFAULT 0,      -- microseconds from the last failed attempt to due_at
	sent_at     timestamptz,
	failed_at   timestamptz,
	status_code integer,                        -- of the last answer; null: there was none
	note        text NOT NULL DEFAULT '',
	last_error  text
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05);

-- Open messages of a destination in the order of due_at: leases, listings of open messages and of
-- running events, and counts. A lease moves due_at to its end, so an expired lease is simply due
-- again and needs no index of its own. A second index on the messages being sent would cost most of
-- the lease rate.
CREATE INDEX message_due ON {schema}.message (destination, due_at) WHERE state IN (0, 1);

-- The messages of an event: its state in the views, its details, replays, duplicates, pruning.
CREATE INDEX message_event ON {schema}.message (event_key);

-- The enqueued messages that an event caused: the event's details, and listings of its messages.
CREATE INDEX message_cause ON {schema}.message (cause) WHERE cause IS NOT NULL;

-- Dead and skipped messages in the order of the listings, so that a page reads no more than its own
-- rows, even if all are old. Cursors compare ids as bytes, hence COLLATE "C". Both indexes also
-- find the dead and skipped events, by event_key: for listings of events and the view dead_letters.
-- Counts read the dead messages.
CREATE INDEX message_dead_received ON {schema}.message (received_at, event_key, id COLLATE "C") WHERE state = 3;
CREATE INDEX message_skipped ON {schema}.message (received_at, event_key, id COLLATE "C") WHERE state = 4;

-- Dead messages of a destination: listings, and counts up to a limit.
CREATE INDEX message_dead_destination ON {schema}.message (destination, received_at, event_key, id COLLATE "C") WHERE state = 3;

-- Every attempt to send a message, for the audit. An expired lease is an attempt too.
CREATE TABLE {schema}.attempt (
	message_id  text NOT NULL,
	generation  integer NOT NULL,
	number      integer NOT NULL, -- from 1
	outcome     smallint NOT NULL CHECK (outcome BETWEEN 1 AND 3), -- 1 sent, 2 retry, 3 dead
	status_code integer,
	error       text,
	at          timestamptz NOT NULL,
	took        bigint NOT NULL,  -- microseconds
	PRIMARY KEY (message_id, generation, number)
);

-- Replays, reopenings, retries and discards of an event, for the audit. The transaction of the
-- action writes the row under the lock of the event's row, and pruning removes it with the event.
CREATE TABLE {schema}.history (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event_key  bytea NOT NULL,
	at         timestamptz NOT NULL,
	action     text NOT NULL,
	generation integer NOT NULL,
	messages   integer NOT NULL DEFAULT 0, -- how many became due
	message_id text,                       -- null: the whole event
	request_id text                        -- of the caller; a repeated request does nothing
);

-- The history of an event, for its details and for pruning.
CREATE INDEX history_event ON {schema}.history (event_key);

-- Finds a repeated request.
CREATE UNIQUE INDEX history_request ON {schema}.history (event_key, request_id) WHERE request_id IS NOT NULL;

-- How often an event was delivered again. Apart from event, because claims must not meet updates
-- there.
CREATE TABLE {schema}.delivery_count (
	key          bytea PRIMARY KEY,
	duplicates   bigint NOT NULL, -- deliveries after the first
	other_bodies bigint NOT NULL, -- duplicates whose body differs from the first
	repeats      bigint NOT NULL, -- deliveries of this event's body under other event ids
	last_at      timestamptz      -- of the last duplicate; null: there was none
) WITH (fillfactor = 80);

-- Which event first brought a body, for sources whose event ids are not signed.
--
-- A row is void unless its event holds the body. A claim leaves a void row when it loses its key to
-- a concurrent claim, and the next claim of the body takes the row over.
CREATE TABLE {schema}.body_seen (
	body_key bytea PRIMARY KEY CHECK (octet_length(body_key) = 32), -- of source and body
	key      bytea NOT NULL,                                        -- of the event
	seen_at  timestamptz NOT NULL
);

-- The bodies of an event, for pruning.
CREATE INDEX body_seen_event ON {schema}.body_seen (key);

-- Verified requests that could not be parsed into events. One row for each source and body.
CREATE TABLE {schema}.quarantine (
	key         bytea PRIMARY KEY CHECK (octet_length(key) = 32), -- of source and body
	source      text NOT NULL,
	body_sha256 bytea NOT NULL,
	part        smallint NOT NULL, -- of the delivery: 0 the request, 1 an item of a batch, 2 an entry that lacks its items
	headers     bytea NOT NULL,
	body        bytea NOT NULL,
	reason      text NOT NULL,
	handled     boolean NOT NULL, -- its events have a handler, an SQL consumer or work in the receiving program
	count       bigint NOT NULL,  -- how many requests had this body
	first_at    timestamptz NOT NULL,
	last_at     timestamptz NOT NULL
);

-- The quarantine of one source, newest first: its listing, and the limit on its rows.
CREATE INDEX quarantine_newest ON {schema}.quarantine (source, last_at);

-- The quarantine of all sources, newest first.
CREATE INDEX quarantine_recent ON {schema}.quarantine (last_at, key);

-- The windows of all processes, each with the time at which a process was seen with it last. The
-- source '' stands for the sources that a process does not have. For each source, pruning follows
-- the longest windows of the last seven days. Older rows go.
CREATE TABLE {schema}.source_window (
	source          text NOT NULL,
	dedupe_window   bigint NOT NULL, -- microseconds
	retention       bigint NOT NULL, -- microseconds
	quarantine_rows bigint NOT NULL, -- the number of quarantined requests to keep
	last_seen       timestamptz NOT NULL,
	PRIMARY KEY (source, dedupe_window, retention, quarantine_rows)
);

-- Figures: how many deliveries, refusals and attempts there were in a span of time, and in how many of
-- them the duration was in which bucket. Every process adds to the rows, so nobody counts events or
-- messages to draw a chart. The numbers of kinds and resolutions are those of package driver.
--
-- The primary key serves a series: one kind and one resolution, in the order of time. Pruning reads
-- the oldest rows of each pair there. For fillfactor see event_state.
CREATE TABLE {schema}.rollup (
	kind       smallint NOT NULL,    -- 0 deliveries, 1 refusals, 2 attempts
	resolution smallint NOT NULL,    -- 0 minutes, 1 hours, 2 days
	start      timestamptz NOT NULL, -- of the span
	name       text NOT NULL,        -- of the source; of attempts, the destination
	label      text NOT NULL,        -- the outcome; of refusals, the reason
	n          bigint NOT NULL,
	-- How many were in each bucket of durations, the shortest first.
	b0 bigint NOT NULL, b1 bigint NOT NULL, b2 bigint NOT NULL, b3 bigint NOT NULL, b4 bigint NOT NULL,
	b5 bigint NOT NULL, b6 bigint NOT NULL, b7 bigint NOT NULL, b8 bigint NOT NULL, b9 bigint NOT NULL,
	b10 bigint NOT NULL, b11 bigint NOT NULL, b12 bigint NOT NULL, b13 bigint NOT NULL, b14 bigint NOT NULL,
	PRIMARY KEY (kind, resolution, start, name, label)
) WITH (fillfactor = 70);

-- How many events of a type were claimed in an hour. It tells which hours to search for a rare type.
-- The primary key serves that: the hours of one type of a source.
CREATE TABLE {schema}.type_rollup (
	source text NOT NULL,
	type   text NOT NULL,
	start  timestamptz NOT NULL, -- of the hour
	n      bigint NOT NULL,
	PRIMARY KEY (source, type, start)
) WITH (fillfactor = 70);

-- The types of an hour: their series, the limit on their number for each source, and pruning.
CREATE INDEX type_rollup_start ON {schema}.type_rollup (start, source);

-- Refused requests (4xx, but not malformed), for the operator: the newest 1,000 of each source. Their keys are
-- made of the error id in the answer and share none with events.
CREATE TABLE {schema}.refused (
	key       bytea PRIMARY KEY CHECK (octet_length(key) = 32), -- of error_id
	error_id  text NOT NULL,
	at        timestamptz NOT NULL,
	source    text NOT NULL, -- '' for an unknown path
	reason    text NOT NULL,
	status    integer NOT NULL,
	method    text NOT NULL,
	remote    text NOT NULL, -- the client's address
	gateway   text NOT NULL, -- the name of the host that answered
	headers   bytea NOT NULL, -- JSON; values that may be secret are replaced
	body      bytea NOT NULL, -- its beginning
	body_size bigint NOT NULL -- of the whole body; -1: it was not read
);

-- The refused requests of one source, newest first: their listing, and the limit on their number.
CREATE INDEX refused_newest ON {schema}.refused (source, at, key);

-- The refused requests of all sources, newest first, and their pruning.
CREATE INDEX refused_recent ON {schema}.refused (at, key);

-- Sources that may learn one secret from their provider, until armed_until.
CREATE TABLE {schema}.armed_source (
	source      text PRIMARY KEY,
	armed_until timestamptz NOT NULL,
	armed_for   bigint NOT NULL, -- microseconds from the arming to armed_until
	replace     boolean NOT NULL -- learning the secret removes the source's other secrets
);

-- Secrets that providers handed over. A reader of this table can sign as the provider: do not grant
-- it to other roles.
CREATE TABLE {schema}.learned_secret (
	source     text NOT NULL,
	secret     text NOT NULL CHECK (octet_length(secret) BETWEEN 1 AND 512),
	learned_at timestamptz NOT NULL,
	PRIMARY KEY (source, secret)
);

-- Every event with its state, which follows from its state row and its messages. For hookonce
-- itself and the views below; its columns may change.
CREATE VIEW {schema}.event_overview AS
SELECT
	e.key, e.source, e.event_id, e.type,
	CASE
		-- Not correlated with the event, so a listing reads the runs once.
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

-- The views that applications and operators may rely on. Columns are only ever added.
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
	-- Follows from the state, and lets the planner use the two small indexes on dead rows.
	AND key IN (
		SELECT event_key FROM {schema}.message WHERE state = 3
		UNION ALL
		SELECT key FROM {schema}.event_state WHERE state = 3
	);

COMMENT ON VIEW {schema}.events IS
	'Every event with its state: pending, running, done, dead or skipped. Columns are only ever added.';
COMMENT ON VIEW {schema}.dead_letters IS
	'The events that are dead: out of attempts, or failed for good. They stay until replayed or discarded.';

-- Functions. They run with the rights of the caller and set their own search path.

-- Computes keys: a hash over strings, each preceded by its length in bytes, as package driver does.
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

-- Returns the cluster, the database and the table run. A record of a run that was restored or
-- replicated from another one has another home: there its id means nothing.
--
-- Everybody may read the cluster's identity, unless an administrator forbids it. It is empty then, and
-- fits every cluster, because another role of this one may be able to read it. The other two numbers
-- still tell most copies apart.
CREATE FUNCTION {schema}.run_home() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cluster text := '';
BEGIN
	BEGIN
		cluster := (SELECT c.system_identifier FROM pg_control_system() c);
	EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
		NULL;
	END;
	RETURN concat_ws('.', cluster, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), '{schema}.run'::regclass::oid);
END
$$;

COMMENT ON FUNCTION {schema}.run_home() IS
	'For hookonce itself: identifies the cluster, the database and the table that a record of a run belongs to.';

-- Reports whether a home is this one. Clusters are compared only if both roles could read theirs.
CREATE FUNCTION {schema}.is_run_home(home text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ltrim(home, '-0123456789') = ltrim(here, '-0123456789')
		AND (home LIKE '.%' OR here LIKE '.%' OR home = here)
	FROM {schema}.run_home() AS here
$$;

COMMENT ON FUNCTION {schema}.is_run_home(text) IS
	'For hookonce itself: tells whether a record of a run belongs to this cluster, database and table.';

-- The event_id of an id with several parts joins the parts by ':', and a part may contain ':' too.
-- So one event_id may stand for several keys: 2^n for n colons. The function tries up to 1,024
-- keys. For more than 10 colons it reads all events.
CREATE FUNCTION {schema}.find_event(source text, event_id text) RETURNS bytea
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- string_to_array returns no piece for '', not an empty one.
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

-- Makes the commit of this transaction wait for the disk, and for the synchronous standbys if any are
-- named. A stronger synchronous_commit stays, such as remote_apply. If the wait for a standby is
-- cancelled the server only warns, so the client must get that warning.
CREATE FUNCTION {schema}.durably() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	level text := current_setting('synchronous_commit');
BEGIN
	IF level = 'off' OR (level = 'local' AND current_setting('synchronous_standby_names') <> '') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	IF current_setting('client_min_messages') = 'error' THEN
		PERFORM set_config('client_min_messages', 'warning', true);
	END IF;
END
$$;

COMMENT ON FUNCTION {schema}.durably() IS
	'For hookonce itself: makes the commit of this transaction wait for the disk and for the synchronous standbys.';

-- Makes the commit of this transaction wait until the commits that it can see are durable: their part
-- of the log may not be on the disk, or only on the primary's. It writes to the log only if needed,
-- because a transaction that wrote nothing waits for nothing.
CREATE FUNCTION {schema}.confirm() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM {schema}.durably();
	IF current_setting('synchronous_standby_names') <> '' OR pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() THEN
		PERFORM pg_logical_emit_message(true, 'hookonce', '');
	END IF;
END
$$;

COMMENT ON FUNCTION {schema}.confirm() IS
	'For hookonce itself: makes the commit of this transaction wait until all earlier commits are durable.';

-- Returns those of the keys that have an event. That is enough to answer duplicates, without sending
-- their bodies, when a sender delivers tens of thousands of events again.
--
-- It finds nothing on a server that claim() must refuse, and nothing if there are synchronous
-- standbys, for which claim() waits.
--
-- For the settings of the planner see claim.
CREATE FUNCTION {schema}.known(keys bytea[], OUT key bytea, OUT body_sha256 bytea, OUT is_dead boolean) RETURNS SETOF record
LANGUAGE plpgsql ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	IF current_setting('transaction_read_only') = 'on' OR current_setting('synchronous_standby_names') <> ''
		OR current_setting('fsync') = 'off' OR current_setting('full_page_writes') = 'off'
	THEN
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
	IF FOUND THEN
		PERFORM {schema}.confirm();
	END IF;
END
$$;

COMMENT ON FUNCTION {schema}.known(bytea[]) IS 'For hookonce itself: which of these keys have an event, and whether it is dead.';

-- Claims a batch of events, and writes their state rows and messages. keys are in ascending order
-- without repetition. Rows are written in this order, so that no two batches wait for each other.
-- The claim is one function call, so that a client that stops in the middle holds no lock.
--
-- Known keys and bodies never reach an INSERT, which might block on them. First come the bodies
-- that this batch is the first to bring, all of them, then its events. A void row of body_seen is
-- taken over. guards: 0 ignores bodies, 1 compares them, 2 also refuses an event if another event
-- has its body. works: 0 messages only, 1 queued, 2 done by the transaction of the claim. An event
-- with one of the notes is dead, because its messages are undecided.
--
-- A trigger or a rule may drop rows without an error. If a state row or a message of a claimed event
-- is missing, the whole claim fails. An event that is neither known nor claimed may have been
-- dropped, or claimed by a concurrent transaction: the caller looks it up.
--
-- The first row of the result has place 0: how many events were claimed, and lock_timeout as it
-- was. An event without a row of its own was claimed, and there is nothing else to say about it.
--
-- The commit waits for the disk and for the synchronous standbys, even if the batch holds only
-- duplicates: the event of the first delivery is visible, and may not be durable. A server that could
-- lose the claims by fsync or full_page_writes is refused, unless allowed_unsafe names the setting.
--
-- A session plans each statement once and keeps the plan, even if the tables were small then. So
-- every plan must use the indexes:
-- - "(x IN (SELECT ...)) IS TRUE" keeps the planner from making a join, which may be a nested loop
--   over the whole batch; instead it hashes the list.
-- - A look-up for each row of the batch has a LIMIT, so that it can only be a nested loop over an
--   index.
-- - The conditions on the states of messages differ from the conditions of message_due and
--   message_dead_received. Otherwise the planner may read all of such an index for one event, which
--   costs nothing as long as the index is small.
CREATE FUNCTION {schema}.claim(
	lock_timeout text, at timestamptz,
	keys bytea[], sources text[], event_ids text[], types text[], occurred timestamptz[],
	headers bytea[], bodies bytea[], body_hashes bytea[], body_keys bytea[], guards integer[], works integer[],
	notes text[], message_ids text[], message_keys bytea[], message_routes text[], message_destinations text[],
	allowed_unsafe text[],
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
	-- The events that have one of the keys.
	known_keys   bytea[];
	known_hashes bytea[];
	known_dead   boolean[];
	-- The rows of body_seen that have one of the bodies.
	seen_bodies  bytea[];
	seen_keys    bytea[];
	seen_ids     text[];
	-- The bodies that this batch is the first to bring.
	new_bodies   bytea[];
	new_keys     bytea[];
	claimed      bytea[];
	stored       integer; -- rows of the last INSERT
BEGIN
	-- A batch of duplicates writes nothing below, so a read-only server would not fail. Such a
	-- server may be one that was replaced, whose events are out of date.
	IF current_setting('transaction_read_only') = 'on' THEN
		RAISE EXCEPTION 'cannot claim events in a read-only transaction' USING ERRCODE = 'read_only_sql_transaction';
	END IF;
	IF (current_setting('fsync') = 'off' AND 'fsync' <> ALL (claim.allowed_unsafe))
		OR (current_setting('full_page_writes') = 'off' AND 'full_page_writes' <> ALL (claim.allowed_unsafe))
	THEN
		RAISE EXCEPTION 'the server may lose claimed events: fsync is %, full_page_writes is %',
			current_setting('fsync'), current_setting('full_page_writes') USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Set both to on in postgresql.conf and reload the server, or allow the loss by name.';
	END IF;
	PERFORM {schema}.durably();
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
			SELECT i.key, i.source, i.event_id, i.type, i.occurred_at, moment, i.headers, i.body, i.body_sha256, CASE WHEN i.work > 0 OR i.note <> '' THEN 1 ELSE 0 END, i.guard > 0
			FROM unnest(
				claim.keys, claim.sources, claim.event_ids, claim.types, claim.occurred, claim.headers, claim.bodies,
				claim.body_hashes, claim.body_keys, claim.guards, claim.works, claim.notes
			) AS i (key, source, event_id, type, occurred_at, headers, body, body_sha256, body_key, guard, work, note)
			WHERE (known_keys IS NULL OR (i.key IN (SELECT unnest(known_keys))) IS NOT TRUE)
				AND (i.guard < 2 OR ((i.body_key, i.key) IN (SELECT b.body_key, b.key FROM unnest(new_bodies, new_keys) AS b (body_key, key))) IS TRUE)
			ON CONFLICT (key) DO NOTHING
			RETURNING key
		)
		SELECT array_agg(e.key) INTO claimed FROM event_new e;
	END IF;

	IF claimed IS NOT NULL AND (0 < ANY (claim.works) OR '' <> ANY (claim.notes)) THEN
		INSERT INTO {schema}.event_state (
			key, source, type, state, attempts, due_at, processed_at, failed_at, undecided, queued, note, last_error
		)
		SELECT i.key, i.source, i.type, i.state, CASE i.state WHEN 2 THEN 1 ELSE 0 END, moment,
			CASE i.state WHEN 2 THEN moment END, CASE i.state WHEN 3 THEN moment END,
			i.state = 3, i.state = 3 AND i.work = 1, i.note, nullif(i.note, '')
		FROM (
			SELECT u.*, CASE WHEN u.note <> '' THEN 3 WHEN u.work = 1 THEN 0 ELSE u.work END AS state
			FROM unnest(claim.keys, claim.sources, claim.types, claim.works, claim.notes) AS u (key, source, type, work, note)
		) i
		WHERE (i.work > 0 OR i.note <> '') AND (cardinality(claimed) = n OR (i.key IN (SELECT unnest(claimed))) IS TRUE);
		GET DIAGNOSTICS stored = ROW_COUNT;
		IF stored < n THEN -- count only if the cheap comparison leaves a doubt
			IF stored <> (
				SELECT count(*) FROM unnest(claim.keys, claim.works, claim.notes) AS i (key, work, note)
				WHERE (i.work > 0 OR i.note <> '') AND (i.key IN (SELECT unnest(claimed))) IS TRUE
			) THEN
				RAISE EXCEPTION 'the state of an event was not stored' USING ERRCODE = 'triggered_data_change_violation';
			END IF;
		END IF;
	END IF;
	IF claimed IS NOT NULL AND cardinality(claim.message_ids) > 0 THEN
		INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at)
		SELECT m.id, m.event_key, 0, m.route, m.destination, moment, moment, moment
		FROM unnest(claim.message_ids, claim.message_keys, claim.message_routes, claim.message_destinations)
			AS m (id, event_key, route, destination)
		WHERE cardinality(claimed) = n OR (m.event_key IN (SELECT unnest(claimed))) IS TRUE;
		GET DIAGNOSTICS stored = ROW_COUNT;
		IF stored < cardinality(claim.message_ids) THEN
			IF stored <> (
				SELECT count(*) FROM unnest(claim.message_keys) AS m (event_key)
				WHERE (m.event_key IN (SELECT unnest(claimed))) IS TRUE
			) THEN
				RAISE EXCEPTION 'a message was not stored' USING ERRCODE = 'triggered_data_change_violation';
			END IF;
		END IF;
	END IF;

	IF claimed IS NULL THEN
		PERFORM {schema}.confirm();
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
	text[], text[], bytea[], text[], text[], text[]
) IS 'For hookonce itself: claims events and writes their messages. Pass only verified events.';

-- The functions for applications follow: take, fail and enqueue. They check their arguments and run
-- with the rights of their owner. So an application needs no right on a table, and cannot write a row
-- that other programs cannot read.
--
-- take_call detects a call of take in autocommit. Each call writes a row here and deletes it, and the
-- deferred trigger on the row runs at the commit. A client that began the transaction by a
-- statement of its own commits it by another statement, at another time. If the statement time is
-- still that of the call, the commit is the end of the calling statement: autocommit, and the
-- events were taken without any work on them. The rows are never committed, so the table is
-- unlogged.
CREATE UNLOGGED TABLE {schema}.take_call (
	called_at timestamptz NOT NULL
);

CREATE FUNCTION {schema}.refuse_autocommit() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NEW.called_at = statement_timestamp() THEN
		RAISE EXCEPTION 'take was called without a transaction: its events would be done without any work on them'
			USING ERRCODE = 'no_active_sql_transaction',
				HINT = 'Send BEGIN, then take, then the work, then COMMIT, each as a statement of its own. Nothing was taken.';
	END IF;
	RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER refuse_autocommit AFTER INSERT ON {schema}.take_call
	DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_autocommit();

-- A row that take returns.
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

-- take locks up to n due events of a source and marks them done, in the transaction of the caller.
--
-- Its plan is kept, because making it takes longer than running it. The plan must use the indexes on due
-- events, whatever the tables held when it was made: a sort would read all due events. Hence the
-- planner's settings, the lock and the update by ctid, and the LIMIT for the look-up of an event.
-- ctid also makes the locked row the row that is changed; a row that was changed in between may be
-- left for the next call.
CREATE FUNCTION {schema}.take(source text, n integer DEFAULT 1) RETURNS SETOF {schema}.taken_event
LANGUAGE plpgsql SECURITY DEFINER ROWS 10
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
	PERFORM {schema}.durably();
	-- If another function or a DO block calls, the work may be in the same statement.
	GET DIAGNOSTICS stack = PG_CONTEXT;
	IF strpos(stack, E'\n') = 0 THEN
		SET CONSTRAINTS {schema}.refuse_autocommit DEFERRED;
		INSERT INTO {schema}.take_call (called_at) VALUES (statement_timestamp()) RETURNING ctid INTO mark;
		DELETE FROM {schema}.take_call c WHERE c.ctid = mark;
	END IF;

	-- Merges two indexes in the order of due_at, and locks their rows one by one until there are
	-- enough. No other row is locked, except one that was changed at the same moment. The keys of
	-- runs go through an array, so that the planner expects few of them: it would judge by the size
	-- of the table run, which rows come to and go from, and expect hundreds of thousands.
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
		SET state = 2, attempts = least(s.attempts, 2147483646) + 1, processed_at = now(), failed_at = NULL, last_error = NULL, note = ''
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

COMMENT ON FUNCTION {schema}.take(text, integer) IS
	'Locks up to n due events of a source, the earliest due first, and marks them done in this transaction: do the work in it, then COMMIT. ROLLBACK gives them back. After a failure: ROLLBACK, then call fail.';

-- fail counts a failed attempt, after the ROLLBACK of the transaction that took the event.
CREATE FUNCTION {schema}.fail(
	source text, event_id text, error text,
	attempts integer DEFAULT 20, first interval DEFAULT '10 seconds', max interval DEFAULT '12 hours',
	permanent boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	moment  timestamptz := clock_timestamp();
	failed  bytea;
	s       record;
	number  integer;
	is_dead boolean;
	ceiling double precision; -- seconds
	wait    bigint;           -- microseconds
BEGIN
	IF fail.source IS NULL OR fail.event_id IS NULL OR fail.error IS NULL THEN
		RAISE EXCEPTION 'fail needs a source, an event id and an error text' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF fail.attempts IS NULL OR fail.attempts < 1 THEN
		RAISE EXCEPTION 'attempts is %: use at least 1', coalesce(fail.attempts::text, 'NULL')
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
			USING ERRCODE = 'lock_not_available', HINT = 'If your transaction took it, send ROLLBACK there first.'
				' Otherwise another consumer has taken it since, and records its outcome.';
	END IF;
	IF s.state = 2 AND s.processed_at = now() THEN -- as take writes it
		RAISE EXCEPTION 'event "%" of source "%" was taken by this transaction, which would commit it as done', fail.event_id, fail.source
			USING ERRCODE = 'active_sql_transaction', HINT = 'Send ROLLBACK, then call fail.';
	END IF;
	IF s.state IS DISTINCT FROM 0 OR EXISTS (SELECT FROM {schema}.run r WHERE failed = ANY (r.keys)) THEN
		RETURN (SELECT o.state FROM {schema}.event_overview o WHERE o.key = failed);
	END IF;

	PERFORM {schema}.durably();
	number := least(s.attempts, 2147483646) + 1;
	is_dead := coalesce(fail.permanent, false) OR number >= fail.attempts;
	ceiling := least(extract(epoch FROM fail.first) * 2.0 ^ least(s.attempts, 60), extract(epoch FROM fail.max));
	-- A random part of the time, so that events that failed together do not come back together.
	wait := random() * ceiling * 1000000;
	INSERT INTO {schema}.event_attempt (key, generation, number, outcome, error, at, took)
	VALUES (failed, s.generation, number, CASE WHEN is_dead THEN 3 ELSE 2 END, left(fail.error, 4096), moment, 0);
	UPDATE {schema}.event_state e
	SET state = CASE WHEN is_dead THEN 3 ELSE 0 END,
		attempts = number,
		due_at = CASE WHEN is_dead THEN e.due_at ELSE moment + wait * interval '1 microsecond' END,
		retry_in = CASE WHEN is_dead THEN e.retry_in ELSE wait END,
		failed_at = CASE WHEN is_dead THEN moment END,
		last_error = left(fail.error, 4096)
	WHERE e.key = failed;
	RETURN CASE WHEN is_dead THEN 'dead' ELSE 'pending' END;
END
$$;

COMMENT ON FUNCTION {schema}.fail(text, text, text, integer, interval, interval, boolean) IS
	'Counts a failed attempt on a pending event. Call it after the ROLLBACK of the transaction that took the event. The event is dead if the failure is permanent or was the last attempt; otherwise it is due again after a random time of up to first, doubled with each attempt, at most max. Returns its state.';

-- enqueue writes an outbox message, in the transaction of the caller.
CREATE FUNCTION {schema}.enqueue(
	destination text, body bytea, type text DEFAULT '', headers jsonb DEFAULT '{}', id text DEFAULT NULL,
	source text DEFAULT '', event_id text DEFAULT ''
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
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
		RAISE EXCEPTION 'a message needs a body' USING ERRCODE = 'null_value_not_allowed', HINT = 'Pass '''' for an empty body.';
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
	IF enqueue.event_id <> '' THEN
		cause := {schema}.find_event(coalesce(enqueue.source, ''), enqueue.event_id);
		IF cause IS NULL THEN
			RAISE EXCEPTION 'source "%" has no event "%"', coalesce(enqueue.source, ''), enqueue.event_id
				USING ERRCODE = 'no_data_found', HINT = 'Give the source and the event_id that take returned, or neither.';
		END IF;
		SELECT e.type INTO cause_type FROM {schema}.event e WHERE e.key = cause;
	END IF;
	PERFORM {schema}.durably();
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
	IF NOT FOUND AND NOT EXISTS (SELECT FROM {schema}.message m WHERE m.id = message_id) THEN
		RAISE EXCEPTION 'the message was not stored' USING ERRCODE = 'triggered_data_change_violation',
			HINT = 'A trigger or a rule on a table of hookonce dropped it: hookonce doctor names them.';
	END IF;
	RETURN message_id;
END
$$;

COMMENT ON FUNCTION {schema}.enqueue(text, bytea, text, jsonb, text, text, text) IS
	'Writes a message to a destination in this transaction: it is sent if and only if the transaction commits. Returns its id. An id that was enqueued before writes nothing.';

REVOKE EXECUTE ON FUNCTION {schema}.take(text, integer),
	{schema}.fail(text, text, text, integer, interval, interval, boolean),
	{schema}.enqueue(text, bytea, text, jsonb, text, text, text) FROM PUBLIC;

-- The steps that this schema has. Each step records itself at its end, so that running its SQL by
-- hand does the same as the program.
CREATE TABLE {schema}.schema_migration (
	version    integer PRIMARY KEY,
	name       text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO {schema}.schema_migration (version, name) VALUES (1, 'init');
