'use strict';
// Takes events from hookonce and works on them in the same transaction: each takes effect once.

const { Client } = require('pg');

const { DATABASE_URL, NEXT_API, SOURCE = 'shop', ATTEMPTS = '20', FIRST_RETRY = '10 seconds' } = process.env;
const BATCH = 10;
const CONFLICTS = ['40001', '40P01']; // serialization failure, deadlock
const LOCKED = '55P03';

async function work(db, event) {
  const paid = JSON.parse(event.body);
  // Upsert instead of insert, and set instead of add: the result is right in any order of events.
  await db.query("INSERT INTO orders VALUES ($1, $2, 'paid') ON CONFLICT (id) DO UPDATE SET state = 'paid'", [paid.order, paid.customer]);
  // Grant only if not granted yet.
  await db.query('INSERT INTO membership VALUES ($1) ON CONFLICT DO NOTHING', [paid.customer]);
  await db.query('INSERT INTO ledger VALUES ($1, $2, $3)', [event.event_id, paid.order, paid.cents]);
  if (NEXT_API) { // no ROLLBACK undoes this call; the key lets the API recognise a repeated one
    const headers = { 'Idempotency-Key': event.idempotency_key };
    const answer = await fetch(NEXT_API, { method: 'POST', headers, body: paid.order, signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(`the next API answered ${answer.status}`);
  }
}

// Takes up to n events into taken and works on them. Everything commits, or nothing does.
async function run(db, n, taken) {
  await db.query('BEGIN');
  try {
    taken.push(...(await db.query('SELECT * FROM hookonce.take($1, $2)', [SOURCE, n])).rows);
    for (const event of taken) await work(db, event);
    await db.query('COMMIT');
  } catch (error) {
    await db.query('ROLLBACK');
    throw error;
  }
  return taken.length;
}

// Takes one event, so that a failure can be attributed to it.
async function runAlone(db) {
  const taken = [];
  try {
    return await run(db, 1, taken);
  } catch (error) {
    if (taken.length === 0) throw error;
    if (CONFLICTS.includes(error.code)) return 1; // not the event's fault; it comes again
    const why = String(error).replaceAll('\0', '');
    await db.query('SELECT hookonce.fail($1, $2, $3, $4, $5)', [SOURCE, taken[0].event_id, why, ATTEMPTS, FIRST_RETRY])
      .catch((refused) => { if (refused.code !== LOCKED) throw refused; }); // another consumer has taken it since and reports its outcome
  }
  return 1;
}

async function main() {
  let stopping = false;
  let wake = () => {};
  for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => { stopping = true; wake(); });
  // If this process hangs, the server gives its events back.
  const db = new Client({ connectionString: DATABASE_URL, idle_in_transaction_session_timeout: 60_000 });
  await db.connect();
  while (!stopping) {
    const taken = [];
    try {
      if (await run(db, BATCH, taken) === 0 && !stopping) {
        await new Promise((resolve) => { const timer = setTimeout(resolve, 1000); wake = () => { clearTimeout(timer); resolve(); }; });
      }
    } catch (error) {
      if (taken.length === 0) throw error; // not an event's fault; the supervisor of this process restarts it
      for (let i = 0; i < taken.length && !stopping; i++) if (await runAlone(db) === 0) break;
    }
  }
  await db.end();
}

main().catch((error) => { console.error(error); process.exit(1); });
