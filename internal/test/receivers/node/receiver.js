'use strict';
// A receiver of Stripe's webhooks on PostgreSQL: each event takes effect once. FAULT names one fault to build in, as a
// lesson. Read it without the faults first: verify, then once.

const crypto = require('node:crypto');
const express = require('express');
const { Pool } = require('pg');

const { DATABASE_URL, WEBHOOK_SECRET, LISTEN = '127.0.0.1:8080', FAULT = '' } = process.env;
const TOLERANCE = 300; // seconds, as in Stripe's own libraries
const LIMIT = '1mb';
const CONNECTIONS = 10;

const TABLES = `
  CREATE TABLE IF NOT EXISTS events (id text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE IF NOT EXISTS effects (event_id text NOT NULL); -- no unique key: it counts`;

const pool = new Pool({ connectionString: DATABASE_URL, max: CONNECTIONS, idleTimeoutMillis: 0 });
pool.on('error', () => {}); // a broken idle connection; the next query opens another one

// The request is refused; the sender is at fault.
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Checks the signature over the bytes as they came. A signature over bytes that were parsed and written again fails as
// soon as the sender writes a space, a number or a letter differently.
function verify(header, body) {
  if (FAULT === 'no-signature-check') return;
  if (FAULT === 'parsed-json') body = Buffer.from(JSON.stringify(parse(body)));
  const fields = header.split(',').map((field) => field.split('='));
  const time = fields.find(([name]) => name === 't')?.[1] ?? '';
  const expected = crypto.createHmac('sha256', WEBHOOK_SECRET).update(`${time}.`).update(body).digest('hex');
  const right = fields.some(([name, value = '']) => name === 'v1' && equal(value, expected));
  if (!right) throw new Refused(401, 'wrong signature');
  if (FAULT === 'no-timestamp-window') return;
  const age = Date.now() / 1000 - Number(time); // NaN, if it is no number, is within no limits
  const inTime = age <= TOLERANCE && (age >= -TOLERANCE || FAULT === 'future-accepted');
  if (!inTime) throw new Refused(401, 'the signed time is too far away');
}

// Takes the same time for all wrong signatures.
function equal(a, b) {
  return a.length === b.length && crypto.timingSafeEqual(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'));
}

function parse(body) {
  try {
    return JSON.parse(body);
  } catch {
    throw new Refused(400, 'the body is not JSON');
  }
}

function idOf(event, body) {
  if (FAULT === 'body-hash') return crypto.createHash('sha256').update(body).digest('hex');
  if (typeof event?.id !== 'string') throw new Refused(400, 'the event has no id');
  return event.id;
}

// The work: one row in the table effects. It takes a moment, as work does.
async function work(db, event) {
  if (FAULT === 'slow-work') block(400);
  await db.query('SELECT pg_sleep(0.1)');
  await db.query('INSERT INTO effects (event_id) VALUES ($1)', [event.id]);
}

// Stands for a slow calculation or a synchronous call: no other request runs meanwhile.
function block(milliseconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

async function transaction(steps) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const result = await steps(db);
    await db.query('COMMIT');
    db.release();
    return result;
  } catch (error) {
    db.release(true); // closing the connection rolls back
    throw error;
  }
}

const CLAIM = 'INSERT INTO events (id) VALUES ($1) ON CONFLICT DO NOTHING';
const KNOWN = 'SELECT 1 FROM events WHERE id = $1';

// The right way: the id goes first, under a unique key, in the transaction of the work. A copy that comes at the same
// time waits there for the commit. If the work fails, the id is gone with it, and the sender's retry begins again.
function once(id, event) {
  return transaction(async (db) => {
    const { rowCount } = await db.query(CLAIM, [id]);
    if (rowCount === 0) return 'duplicate';
    await work(db, event);
    return 'ok';
  });
}

const seen = new Set(); // of in-memory

const faulty = {
  // Two copies look before either has written.
  'check-then-act': async (id, event) => {
    const { rowCount } = await pool.query(KNOWN, [id]);
    if (rowCount > 0) return 'duplicate';
    return transaction(async (db) => {
      await work(db, event);
      await db.query(CLAIM, [id]);
      return 'ok';
    });
  },
  // The id is committed when the work fails, so the retry is taken for a duplicate.
  'claim-before-work': async (id, event) => {
    const { rowCount } = await pool.query(CLAIM, [id]);
    if (rowCount === 0) return 'duplicate';
    await work(pool, event);
    return 'ok';
  },
  // The work is committed before the id: a copy, or a crash in between, repeats it.
  'claim-after-work': async (id, event) => {
    const { rowCount } = await pool.query(KNOWN, [id]);
    if (rowCount > 0) return 'duplicate';
    await work(pool, event);
    await pool.query(CLAIM, [id]);
    return 'ok';
  },
  // The unique key holds, but its error becomes the answer, and the sender tries again for days.
  'error-on-duplicate': (id, event) => transaction(async (db) => {
    await db.query('INSERT INTO events (id) VALUES ($1)', [id]);
    await work(db, event);
    return 'ok';
  }),
  // A restart forgets, and a second process never knew.
  'in-memory': async (id, event) => {
    if (seen.has(id)) return 'duplicate';
    seen.add(id);
    try {
      await transaction((db) => work(db, event));
    } catch (error) {
      seen.delete(id);
      throw error;
    }
    return 'ok';
  },
};
const take = faulty[FAULT] ?? once;

const app = express();

app.post('/webhook', express.raw({ type: () => true, limit: LIMIT }), async (request, response) => {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0); // it is undefined without a body
  verify(request.get('Stripe-Signature') ?? '', body);
  const event = parse(body);
  const status = await take(idOf(event, body), event);
  response.json({ status }); // after the commit: a 2xx says that the sender may forget the event
});

// A 4xx says that the request is bad and stays bad: some senders never send it again. Trouble of our own is a 5xx.
app.use((error, request, response, next) => {
  const status = error.status ?? (FAULT === '4xx-on-trouble' ? 400 : 500);
  if (!error.status) console.error(error.message);
  response.status(status).json({ error: status < 500 ? error.message : 'try again later' });
});

async function main() {
  await pool.query(TABLES);
  // Open all connections, so that requests of the same moment run side by side from the beginning.
  await Promise.all(Array.from({ length: CONNECTIONS }, () => pool.query('SELECT pg_sleep(0.1)')));
  const [host, port] = LISTEN.split(':');
  app.listen(Number(port), host, () => console.log(`listening on http://${LISTEN}`));
}

main().catch((error) => { console.error(error); process.exit(1); });
