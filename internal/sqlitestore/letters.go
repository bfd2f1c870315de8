package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

const (
	replayDeadEvent = `UPDATE hookonce_event_state SET ` + stateAgain + byOperator + `
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3) AND state = 3 AND undecided = 0` + notEnded + kept

	replayDeadMessage = `UPDATE hookonce_message SET ` + messageAgain + byOperator + `
		WHERE id = ?4 AND event = (SELECT id FROM hookonce_event WHERE key = ?3) AND state = 3` + kept

	selectDeadEvent   = `SELECT failed_at, note FROM hookonce_event_state WHERE id = (SELECT id FROM hookonce_event WHERE key = ?) AND state = 3`
	selectDeadMessage = `SELECT failed_at, note FROM hookonce_message WHERE id = ? AND event = (SELECT id FROM hookonce_event WHERE key = ?) AND state = 3`

	// A discarded letter no longer counts as failed. Its last error stays. ended records a
	// NoteTxEnded that is replaced, because a replay must still name that note.
	discardEvent = `UPDATE hookonce_event_state SET state = 4, ended = (note = '` + driver.NoteTxEnded + `'), note = ?, failed_at = NULL
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?) AND state = 3 RETURNING generation`

	discardMessage = `UPDATE hookonce_message SET state = 4, note = ?, failed_at = NULL
		WHERE id = ? AND event = (SELECT id FROM hookonce_event WHERE key = ?) AND state = 3 RETURNING generation`

	selectRetryable = `SELECT m.event_key, m.state, m.generation, e.body IS NULL
		FROM hookonce_message m JOIN hookonce_event e ON e.id = m.event WHERE m.` + ofID

	// A message that is due already keeps its place in the line.
	hurryMessage = `UPDATE hookonce_message SET due_at = min(due_at, ?5) WHERE ` + ofID
)

// ReplayDead implements driver.Store, in one transaction: a caller with many letters passes some
// hundred at a time, so that claims get in between. If a letter is named twice, the second one is
// no longer dead.
func (s *Store) ReplayDead(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	return s.eachLetter(ctx, "replaying dead letters", p, (*writeTx).replayer)
}

// replayer returns a function that replays one letter after the other. All letters of an event get the
// same generation.
func (t *writeTx) replayer(operation string) func(*driver.DeadLetterRef) (bool, error) {
	generations := make(map[driver.Key]int)
	return func(l *driver.DeadLetterRef) (done bool, err error) {
		generation, known := generations[l.Key]
		if !known {
			if generation, err = t.nextGeneration(l.Key); err != nil {
				return false, err
			}
			generations[l.Key] = generation
		}
		return t.replayDead(l, generation, operation)
	}
}

// Discard implements driver.Store, in one transaction like ReplayDead.
func (s *Store) Discard(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	return s.eachLetter(ctx, "discarding dead letters", p, (*writeTx).discarder)
}

func (s *Store) eachLetter(
	ctx context.Context, op string, p *driver.DeadLetterParams, worker func(*writeTx, string) func(*driver.DeadLetterRef) (bool, error),
) ([]bool, error) {
	done := make([]bool, len(p.Letters))
	var do func(*driver.DeadLetterRef) (bool, error)
	err := s.writeEach(ctx, op, p.Now, len(p.Letters), func(t *writeTx, i int) (err error) {
		if do == nil {
			do = worker(t, p.Operation)
		}
		done[i], err = do(&p.Letters[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func (t *writeTx) replayDead(l *driver.DeadLetterRef, generation int, operation string) (bool, error) {
	query, args := replayDeadEvent, []any{generation, t.now, l.Key[:]}
	entry := historyEntry{key: l.Key, action: driver.ActionReplayed, generation: generation, messageID: l.MessageID, operation: operation}
	if l.MessageID != "" {
		query, args = replayDeadMessage, []any{generation, t.now, l.Key[:], l.MessageID}
		entry.messages = 1
	}
	changed, err := t.exec(query, args...)
	if err != nil || changed == 0 {
		return false, err
	}
	if err := t.settleIDs([]string{l.Place()}); err != nil {
		return false, err
	}
	return true, t.record(&entry)
}

// discarder returns a function that discards one letter. The history keeps the time of failure and the
// note, so that the discard can be undone.
func (t *writeTx) discarder(operation string) func(*driver.DeadLetterRef) (bool, error) {
	return func(l *driver.DeadLetterRef) (bool, error) {
		before, query, args := selectDeadEvent, discardEvent, []any{l.Key[:]}
		if l.MessageID != "" {
			before, query, args = selectDeadMessage, discardMessage, []any{l.MessageID, l.Key[:]}
		}
		entry := historyEntry{key: l.Key, action: driver.ActionDiscarded, messageID: l.MessageID, operation: operation}
		err := t.queryRow(before, args...).Scan(&entry.failedAt, &entry.note)
		if err == nil {
			err = t.queryRow(query, append([]any{driver.NoteDiscarded}, args...)...).Scan(&entry.generation)
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return false, nil
		case err != nil:
			return false, err
		}
		if err := t.settleIDs([]string{l.Place()}); err != nil {
			return false, err
		}
		return true, t.record(&entry)
	}
}

// RetryMessage implements driver.Store. A message that is being sent fails with ErrOpen, even if
// its lease ran out: it is due then anyway.
func (s *Store) RetryMessage(ctx context.Context, p *driver.RetryMessageParams) error {
	return s.writeEach(ctx, "retrying a message", p.Now, 1, func(t *writeTx, _ int) error { return t.retry(p.ID) })
}

func (t *writeTx) retry(id string) error {
	var key []byte
	var state int
	var bodyPruned bool
	entry := historyEntry{messageID: id, messages: 1}
	switch err := t.queryRow(selectRetryable, idArgs(id)...).Scan(&key, &state, &entry.generation, &bodyPruned); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: there is no such message", driver.ErrNotFound)
	case err != nil:
		return err
	}
	copy(entry.key[:], key)
	switch {
	case state == stateRunning:
		return driver.ErrOpen
	case state == stateDone:
		return driver.ErrSent
	case bodyPruned:
		return driver.ErrBodyPruned
	case state == statePending:
		entry.action = driver.ActionRetried
		if _, err := t.exec(hurryMessage, idArgs(id, t.now)...); err != nil {
			return err
		}
		return t.record(&entry)
	}
	generation, err := t.nextGeneration(entry.key)
	if err != nil {
		return err
	}
	if err := t.reset(entry.key, id, generation); err != nil {
		return err
	}
	if err := t.settleIDs([]string{id}); err != nil {
		return err
	}
	entry.action, entry.generation = driver.ActionReplayed, generation
	return t.record(&entry)
}
