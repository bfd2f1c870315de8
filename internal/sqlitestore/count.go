package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

const (
	countDelivery = `INSERT INTO hookonce_delivery_count (key, duplicates, other_bodies, repeats, last_at)
		SELECT key, ?2, ?3, ?4, CASE WHEN ?2 > 0 THEN ?5 END FROM hookonce_event WHERE key = ?1
		ON CONFLICT (key) DO UPDATE SET
			duplicates = duplicates + excluded.duplicates,
			other_bodies = other_bodies + excluded.other_bodies,
			repeats = repeats + excluded.repeats,
			last_at = coalesce(max(last_at, excluded.last_at), last_at, excluded.last_at)`

	countedEvent = `SELECT source, received_at FROM hookonce_event WHERE key = ?`
)

// CountDeliveries implements driver.Store.
func (s *Store) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	const op = "counting deliveries"
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	var counted []driver.CountedEvent
	err := s.writeEach(ctx, op, p.Now, len(p.Counts), func(t *writeTx, i int) error {
		c := &p.Counts[i]
		n, err := t.exec(countDelivery, c.Key[:], c.Duplicates, c.OtherBodies, c.Repeats, t.now)
		if err != nil || n == 0 {
			return err
		}
		if err := t.keepEvidence(p, c); err != nil || c.Duplicates == 0 || p.Counted == nil {
			return err
		}
		var at int64
		e := driver.CountedEvent{Key: c.Key}
		if err := t.queryRow(countedEvent, c.Key[:]).Scan(&e.Source, &at); errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		e.ReceivedAt = fromMicros(at)
		counted = append(counted, e)
		return nil
	})
	if err == nil {
		for _, e := range counted {
			p.Counted(e)
		}
	}
	return err
}
