'use strict';
// "Insert the id first, or SET it with NX in Redis: the unique key decides." Here the key is PostgreSQL's. Like
// a SET in Redis, the insert stays when the work behind it fails.

const express = require('express');
const { constructEvent, db, fulfillOrder, start } = require('./shop');

const app = express();

async function setIfAbsent(id) {
  const { rowCount } = await db.query('INSERT INTO processed_events (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
  return rowCount === 1;
}

app.post('/webhook', express.raw({ type: 'application/json' }), async (req, res) => {
  let event;
  try {
    event = constructEvent(req.body, req.headers['stripe-signature']);
  } catch (err) {
    return res.status(400).send(`Webhook Error: ${err.message}`);
  }
  if (!(await setIfAbsent(event.id))) return res.json({ received: true, duplicate: true });
  await fulfillOrder(event);
  res.json({ received: true });
});

start(app);
