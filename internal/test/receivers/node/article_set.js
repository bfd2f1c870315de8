'use strict';
// "Keep the processed ids in a Set": the first example of most articles, with the signature of most first examples.

const crypto = require('node:crypto');
const express = require('express');
const { fulfillOrder, secret, start } = require('./shop');

const app = express();
app.use(express.json());

const processedEvents = new Set();

function verifySignature(req) {
  const header = req.headers['stripe-signature'] ?? '';
  const { t, v1 } = Object.fromEntries(header.split(',').map((part) => part.split('=')));
  const expected = crypto.createHmac('sha256', secret).update(`${t}.${JSON.stringify(req.body)}`).digest('hex');
  return v1 === expected;
}

app.post('/webhook', async (req, res) => {
  if (!verifySignature(req)) return res.status(401).send('Invalid signature');
  const event = req.body;
  if (processedEvents.has(event.id)) return res.status(200).send('Already processed');
  await fulfillOrder(event);
  processedEvents.add(event.id);
  res.status(200).send('OK');
});

start(app);
