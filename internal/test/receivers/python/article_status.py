#!/usr/bin/env python3
"""The articles' "mark as processing, run the handler, mark as processed": a table with a status."""
from fastapi import HTTPException, Request

from shop import app, construct_event, fulfill_order, serve


async def set_status(event_id, status):
    await app.state.pool.execute(
        "INSERT INTO processed_events (id, status) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET status = $2",
        event_id, status)


@app.post("/webhook")
async def webhook(request: Request):
    payload = await request.body()
    try:
        event = construct_event(payload, request.headers.get("stripe-signature"))
    except ValueError as error:
        raise HTTPException(status_code=400, detail=str(error))
    status = await app.state.pool.fetchval("SELECT status FROM processed_events WHERE id = $1", event["id"])
    if status in ("processing", "processed"):
        return {"status": "already_processed"}
    await set_status(event["id"], "processing")
    try:
        await fulfill_order(app.state.pool, event)
    except Exception:
        await set_status(event["id"], "failed")
        raise HTTPException(status_code=500, detail="Processing failed")
    await set_status(event["id"], "processed")
    return {"status": "processed"}


if __name__ == "__main__":
    serve()
