"""The common part of take.py and byhand.py, so that they differ only in how they take events."""
import json
import time

import psycopg2
from psycopg2.extras import NamedTupleCursor

BATCH = 50


def connect(dsn):
    return psycopg2.connect(dsn, cursor_factory=NamedTupleCursor)


def apply(db, event):
    db.execute("INSERT INTO effects (event_id) VALUES (%s)", (event.event_id,))


def measure(conn, n, run):
    """Calls run until n events are done and prints the time. run handles a batch and returns its size."""
    with conn, conn.cursor() as db:
        db.execute("CREATE TABLE effects (event_id text NOT NULL, at timestamptz NOT NULL DEFAULT now())")
    start, done = time.monotonic(), 0
    while done < n:
        size = run(conn)
        if not size:
            raise SystemExit(f"no event is due after {done} of {n}")
        done += size
    seconds = time.monotonic() - start
    with conn, conn.cursor() as db:
        db.execute("SELECT count(*), count(DISTINCT event_id) AS events FROM effects")
        effects = db.fetchone()
    if (done, effects.count, effects.events) != (n, n, n):
        raise SystemExit(f"{done} taken, {effects.count} effects of {effects.events} events, want {n} of each")
    print(json.dumps({"events": n, "seconds": round(seconds, 6)}))
