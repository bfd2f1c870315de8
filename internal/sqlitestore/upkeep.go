package sqlitestore

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

const (
	reopenState = `UPDATE hookonce_event_state
		SET state = 0, generation = generation + 1, attempts = 0, due_at = ?, failed_at = NULL, note = ''
		WHERE key = ? AND state = 3`

	// All dead messages of an event get one generation, that of the event.
	reopenMessages = `UPDATE hookonce_message
		SET state = 0, attempts = 0, due_at = ?1, failed_at = NULL, note = '',
			generation = (SELECT max(generation) + 1 FROM hookonce_message WHERE event_key = ?2)
		WHERE event_key = ?2 AND state = 3
			AND EXISTS (SELECT 1 FROM hookonce_event_overview WHERE key = ?2 AND work = 0 AND state = 'dead')`

	countDelivery = `INSERT INTO hookonce_delivery_count (key, duplicates, other_bodies, repeats, last_at)
		SELECT key, ?2, ?3, ?4, CASE WHEN ?2 > 0 THEN ?5 END FROM hookonce_event WHERE key = ?1
		ON CONFLICT (key) DO UPDATE SET
			duplicates = duplicates + excluded.duplicates,
			other_bodies = other_bodies + excluded.other_bodies,
			repeats = repeats + excluded.repeats,
			last_at = coalesce(max(last_at, excluded.last_at), last_at, excluded.last_at)`

	insertQuarantine = `INSERT INTO hookonce_quarantine
		(source, body_sha256, headers, body, reason, first_at, last_at) VALUES (?, ?, ?, ?, ?, ?6, ?6)
		ON CONFLICT (source, body_sha256) DO UPDATE SET
			deliveries = deliveries + 1, last_at = max(last_at, excluded.last_at)`
)

// Reopen implements driver.Store.
func (s *Store) Reopen(ctx context.Context, p *driver.ReopenParams) ([]driver.Key, error) {
	if len(p.Keys) == 0 {
		return nil, nil
	}
	var reopened []driver.Key
	err := s.write(ctx, "reopen", func(t *writeTx) error {
		now := clock(p.Now)
		for _, key := range p.Keys {
			if err := t.alive(); err != nil {
				return err
			}
			changed, err := t.exec(reopenState, now, key[:])
			if err == nil && changed == 0 {
				changed, err = t.exec(reopenMessages, now, key[:])
			}
			if err != nil {
				return err
			}
			if changed > 0 {
				reopened = append(reopened, key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reopened, nil
}

// CountDeliveries implements driver.Store.
func (s *Store) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	if len(p.Counts) == 0 {
		return nil
	}
	return s.write(ctx, "count deliveries", func(t *writeTx) error {
		now := clock(p.Now)
		for i := range p.Counts {
			if err := t.alive(); err != nil {
				return err
			}
			c := &p.Counts[i]
			if _, err := t.exec(countDelivery, c.Key[:], c.Duplicates, c.OtherBodies, c.Repeats, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Quarantine implements driver.Store.
func (s *Store) Quarantine(ctx context.Context, p *driver.QuarantineParams) error {
	const op = "quarantine"
	for i := range p.Requests {
		if q := &p.Requests[i]; !isText(q.Source) || !isText(q.Reason) {
			return fmt.Errorf("sqlite: %s: %w: its source or reason is not valid UTF-8 or holds a NUL", op, driver.ErrBadRow)
		}
	}
	if len(p.Requests) == 0 {
		return nil
	}
	return s.write(ctx, op, func(t *writeTx) error {
		now := clock(p.Now)
		for i := range p.Requests {
			if err := t.alive(); err != nil {
				return err
			}
			q := &p.Requests[i]
			_, err := t.exec(insertQuarantine, q.Source, q.BodyHash[:], blob(q.Headers), blob(q.Body), q.Reason, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
