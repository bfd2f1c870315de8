package sqlitestore

import (
	"context"

	"github.com/hookonce/hookonce/driver"
)

const (
	reopenState = `UPDATE hookonce_event_state SET ` + stateAgain + bySender + `
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3) AND state = 3 AND undecided = 0` + notEnded + kept

	// A condition on dead events: no handler ended its transaction.
	notEnded = ` AND note <> '` + driver.NoteTxEnded + `'`

	// A condition on events: the body was not removed by redacting.
	kept = ` AND EXISTS (SELECT 1 FROM hookonce_event WHERE key = ?3 AND body IS NOT NULL)`

	// All dead messages of an event get the generation of the event.
	reopenMessages = `UPDATE hookonce_message SET ` + messageAgain + bySender + `
		WHERE event = (SELECT id FROM hookonce_event WHERE key = ?3) AND state = 3
			AND EXISTS (SELECT 1 FROM hookonce_event_overview WHERE key = ?3 AND work = 0 AND state = 'dead')` + kept
)

// reopenPlaces puts the open messages of an event back into their lines, where they keep later ones waiting.
const reopenPlaces = `UPDATE hookonce_ordered_message SET state = 0
	WHERE state > 0 AND number IN (SELECT number FROM hookonce_message WHERE event = (SELECT id FROM hookonce_event WHERE key = ?) AND state = 0)`

// Reopen implements driver.Store. It skips no event, because it holds the only lock.
func (s *Store) Reopen(ctx context.Context, p *driver.ReopenParams) (reopened, held []driver.Key, err error) {
	err = s.writeEachApart(ctx, "reopening dead events", p.Now, len(p.Keys), func(t *writeTx, i int) error {
		changed, err := t.reopen(p.Keys[i])
		if changed {
			reopened = append(reopened, p.Keys[i])
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return reopened, nil, nil
}

// reopen makes one dead event due again, and reports whether it was dead.
func (t *writeTx) reopen(key driver.Key) (bool, error) {
	generation, err := t.nextGeneration(key)
	if err != nil {
		return false, err
	}
	entry := historyEntry{key: key, action: driver.ActionReopened, generation: generation}
	events, err := t.exec(reopenState, generation, t.now, key[:])
	if err != nil {
		return false, err
	}
	if events == 0 {
		messages, err := t.exec(reopenMessages, generation, t.now, key[:])
		if err != nil || messages == 0 {
			return false, err
		}
		entry.messages = int(messages)
		if _, err := t.exec(reopenPlaces, key[:]); err != nil {
			return false, err
		}
	} else if err := t.settleIDs([]string{driver.EventPlace(key)}); err != nil {
		return false, err
	}
	return true, t.record(&entry)
}
