-- The schema of hookonce on SQLite.
--
-- From the first release on, steps are never edited; a change is a new file.
--
-- All names begin with "hookonce_", because an application may keep its own tables in the same
-- file. Times are microseconds since the epoch, UTC. Every table is STRICT: a value of another type
-- is refused, not stored.
--
-- States are numbers: 0 pending, 1 running (a message: sending), 2 done (a message: sent), 3 dead,
-- 4 skipped. Keys are SHA-256 hashes that the program computes.
--
-- The order: events and the work on them, messages, history, jobs, duplicates, figures, refused requests, the live feed,
-- destinations, sources, views, hookonce_schema_migration.

-- Events: one row for each claimed event. The primary key is the claim: an INSERT that conflicts is
-- a duplicate. Rows are only inserted, emptied of their bodies, and deleted.
--
-- A message that was enqueued by itself, without an event, has a row here too. The row holds the
-- message's body and headers, and outbox keeps it out of every listing of events.
--
-- id grows: it is one more than the highest. Rows are appended one after the other, and only the
-- index of the 32-byte keys is written at random places. Without id, rows would stand in the order
-- of the keys, and a row of more than about 1,000 bytes would need an overflow page of its own: with
-- bodies of 1.2 kB and batches of 128 that had a third of the insert rate (9,400 rows/s, not 27,200)
-- and more than twice the size (4.7 kB a row, not 2.1 kB).
--
-- headers and body come last: SQLite reads the overflow pages of a row in order, up to the last
-- column that a query needs.
CREATE TABLE hookonce_event (
    id          INTEGER NOT NULL PRIMARY KEY,
    key         BLOB    NOT NULL UNIQUE CHECK (length(key) = 32),
    source      TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    occurred_at INTEGER,                                 -- by the sender's clock; null: the sender gave no time
    received_at INTEGER NOT NULL,
    work        INTEGER NOT NULL CHECK (work IN (0, 1)), -- 0: only its messages; 1: it has a row in hookonce_event_state
    outbox      INTEGER NOT NULL DEFAULT 0,              -- 1: the body of an enqueued message, not an event
    repeat_of   BLOB,                                    -- key of the event that first brought this body; null: none, or not compared
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    remote      TEXT    NOT NULL DEFAULT '',             -- of the first delivery: the client's address; '' if it is not known
    gateway     TEXT    NOT NULL DEFAULT '',             -- of the first delivery: the name of the host that received it
    headers     BLOB,                                    -- JSON; null once retention or an operator has removed it
    body        BLOB                                     -- null once retention or an operator has removed it
) STRICT;

-- Listings of events and of messages, newest first; pruning of events, oldest first. Pruning finds
-- source here without reading rows, and so do listings find outbox, which costs no byte: SQLite
-- stores 0 and 1 in the header of an index entry.
CREATE INDEX hookonce_event_received ON hookonce_event (received_at, key, source, outbox);

-- Pruning of bodies, oldest first.
CREATE INDEX hookonce_event_bodies ON hookonce_event (received_at) WHERE body IS NOT NULL;

