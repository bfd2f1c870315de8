package sqlitestore

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

const countDelivery = `INSERT INTO hookonce_delivery_count (key, duplicates, other_bodies, repeats, last_at)
		SELECT key, ?2, ?3, ?4, CASE WHEN ?2 > 0 THEN ?5 END FROM hookonce_event WHERE key = ?1
		ON CONFLICT (key) DO UPDATE SET
			duplicates = duplicates + excluded.duplicates,
			other_bodies = other_bodies + excluded.other_bodies,
			repeats = repeats + excluded.repeats,
			last_at = coalesce(max(last_at, excluded.last_at), last_at, excluded.last_at)`

// CountDeliveries implements driver.Store.
func (s *Store) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	const op = "counting deliveries"
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return s.writeEach(ctx, op, p.Now, len(p.Counts), func(t *writeTx, i int) error {
		c := &p.Counts[i]
		counted, err := t.exec(countDelivery, c.Key[:], c.Duplicates, c.OtherBodies, c.Repeats, t.now)
		if err != nil || counted == 0 {
			return err
		}
		return t.keepEvidence(p, c)
	})
}
