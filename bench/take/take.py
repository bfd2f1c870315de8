#!/usr/bin/env python3
"""Takes events with hookonce's SQL function and writes one effect for each in the same transaction.

    take.py postgres://user:password@host/database 20000

The events are already pending. SOURCE names their source, SCHEMA is hookonce's schema.
"""
import os
import sys

import effects

SOURCE = os.environ.get("SOURCE", "gh")
SCHEMA = os.environ.get("SCHEMA", "hookonce")
TAKE = f'SELECT * FROM "{SCHEMA}".take(%s, %s)'


def run(conn):
    with conn, conn.cursor() as db:
        db.execute(TAKE, (SOURCE, effects.BATCH))
        events = db.fetchall()
        for event in events:
            effects.apply(db, event)
    return len(events)


def main():
    dsn, n = sys.argv[1], int(sys.argv[2])
    conn = effects.connect(dsn)
    effects.measure(conn, n, run)
    with conn, conn.cursor() as db:
        db.execute(f'SELECT state, count(*) AS events FROM "{SCHEMA}".events WHERE source = %s GROUP BY state', (SOURCE,))
        states = dict(db.fetchall())
    if states != {"done": n}:
        raise SystemExit(f"the events are {states}, want {n} done")


if __name__ == "__main__":
    main()