-- The state of events that a handler works on. The state of any other event follows from its
-- messages, see hookonce_event_overview. Finding due events reads only this table, so it repeats
-- the event's source and type, and the key for listings.
--
-- id is that of the event, so that these rows are appended, too. The key as the primary key cost
-- one more page at a random place for each event.
--
-- A run takes an event as a lease takes a message: it sets state 1, run to its number, run_size to
-- the number of its events, and due_at to the time at which it counts as interrupted. The number
-- stays when the run ends, and the next number is higher.
CREATE TABLE hookonce_event_state (
    id             INTEGER NOT NULL PRIMARY KEY,
    key            BLOB    NOT NULL,
    source         TEXT    NOT NULL,
    type           TEXT    NOT NULL,
    state          INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
    attempts       INTEGER NOT NULL DEFAULT 0, -- of this generation
    crashes        INTEGER NOT NULL DEFAULT 0, -- interrupted runs of this generation
    generation     INTEGER NOT NULL DEFAULT 0, -- counts replays and reopenings
    key_generation INTEGER NOT NULL DEFAULT 0, -- of the last replay as new; idempotency keys contain it
    replayed       INTEGER NOT NULL DEFAULT 0, -- 1: by an operator, so it is applied even if it is stale
    undecided      INTEGER NOT NULL DEFAULT 0, -- 1: dead or skipped, and its messages were never decided
    ended          INTEGER NOT NULL DEFAULT 0, -- 1: discarded, after its handler had ended its transaction
    queued         INTEGER NOT NULL DEFAULT 0, -- 1: undecided, and a handler works on it after a replay
    run            INTEGER NOT NULL DEFAULT 0, -- of the last run
    run_size       INTEGER NOT NULL DEFAULT 0,
    run_retry_in   INTEGER,                    -- if the run is interrupted: microseconds until the next attempt; null: it is the last
    received_at    INTEGER NOT NULL,           -- of the event, for listings
    due_at         INTEGER NOT NULL,           -- while running: when the run counts as interrupted
    retry_in       INTEGER NOT NULL DEFAULT 0, -- microseconds from the last failed attempt to due_at
    processed_at   INTEGER,
    failed_at      INTEGER,
    note           TEXT    NOT NULL DEFAULT '',
    last_error     TEXT    NOT NULL DEFAULT '',
    signature      TEXT    NOT NULL DEFAULT '' -- the group of last_error while the event is dead
) STRICT;

-- Pending events of a source in the order of due_at: taking and reserving them, and asking which
-- sources have any. Events that were never tried are taken in batches, and tried events one by one,
-- so each kind has its own index. type is in both, so that a worker skips other types without
-- reading their rows. The listing and the count of all pending events, and the oldest due_at, read both.
CREATE INDEX hookonce_event_state_fresh ON hookonce_event_state (source, due_at, type)
    WHERE state = 0 AND attempts = 0 AND crashes = 0;
CREATE INDEX hookonce_event_state_tried ON hookonce_event_state (source, due_at, type)
    WHERE state = 0 AND (attempts > 0 OR crashes > 0);

-- Running events: the search for interrupted runs, and listings.
CREATE INDEX hookonce_event_state_running ON hookonce_event_state (key) WHERE state = 1;

-- Dead and skipped events in the order of the listings, so that a page reads few rows more than its
-- own. The view hookonce_dead_letters reads the dead ones.
CREATE INDEX hookonce_event_state_dead ON hookonce_event_state (received_at, key) WHERE state = 3;
CREATE INDEX hookonce_event_state_skipped ON hookonce_event_state (received_at, key) WHERE state = 4;

-- Counts of the dead events of a source, up to a limit.
CREATE INDEX hookonce_event_state_dead_source ON hookonce_event_state (source) WHERE state = 3;

-- Error groups: a look-up for each group, and its failures in the order of time.
CREATE INDEX hookonce_event_state_dead_group ON hookonce_event_state (source, signature, failed_at) WHERE state = 3;

-- Listings of dead letters with a signature, in their order.
CREATE INDEX hookonce_event_state_dead_signature ON hookonce_event_state (signature, received_at, key) WHERE state = 3;

-- Failed attempts of handlers, for the audit. A successful attempt is only in hookonce_event_state.
CREATE TABLE hookonce_event_attempt (
    key        BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    number     INTEGER NOT NULL, -- from 1
    outcome    TEXT    NOT NULL CHECK (outcome IN ('retry', 'dead')),
    error      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    took       INTEGER NOT NULL, -- microseconds
    PRIMARY KEY (key, generation, number)
) STRICT, WITHOUT ROWID;

-- Deliveries whose handler failed in the transaction of the claim, which rolled back the claim too.
-- Each row holds the request until the event is claimed, or until the failures make it a dead
-- event.
CREATE TABLE hookonce_inline_failure (
    key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32),
    source      TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    occurred_at INTEGER,
    headers     BLOB    NOT NULL,
    body        BLOB    NOT NULL,
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    remote      TEXT    NOT NULL, -- with gateway: of the first delivery, see hookonce_event
    gateway     TEXT    NOT NULL,
    messages    TEXT    NOT NULL, -- JSON: the messages that the event gets
    failures    INTEGER NOT NULL,
    last_error  TEXT    NOT NULL,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL
) STRICT;

-- Events that failed and were not delivered again for long: they become dead letters.
CREATE INDEX hookonce_inline_failure_last ON hookonce_inline_failure (last_at);

