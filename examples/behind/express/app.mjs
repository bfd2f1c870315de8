// An application behind hookonce: it does the work of each webhook-id once.
import express from 'express'
import Database from 'libsql' // SQLite; better-sqlite3 has the same functions
import { Webhook } from 'standardwebhooks'

const hook = new Webhook(process.env.APP_SECRET)
const db = new Database(process.env.DATABASE || 'app.db', { timeout: 5000 })
db.exec(`CREATE TABLE IF NOT EXISTS seen (webhook_id TEXT PRIMARY KEY);
  CREATE TABLE IF NOT EXISTS work (webhook_id TEXT, body TEXT)`)
const once = db.transaction((id, body) => { // throws, and undoes both, if one of them fails
  const first = db.prepare('INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING').run(id)
  if (first.changes) db.prepare('INSERT INTO work VALUES (?, ?)').run(id, body)
})
const raw = express.raw({ type: () => true, limit: '1mb' }) // the raw body: the signature covers its bytes

express().post('/hooks', raw, (req, res) => {
  try { hook.verify(req.body, req.headers) /* parses the JSON, too */ } catch { return res.sendStatus(401) }
  try {
    once.immediate(req.headers['webhook-id'], String(req.body))
    res.sendStatus(200) // if the work was done before, too
  } catch (error) {
    console.error(error)
    res.sendStatus(503) // hookonce sends it again
  }
}).listen(process.env.PORT || 3000, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}/hooks`) })
