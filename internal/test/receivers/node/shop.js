'use strict';
// The parts around the articles' receivers: a database, the work, and the check of the signature by Stripe's SDK.

const crypto = require('node:crypto');
const { Pool } = require('pg');

const { DATABASE_URL, WEBHOOK_SECRET, LISTEN = '127.0.0.1:8080' } = process.env;
const TOLERANCE = 300; // seconds
const CONNECTIONS = 10;

const db = new Pool({ connectionString: DATABASE_URL, max: CONNECTIONS, idleTimeoutMillis: 0 });
db.on('error', () => {}); // a broken idle connection; the next query opens another one

// Stands for stripe.webhooks.constructEvent. Like Stripe's SDKs (stripe-node 23.1.0), it refuses an old signature, but
// none of the future.
function constructEvent(body, header = '', secret = WEBHOOK_SECRET) {
  const fields = header.split(',').map((field) => field.split('='));
  const time = fields.find(([name]) => name === 't')?.[1] ?? '';
  const expected = crypto.createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex');
  if (!fields.some(([name, value]) => name === 'v1' && value === expected)) {
    throw new Error('No signatures found matching the expected signature for payload');
  }
  if (Date.now() / 1000 - Number(time) > TOLERANCE) throw new Error('Timestamp outside the tolerance zone');
  return JSON.parse(body);
}

// The work of every article: one row in the table effects.
async function fulfillOrder(event) {
  await db.query('SELECT pg_sleep(0.1)');
  await db.query('INSERT INTO effects (event_id) VALUES ($1)', [event.id]);
}

async function start(app) {
  await db.query('CREATE TABLE IF NOT EXISTS processed_events (id text PRIMARY KEY)');
  await db.query('CREATE TABLE IF NOT EXISTS effects (event_id text NOT NULL)'); // no unique key: it counts
  // Open all connections, so that requests of the same moment run side by side from the beginning.
  await Promise.all(Array.from({ length: CONNECTIONS }, () => db.query('SELECT pg_sleep(0.1)')));
  const [host, port] = LISTEN.split(':');
  app.listen(Number(port), host, () => console.log(`listening on http://${LISTEN}`));
}

module.exports = { constructEvent, db, fulfillOrder, secret: WEBHOOK_SECRET, start };
