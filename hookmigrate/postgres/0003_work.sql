-- The schema of hookonce on PostgreSQL, version 3: what handlers need.

-- Taking events reads this table alone, by source. "crashes" are runs of this
-- generation that were interrupted; "replayed" says that an operator replayed it,
-- so that it is applied even if it is stale; "key_generation" is that of its last
-- replay as new, of which the keys for calls to other services are made.
ALTER TABLE {schema}.event_state
	ADD COLUMN source text NOT NULL DEFAULT '',
	ADD COLUMN type text NOT NULL DEFAULT '',
	ADD COLUMN crashes integer NOT NULL DEFAULT 0,
	ADD COLUMN replayed boolean NOT NULL DEFAULT false,
	ADD COLUMN key_generation integer NOT NULL DEFAULT 0;
UPDATE {schema}.event_state s SET source = e.source, type = e.type
FROM {schema}.event e
WHERE e.key = s.key;

-- What was never tried, and what was: the one is taken in batches, the other
-- alone. The index of the earlier step stays for the counts.
CREATE INDEX event_state_fresh ON {schema}.event_state (source, due_at, type)
	WHERE state = 0 AND attempts = 0 AND crashes = 0;
CREATE INDEX event_state_tried ON {schema}.event_state (source, due_at, type)
	WHERE state = 0 AND (attempts > 0 OR crashes > 0);

-- Runs of handlers. A row is written, by another connection than that of the run,
-- before the first handler, and deleted by the commit of the run, whose
-- transaction holds locks on the rows of the events for as long as it lasts. So a
-- row whose events nobody has locked tells of a run that was interrupted. Its loss
-- costs nothing but that: it is written without waiting for the disk.
CREATE TABLE {schema}.run (
	id         bigint PRIMARY KEY, -- the number of the transaction, see txid_current
	keys       bytea[] NOT NULL,
	started_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Failed attempts of handlers. Successful ones stand in event_state.
CREATE TABLE {schema}.event_attempt (
	key        bytea NOT NULL,
	generation integer NOT NULL,
	number     integer NOT NULL,
	outcome    smallint NOT NULL CHECK (outcome BETWEEN 2 AND 3), -- 2 retry, 3 dead
	error      text NOT NULL,
	at         timestamptz NOT NULL,
	took       bigint NOT NULL, -- microseconds
	PRIMARY KEY (key, generation, number)
);

-- A message that was enqueued by itself has a row in event that holds its body and
-- headers and says where it comes from; "outbox" keeps these rows out of whatever
-- lists events. "cause" is the event whose handler enqueued it.
ALTER TABLE {schema}.event ADD COLUMN outbox boolean NOT NULL DEFAULT false;
ALTER TABLE {schema}.message
	ADD COLUMN cause bytea,
	ADD COLUMN replayed boolean NOT NULL DEFAULT false;
CREATE INDEX message_cause ON {schema}.message (cause) WHERE cause IS NOT NULL;

-- The highest version of each object that was applied, where stale events are
-- watched for. Compared as bytes.
CREATE TABLE {schema}.object_version (
	object     bytea PRIMARY KEY CHECK (octet_length(object) = 32),
	source     text NOT NULL,
	version    bytea NOT NULL, -- empty: locked, and nothing applied yet
	shown      text NOT NULL,
	applied_at timestamptz NOT NULL
) WITH (fillfactor = 85);

CREATE INDEX object_version_applied ON {schema}.object_version (applied_at);

-- Failed runs of events whose claim was undone with them. They are no events yet.
CREATE TABLE {schema}.inline_failure (
	key          bytea PRIMARY KEY CHECK (octet_length(key) = 32),
	source       text NOT NULL,
	event_id     text NOT NULL,
	type         text NOT NULL,
	occurred_at  timestamptz,
	headers      bytea NOT NULL,
	body         bytea NOT NULL,
	body_sha256  bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
	message_ids  text[] NOT NULL, -- of the messages that the event will owe
	routes       text[] NOT NULL,
	destinations text[] NOT NULL,
	failures     integer NOT NULL,
	last_error   text NOT NULL,
	first_at     timestamptz NOT NULL,
	last_at      timestamptz NOT NULL
);

CREATE INDEX inline_failure_last ON {schema}.inline_failure (last_at);

INSERT INTO {schema}.schema_migration (version, name) VALUES (3, 'work');