-- The highest applied version of each object, for sources that skip stale events and for routes with
-- order, whose lines these rows are. Versions compare as bytes.
CREATE TABLE hookonce_object_version (
    object     BLOB    NOT NULL PRIMARY KEY CHECK (length(object) = 32),
    source     TEXT    NOT NULL,
    version    BLOB    NOT NULL,
    shown      TEXT    NOT NULL, -- the version for people
    applied_at INTEGER NOT NULL,
    -- Of a line: the number of the message that was let go last, and may have arrived: no answer to it is
    -- recorded. Null: there is none. Or that of the event that was let go last: it holds the line while it runs.
    sending    INTEGER
) STRICT, WITHOUT ROWID;

-- Pruning of versions, oldest first.
CREATE INDEX hookonce_object_version_applied ON hookonce_object_version (applied_at);

-- Messages to destinations: what to send, its lease and its outcome.
--
-- number grows, so that rows are appended, as in hookonce_event. No index has the ids or the keys of
-- all messages: an id leads to the key of its event, and the index of the events' keys to the event.
-- Two such indexes cost two more pages at random places for each message.
CREATE TABLE hookonce_message (
    number      INTEGER NOT NULL PRIMARY KEY,
    id          TEXT    NOT NULL,
    event       INTEGER NOT NULL,           -- id of the event that holds its body
    event_key   BLOB    NOT NULL,           -- its key
    cause       BLOB,                       -- the event that caused an enqueued message; null: none
    cause_generation INTEGER NOT NULL DEFAULT 0, -- its generation when its handler last enqueued the message
    route       TEXT    NOT NULL,           -- '' if it was enqueued
    destination TEXT    NOT NULL,
    state       INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    replayed    INTEGER NOT NULL DEFAULT 0, -- 1: by an operator, so it is sent even if it is stale
    generation  INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0, -- of this generation
    -- The fencing token of the last lease; it only grows. It starts at the time: if an event is
    -- pruned and delivered again, its messages have the same ids as before, and a lease from before
    -- must not match them.
    token       INTEGER NOT NULL,
    received_at INTEGER NOT NULL,           -- of its event, for listings
    created_at  INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,           -- while sending: the end of the lease
    retry_in    INTEGER NOT NULL DEFAULT 0, -- microseconds from the last failed attempt to due_at
    sent_at     INTEGER,
    took        INTEGER NOT NULL DEFAULT 0, -- microseconds of the attempt that sent it
    failed_at   INTEGER,
    status_code INTEGER NOT NULL DEFAULT 0, -- of the last answer; 0: there was none
    note        TEXT    NOT NULL DEFAULT '',
    last_error  TEXT    NOT NULL DEFAULT '',
    signature   TEXT    NOT NULL DEFAULT '' -- the group of last_error while the message is dead
) STRICT;

-- Open messages of a destination in the order of due_at: leases, listings and counts. state is here
-- for the counts, and costs no byte. A lease moves due_at to its end, so an expired lease is simply
-- due again.
CREATE INDEX hookonce_message_due ON hookonce_message (destination, due_at, state) WHERE state IN (0, 1);

-- The messages of an event: one by its id, the event's state in the views, its details, replays, pruning.
CREATE UNIQUE INDEX hookonce_message_event ON hookonce_message (event, id);

-- The enqueued messages that an event caused: the event's details, and listings of its messages.
CREATE INDEX hookonce_message_cause ON hookonce_message (cause) WHERE cause IS NOT NULL;

-- Dead and skipped messages in the order of the listings, so that a page reads no more than its own
-- rows. destination is here for the counts.
CREATE INDEX hookonce_message_dead ON hookonce_message (received_at, event_key, id, destination) WHERE state = 3;
CREATE INDEX hookonce_message_skipped ON hookonce_message (received_at, event_key, id) WHERE state = 4;

-- Dead messages of a destination: listings, and counts up to a limit.
CREATE INDEX hookonce_message_dead_destination ON hookonce_message (destination, received_at, event_key, id) WHERE state = 3;

-- Error groups, as for hookonce_event_state.
CREATE INDEX hookonce_message_dead_group ON hookonce_message (destination, signature, failed_at) WHERE state = 3;

