package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The statements of Backlog look each name up in a partial index, and read up to a limit of rows from
// there. So their cost does not grow with the backlog. ORDER BY keeps the server from scanning the
// table until it has as many rows as the limit, which there may not be; see inOrderSQL too.
var (
	sourceBacklogSQL = statement(`
SELECT n.name,
	least($2::bigint, fresh.n + tried.n), least(fresh.oldest, tried.oldest), dead.n, held.n
FROM unnest($1::text[]) n(name)
CROSS JOIN LATERAL (` + oldestEventsSQL + freshSQL + ` ORDER BY s.due_at LIMIT $2::bigint) s) fresh
CROSS JOIN LATERAL (` + oldestEventsSQL + triedSQL + ` ORDER BY s.due_at LIMIT $2::bigint) s) tried
CROSS JOIN LATERAL (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.event_state s WHERE s.source COLLATE "C" >= n.name AND s.source COLLATE "C" <= n.name AND s.state = 3
		ORDER BY s.source COLLATE "C" LIMIT $2::bigint
	) s
) dead
CROSS JOIN LATERAL (` + heldSQL("chr(10) || n.name") + `) held`)

	oldestEventsSQL = `
	SELECT count(*) AS n, min(s.due_at) FILTER (WHERE s.due_at < {schema}.parked()) AS oldest FROM (
		SELECT s.due_at FROM {schema}.event_state s WHERE s.source = n.name AND `

	// Dead messages and events are compared by two bounds: only the index that begins with the name has that
	// order, while an equality would let the server read the dead ones of all names by time.
	destinationBacklogSQL = statement(`
SELECT n.name, open.n, open.oldest, dead.n, held.n
FROM unnest($1::text[]) n(name)
CROSS JOIN LATERAL (
	SELECT count(*) AS n, min(m.due_at) AS oldest FROM (
		SELECT m.due_at FROM {schema}.message m WHERE m.destination = n.name AND m.state IN (0, 1)
		ORDER BY m.due_at LIMIT $2::bigint
	) m
) open
CROSS JOIN LATERAL (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.message m WHERE m.destination >= n.name AND m.destination <= n.name AND m.state = 3
		ORDER BY m.destination, m.received_at LIMIT $2::bigint
	) m
) dead
CROSS JOIN LATERAL (` + heldSQL("n.name") + `) held`)
)

// heldSQL counts the lines of a destination that wait at a dead letter.
func heldSQL(destination string) string {
	return `
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.ordered_message l WHERE l.destination = ` + destination + ` AND l.state = 1 ORDER BY l.line LIMIT $2::bigint
	) l
`
}

const (
	// inOrderSQL makes the server read an index in its order, and stop at the limit. A server without
	// statistics of a new backlog expects few rows, and would collect and sort all of them. It must not compile a plan that
	// these settings only make look expensive.
	inOrderSQL = "SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL jit = off"

	// tablesSizeSQL adds up the files of the tables, with their indexes and large values.
	tablesSizeSQL = `
SELECT clock_timestamp(), coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relkind = 'r'`
)

// Backlog implements [driver.Store].
func (s *Store) Backlog(ctx context.Context, p *driver.BacklogParams) (*driver.Backlog, error) {
	const op = "measuring the backlog"
	var b *driver.Backlog
	err := s.pools.Admin.Transaction(ctx, Snapshot, func(conn Conn) (err error) {
		b = &driver.Backlog{}
		if err = scan(ctx, conn, func(r Rows) error { return r.Scan(&b.At, &b.Bytes) }, tablesSizeSQL, s.name); err != nil {
			return err
		}
		b.At = b.At.UTC()
		if err = conn.Script(ctx, inOrderSQL); err != nil {
			return err
		}
		if b.Sources, err = backlogOf(ctx, conn, s.text(sourceBacklogSQL), p.Sources, p.Limit); err != nil {
			return err
		}
		b.Destinations, err = backlogOf(ctx, conn, s.text(destinationBacklogSQL), p.Destinations, p.Limit)
		return err
	})
	if err != nil {
		return nil, readFailed(s.pools.Admin, op, err)
	}
	return b, nil
}

func backlogOf(ctx context.Context, conn Conn, sql string, names []string, limit int) (map[string]driver.Waiting, error) {
	all := make(map[string]driver.Waiting, len(names))
	if len(names) == 0 {
		return all, nil
	}
	err := scan(ctx, conn, func(r Rows) error {
		var name string
		var w driver.Waiting
		var oldest *time.Time
		err := r.Scan(&name, &w.Open, &oldest, &w.Dead, &w.HeldLines)
		w.OldestDueAt = timeOf(oldest)
		all[name] = w
		return err
	}, sql, names, int64(limit))
	return all, err
}
