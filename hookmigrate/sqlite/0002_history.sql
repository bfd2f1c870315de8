-- The schema of hookonce on SQLite, version 2: what operators and senders did to
-- an event besides deliveries and attempts, and indexes by which what waits and
-- what was given up is listed and counted without the events being read.

-- Written by the transaction that did it, and removed with the event.
CREATE TABLE hookonce_history (
    id         INTEGER PRIMARY KEY,
    event_key  BLOB    NOT NULL,
    at         INTEGER NOT NULL,
    action     TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    messages   INTEGER NOT NULL DEFAULT 0, -- how many became due
    message_id TEXT,                       -- null: it concerned the whole event
    request_id TEXT                        -- what made it repeatable
) STRICT;

CREATE INDEX hookonce_history_event ON hookonce_history (event_key);
CREATE UNIQUE INDEX hookonce_history_request ON hookonce_history (event_key, request_id) WHERE request_id IS NOT NULL;

-- When the event was received. Listings of what is open, dead or skipped stand in
-- that order: with it in the small indexes below, a page of what is dead or skipped
-- reads no more than the page.
--
-- Messages that were sent before this step have 0 instead: writing all of them
-- would hold up claims for seconds. Nothing reads it of a message that was sent,
-- and whatever makes one due again sets it.
ALTER TABLE hookonce_message ADD COLUMN received_at INTEGER NOT NULL DEFAULT 0;
UPDATE hookonce_message SET received_at =
    coalesce((SELECT e.received_at FROM hookonce_event e WHERE e.key = hookonce_message.event_key), created_at)
WHERE state <> 2;

-- The destination stands in them for the counts.
DROP INDEX hookonce_message_dead;
CREATE INDEX hookonce_message_dead ON hookonce_message (received_at, event_key, id, destination) WHERE state = 3;
CREATE INDEX hookonce_message_skipped ON hookonce_message (received_at, event_key, id) WHERE state = 4;

-- As before, with the state for the counts. It costs no byte: 0 and 1 stand in
-- the header of an index entry.
DROP INDEX hookonce_message_due;
CREATE INDEX hookonce_message_due ON hookonce_message (destination, due_at, state) WHERE state IN (0, 1);

CREATE INDEX hookonce_event_state_running ON hookonce_event_state (key) WHERE state = 1;
CREATE INDEX hookonce_event_state_skipped ON hookonce_event_state (key) WHERE state = 4;

CREATE INDEX hookonce_quarantine_recent ON hookonce_quarantine (last_at, source, body_sha256);

-- As before, but: the generation is the highest of the event's row and its
-- messages, and an event that has ended shows the note of what of it was skipped,
-- unless that was replaced.
DROP VIEW hookonce_event_overview;
CREATE VIEW hookonce_event_overview AS
SELECT
    e.key, e.source, e.event_id, e.type, e.work,
    CASE e.work
        WHEN 1 THEN
            (SELECT CASE s.state WHEN 0 THEN 'pending' WHEN 1 THEN 'running' WHEN 2 THEN 'done'
                                 WHEN 3 THEN 'dead' ELSE 'skipped' END
             FROM hookonce_event_state s WHERE s.key = e.key)
        ELSE
            (SELECT CASE WHEN count(*) = 0 THEN 'done'
                         WHEN sum(m.state IN (0, 1)) > 0 THEN 'running'
                         WHEN sum(m.state = 3) > 0 THEN 'dead'
                         WHEN sum(m.state = 2) > 0 THEN 'done'
                         ELSE 'skipped' END
             FROM hookonce_message m WHERE m.event_key = e.key)
    END AS state,
    CASE e.work
        WHEN 1 THEN (SELECT s.note FROM hookonce_event_state s WHERE s.key = e.key)
        ELSE
            (SELECT CASE WHEN count(*) = 0 THEN 'no route'
                         WHEN sum(m.state IN (0, 1, 3)) > 0 THEN ''
                         ELSE coalesce(
                             max(CASE m.state WHEN 4 THEN nullif(m.note, 'replayed as new') END),
                             CASE min(m.state) WHEN 4 THEN max(m.note) ELSE '' END) END
             FROM hookonce_message m WHERE m.event_key = e.key)
    END AS note,
    CASE e.work
        WHEN 1 THEN (SELECT s.attempts FROM hookonce_event_state s WHERE s.key = e.key)
        ELSE (SELECT coalesce(max(m.attempts), 0) FROM hookonce_message m WHERE m.event_key = e.key)
    END AS attempts,
    max((SELECT coalesce(max(m.generation), 0) FROM hookonce_message m WHERE m.event_key = e.key),
        coalesce((SELECT s.generation FROM hookonce_event_state s WHERE s.key = e.key), 0)) AS generation,
    coalesce((SELECT d.duplicates FROM hookonce_delivery_count d WHERE d.key = e.key), 0) AS duplicates,
    e.received_at, e.occurred_at,
    CASE e.work
        WHEN 1 THEN (SELECT s.processed_at FROM hookonce_event_state s WHERE s.key = e.key AND s.state = 2)
        ELSE
            (SELECT CASE WHEN count(*) = 0 THEN e.received_at
                         WHEN sum(m.state IN (0, 1, 3)) = 0 THEN max(m.sent_at) END
             FROM hookonce_message m WHERE m.event_key = e.key)
    END AS processed_at,
    CASE e.work
        WHEN 1 THEN (SELECT s.failed_at FROM hookonce_event_state s WHERE s.key = e.key AND s.state = 3)
        ELSE
            (SELECT CASE WHEN sum(m.state IN (0, 1)) = 0 AND sum(m.state = 3) > 0 THEN max(m.failed_at) END
             FROM hookonce_message m WHERE m.event_key = e.key)
    END AS failed_at,
    CASE e.work
        WHEN 1 THEN (SELECT s.last_error FROM hookonce_event_state s WHERE s.key = e.key)
        ELSE coalesce(
            (SELECT m.last_error FROM hookonce_message m
             WHERE m.event_key = e.key AND m.last_error <> ''
             ORDER BY m.failed_at DESC, m.due_at DESC, m.id LIMIT 1), '')
    END AS last_error,
    e.headers, e.body, e.body_sha256, e.repeat_of
FROM hookonce_event e;

INSERT INTO hookonce_schema_migration (version, name, applied_at)
VALUES (2, 'history', CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
