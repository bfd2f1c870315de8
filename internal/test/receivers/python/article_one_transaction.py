#!/usr/bin/env python3
"""The articles' "check, handle and mark in one transaction", which an ORM makes easy."""
from fastapi import HTTPException, Request

from shop import app, construct_event, fulfill_order, serve


async def is_event_processed(db, event_id):
    return await db.fetchval("SELECT 1 FROM processed_events WHERE id = $1", event_id) is not None


async def mark_event_processed(db, event_id):
    await db.execute("INSERT INTO processed_events (id) VALUES ($1)", event_id)


@app.post("/webhook")
async def webhook(request: Request):
    payload = await request.body()
    try:
        event = construct_event(payload, request.headers.get("stripe-signature"))
    except ValueError as error:
        raise HTTPException(status_code=400, detail=str(error))
    async with app.state.pool.acquire() as db, db.transaction():
        if await is_event_processed(db, event["id"]):
            return {"status": "already_processed"}
        await fulfill_order(db, event)
        await mark_event_processed(db, event["id"])
    return {"status": "processed"}


if __name__ == "__main__":
    serve()
