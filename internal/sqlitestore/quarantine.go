package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

const (
	insertQuarantine = `INSERT INTO hookonce_quarantine
		(key, source, body_sha256, part, headers, body, reason, first_at, last_at, handled) VALUES (?, ?, ?, ?, ?, ?, ?, ?8, ?8, ?9)
		ON CONFLICT (key) DO UPDATE SET
			deliveries = deliveries + 1, handled = max(handled, excluded.handled), last_at = max(last_at, excluded.last_at)`

	selectQuarantined = `SELECT key, source, body_sha256, part, headers, body, reason, handled, deliveries, first_at, last_at
		FROM hookonce_quarantine`

	selectOneQuarantined = selectQuarantined + ` WHERE key = ?`

	keepQuarantined = `UPDATE hookonce_quarantine SET reason = ? WHERE key = ?`
	dropQuarantined = `DELETE FROM hookonce_quarantine WHERE key = ?`
)

// Quarantine implements driver.Store.
func (s *Store) Quarantine(ctx context.Context, p *driver.QuarantineParams) error {
	const op = "quarantining requests"
	for i := range p.Requests {
		if q := &p.Requests[i]; !driver.IsText(q.Source) || !driver.IsText(q.Reason) {
			return fmt.Errorf("%s: %w: its source or reason is not valid UTF-8 or holds a NUL", op, driver.ErrBadRow)
		}
	}
	return s.writeEach(ctx, op, p.Now, len(p.Requests), func(t *writeTx, i int) error {
		q := &p.Requests[i]
		key := driver.BodyKey(q.Source, q.BodyHash)
		return t.insert(insertQuarantine, key[:], q.Source, q.BodyHash[:], int(q.Part), blob(q.Headers), blob(q.Body), q.Reason, t.now, q.Handled)
	})
}

// SettleQuarantined implements driver.Store.
func (s *Store) SettleQuarantined(ctx context.Context, p *driver.SettleQuarantinedParams) (found bool, err error) {
	const op = "settling a quarantined request"
	if !driver.IsText(p.Reason) {
		return false, fmt.Errorf("%s: %w: its reason is not valid UTF-8 or holds a NUL", op, driver.ErrBadRow)
	}
	err = s.write(ctx, op, func(t *writeTx) error {
		var changed int64
		var err error
		if p.Reason == "" {
			changed, err = t.exec(dropQuarantined, p.Key[:])
		} else {
			changed, err = t.exec(keepQuarantined, p.Reason, p.Key[:])
		}
		found = changed > 0
		return err
	})
	return found && err == nil, err
}

// QuarantinedRequest implements driver.Store.
func (s *Store) QuarantinedRequest(ctx context.Context, key driver.Key) (*driver.QuarantinedRequest, error) {
	var found driver.QuarantinedRequest
	err := s.snapshot(ctx, "reading a quarantined request", func(ctx context.Context, tx *sql.Tx) (err error) {
		found, err = scanQuarantined(tx.QueryRowContext(ctx, selectOneQuarantined, key[:]))
		if errors.Is(err, sql.ErrNoRows) {
			err = driver.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// Quarantined implements driver.Store. It reads for at most 5 s.
func (s *Store) Quarantined(ctx context.Context, f *driver.QuarantineFilter) (*driver.QuarantinePage, error) {
	query, args := quarantinedQuery(f)
	all, err := listed(ctx, s, "listing the quarantine", query, args, f.Limit, func(q *driver.QuarantinedRequest, rows *sql.Rows) (err error) {
		*q, err = scanQuarantined(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return walk.QuarantinePage(all, f.Limit), nil
}

func quarantinedQuery(f *driver.QuarantineFilter) (query string, args []any) {
	var c clause
	c.equal(`source`, f.Source)
	if !f.After.IsZero() {
		c.add(`(last_at, key) < (?, ?)`, f.After.At.UnixMicro(), f.After.Key[:])
	}
	return selectQuarantined + c.where() + ` ORDER BY last_at DESC, key DESC LIMIT ?`, c.args
}

// scanQuarantined reads a row of selectQuarantined.
func scanQuarantined(row interface{ Scan(...any) error }) (driver.QuarantinedRequest, error) {
	var q driver.QuarantinedRequest
	var key, hash []byte
	var part int
	var firstAt, lastAt int64
	if err := row.Scan(&key, &q.Source, &hash, &part, &q.Headers, &q.Body, &q.Reason, &q.Handled, &q.Count, &firstAt, &lastAt); err != nil {
		return q, err
	}
	copy(q.Key[:], key)
	copy(q.BodySHA256[:], hash)
	q.Part, q.FirstAt, q.LastAt = driver.Part(part), fromMicros(firstAt), fromMicros(lastAt)
	return q, nil
}
