"""A consumer of the proof: it takes events from PostgreSQL in its own transaction.

It calls three functions of hookonce: take, fail and enqueue. The body of an event tells
it what to do.

    consumer.py DSN FOLDER

It runs until its standard input ends, or until it is killed.
"""

import json
import os
import select
import signal
import sys

import psycopg2
import psycopg2.errors

SOURCE = "proof"
LEDGER = "ledger"
LEAVE_CODE = 77
PAUSE = 0.02  # seconds until the next look after one without events


class Permanent(Exception):
    """No further attempt can succeed."""


class Consumer:
    def __init__(self, dsn, folder):
        self.connection = psycopg2.connect(dsn)
        self.folder = folder
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        self.runs = os.open(os.path.join(folder, "runs"), flags, 0o600)
        self.deaths = os.open(os.path.join(folder, "deaths"), flags, 0o600)

    def run(self):
        while True:
            if self.work():
                continue
            readable, _, _ = select.select([sys.stdin], [], [], PAUSE)
            if readable:
                return

    def work(self):
        """Works on the due events in one transaction. Returns whether there were any."""
        event_id = None
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(
                    "SELECT event_id, generation, attempt, body FROM hookonce.take(%s, 20)", (SOURCE,)
                )
                events = cursor.fetchall()
                for event_id, generation, attempt, body in events:
                    self.handle(cursor, event_id, generation, attempt, json.loads(bytes(body)))
            self.connection.commit()
            return len(events) > 0
        except (RuntimeError, Permanent) as error:
            self.connection.rollback()
            self.fail(event_id, error)
            return True

    def handle(self, cursor, event_id, generation, attempt, order):
        self.note(self.runs, event_id, attempt, os.getpid())
        cursor.execute(
            "INSERT INTO effects (event_id, generation, process) VALUES (%s, %s, %s)",
            (event_id, generation, os.getpid()),
        )
        if order["message"]:
            cursor.execute(
                "SELECT hookonce.enqueue(%s, %s, source => %s, event_id => %s)",
                (LEDGER, event_id.encode(), SOURCE, event_id),
            )
        does = order["does"]
        if does == "fail twice":
            if attempt <= 2:
                raise RuntimeError("this attempt was meant to fail")
        elif does == "panic":
            raise RuntimeError("this handler was meant to panic")
        elif does == "fail for good":
            raise Permanent("this event was meant to fail for good")
        elif does in ("kill the process", "leave the process"):
            self.die(event_id, does)
        elif does != "succeed":
            raise SystemExit(f"unknown order {does!r}")

    def die(self, event_id, does):
        """Ends the process on the first run of this event.

        A consumer that crashes counts no attempt, so an event that always ended its
        process would be taken forever.
        """
        try:
            os.close(os.open(os.path.join(self.folder, "died-" + event_id), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        self.note(self.deaths, event_id, os.getpid())
        if does == "leave the process":
            os._exit(LEAVE_CODE)
        os.kill(os.getpid(), signal.SIGKILL)

    def fail(self, event_id, error):
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(
                    "SELECT hookonce.fail(%s, %s, %s, attempts => 5, first => '20 ms', max => '200 ms', permanent => %s)",
                    (SOURCE, event_id, str(error), isinstance(error, Permanent)),
                )
            self.connection.commit()
        except psycopg2.errors.LockNotAvailable:
            # Another consumer has taken the event by now, and records its outcome.
            self.connection.rollback()

    def note(self, record, *words):
        os.write(record, (" ".join(str(word) for word in words) + "\n").encode())


Consumer(sys.argv[1], sys.argv[2]).run()
