#!/usr/bin/env python3
"""The usual receiver of tutorials about webhooks: FastAPI, asyncpg and a unique constraint, in two processes.

    receiver.py postgres://user:password@host/database 127.0.0.1:8080

WEBHOOK_SECRET is the secret of all sources. DATABASE_URL and LISTEN replace missing arguments. SIGTERM ends it.
"""
import asyncio
import hashlib
import hmac
import json
import os
import sys

import asyncpg
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

PROCESSES = 2
CONNECTIONS = 10  # of each process, asyncpg's default; 5 and 20 are as fast

TABLE = """
CREATE TABLE IF NOT EXISTS webhook_events (
    id          bigserial PRIMARY KEY,
    source      text NOT NULL,
    event_id    text NOT NULL,
    type        text NOT NULL,
    headers     jsonb NOT NULL,
    body        bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source, event_id)
)"""
INSERT = """
INSERT INTO webhook_events (source, event_id, type, headers, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (source, event_id) DO NOTHING"""

app = FastAPI(openapi_url=None)


@app.on_event("startup")
async def connect():
    # The name lets /ready count the processes: the one that answers does not know the other.
    app.state.db = await asyncpg.create_pool(
        os.environ["DATABASE_URL"], min_size=CONNECTIONS, max_size=CONNECTIONS,
        server_settings={"application_name": f"receiver-{os.getpid()}"})
    app.state.secret = os.environ["WEBHOOK_SECRET"].encode()


@app.on_event("shutdown")
async def disconnect():
    await app.state.db.close()


@app.get("/ready")
async def ready():
    up = await app.state.db.fetchval(
        "SELECT count(DISTINCT application_name) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'receiver-%'")
    return JSONResponse({"processes": up}, 200 if up == PROCESSES else 503)


@app.post("/webhooks/{source}")
async def receive(source: str, request: Request):
    body = await request.body()
    expected = "sha256=" + hmac.new(app.state.secret, body, hashlib.sha256).hexdigest()
    # As bytes: compare_digest raises an exception for strings that are not ASCII.
    if not hmac.compare_digest(expected.encode(), request.headers.get("x-hub-signature-256", "").encode()):
        return JSONResponse({"error": "bad signature"}, 401)
    event_id = request.headers.get("x-github-delivery")
    if not event_id:
        return JSONResponse({"error": "no event id"}, 400)
    done = await app.state.db.execute(
        INSERT, source, event_id, request.headers.get("x-github-event", ""), json.dumps(dict(request.headers)), body)
    status = "ok" if done == "INSERT 0 1" else "duplicate"
    return JSONResponse({"status": status, "event_id": event_id})


async def create_table():
    db = await asyncpg.connect(os.environ["DATABASE_URL"])
    await db.execute(TABLE)
    await db.close()


def main():
    # The processes get their settings from the environment.
    for name, value in zip(("DATABASE_URL", "LISTEN"), sys.argv[1:]):
        os.environ[name] = value
    asyncio.run(create_table())
    host, port = os.environ["LISTEN"].rsplit(":", 1)
    # Named, so that it fails if these are missing instead of running on the slow ones.
    uvicorn.run("receiver:app", host=host, port=int(port), workers=PROCESSES, loop="uvloop", http="httptools",
                access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