-- Listings of dead letters with a signature, in their order. destination is here to be compared without
-- reading the row.
CREATE INDEX hookonce_message_dead_signature ON hookonce_message (signature, received_at, event_key, id, destination) WHERE state = 3;

-- Messages and events that died in a span of time, for the summaries of on_dead.
CREATE INDEX hookonce_message_dead_failed ON hookonce_message (failed_at) WHERE state = 3;
CREATE INDEX hookonce_event_state_dead_failed ON hookonce_event_state (failed_at) WHERE state = 3;

-- Messages of routes with order, and events of ordered handlers, each in the line of its object. Apart from
-- hookonce_message and hookonce_event_state, so that one without order has no column and no index of this.
--
-- state is a hint, which keeps the rows of ended ones out of the indexes: the state of the message or the event decides.
CREATE TABLE hookonce_ordered_message (
    number      INTEGER NOT NULL PRIMARY KEY, -- of the message; of an event, 4611686018427387904 more than its id
    line        BLOB    NOT NULL CHECK (length(line) = 32), -- an object of hookonce_object_version
    source      TEXT    NOT NULL,
    destination TEXT    NOT NULL,           -- of an event: a line break and its source
    version     BLOB    NOT NULL,           -- empty: the line has the order of the claims
    received_at INTEGER NOT NULL,           -- of its event
    hold        INTEGER NOT NULL,           -- 1: the line waits at it while it is dead
    forced      INTEGER NOT NULL DEFAULT 0, -- 1: an operator replayed it although it may be stale
    state       INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3) -- 0 open, 1 dead, and the line waits at it, 2 ended, 3 passed over
) STRICT;

-- A line in its order.
CREATE INDEX hookonce_ordered_message_line ON hookonce_ordered_message (line, version, received_at, number) WHERE state < 2;

-- Lines that went on past a dead letter, or a discarded one. While it can come back, the line keeps its version.
CREATE INDEX hookonce_ordered_message_passed ON hookonce_ordered_message (line) WHERE state = 3;

-- Lines that wait at a dead letter: counts up to a limit.
CREATE INDEX hookonce_ordered_message_held ON hookonce_ordered_message (destination) WHERE state = 1;

-- Failed attempts to send a message, for the audit. An expired lease is an attempt too. The attempt
-- that sent a message is in the row of the message, until a replay needs that row.
CREATE TABLE hookonce_attempt (
    message_id  TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    number      INTEGER NOT NULL, -- from 1
    outcome     TEXT    NOT NULL CHECK (outcome IN ('sent', 'retry', 'dead')),
    status_code INTEGER NOT NULL,
    error       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    took        INTEGER NOT NULL, -- microseconds
    PRIMARY KEY (message_id, generation, number)
) STRICT, WITHOUT ROWID;

-- The destination's answers to failed attempts: for each message the answer to the first failed
-- attempt, if there was one, and the latest answer. They go with the body of the event.
CREATE TABLE hookonce_attempt_response (
    message_id   TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    first        INTEGER NOT NULL, -- 1: no attempt before it failed
    content_type TEXT    NOT NULL,
    response     BLOB    NOT NULL, -- the beginning of the answer's body, without our secrets
    PRIMARY KEY (message_id, generation, number)
) STRICT;

-- Replays, reopenings, retries, discards and redactions of an event, for the audit. The transaction of the
-- action writes the row, and pruning removes it with the event.
CREATE TABLE hookonce_history (
    id         INTEGER PRIMARY KEY,
    event_key  BLOB    NOT NULL,
    at         INTEGER NOT NULL,
    action     TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    messages   INTEGER NOT NULL DEFAULT 0, -- how many became due
    message_id TEXT,                       -- null: the whole event
    request_id TEXT,                       -- of the caller; a repeated request does nothing
    operation  TEXT,                       -- the request or job that worked on many letters; null: there is none
    -- Of a discard, so that it can be undone: when the letter had failed, and its note.
    failed_at  INTEGER,
    note       TEXT
) STRICT;

-- The history of an event, for its details and for pruning.
CREATE INDEX hookonce_history_event ON hookonce_history (event_key);

-- Finds a repeated request.
CREATE UNIQUE INDEX hookonce_history_request ON hookonce_history (event_key, request_id) WHERE request_id IS NOT NULL;

