package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

var addRefusedSQL = statement(`
INSERT INTO {schema}.refused (key, error_id, at, source, reason, status, method, remote, gateway, headers, body, body_size)
SELECT *
FROM unnest($1::bytea[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::text[], $9::text[],
	$10::bytea[], $11::bytea[], $12::bigint[]) AS i (key, error_id, at, source, reason, status, method, remote, gateway, headers, body, body_size)
ORDER BY key
ON CONFLICT (key) DO NOTHING`)

// trimRefusedSQL keeps the newest $2 rows of each of the sources $1. It passes over rows that another
// process is removing.
var trimRefusedSQL = statement(`
DELETE FROM {schema}.refused WHERE ctid = ANY (ARRAY(
	SELECT old.place
	FROM unnest($1::text[]) AS s (source)
	CROSS JOIN LATERAL (
		SELECT r.at, r.key FROM {schema}.refused r WHERE r.source = s.source
		ORDER BY r.at DESC, r.key DESC OFFSET $2::int LIMIT 1
	) first
	CROSS JOIN LATERAL (
		SELECT r.ctid AS place
		FROM {schema}.refused r
		WHERE r.source = s.source AND (r.at, r.key) <= (first.at, first.key)
		FOR UPDATE SKIP LOCKED
	) old
))`)

// AddRefused implements [driver.Store].
func (s *Store) AddRefused(ctx context.Context, p *driver.AddRefusedParams) error {
	const op = "adding refused requests"
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if len(p.Requests) == 0 {
		return nil
	}
	var keys, headers, bodies [][]byte
	var ids, sources, reasons, methods, remotes, gateways, distinct []string
	var at []*time.Time
	var statuses []int32
	var sizes []int64
	for i := range p.Requests {
		r := &p.Requests[i]
		key := r.Key()
		keys, headers, bodies = append(keys, key[:]), append(headers, notNil(r.Headers)), append(bodies, notNil(r.Body))
		ids, sources, reasons = append(ids, r.ErrorID), append(sources, r.Source), append(reasons, r.Reason)
		methods, remotes, gateways = append(methods, r.Method), append(remotes, r.Remote), append(gateways, r.Gateway)
		at, statuses, sizes = append(at, &r.At), append(statuses, int32(r.Status)), append(sizes, r.BodySize)
		if !slices.Contains(distinct, r.Source) {
			distinct = append(distinct, r.Source)
		}
	}
	err := s.pools.Receive.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		if err := scan(ctx, conn, noRows, s.text(addRefusedSQL), keys, ids, at, sources, reasons, statuses, methods, remotes, gateways,
			headers, bodies, sizes); err != nil {
			return err
		}
		return scan(ctx, conn, noRows, s.text(trimRefusedSQL), distinct, int32(driver.MaxRefused))
	})
	return writeFailed(s.pools.Receive, op, err)
}

// refusedSQL returns the query of a listing, and false if no row can match.
func (s *Store) refusedSQL(f *driver.RefusedFilter) (sql string, args []any, possible bool) {
	where := newCondition()
	possible = where.equal("source", f.Source) && where.equal("reason", f.Reason) && where.equal("remote", f.Remote) && where.equal("error_id", f.ErrorID)
	if f.ErrorID != "" {
		key := driver.RefusedKey(f.ErrorID) // implied by the id, and served by an index
		where.add("key = $%d::bytea", key[:])
	}
	if !f.Since.IsZero() {
		where.add("at >= $%d::timestamptz", roundUp(f.Since))
	}
	if !f.Until.IsZero() {
		where.add("at < $%d::timestamptz", roundUp(f.Until))
	}
	if !f.After.IsZero() {
		where.add("(at, key) < ($%d::timestamptz, $%d::bytea)", &f.After.At, f.After.Key[:])
	}
	sql = "SELECT error_id, " + bounded("at") + ", source, reason, status, method, remote, gateway, headers, body, body_size FROM " +
		s.schema + ".refused" + where.sql() + " ORDER BY at DESC, key DESC" + where.limit(driver.PageSize(f.Limit))
	return sql, where.args, possible
}

// Refused implements [driver.Store].
func (s *Store) Refused(ctx context.Context, f *driver.RefusedFilter) (*driver.RefusedPage, error) {
	sql, args, possible := s.refusedSQL(f)
	if !possible {
		return &driver.RefusedPage{}, nil
	}
	var rows []driver.RefusedRequest
	err := read(ctx, s.pools.Admin, "listing refused requests", func(r Rows) error {
		var q driver.RefusedRequest
		var status int32
		err := r.Scan(&q.ErrorID, &q.At, &q.Source, &q.Reason, &status, &q.Method, &q.Remote, &q.Gateway, &q.Headers, &q.Body, &q.BodySize)
		q.At, q.Status = q.At.UTC(), int(status)
		rows = append(rows, q)
		return err
	}, sql, args...)
	if err != nil {
		return nil, err
	}
	return walk.RefusedPage(rows, f.Limit), nil
}

// pruneRefusedSQL has the shared arguments $1 to $5, and $6 the size of a chunk.
var pruneRefusedSQL = statement(pruneSettingsSQL + `
, gone AS (
	DELETE FROM {schema}.refused WHERE ctid = ANY (ARRAY(
		SELECT r.ctid
		FROM {schema}.refused r
		WHERE r.at < (SELECT now FROM setting) - $5::bigint * interval '1 microsecond'
			AND r.at < (SELECT now FROM setting) - coalesce(
				(SELECT w.keep FROM windows w WHERE w.source = r.source), $4::bigint
			) * interval '1 microsecond'
		ORDER BY r.at
		LIMIT $6::int
		FOR UPDATE SKIP LOCKED
	))
	RETURNING key
)
SELECT count(*) FROM gone`)
