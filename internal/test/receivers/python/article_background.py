#!/usr/bin/env python3
"""The articles' "answer 200 at once and do the work in the background", against slow work."""
import asyncio

from fastapi import BackgroundTasks, HTTPException, Request

from shop import app, construct_event, fulfill_order, serve


async def fulfill_later(event):
    await asyncio.sleep(1.2)  # the slow work
    await fulfill_order(app.state.pool, event)


@app.post("/webhook")
async def webhook(request: Request, background_tasks: BackgroundTasks):
    payload = await request.body()
    try:
        event = construct_event(payload, request.headers.get("stripe-signature"))
    except ValueError as error:
        raise HTTPException(status_code=400, detail=str(error))
    inserted = await app.state.pool.fetchval(
        "INSERT INTO processed_events (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id", event["id"])
    if inserted:
        background_tasks.add_task(fulfill_later, event)
    return {"received": True}


if __name__ == "__main__":
    serve()
