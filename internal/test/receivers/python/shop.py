"""The parts around the articles' receivers: a database, the work, and the check of the signature by Stripe's SDK."""
import hashlib
import hmac
import json
import os
import time

import asyncpg
import uvicorn
from fastapi import FastAPI

SECRET = os.environ["WEBHOOK_SECRET"]
TOLERANCE = 300  # seconds

TABLES = """
CREATE TABLE IF NOT EXISTS processed_events (id text PRIMARY KEY, status text NOT NULL DEFAULT 'processed');
CREATE TABLE IF NOT EXISTS effects (event_id text NOT NULL);  -- no unique key: it counts
"""

app = FastAPI(openapi_url=None)


@app.on_event("startup")
async def connect():
    app.state.pool = await asyncpg.create_pool(os.environ["DATABASE_URL"])
    await app.state.pool.execute(TABLES)


def construct_event(payload, sig_header):
    """Stands for stripe.Webhook.construct_event, which refuses an old signature, but none of the future."""
    fields = [field.partition("=")[::2] for field in (sig_header or "").split(",")]
    signed_at = next((value for name, value in fields if name == "t"), "")
    expected = hmac.new(SECRET.encode(), signed_at.encode() + b"." + payload, hashlib.sha256).hexdigest()
    if not any(name == "v1" and hmac.compare_digest(value.encode(), expected.encode()) for name, value in fields):
        raise ValueError("No signatures found matching the expected signature for payload")
    if int(signed_at) < time.time() - TOLERANCE:
        raise ValueError("Timestamp outside the tolerance zone")
    return json.loads(payload)


async def fulfill_order(db, event):
    """The work of every article: one row in the table effects."""
    await db.execute("SELECT pg_sleep(0.1)")
    await db.execute("INSERT INTO effects (event_id) VALUES ($1)", event["id"])


def serve():
    host, port = os.environ.get("LISTEN", "127.0.0.1:8080").rsplit(":", 1)
    uvicorn.run(app, host=host, port=int(port), access_log=False)
