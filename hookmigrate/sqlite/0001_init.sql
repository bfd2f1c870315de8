-- The first step of the SQLite schema.
--
-- Times are microseconds since the epoch, UTC. Every table is STRICT, so a
-- value of another type is refused instead of stored.
--
-- States, of events and of messages:
--   0 pending   1 running (of a message: sending)   2 done (sent)   3 dead   4 skipped

CREATE TABLE hookonce_schema_migration (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- Events are only ever inserted, pruned of their bodies, and deleted.
--
-- A rowid table, although every access is by key: rows are appended side by
-- side, and only the index of 32-byte keys is hit at random places. As WITHOUT
-- ROWID the rows themselves stand in key order, and each one of more than about
-- 1,000 bytes needs an overflow page of its own: with bodies of 1.2 kB and
-- batches of 128 that was a third of the insert rate (9,400 rows/s against
-- 27,200) and more than twice the file (4.7 kB a row against 2.1 kB).
CREATE TABLE hookonce_event (
    key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32),
    source      TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    occurred_at INTEGER,
    received_at INTEGER NOT NULL,
    headers     BLOB,             -- JSON; NULL once retention has removed the body
    body        BLOB,
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    work        INTEGER NOT NULL CHECK (work IN (0, 1)), -- 1: has a row in hookonce_event_state
    repeat_of   BLOB              -- key of the event that brought this body first, where that was looked for
) STRICT;

-- Listings and the pruning of identities. The source stands in it so that a
-- walk for one source does not touch the rows of the others.
CREATE INDEX hookonce_event_received ON hookonce_event (received_at, key, source);

-- The pruning of bodies.
CREATE INDEX hookonce_event_bodies ON hookonce_event (source, received_at) WHERE body IS NOT NULL;