-- The discards of an operation, to undo them.
CREATE INDEX hookonce_history_discards ON hookonce_history (operation, id)
    WHERE operation IS NOT NULL AND action = 'discarded';

-- Bulk actions. A process works on a running job while it holds the lease. Each lease has a higher
-- fence, and each step of the job compares it.
CREATE TABLE hookonce_job (
    id           TEXT    NOT NULL PRIMARY KEY,
    subject      TEXT    NOT NULL,            -- dead_letters or events
    action       TEXT    NOT NULL,            -- replay, discard or undo
    mode         TEXT    NOT NULL,            -- of a replay of events
    rate         TEXT    NOT NULL,
    filter       TEXT    NOT NULL,            -- JSON
    plan         TEXT    NOT NULL,            -- JSON: the result of the count
    request_id   TEXT,                        -- of the caller; a repeated request gets the same job
    state        INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4), -- 0 planned, 1 running, 2 done, 3 cancelled, 4 failed
    done         INTEGER NOT NULL DEFAULT 0,
    skipped      INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT    NOT NULL DEFAULT '',
    place        TEXT    NOT NULL DEFAULT '', -- where the job goes on
    owner        TEXT    NOT NULL DEFAULT '', -- the process that took it last
    fence        INTEGER NOT NULL DEFAULT 0,  -- counts the leases
    leased_until INTEGER NOT NULL,            -- while running: when another process may take it
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,                     -- the first start
    finished_at  INTEGER                      -- the end, or the cancellation
) STRICT;

-- Finds a repeated request.
CREATE UNIQUE INDEX hookonce_job_request ON hookonce_job (request_id) WHERE request_id IS NOT NULL;

-- The listing of jobs, and the limit on their number.
CREATE INDEX hookonce_job_created ON hookonce_job (created_at, id);

-- Running jobs, for the processes that look for work.
CREATE INDEX hookonce_job_running ON hookonce_job (leased_until) WHERE state = 1;

-- How often an event was delivered again, and the newest of these deliveries. Apart from
-- hookonce_event, which is never updated for it. The deliveries are in the row of the count, so that
-- a storm of duplicates updates one row for each event and deletes none.
CREATE TABLE hookonce_delivery_count (
    key          BLOB    NOT NULL PRIMARY KEY,
    duplicates   INTEGER NOT NULL DEFAULT 0, -- deliveries after the first
    other_bodies INTEGER NOT NULL DEFAULT 0, -- duplicates whose body differs from the first
    repeats      INTEGER NOT NULL DEFAULT 0, -- deliveries of this event's body under other event ids
    last_at      INTEGER,                    -- of the last duplicate; null: there was none
    recent       TEXT    NOT NULL DEFAULT '' -- JSON: the newest 20 duplicates, newest first; '' if there was none
) STRICT, WITHOUT ROWID;

-- The first duplicate of an event that had another body. It goes with the body of the event.
CREATE TABLE hookonce_other_body (
    key         BLOB    NOT NULL PRIMARY KEY,                            -- of the event
    at          INTEGER NOT NULL,
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),       -- of the whole body
    body_size   INTEGER NOT NULL,                                        -- of the whole body
    headers     BLOB    NOT NULL,                                        -- JSON
    body        BLOB    NOT NULL                                         -- its beginning, at most 64 KiB
) STRICT;

-- Which event first brought a body, for sources whose event ids are not signed.
CREATE TABLE hookonce_body_seen (
    body_key BLOB    NOT NULL PRIMARY KEY CHECK (length(body_key) = 32), -- of source and body
    key      BLOB    NOT NULL,                                           -- of the event
    seen_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Verified requests that could not be parsed into events. One row for each source and body.
CREATE TABLE hookonce_quarantine (
    key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32), -- of source and body
    source      TEXT    NOT NULL,
    body_sha256 BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    part        INTEGER NOT NULL, -- of the delivery: 0 the request, 1 an item of a batch, 2 an entry that lacks its items
    headers     BLOB    NOT NULL,
    body        BLOB    NOT NULL,
    reason      TEXT    NOT NULL,
    handled     INTEGER NOT NULL, -- 1: its events have a handler, or work in the receiving program
    deliveries  INTEGER NOT NULL DEFAULT 1, -- how many requests had this body
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL
) STRICT;

