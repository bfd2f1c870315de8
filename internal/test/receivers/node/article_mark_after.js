'use strict';
// "Check whether the event was processed, process it, and mark it as processed."

const express = require('express');
const { constructEvent, db, fulfillOrder, start } = require('./shop');

const app = express();

async function isEventProcessed(id) {
  const { rows } = await db.query('SELECT 1 FROM processed_events WHERE id = $1', [id]);
  return rows.length > 0;
}

async function markEventProcessed(id) {
  await db.query('INSERT INTO processed_events (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
}

app.post('/webhook', express.raw({ type: 'application/json' }), async (req, res) => {
  try {
    const event = constructEvent(req.body, req.headers['stripe-signature']);
    if (await isEventProcessed(event.id)) return res.status(200).json({ received: true });
    await fulfillOrder(event);
    await markEventProcessed(event.id);
    res.status(200).json({ received: true });
  } catch (err) {
    res.status(400).send(`Webhook Error: ${err.message}`);
  }
});

start(app);
