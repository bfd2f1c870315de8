// An application behind hookonce: it does the work of each webhook-id once.
import express from 'express'
import pg from 'pg'
import { Webhook } from 'standardwebhooks'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', console.error)
const hook = new Webhook(process.env.APP_SECRET)
const raw = express.raw({ type: () => true, limit: '1mb' }) // the raw body: the signature covers its bytes

express().post('/hooks', raw, async (req, res) => {
  try { hook.verify(req.body, req.headers) /* parses the JSON, too */ } catch { return res.sendStatus(401) }
  const id = req.headers['webhook-id']
  const db = await pool.connect().catch(console.error)
  if (!db) return res.sendStatus(503)
  try {
    await db.query('BEGIN')
    const first = await db.query('INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING', [id])
    if (first.rowCount) await db.query('INSERT INTO work VALUES ($1, $2)', [id, req.body])
    await db.query('COMMIT')
    res.sendStatus(200) // if the work was done before, too
  } catch (error) {
    console.error(error)
    await db.query('ROLLBACK').catch(() => {})
    res.sendStatus(503) // hookonce sends it again
  } finally { db.release() }
}).listen(process.env.PORT, '127.0.0.1', () => console.log(`http://127.0.0.1:${process.env.PORT}`))