-- The quarantine of one source, newest first: its listing, its pruning, and the limit on its rows.
CREATE INDEX hookonce_quarantine_last ON hookonce_quarantine (source, last_at, key);

-- The quarantine of all sources, newest first.
CREATE INDEX hookonce_quarantine_recent ON hookonce_quarantine (last_at, key);

-- The windows of all processes, each with the time when a process last had it. The
-- source '' stands for the sources that a process does not have. For each source, pruning follows
-- the longest windows of the last seven days. Older rows go.
CREATE TABLE hookonce_source_window (
    source          TEXT    NOT NULL,
    dedupe_window   INTEGER NOT NULL, -- microseconds
    retention       INTEGER NOT NULL, -- microseconds
    quarantine_rows INTEGER NOT NULL, -- the number of quarantined requests to keep
    last_seen       INTEGER NOT NULL,
    PRIMARY KEY (source, dedupe_window, retention, quarantine_rows)
) STRICT, WITHOUT ROWID;

-- Whose turn it is to prune: at most one row. fence grows with each turn, and each transaction of a turn
-- checks it.
CREATE TABLE hookonce_prune_turn (
    only_one   INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
    fence      INTEGER NOT NULL,
    until      INTEGER NOT NULL, -- a process that was killed keeps its turn so long
    background INTEGER NOT NULL, -- 1: its holder gives way to a call that waits
    state      TEXT    NOT NULL  -- JSON: how far the turns before came, see internal/pruning
) STRICT;

-- Figures: the number of deliveries, refusals and attempts in a span of time, and how many of them had a
-- duration of each bucket. Every process adds to the rows, so a chart needs no count of events or
-- messages. The numbers of kinds and resolutions are those of package driver.
--
-- The primary key serves a series: one kind and one resolution, in the order of time. Pruning reads
-- the oldest rows of each pair there.
CREATE TABLE hookonce_rollup (
    kind       INTEGER NOT NULL, -- 0 deliveries, 1 refusals, 2 attempts, 3 duplicates, 4 backlog
    resolution INTEGER NOT NULL, -- 0 minutes, 1 hours, 2 days
    start      INTEGER NOT NULL, -- of the span
    name       TEXT    NOT NULL, -- of the source, or of the destination
    label      TEXT    NOT NULL, -- the outcome; of refusals, the reason; of duplicates, none
    n          INTEGER NOT NULL,
    -- How many were in each bucket of durations, the shortest first.
    b0 INTEGER NOT NULL, b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, b3 INTEGER NOT NULL, b4 INTEGER NOT NULL,
    b5 INTEGER NOT NULL, b6 INTEGER NOT NULL, b7 INTEGER NOT NULL, b8 INTEGER NOT NULL, b9 INTEGER NOT NULL,
    b10 INTEGER NOT NULL, b11 INTEGER NOT NULL, b12 INTEGER NOT NULL, b13 INTEGER NOT NULL, b14 INTEGER NOT NULL,
    PRIMARY KEY (kind, resolution, start, name, label)
) STRICT, WITHOUT ROWID;

-- How many events of a type were claimed in an hour. It tells which hours to search for a rare type.
-- The primary key serves that: the hours of one type of a source.
CREATE TABLE hookonce_type_rollup (
    source TEXT    NOT NULL,
    type   TEXT    NOT NULL,
    start  INTEGER NOT NULL, -- of the hour
    n      INTEGER NOT NULL,
    PRIMARY KEY (source, type, start)
) STRICT, WITHOUT ROWID;

-- The types of an hour: their series, the limit on their number for each source, and pruning.
CREATE INDEX hookonce_type_rollup_start ON hookonce_type_rollup (start, source);

-- Refused requests (4xx, but not malformed), for the operator: the newest 1,000 of each source. Their keys are
-- made of the error id in the answer and share none with events.
CREATE TABLE hookonce_refused (
    key       BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32), -- of error_id
    error_id  TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    source    TEXT    NOT NULL, -- '' for an unknown path
    reason    TEXT    NOT NULL,
    status    INTEGER NOT NULL,
    method    TEXT    NOT NULL,
    remote    TEXT    NOT NULL, -- the client's address
    gateway   TEXT    NOT NULL, -- the name of the host that answered
    headers   BLOB    NOT NULL, -- JSON; values that may be secret are replaced
    body      BLOB    NOT NULL, -- its beginning
    body_size INTEGER NOT NULL  -- of the whole body; -1: it was not read
) STRICT;

