package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

const (
	insertQuarantine = `INSERT INTO hookonce_quarantine
		(source, body_sha256, headers, body, reason, first_at, last_at) VALUES (?, ?, ?, ?, ?, ?6, ?6)
		ON CONFLICT (source, body_sha256) DO UPDATE SET
			deliveries = deliveries + 1, last_at = max(last_at, excluded.last_at)`

	selectQuarantined = `SELECT headers, body, reason, deliveries, first_at FROM hookonce_quarantine
		WHERE source = ? AND body_sha256 = ?`
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
		_, err := t.exec(insertQuarantine, q.Source, q.BodyHash[:], blob(q.Headers), blob(q.Body), q.Reason, t.now)
		return err
	})
}

// Quarantined implements driver.Store. It reads for at most 5 s.
func (s *Store) Quarantined(ctx context.Context, f *driver.QuarantineFilter) (*driver.QuarantinePage, error) {
	page := &driver.QuarantinePage{}
	limit := pageLimit(f.Limit)
	err := s.snapshot(ctx, "listing the quarantine", func(ctx context.Context, tx *sql.Tx) error {
		found, err := quarantinedPlaces(ctx, tx, f, limit+1)
		if err != nil {
			return err
		}
		page.Requests = found[:min(limit, len(found))]
		if len(found) > limit {
			last := &found[limit-1]
			page.Next = driver.Cursor{ReceivedAt: last.LastAt, Key: last.Key}
		}
		for i := range page.Requests {
			q := &page.Requests[i]
			var firstAt int64
			if err := tx.QueryRowContext(ctx, selectQuarantined, q.Source, q.BodySHA256[:]).
				Scan(&q.Headers, &q.Body, &q.Reason, &q.Count, &firstAt); err != nil {
				return err
			}
			q.FirstAt = fromMicros(firstAt)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// quarantinedPlaces returns source, body hash, key and last time of the next n requests, in order.
// SQLite cannot compute the key, so quarantinedPlaces reads all requests of a batch, which share a
// last time, and sorts them here.
func quarantinedPlaces(ctx context.Context, tx *sql.Tx, f *driver.QuarantineFilter, n int) ([]driver.QuarantinedRequest, error) {
	query, args := quarantinedQuery(f)
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []driver.QuarantinedRequest
	for rows.Next() {
		var q driver.QuarantinedRequest
		var hash []byte
		var lastAt int64
		if err := rows.Scan(&q.Source, &hash, &lastAt); err != nil {
			return nil, err
		}
		copy(q.BodySHA256[:], hash)
		q.Key, q.LastAt = driver.BodyKey(q.Source, q.BodySHA256), fromMicros(lastAt)
		if !f.After.IsZero() && compareQuarantined(q, driver.QuarantinedRequest{LastAt: f.After.ReceivedAt, Key: f.After.Key}) <= 0 {
			continue
		}
		if len(found) >= n && !q.LastAt.Equal(found[len(found)-1].LastAt) {
			break
		}
		found = append(found, q)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(found, compareQuarantined)
	return found[:min(n, len(found))], nil
}

// compareQuarantined puts the latest request first.
func compareQuarantined(a, b driver.QuarantinedRequest) int {
	return cmp.Or(b.LastAt.Compare(a.LastAt), bytes.Compare(b.Key[:], a.Key[:]))
}

func quarantinedQuery(f *driver.QuarantineFilter) (query string, args []any) {
	var c clause
	c.equal(`source`, f.Source)
	if !f.After.IsZero() {
		c.add(`last_at <= ?`, f.After.ReceivedAt.UnixMicro())
	}
	return `SELECT source, body_sha256, last_at FROM hookonce_quarantine` + c.where() + ` ORDER BY last_at DESC`, c.args
}