-- The state of events that wait for a handler or an SQL consumer. An event
-- without a row here has the state of its messages.
CREATE TABLE hookonce_event_state (
    key          BLOB    NOT NULL PRIMARY KEY,
    state        INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
    note         TEXT    NOT NULL DEFAULT '',
    attempts     INTEGER NOT NULL DEFAULT 0,
    generation   INTEGER NOT NULL DEFAULT 0,
    due_at       INTEGER NOT NULL,
    processed_at INTEGER,
    failed_at    INTEGER,
    last_error   TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE INDEX hookonce_event_state_due ON hookonce_event_state (due_at) WHERE state = 0;
CREATE INDEX hookonce_event_state_dead ON hookonce_event_state (key) WHERE state = 3;

-- A rowid table for the same reason as hookonce_event: 14,600 events/s with one
-- message each, against 11,400 WITHOUT ROWID.
CREATE TABLE hookonce_message (
    id          TEXT    NOT NULL PRIMARY KEY,
    event_key   BLOB    NOT NULL,
    generation  INTEGER NOT NULL DEFAULT 0,
    route       TEXT    NOT NULL,
    destination TEXT    NOT NULL,
    state       INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    note        TEXT    NOT NULL DEFAULT '',
    attempts    INTEGER NOT NULL DEFAULT 0,
    token       INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER NOT NULL, -- of a sending one: when its lease ends
    status_code INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT    NOT NULL DEFAULT '',
    created_at  INTEGER NOT NULL,
    sent_at     INTEGER,
    failed_at   INTEGER
) STRICT;

CREATE INDEX hookonce_message_event ON hookonce_message (event_key);

-- Leasing. A lease moves due_at to its end, so that one which ran out is simply
-- due again.
CREATE INDEX hookonce_message_due ON hookonce_message (destination, due_at) WHERE state IN (0, 1);
CREATE INDEX hookonce_message_dead ON hookonce_message (event_key) WHERE state = 3;

CREATE TABLE hookonce_attempt (
    message_id  TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    outcome     TEXT    NOT NULL CHECK (outcome IN ('sent', 'retry', 'dead')),
    status_code INTEGER NOT NULL,
    error       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    took        INTEGER NOT NULL, -- microseconds
    PRIMARY KEY (message_id, generation, number)
) STRICT, WITHOUT ROWID;

-- Deliveries after the first. Apart from the event, which is never updated.
CREATE TABLE hookonce_delivery_count (
    key          BLOB    NOT NULL PRIMARY KEY,
    duplicates   INTEGER NOT NULL DEFAULT 0,
    other_bodies INTEGER NOT NULL DEFAULT 0,
    repeats      INTEGER NOT NULL DEFAULT 0,
    last_at      INTEGER -- of the last duplicate
) STRICT, WITHOUT ROWID;

-- Which event first brought a body, where event ids are not signed.
CREATE TABLE hookonce_body_seen (
    body_key BLOB    NOT NULL PRIMARY KEY CHECK (length(body_key) = 32),
    key      BLOB    NOT NULL,
    seen_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Verified requests without a usable event.
CREATE TABLE hookonce_quarantine (
    source      TEXT    NOT NULL,
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    headers     BLOB    NOT NULL,
    body        BLOB    NOT NULL,
    reason      TEXT    NOT NULL,
    deliveries  INTEGER NOT NULL DEFAULT 1,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    PRIMARY KEY (source, body_sha256)
) STRICT;

CREATE INDEX hookonce_quarantine_last ON hookonce_quarantine (source, last_at);

-- One row for each event, with its state worked out. Not for use outside of
-- hookonce: it changes with the program.
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
                         WHEN min(m.state) = 4 THEN max(m.note)
                         ELSE '' END
             FROM hookonce_message m WHERE m.event_key = e.key)
    END AS note,
    CASE e.work
        WHEN 1 THEN (SELECT s.attempts FROM hookonce_event_state s WHERE s.key = e.key)
        ELSE (SELECT coalesce(max(m.attempts), 0) FROM hookonce_message m WHERE m.event_key = e.key)
    END AS attempts,
    CASE e.work
        WHEN 1 THEN (SELECT s.generation FROM hookonce_event_state s WHERE s.key = e.key)
        ELSE (SELECT coalesce(max(m.generation), 0) FROM hookonce_message m WHERE m.event_key = e.key)
    END AS generation,
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

-- The same for people: times in ISO 8601, UTC, with microseconds, and headers as
-- text. What is left over of a time before 1970 is negative, hence the sums.
CREATE VIEW hookonce_event_text AS
SELECT
    key, source, event_id, type, state, note, attempts, generation, duplicates,
    strftime('%Y-%m-%dT%H:%M:%S', (received_at - (received_at % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
        || printf('.%06dZ', (received_at % 1000000 + 1000000) % 1000000) AS received_at,
    strftime('%Y-%m-%dT%H:%M:%S', (occurred_at - (occurred_at % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
        || printf('.%06dZ', (occurred_at % 1000000 + 1000000) % 1000000) AS occurred_at,
    strftime('%Y-%m-%dT%H:%M:%S', (processed_at - (processed_at % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
        || printf('.%06dZ', (processed_at % 1000000 + 1000000) % 1000000) AS processed_at,
    strftime('%Y-%m-%dT%H:%M:%S', (failed_at - (failed_at % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
        || printf('.%06dZ', (failed_at % 1000000 + 1000000) % 1000000) AS failed_at,
    last_error, CAST(headers AS TEXT) AS headers, body
FROM hookonce_event_overview;

-- The two views that applications and operators may rely on.
CREATE VIEW hookonce_events AS
SELECT
    source, event_id, type, state, note, attempts, generation, duplicates,
    received_at, occurred_at, processed_at, failed_at, last_error, headers, body
FROM hookonce_event_text;

CREATE VIEW hookonce_dead_letters AS
SELECT
    source, event_id, type, state, note, attempts, generation, duplicates,
    received_at, occurred_at, processed_at, failed_at, last_error, headers, body
FROM hookonce_event_text
WHERE state = 'dead'
    -- Implied by the state, and found by two small indexes.
    AND key IN (
        SELECT event_key FROM hookonce_message WHERE state = 3
        UNION ALL
        SELECT key FROM hookonce_event_state WHERE state = 3
    );

INSERT INTO hookonce_schema_migration (version, name, applied_at)
VALUES (1, 'init', CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
