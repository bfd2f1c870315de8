#!/usr/bin/env python3
"""A receiver of Stripe's webhooks on PostgreSQL: each event takes effect once.

FAULT names one fault to build in, as a lesson. Read it without the faults first: verify, then once.
"""
import hashlib
import hmac
import json
import os
import time

import asyncpg
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

SECRET = os.environ["WEBHOOK_SECRET"].encode()
FAULT = os.environ.get("FAULT", "")
TOLERANCE = 300  # seconds, as in Stripe's own libraries
LIMIT = 1 << 20  # bytes of a body

TABLES = """
CREATE TABLE IF NOT EXISTS events (id text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS effects (event_id text NOT NULL);  -- no unique key: it counts
"""


app = FastAPI(openapi_url=None)


@app.on_event("startup")
async def connect():
    app.state.db = await asyncpg.create_pool(os.environ["DATABASE_URL"])
    await app.state.db.execute(TABLES)


async def read(request):
    """Returns the body as it came, unless it is too large."""
    body = bytearray()
    if int(request.headers.get("content-length", 0)) > LIMIT:
        raise HTTPException(413, "the body is too large")
    async for chunk in request.stream():
        body += chunk
        if len(body) > LIMIT:
            raise HTTPException(413, "the body is too large")
    return bytes(body)


def verify(header, body):
    """Checks the signature over the bytes as they came.

    A signature over bytes that were parsed and written again fails as soon as the sender writes a space, a number or a
    letter differently.
    """
    if FAULT == "no-signature-check":
        return
    if FAULT == "parsed-json":
        body = json.dumps(parse(body), separators=(",", ":")).encode()
    fields = [field.partition("=")[::2] for field in header.split(",")]
    signed_at = next((value for name, value in fields if name == "t"), "")
    expected = hmac.new(SECRET, signed_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    # As bytes: compare_digest raises an exception for strings that are not ASCII.
    if not any(name == "v1" and hmac.compare_digest(value.encode(), expected.encode()) for name, value in fields):
        raise HTTPException(401, "wrong signature")
    if FAULT == "no-timestamp-window":
        return
    age = time.time() - int(signed_at) if signed_at.isdecimal() else TOLERANCE + 1
    in_time = age <= TOLERANCE and (age >= -TOLERANCE or FAULT == "future-accepted")
    if not in_time:
        raise HTTPException(401, "the signed time is too far away")


def parse(body):
    try:
        return json.loads(body)
    except ValueError:
        raise HTTPException(400, "the body is not JSON") from None


def id_of(event, body):
    if FAULT == "body-hash":
        return hashlib.sha256(body).hexdigest()
    if not isinstance(event, dict) or not isinstance(event.get("id"), str):
        raise HTTPException(400, "the event has no id")
    return event["id"]


async def work(db, event):
    """Writes one row into effects. It takes a moment, as work does."""
    if FAULT == "slow-work":
        time.sleep(0.4)  # not asyncio.sleep: no other request runs meanwhile
    await db.execute("SELECT pg_sleep(0.1)")
    await db.execute("INSERT INTO effects (event_id) VALUES ($1)", event["id"])


CLAIM = "INSERT INTO events (id) VALUES ($1) ON CONFLICT DO NOTHING"
KNOWN = "SELECT 1 FROM events WHERE id = $1"


async def once(pool, event_id, event):
    """The right way: the id goes first, under a unique key, in the transaction of the work.

    A copy that comes at the same time waits there for the commit. If the work fails, the id is gone with it, and the
    sender's retry begins again.
    """
    async with pool.acquire() as db, db.transaction():
        if await db.execute(CLAIM, event_id) == "INSERT 0 0":
            return "duplicate"
        await work(db, event)
    return "ok"


async def check_then_act(pool, event_id, event):
    """Two copies look before either has written."""
    if await pool.fetchval(KNOWN, event_id):
        return "duplicate"
    async with pool.acquire() as db, db.transaction():
        await work(db, event)
        await db.execute(CLAIM, event_id)
    return "ok"


async def claim_before_work(pool, event_id, event):
    """The id is committed when the work fails, so the retry is taken for a duplicate."""
    if await pool.execute(CLAIM, event_id) == "INSERT 0 0":
        return "duplicate"
    await work(pool, event)
    return "ok"


async def claim_after_work(pool, event_id, event):
    """The work is committed before the id: a copy, or a crash in between, repeats it."""
    if await pool.fetchval(KNOWN, event_id):
        return "duplicate"
    await work(pool, event)
    await pool.execute(CLAIM, event_id)
    return "ok"


async def error_on_duplicate(pool, event_id, event):
    """The unique key holds, but its error becomes the answer, and the sender tries again for days."""
    async with pool.acquire() as db, db.transaction():
        await db.execute("INSERT INTO events (id) VALUES ($1)", event_id)
        await work(db, event)
    return "ok"


seen = set()


async def in_memory(pool, event_id, event):
    """A restart forgets, and a second process never knew."""
    if event_id in seen:
        return "duplicate"
    seen.add(event_id)
    try:
        async with pool.acquire() as db, db.transaction():
            await work(db, event)
    except BaseException:
        seen.discard(event_id)
        raise
    return "ok"


FAULTY = {
    "check-then-act": check_then_act,
    "claim-before-work": claim_before_work,
    "claim-after-work": claim_after_work,
    "error-on-duplicate": error_on_duplicate,
    "in-memory": in_memory,
}
take = FAULTY.get(FAULT, once)


@app.post("/webhook")
async def receive(request: Request):
    body = await read(request)
    verify(request.headers.get("stripe-signature", ""), body)
    event = parse(body)
    status = await take(app.state.db, id_of(event, body), event)
    return {"status": status}  # after the commit: a 2xx says that the sender may forget the event


@app.exception_handler(Exception)
async def trouble(request, error):
    """A 4xx says that the request is bad and stays bad: some senders never send it again. Trouble here is a 5xx."""
    return JSONResponse({"error": "try again later"}, 400 if FAULT == "4xx-on-trouble" else 500)


if __name__ == "__main__":
    host, port = os.environ.get("LISTEN", "127.0.0.1:8080").rsplit(":", 1)
    uvicorn.run(app, host=host, port=int(port), access_log=False)
