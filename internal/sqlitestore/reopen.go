package sqlitestore

import (
	"context"

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
)

// Reopen implements driver.Store. Nothing is skipped for being locked: who
// reopens has the only lock there is.
func (s *Store) Reopen(ctx context.Context, p *driver.ReopenParams) ([]driver.Key, error) {
	var reopened []driver.Key
	err := s.writeEach(ctx, "reopen", p.Now, len(p.Keys), func(t *writeTx, i int) error {
		key := p.Keys[i]
		changed, err := t.exec(reopenState, t.now, key[:])
		if err == nil && changed == 0 {
			changed, err = t.exec(reopenMessages, t.now, key[:])
		}
		if changed > 0 {
			reopened = append(reopened, key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return reopened, nil
}