-- The refused requests of one source, newest first: their listing, their pruning, and the limit on
-- their number.
CREATE INDEX hookonce_refused_newest ON hookonce_refused (source, at, key);

-- The refused requests of all sources, newest first.
CREATE INDEX hookonce_refused_recent ON hookonce_refused (at, key);

-- Until when somebody looks at the live feed: at most one row.
CREATE TABLE hookonce_feed_watch (
    only_one  INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
    until     INTEGER NOT NULL,
    floor_seq INTEGER NOT NULL, -- the feed has all rows after this number, up to last_seq
    last_seq  INTEGER NOT NULL  -- begins with the time in microseconds, so no number is used twice
) STRICT;

-- The latest deliveries, attempts and events of all processes, for those who look.
CREATE TABLE hookonce_feed (
    seq       INTEGER NOT NULL PRIMARY KEY,
    stored_at INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      INTEGER NOT NULL, -- 0 delivery, 1 event, 2 attempt, 3 refused
    source    TEXT    NOT NULL,
    event_id  TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    outcome   TEXT    NOT NULL,
    details   BLOB    NOT NULL -- JSON
) STRICT;

-- Paused destinations: their messages are not leased. A row stays until the operator
-- resumes the destination, whether or not it is in the settings.
CREATE TABLE hookonce_paused_destination (
    destination TEXT    NOT NULL PRIMARY KEY,
    paused_at   INTEGER NOT NULL
) STRICT;

-- How far the list of events of a provider's API was looked at. A look holds the lease with its fence.
CREATE TABLE hookonce_reconcile (
    source        TEXT    NOT NULL PRIMARY KEY,
    list          BLOB    NOT NULL, -- a hash of the list: another list begins at its start
    began_at      INTEGER NOT NULL, -- nothing older is looked at
    done_until    INTEGER NOT NULL, -- all events up to then were looked at
    fence         INTEGER NOT NULL,
    leased_until  INTEGER,          -- NULL: no look runs
    next_at       INTEGER NOT NULL,
    ended_at      INTEGER,          -- of the last look, as error and unreadable are
    error         TEXT    NOT NULL, -- '': it succeeded
    unreadable    INTEGER NOT NULL,
    missed        INTEGER NOT NULL, -- events that looks claimed, until found_at
    found_at      INTEGER,
    first_missing INTEGER,          -- the time of the oldest of them
    last_missing  INTEGER
) STRICT;

-- Sources that may learn one secret from their provider, until armed_until.
CREATE TABLE hookonce_armed_source (
    source      TEXT    NOT NULL PRIMARY KEY,
    armed_until INTEGER NOT NULL,
    armed_for   INTEGER NOT NULL, -- microseconds from the arming to armed_until
    replace     INTEGER NOT NULL -- 1: learning the secret removes the source's other secrets
) STRICT;

-- Secrets that providers handed over. A reader of this table can sign as the provider.
CREATE TABLE hookonce_learned_secret (
    source     TEXT    NOT NULL,
    secret     TEXT    NOT NULL,
    learned_at INTEGER NOT NULL,
    PRIMARY KEY (source, secret)
) STRICT;

