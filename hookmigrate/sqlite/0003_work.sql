-- The schema of hookonce on SQLite, version 3: what handlers need.

-- Events are found by source in this table alone. A run takes an event like a
-- lease takes a message: state 1, "run" its number, "run_size" how many events it
-- took, and due_at when it counts as interrupted. The number stays when the run has
-- ended, and the next one is higher. "crashes" are runs of this generation that were
-- interrupted; "replayed" says that an operator replayed it, so that it is applied
-- even if it is stale.
ALTER TABLE hookonce_event_state ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE hookonce_event_state ADD COLUMN type TEXT NOT NULL DEFAULT '';
ALTER TABLE hookonce_event_state ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hookonce_event_state ADD COLUMN replayed INTEGER NOT NULL DEFAULT 0;
-- That of its last replay as new, of which the keys for calls to other services are
-- made.
ALTER TABLE hookonce_event_state ADD COLUMN key_generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hookonce_event_state ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hookonce_event_state ADD COLUMN run_size INTEGER NOT NULL DEFAULT 0;
UPDATE hookonce_event_state SET
    source = coalesce((SELECT e.source FROM hookonce_event e WHERE e.key = hookonce_event_state.key), ''),
    type = coalesce((SELECT e.type FROM hookonce_event e WHERE e.key = hookonce_event_state.key), '');

-- What was never tried, and what was: the one is taken in batches, the other
-- alone. The type stands in them so that events of types that nobody takes are
-- passed over without their rows being read.
CREATE INDEX hookonce_event_state_fresh ON hookonce_event_state (source, due_at, type)
    WHERE state = 0 AND attempts = 0 AND crashes = 0;
CREATE INDEX hookonce_event_state_tried ON hookonce_event_state (source, due_at, type)
    WHERE state = 0 AND (attempts > 0 OR crashes > 0);

-- Failed attempts of handlers. Successful ones stand in hookonce_event_state.
CREATE TABLE hookonce_event_attempt (
    key        BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    outcome    TEXT    NOT NULL CHECK (outcome IN ('retry', 'dead')),
    error      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    took       INTEGER NOT NULL, -- microseconds
    PRIMARY KEY (key, generation, number)
) STRICT, WITHOUT ROWID;

-- A message that was enqueued by itself has a row in hookonce_event that holds its
-- body and headers and says where it comes from; "outbox" keeps these rows out of
-- whatever lists events. "cause" is the event whose handler enqueued it.
ALTER TABLE hookonce_event ADD COLUMN outbox INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hookonce_message ADD COLUMN cause BLOB;
ALTER TABLE hookonce_message ADD COLUMN replayed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX hookonce_message_cause ON hookonce_message (cause) WHERE cause IS NOT NULL;

-- As before, with "outbox" for the listings. It costs no byte: 0 and 1 stand in the
-- header of an index entry.
DROP INDEX hookonce_event_received;
CREATE INDEX hookonce_event_received ON hookonce_event (received_at, key, source, outbox);

-- The highest version of each object that was applied, where stale events are
-- watched for. Compared as bytes.
CREATE TABLE hookonce_object_version (
    object     BLOB    NOT NULL PRIMARY KEY CHECK (length(object) = 32),
    source     TEXT    NOT NULL,
    version    BLOB    NOT NULL,
    shown      TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX hookonce_object_version_applied ON hookonce_object_version (applied_at);

-- Failed runs of events whose claim was undone with them. They are no events yet.
CREATE TABLE hookonce_inline_failure (
    key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32),
    source      TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    occurred_at INTEGER,
    headers     BLOB    NOT NULL,
    body        BLOB    NOT NULL,
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    messages    TEXT    NOT NULL, -- JSON; what the event will owe
    failures    INTEGER NOT NULL,
    last_error  TEXT    NOT NULL,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL
) STRICT;

CREATE INDEX hookonce_inline_failure_last ON hookonce_inline_failure (last_at);

-- As before, without the rows of the outbox.
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
FROM hookonce_event e
WHERE e.outbox = 0;

INSERT INTO hookonce_schema_migration (version, name, applied_at)
VALUES (3, 'work', CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
