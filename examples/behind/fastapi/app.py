"""An application behind hookonce: it does the work of each webhook-id once."""
import base64, contextlib, hmac, json, os, sqlite3, time

from fastapi import Depends, FastAPI, HTTPException, Request

app, key = FastAPI(), base64.b64decode(os.environ["APP_SECRET"].removeprefix("whsec_"))


async def verified(request: Request):
    id, at, signatures = (request.headers.get("webhook-" + name, "") for name in ("id", "timestamp", "signature"))
    body = b""  # the raw body: the signature covers its bytes
    async for part in request.stream():
        body += part
        if len(body) > 1 << 20:
            raise HTTPException(413)
    right = b"v1," + base64.b64encode(hmac.digest(key, f"{id}.{at}.".encode() + body, "sha256"))
    fits = any([hmac.compare_digest(right, signature) for signature in signatures.encode().split()])
    if not fits or not at.isdecimal() or abs(time.time() - int(at)) > 300:
        raise HTTPException(401)
    with contextlib.suppress(ValueError):
        json.loads(body)
        return id, body
    raise HTTPException(400)


@app.post("/hooks")
def hooks(event=Depends(verified)):  # an exception is answered 500, and hookonce sends it again
    with contextlib.closing(sqlite3.connect(os.environ.get("DATABASE", "app.db"))) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS seen (webhook_id TEXT PRIMARY KEY)")
        db.execute("CREATE TABLE IF NOT EXISTS work (webhook_id TEXT, body BLOB)")
        if db.execute("INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING", event[:1]).rowcount:
            db.execute("INSERT INTO work VALUES (?, ?)", event)  # else the work was done before: 200 again