-- Every event with its state, which follows from its state row or its messages. For hookonce itself
-- and the views below; its columns may change.
CREATE VIEW hookonce_event_overview AS
SELECT
    e.key, e.source, e.event_id, e.type, e.work,
    CASE e.work
        WHEN 1 THEN
            (SELECT CASE s.state WHEN 0 THEN 'pending' WHEN 1 THEN 'running' WHEN 2 THEN 'done'
                                 WHEN 3 THEN 'dead' ELSE 'skipped' END
             FROM hookonce_event_state s WHERE s.id = e.id)
        ELSE
            (SELECT CASE WHEN count(*) = 0 THEN 'done'
                         WHEN sum(m.state IN (0, 1)) > 0 THEN 'running'
                         WHEN sum(m.state = 3) > 0 THEN 'dead'
                         WHEN sum(m.state = 2) > 0 THEN 'done'
                         ELSE 'skipped' END
             FROM hookonce_message m WHERE m.event = e.id)
    END AS state,
    e.work <> 1 AND coalesce((SELECT sum(m.state = 0) > 0 AND sum(m.state = 1) = 0
                              FROM hookonce_message m WHERE m.event = e.id), 0) AS waiting, -- messages wait, and none is being sent
    CASE e.work
        WHEN 1 THEN (SELECT s.note FROM hookonce_event_state s WHERE s.id = e.id)
        ELSE
            (SELECT CASE WHEN count(*) = 0 THEN 'no route'
                         WHEN sum(m.state IN (0, 1, 3)) > 0 THEN ''
                         ELSE coalesce(
                             max(CASE m.state WHEN 4 THEN nullif(nullif(m.note, 'replayed as new'), 'rerouted') END),
                             max(CASE WHEN m.state = 4 AND m.note = 'rerouted' THEN m.note END),
                             CASE min(m.state) WHEN 4 THEN max(m.note) ELSE '' END) END
             FROM hookonce_message m WHERE m.event = e.id)
    END AS note,
    CASE e.work
        WHEN 1 THEN (SELECT s.attempts FROM hookonce_event_state s WHERE s.id = e.id)
        ELSE (SELECT coalesce(max(m.attempts), 0) FROM hookonce_message m WHERE m.event = e.id)
    END AS attempts,
    max((SELECT coalesce(max(m.generation), 0) FROM hookonce_message m WHERE m.event = e.id),
        coalesce((SELECT s.generation FROM hookonce_event_state s WHERE s.id = e.id), 0)) AS generation,
    coalesce((SELECT d.duplicates FROM hookonce_delivery_count d WHERE d.key = e.key), 0) AS duplicates,
    e.received_at, e.occurred_at,
    CASE e.work
        WHEN 1 THEN (SELECT s.processed_at FROM hookonce_event_state s WHERE s.id = e.id AND s.state = 2)
        ELSE
            (SELECT CASE WHEN count(*) = 0 THEN e.received_at
                         WHEN sum(m.state IN (0, 1, 3)) = 0 THEN max(m.sent_at) END
             FROM hookonce_message m WHERE m.event = e.id)
    END AS processed_at,
    CASE e.work
        WHEN 1 THEN (SELECT s.failed_at FROM hookonce_event_state s WHERE s.id = e.id AND s.state = 3)
        ELSE
            (SELECT CASE WHEN sum(m.state IN (0, 1)) = 0 AND sum(m.state = 3) > 0 THEN max(m.failed_at) END
             FROM hookonce_message m WHERE m.event = e.id)
    END AS failed_at,
    CASE e.work
        WHEN 1 THEN (SELECT s.last_error FROM hookonce_event_state s WHERE s.id = e.id)
        ELSE coalesce(
            (SELECT m.last_error FROM hookonce_message m
             WHERE m.event = e.id AND m.last_error <> ''
             ORDER BY m.failed_at DESC, m.due_at DESC, m.id LIMIT 1), '')
    END AS last_error,
    e.headers, e.body, e.body_sha256, e.repeat_of, e.remote, e.gateway
FROM hookonce_event e
WHERE e.outbox = 0;

-- The same for people: times in ISO 8601, UTC, with microseconds, and headers as text. The
-- sums are there because the remainder of a time before 1970 is negative.
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

-- The views that applications and operators may rely on. Columns are only ever added.
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
    -- Follows from the state, and lets SQLite use the two small indexes on dead rows.
    AND key IN (
        SELECT event_key FROM hookonce_message WHERE state = 3
        UNION ALL
        SELECT key FROM hookonce_event_state WHERE state = 3
    );

-- The steps that this schema has. Each step records itself at its end, so that running its SQL by
-- hand does the same as the program.
CREATE TABLE hookonce_schema_migration (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    hash       TEXT    NOT NULL, -- of the text of the step
    applied_at INTEGER NOT NULL
) STRICT;

INSERT INTO hookonce_schema_migration (version, name, hash, applied_at)
VALUES (1, 'init', '{hash}', CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
