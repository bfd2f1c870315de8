#!/usr/bin/env python3
"""Takes events from a table with the usual hand-written loop, and writes one effect for each in the same transaction.

    byhand.py postgres://user:password@host/database 20000 --fill   # creates the table and its events
    byhand.py postgres://user:password@host/database 20000
"""
import sys

from psycopg2.extras import execute_values

import effects

TABLE = """
CREATE TABLE webhook_events (
    id           bigserial PRIMARY KEY,
    source       text NOT NULL,
    event_id     text NOT NULL,
    type         text NOT NULL,
    headers      jsonb NOT NULL,
    body         bytea NOT NULL,
    status       text NOT NULL DEFAULT 'pending',
    received_at  timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz,
    UNIQUE (source, event_id)
);
CREATE INDEX webhook_events_pending ON webhook_events (received_at) WHERE status = 'pending'"""
TAKE = """
SELECT id, source, event_id, type, received_at, headers, body FROM webhook_events
WHERE status = 'pending' ORDER BY received_at
LIMIT %s FOR UPDATE SKIP LOCKED"""
DONE = "UPDATE webhook_events SET status = 'done', processed_at = now() WHERE id = ANY (%s)"


def run(conn):
    with conn, conn.cursor() as db:
        db.execute(TAKE, (effects.BATCH,))
        events = db.fetchall()
        for event in events:
            effects.apply(db, event)
        db.execute(DONE, ([event.id for event in events],))
    return len(events)


def fill(conn, n):
    with conn, conn.cursor() as db:
        db.execute(TABLE)
    body = b"0123456789ab" * 100
    for first in range(0, n, 500):
        rows = [("gh", f"evt_{i}", "push", '{"Content-Type": ["application/json"]}', body)
                for i in range(first, min(first + 500, n))]
        with conn, conn.cursor() as db:
            execute_values(db, "INSERT INTO webhook_events (source, event_id, type, headers, body) VALUES %s", rows)
    conn.autocommit = True  # VACUUM cannot run in a transaction
    with conn.cursor() as db:
        # A table that has been used for a while has statistics, and its rows are on disk.
        db.execute("VACUUM ANALYZE webhook_events")
        db.execute("CHECKPOINT")


def main():
    dsn, n = sys.argv[1], int(sys.argv[2])
    conn = effects.connect(dsn)
    if "--fill" in sys.argv[3:]:
        fill(conn, n)
        return
    effects.measure(conn, n, run)
    with conn, conn.cursor() as db:
        db.execute("SELECT status, count(*) AS events FROM webhook_events GROUP BY status")
        states = dict(db.fetchall())
    if states != {"done": n}:
        raise SystemExit(f"the events are {states}, want {n} done")


if __name__ == "__main__":
    main()
