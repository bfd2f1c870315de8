package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// The token fences a lease: these statements change nothing for a lost one.
const (
	completeMessage = `UPDATE hookonce_message
		SET state = ?5, due_at = coalesce(?6, due_at), retry_in = coalesce(?6 - ?11, retry_in), status_code = ?7, last_error = ?8,
			sent_at = NULL, failed_at = ?9, signature = ?12
		WHERE ` + ofID + ` AND token = ?10 AND state = 1 RETURNING generation, attempts`

	sentMessage = `UPDATE hookonce_message
		SET state = 2, status_code = ?5, last_error = ?6, sent_at = ?7, took = ?8, failed_at = NULL, signature = ''
		WHERE ` + ofID + ` AND token = ?9 AND state = 1`

	// The message was not sent, so this was no attempt. Pruning counts from due_at.
	staleMessage = `UPDATE hookonce_message
		SET state = 4, note = ?5, attempts = attempts - 1, last_error = ?6, due_at = ?8, sent_at = NULL, failed_at = NULL
		WHERE ` + ofID + ` AND token = ?7 AND state = 1`

	insertAttempt = `INSERT INTO hookonce_attempt
		(message_id, generation, number, outcome, status_code, error, at, took) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

	// Before a sent message becomes due again, and its row forgets the attempt that sent it.
	keepSent = `INSERT INTO hookonce_attempt (message_id, generation, number, outcome, status_code, error, at, took)
		SELECT id, generation, attempts, 'sent', status_code, '', sent_at, took FROM hookonce_message
		WHERE ` + ofID + ` AND sent_at IS NOT NULL`
)

// Complete implements driver.Store. A lease that ran out is still held until another lease takes
// the message.
func (s *Store) Complete(ctx context.Context, p *driver.CompleteParams) ([]bool, error) {
	const op = "completing messages"
	for i := range p.Completions {
		c := &p.Completions[i]
		if !driver.IsText(c.Error) {
			return nil, fmt.Errorf("%s: %w: the error of message %s is not valid UTF-8 or holds a NUL", op, driver.ErrBadRow, c.ID)
		}
		if err := c.CheckResponse(); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		for _, v := range []*driver.ObjectVersion{c.Applied, c.Line} {
			if v == nil {
				continue
			}
			if err := checkVersion(v); err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
		}
	}
	held := make([]bool, len(p.Completions))
	err := s.writeEach(ctx, op, p.Now, len(p.Completions), func(t *writeTx, i int) (err error) {
		c := &p.Completions[i]
		if held[i], err = t.complete(c); err != nil || c.Line == nil {
			return err
		}
		return t.goOn(c, held[i])
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// complete records one outcome and reports whether the lease was held.
func (t *writeTx) complete(c *driver.Completion) (bool, error) {
	var state int
	var outcome string
	var dueAt, failedAt any
	// Also of a retry, because a lease may bury the message with its last error.
	signature := driver.ErrorSignature(c.Error)
	switch c.Outcome {
	case driver.MessageStale:
		changed, err := t.exec(staleMessage, idArgs(c.ID, driver.NoteStale, c.Error, c.Token, t.now)...)
		return changed > 0, err
	case driver.MessageSent:
		changed, err := t.exec(sentMessage, idArgs(c.ID, c.StatusCode, c.Error, t.now, c.Took.Microseconds(), c.Token)...)
		if err == nil && changed > 0 && c.Applied != nil {
			err = t.keepVersion(c.Applied)
		}
		return err == nil && changed > 0, err
	case driver.MessageRetry:
		state, outcome, dueAt = statePending, "retry", t.now+c.RetryIn.Microseconds()
	case driver.MessageDead:
		state, outcome, failedAt = stateDead, "dead", t.now
	default:
		return false, fmt.Errorf("%w: message %s has the unknown outcome %d", driver.ErrBadRow, c.ID, c.Outcome)
	}
	var generation, number int
	row := t.queryRow(completeMessage, idArgs(c.ID,
		state, dueAt, c.StatusCode, c.Error, failedAt, c.Token, t.now, signature)...)
	switch err := row.Scan(&generation, &number); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := t.keepResponse(c, generation, number); err != nil {
		return false, err
	}
	_, err := t.exec(insertAttempt, c.ID, generation, number, outcome, c.StatusCode, c.Error, t.now, c.Took.Microseconds())
	return err == nil, err
}
