#!/usr/bin/env python3
"""Takes events from hookonce and works on them in the same transaction: each takes effect once."""
import json
import os
import signal
import threading
import urllib.request

import psycopg2
from psycopg2.errors import LockNotAvailable
from psycopg2.extensions import TransactionRollbackError
from psycopg2.extras import NamedTupleCursor

SOURCE = os.environ.get("SOURCE", "shop")
ATTEMPTS = int(os.environ.get("ATTEMPTS", "20"))
FIRST_RETRY = os.environ.get("FIRST_RETRY", "10 seconds")
NEXT_API = os.environ.get("NEXT_API")  # called for each paid order
BATCH = 10


def work(db, event):
    paid = json.loads(bytes(event.body))
    # Upsert instead of insert, and set instead of add: the result is right in any order of events.
    db.execute("INSERT INTO orders VALUES (%s, %s, 'paid') ON CONFLICT (id) DO UPDATE SET state = 'paid'",
               (paid["order"], paid["customer"]))
    # Grant only if not granted yet.
    db.execute("INSERT INTO membership VALUES (%s) ON CONFLICT DO NOTHING", (paid["customer"],))
    db.execute("INSERT INTO ledger VALUES (%s, %s, %s)", (event.event_id, paid["order"], paid["cents"]))
    if NEXT_API:  # no ROLLBACK undoes this call; the key lets the API recognise a repeated one
        urllib.request.urlopen(urllib.request.Request(
            NEXT_API, paid["order"].encode(), {"Idempotency-Key": event.idempotency_key}), timeout=10).close()


def run(conn, n, taken):
    """Takes up to n events into taken and works on them. Everything commits, or nothing does."""
    with conn, conn.cursor() as db:
        db.execute("SELECT * FROM hookonce.take(%s, %s)", (SOURCE, n))
        taken += db.fetchall()
        for event in taken:
            work(db, event)
    return len(taken)


def run_alone(conn):
    """Takes one event, so that a failure can be attributed to it."""
    taken = []
    try:
        return run(conn, 1, taken)
    except TransactionRollbackError:
        return 1  # a deadlock, for example: not the event's fault; it comes again
    except Exception as error:
        if not taken:
            raise
        why = f"{type(error).__name__}: {error}".replace("\0", "")
    try:
        with conn, conn.cursor() as db:
            db.execute("SELECT hookonce.fail(%s, %s, %s, %s, %s)",
                       (SOURCE, taken[0].event_id, why, ATTEMPTS, FIRST_RETRY))
    except LockNotAvailable:
        pass  # another consumer has taken it since and reports its outcome
    return 1


def main():
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # If this process hangs, the server gives its events back.
    conn = psycopg2.connect(os.environ["DATABASE_URL"], cursor_factory=NamedTupleCursor,
                            options="-c idle_in_transaction_session_timeout=60s")
    while not stop.is_set():
        taken = []
        try:
            if not run(conn, BATCH, taken):
                stop.wait(1)
        except Exception:
            if not taken:
                raise  # not an event's fault; the supervisor of this process restarts it
            for _ in taken:
                if stop.is_set() or not run_alone(conn):
                    break
    conn.close()


if __name__ == "__main__":
    main()
