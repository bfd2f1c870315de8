package sqlitestore

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

const insertQuarantine = `INSERT INTO hookonce_quarantine
		(source, body_sha256, headers, body, reason, first_at, last_at) VALUES (?, ?, ?, ?, ?, ?6, ?6)
		ON CONFLICT (source, body_sha256) DO UPDATE SET
			deliveries = deliveries + 1, last_at = max(last_at, excluded.last_at)`

// Quarantine implements driver.Store.
func (s *Store) Quarantine(ctx context.Context, p *driver.QuarantineParams) error {
	const op = "quarantine"
	for i := range p.Requests {
		if q := &p.Requests[i]; !isText(q.Source) || !isText(q.Reason) {
			return fmt.Errorf("sqlite: %s: %w: its source or reason is not valid UTF-8 or holds a NUL", op, driver.ErrBadRow)
		}
	}
	return s.writeEach(ctx, op, p.Now, len(p.Requests), func(t *writeTx, i int) error {
		q := &p.Requests[i]
		_, err := t.exec(insertQuarantine, q.Source, q.BodyHash[:], blob(q.Headers), blob(q.Body), q.Reason, t.now)
		return err
	})
}
