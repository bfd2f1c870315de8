package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

const (
	addRefused = `INSERT INTO hookonce_refused
		(key, error_id, at, source, reason, status, method, remote, gateway, headers, body, body_size)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`

	trimRefused = `DELETE FROM hookonce_refused WHERE rowid IN (
		SELECT rowid FROM hookonce_refused WHERE source = ? ORDER BY at DESC, key DESC LIMIT -1 OFFSET ?)`

	selectRefused = `SELECT error_id, at, source, reason, status, method, remote, gateway, headers, body, body_size
		FROM hookonce_refused`

	nextRefusedSource = `SELECT source FROM hookonce_refused WHERE source > ? ORDER BY source LIMIT 1`

	findRefused = `SELECT EXISTS (SELECT 1 FROM hookonce_refused WHERE source = ? AND at < ?)`

	deleteRefused = `DELETE FROM hookonce_refused WHERE rowid IN (
		SELECT rowid FROM hookonce_refused WHERE source = ? AND at < ? ORDER BY at LIMIT ?)`
)

// AddRefused implements driver.Store.
func (s *Store) AddRefused(ctx context.Context, p *driver.AddRefusedParams) error {
	const op = "adding refused requests"
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if len(p.Requests) == 0 {
		return nil
	}
	return s.write(ctx, op, func(t *writeTx) error {
		sources := map[string]bool{}
		if err := t.each(len(p.Requests), func(t *writeTx, i int) error {
			r := &p.Requests[i]
			key := r.Key()
			sources[r.Source] = true
			_, err := t.exec(addRefused, key[:], r.ErrorID, r.At.UnixMicro(), r.Source, r.Reason, r.Status, r.Method, r.Remote, r.Gateway,
				blob(r.Headers), blob(r.Body), r.BodySize)
			return err
		}); err != nil {
			return err
		}
		for source := range sources {
			if _, err := t.exec(trimRefused, source, driver.MaxRefused); err != nil {
				return err
			}
		}
		return nil
	})
}

// refusedQuery returns the query of a listing, and its arguments except the last, the limit.
func refusedQuery(f *driver.RefusedFilter) (query string, args []any) {
	var c clause
	if f.ErrorID != "" {
		key := driver.RefusedKey(f.ErrorID)
		c.add(`key = ?`, key[:])
	}
	c.equal(`source`, f.Source)
	c.equal(`reason`, f.Reason)
	c.equal(`remote`, f.Remote)
	c.received(`at`, f.Since, f.Until)
	if !f.After.IsZero() {
		c.add(`(at, key) < (?, ?)`, f.After.At.UnixMicro(), f.After.Key[:])
	}
	return selectRefused + c.where() + ` ORDER BY at DESC, key DESC LIMIT ?`, c.args
}

// Refused implements driver.Store. It reads for at most 5 s.
func (s *Store) Refused(ctx context.Context, f *driver.RefusedFilter) (*driver.RefusedPage, error) {
	query, args := refusedQuery(f)
	all, err := listed(ctx, s, "listing refused requests", query, args, f.Limit, func(r *driver.RefusedRequest, rows *sql.Rows) error {
		var at int64
		err := rows.Scan(&r.ErrorID, &at, &r.Source, &r.Reason, &r.Status, &r.Method, &r.Remote, &r.Gateway, &r.Headers, &r.Body, &r.BodySize)
		r.At = fromMicros(at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return walk.RefusedPage(all, f.Limit), nil
}

// refused removes requests that are past the retention of their source.
func (r *pruner) refused(ctx context.Context) error {
	return r.eachSource(ctx, nextRefusedSource, func(source string) error {
		before := r.retained(source)
		return r.old(ctx, findRefused, deleteRefused, source, before)
	})
}
