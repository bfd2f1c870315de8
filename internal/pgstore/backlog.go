package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The statements of Backlog look each name up in a partial index, and read up to a limit of rows from
// there. So their cost does not grow with the backlog. ORDER BY keeps the server from scanning the
// table until it has as many rows as the limit, which there may not be.
const (
	sourceBacklogSQL = `
SELECT n.name,
	least($2::bigint, fresh.n + tried.n), least(fresh.oldest, tried.oldest), dead.n
FROM unnest($1::text[]) n(name)
CROSS JOIN LATERAL (` + oldestEventsSQL + freshSQL + ` ORDER BY s.due_at LIMIT $2::bigint) s) fresh
CROSS JOIN LATERAL (` + oldestEventsSQL + triedSQL + ` ORDER BY s.due_at LIMIT $2::bigint) s) tried
CROSS JOIN LATERAL (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.event_state s WHERE s.source = n.name AND s.state = 3
		ORDER BY s.due_at LIMIT $2::bigint
	) s
) dead`

	oldestEventsSQL = `
	SELECT count(*) AS n, min(s.due_at) AS oldest FROM (
		SELECT s.due_at FROM {schema}.event_state s WHERE s.source = n.name AND `

	destinationBacklogSQL = `
SELECT n.name, open.n, open.oldest, dead.n
FROM unnest($1::text[]) n(name)
CROSS JOIN LATERAL (
	SELECT count(*) AS n, min(m.due_at) AS oldest FROM (
		SELECT m.due_at FROM {schema}.message m WHERE m.destination = n.name AND m.state IN (0, 1)
		ORDER BY m.due_at LIMIT $2::bigint
	) m
) open
CROSS JOIN LATERAL (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {schema}.message m WHERE m.destination = n.name AND m.state = 3
		ORDER BY m.received_at LIMIT $2::bigint
	) m
) dead`

	// tablesSizeSQL adds up the files of the tables, with their indexes and large values.
	tablesSizeSQL = `
SELECT clock_timestamp(), coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relkind = 'r'`
)

// Backlog implements [driver.Store].
func (s *Store) Backlog(ctx context.Context, p *driver.BacklogParams) (*driver.Backlog, error) {
	const op = "measuring the backlog"
	b := &driver.Backlog{}
	err := read(ctx, s.pools.Admin, op, func(r Rows) error { return r.Scan(&b.At, &b.Bytes) }, tablesSizeSQL, s.name)
	if err != nil {
		return nil, err
	}
	b.At = b.At.UTC()
	if b.Sources, err = s.backlogOf(ctx, op, s.sql.sourceBacklog, p.Sources, p.Limit); err != nil {
		return nil, err
	}
	if b.Destinations, err = s.backlogOf(ctx, op, s.sql.destinationBacklog, p.Destinations, p.Limit); err != nil {
		return nil, err
	}
	return b, nil
}

func (s *Store) backlogOf(ctx context.Context, op, sql string, names []string, limit int) (map[string]driver.Waiting, error) {
	all := make(map[string]driver.Waiting, len(names))
	if len(names) == 0 {
		return all, nil
	}
	err := read(ctx, s.pools.Admin, op, func(r Rows) error {
		var name string
		var w driver.Waiting
		var oldest *time.Time
		err := r.Scan(&name, &w.Open, &oldest, &w.Dead)
		w.OldestDueAt = timeOf(oldest)
		all[name] = w
		return err
	}, sql, names, int64(limit))
	return all, err
}
