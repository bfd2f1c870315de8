"""An application behind hookonce: it does the work of each webhook-id once."""
import base64
import hashlib
import hmac
import json
import os
import time

import psycopg2
from fastapi import Depends, FastAPI, HTTPException, Request

KEY = base64.b64decode(os.environ["APP_SECRET"].removeprefix("whsec_"))
app = FastAPI()


async def verified(request: Request):
    sent, body = request.headers, b""  # the raw body: the signature covers its bytes
    async for part in request.stream():
        body += part
        if len(body) > 1 << 20:
            raise HTTPException(413)
    ident, at = sent.get("webhook-id", ""), sent.get("webhook-timestamp", "")
    mac = hmac.new(KEY, f"{ident}.{at}.".encode() + body, hashlib.sha256).digest()
    right = b"v1," + base64.b64encode(mac)
    signatures = sent.get("webhook-signature", "").encode().split()
    fits = any([hmac.compare_digest(right, signature) for signature in signatures])
    if not fits or not at.isdecimal() or abs(time.time() - int(at)) > 300:
        raise HTTPException(401)
    try:
        json.loads(body)
    except ValueError:
        raise HTTPException(400)
    return ident, body


@app.post("/hooks")
def hooks(event=Depends(verified)):  # an exception is answered 500, and hookonce sends it again
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    try:
        with conn, conn.cursor() as db:
            db.execute("INSERT INTO seen VALUES (%s) ON CONFLICT DO NOTHING", event[:1])
            if db.rowcount:  # else the work was done before: the answer is 200 again
                db.execute("INSERT INTO work VALUES (%s, %s)", event)
    finally:
        conn.close()
