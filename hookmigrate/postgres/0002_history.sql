-- The schema of hookonce on PostgreSQL, version 2: what operators and senders
-- did to an event besides deliveries and attempts, and small indexes on what
-- waits or was given up.

-- Written by the transaction that did it, under the lock of the event's row, and
-- removed with the event.
CREATE TABLE {schema}.history (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event_key  bytea NOT NULL,
	at         timestamptz NOT NULL,
	action     text NOT NULL,
	generation integer NOT NULL,
	messages   integer NOT NULL DEFAULT 0, -- how many became due
	message_id text,                       -- null: it concerned the whole event
	request_id text                        -- what made it repeatable
);

CREATE INDEX history_event ON {schema}.history (event_key);
CREATE UNIQUE INDEX history_request ON {schema}.history (event_key, request_id) WHERE request_id IS NOT NULL;

-- The tokens of a message begin at the time: after an identity was pruned, a new
-- delivery of its event has messages of the same ids again, and a lease of the
-- earlier life must not be taken for one of the new.
ALTER TABLE {schema}.message ALTER COLUMN token SET DEFAULT (extract(epoch FROM now()) * 1000000)::bigint;

-- Listings by a state that few events are in.
CREATE INDEX event_state_due ON {schema}.event_state (due_at) WHERE state = 0;
CREATE INDEX event_state_running ON {schema}.event_state (key) WHERE state = 1;
CREATE INDEX event_state_skipped ON {schema}.event_state (key) WHERE state = 4;

-- When the event was received. Listings of what is dead or skipped stand in that
-- order: with it in the small indexes below, a page of them reads no more than the
-- page, even where all of it is old.
--
-- Messages that were sent before this step have the time of the step instead:
-- writing all of them would lock the table for seconds. Nothing reads it of a
-- message that was sent, and whatever makes one due again sets it.
ALTER TABLE {schema}.message ADD COLUMN received_at timestamptz NOT NULL DEFAULT now();
UPDATE {schema}.message m SET received_at = e.received_at
FROM {schema}.event e
WHERE e.key = m.event_key AND m.state <> 2;

CREATE INDEX message_dead_received ON {schema}.message (received_at, event_key, id COLLATE "C") WHERE state = 3;
CREATE INDEX message_skipped ON {schema}.message (received_at, event_key, id COLLATE "C") WHERE state = 4;

CREATE INDEX quarantine_recent ON {schema}.quarantine (last_at, key);

-- As before, but: the generation is the highest of the event's row and its
-- messages; times are shown only in the states that they belong to; and an event
-- that has ended shows the note of what of it was skipped, unless that was replaced.
CREATE OR REPLACE VIEW {schema}.event_overview AS
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
) m;

INSERT INTO {schema}.schema_migration (version, name) VALUES (2, 'history');
