-- Tables on PostgreSQL, for go/thin.

-- The ids of the requests whose work is done. Rows older than the time for which hookonce keeps an event can go.
CREATE TABLE IF NOT EXISTS seen (webhook_id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
-- The work. Nothing here is unique: it happens once because the id is stored in the same transaction.
CREATE TABLE IF NOT EXISTS work (webhook_id text NOT NULL, body bytea NOT NULL);
