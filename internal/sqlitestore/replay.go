package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// maxRequestID is the limit of ReplayParams.RequestID in bytes.
const maxRequestID = 255

// The columns of a row that becomes due again, in the generation ?1, at the time ?2. The token of a
// message stays and only ever grows, so a holder of an old lease can change nothing.
const (
	stateAgain = `state = 0, note = '', attempts = 0, crashes = 0, generation = ?1, due_at = ?2,
			processed_at = NULL, failed_at = NULL, undecided = 0, queued = 0, ended = 0`

	messageAgain = `state = 0, note = '', attempts = 0, generation = ?1, due_at = ?2,
			sent_at = NULL, failed_at = NULL`

	// Marks a replay by an operator: it is applied even if it is stale.
	byOperator = `, replayed = 1`
	bySender   = `, replayed = 0`
)

const (
	// The row and the messages of an event hold all its generations.
	nextGeneration = `SELECT 1 + max(
		coalesce((SELECT max(generation) FROM hookonce_message WHERE event = (SELECT id FROM hookonce_event WHERE key = ?1)), 0),
		coalesce((SELECT generation FROM hookonce_event_state WHERE id = (SELECT id FROM hookonce_event WHERE key = ?1)), 0))`

	selectReplayable = `SELECT e.body IS NULL, s.state, coalesce(s.note, ''), coalesce(s.generation, 0),
			coalesce(s.undecided, 0), coalesce(s.queued, 0), coalesce(s.ended, 0), coalesce((
				SELECT max(h.generation) FROM hookonce_history h WHERE h.event_key = e.key AND h.action = '` + driver.ActionReplayedAsNew + `'
			), 0)
		FROM hookonce_event e LEFT JOIN hookonce_event_state s ON s.id = e.id WHERE e.key = ? AND e.outbox = 0`

	// partColumns are the columns of a driver.EventPart at the time ?2.
	partColumns = `id, route, destination, state, note, generation, state = 1 AND due_at > ?2`

	selectReplayableMessages = `SELECT ` + partColumns + `
		FROM hookonce_message WHERE event = (SELECT id FROM hookonce_event WHERE key = ?1) ORDER BY id`

	selectRequest = `SELECT h.generation, h.messages, h.action, coalesce((
				SELECT m.destination FROM hookonce_event e CROSS JOIN hookonce_message m ON m.event = e.id AND m.id = h.message_id
				WHERE e.key = h.event_key
			), '')
		FROM hookonce_history h WHERE h.event_key = ? AND h.request_id = ?`

	resetState = `UPDATE hookonce_event_state SET ` + stateAgain + byOperator + `,
			key_generation = CASE WHEN ?4 THEN ?1 ELSE key_generation END
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3)`

	// For an undecided event that has no work but its messages.
	resetDone = `UPDATE hookonce_event_state SET state = 2, note = '', last_error = '', generation = ?1, processed_at = ?2,
			failed_at = NULL, undecided = 0, queued = 0, ended = 0` + byOperator + `,
			key_generation = CASE WHEN ?4 THEN ?1 ELSE key_generation END
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3)`

	resetMessage = `UPDATE hookonce_message SET ` + messageAgain + byOperator + ` WHERE id = ?4 AND event = (SELECT id FROM hookonce_event WHERE key = ?3)`

	skipMessage = `UPDATE hookonce_message SET state = 4, note = ?5, failed_at = NULL WHERE ` + ofID

	markMessage = `UPDATE hookonce_message SET note = ?5 WHERE ` + ofID

	insertReplayed = `INSERT INTO hookonce_message
		(id, event, event_key, generation, route, destination, token, received_at, due_at, created_at, replayed)
		SELECT ?1, id, key, ?3, ?4, ?5, ?6, received_at, ?6, ?6, 1 FROM hookonce_event WHERE key = ?2`
)

// Replay implements driver.Store. The write lock is the lock on the event.
func (s *Store) Replay(ctx context.Context, p *driver.ReplayParams) (*driver.Replayed, error) {
	const op = "replaying an event"
	if err := checkReplay(p); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	var replayed driver.Replayed
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		replayed, err = t.replay(p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &replayed, nil
}

func checkReplay(p *driver.ReplayParams) error {
	if err := checkRequestID(p.RequestID); err != nil {
		return err
	}
	if !driver.IsText(p.To) {
		return fmt.Errorf("%w: the destination is not valid UTF-8 or holds a NUL", driver.ErrBadRow)
	}
	return checkMessages(p.Routes)
}

func checkRequestID(id string) error {
	if len(id) > maxRequestID || !driver.IsText(id) {
		return fmt.Errorf("%w: the request id is longer than %d bytes, is not valid UTF-8 or holds a NUL", driver.ErrBadRow, maxRequestID)
	}
	return nil
}

func (t *writeTx) replay(p *driver.ReplayParams) (driver.Replayed, error) {
	event := lifecycle.Event{Key: p.Key}
	if err := t.readReplayable(&event); err != nil {
		return driver.Replayed{}, err
	}
	if p.RequestID != "" {
		first, action, to := driver.Replayed{Repeated: true}, "", ""
		err := t.queryRow(selectRequest, p.Key[:], p.RequestID).Scan(&first.Generation, &first.Messages, &action, &to)
		switch {
		case err == nil && (action != lifecycle.Action(p.Mode) || to != p.To):
			return driver.Replayed{}, driver.ErrRequestReused
		case !errors.Is(err, sql.ErrNoRows):
			return first, err
		}
	}
	plan, err := lifecycle.For(&event, p)
	if err != nil {
		return driver.Replayed{}, err
	}
	if err := t.keepOrder(p, &event, plan); err != nil {
		return driver.Replayed{}, err
	}
	if err := t.apply(p.Key, plan); err != nil {
		return driver.Replayed{}, err
	}
	if err := t.replace(p, &event, plan); err != nil {
		return driver.Replayed{}, err
	}
	if !plan.Changes() {
		return plan.Replayed(&event), nil
	}
	return plan.Replayed(&event), t.record(&historyEntry{
		key: p.Key, action: plan.Action, generation: plan.Generation, messages: plan.Messages(), requestID: p.RequestID, messageID: plan.MessageID(),
	})
}

// readReplayable reads an event with its messages.
func (t *writeTx) readReplayable(e *lifecycle.Event) error {
	found, err := readParts(t.query, (*driver.EventParts)(e), t.now)
	if err == nil && !found {
		err = fmt.Errorf("%w: there is no such event", driver.ErrNotFound)
	}
	return err
}

// readParts reads the parts of an event by its key, as they are at a time.
func readParts(query func(query string, args ...any) (*sql.Rows, error), e *driver.EventParts, now int64) (found bool, err error) {
	rows, err := query(selectReplayable, e.Key[:])
	events, err := collect(rows, err, func(*struct{}) error {
		var state sql.NullInt64
		err := rows.Scan(&e.BodyPruned, &state, &e.Note, &e.Generation, &e.Undecided, &e.Queued, &e.Ended, &e.AsNew)
		if state.Valid {
			e.State = eventStates[state.Int64]
		}
		return err
	})
	if err != nil || len(events) == 0 {
		return false, err
	}
	e.Messages, err = readMessageParts(query, selectReplayableMessages, e.Key, now)
	return true, err
}

func readMessageParts(query func(query string, args ...any) (*sql.Rows, error), messages string, key driver.Key, now int64) ([]driver.EventPart, error) {
	rows, err := query(messages, key[:], now)
	return collect(rows, err, func(m *driver.EventPart) error {
		var state int
		err := rows.Scan(&m.ID, &m.Route, &m.Destination, &state, &m.Note, &m.Generation, &m.Leased)
		m.State = messageStates[state]
		return err
	})
}

// EventParts implements driver.Store.
func (s *Store) EventParts(ctx context.Context, keys []driver.Key) ([]driver.EventParts, error) {
	var all []driver.EventParts
	err := s.snapshot(ctx, "reading events", func(ctx context.Context, tx *sql.Tx) error {
		query := func(query string, args ...any) (*sql.Rows, error) { return tx.QueryContext(ctx, query, args...) }
		for _, key := range keys {
			e := driver.EventParts{Key: key}
			found, err := readParts(query, &e, time.Now().UnixMicro())
			if err != nil {
				return err
			}
			if found {
				all = append(all, e)
			}
		}
		return nil
	})
	return all, err
}

// apply carries a plan out.
func (t *writeTx) apply(key driver.Key, plan *lifecycle.Plan) error {
	if plan.Event || plan.Done {
		query := resetState
		if plan.Done {
			query = resetDone
		}
		if err := t.insert(query, plan.Generation, t.now, key[:], plan.Action == driver.ActionReplayedAsNew); err != nil {
			return err
		}
	}
	for _, id := range plan.Reset {
		if err := t.reset(key, id, plan.Generation); err != nil {
			return err
		}
	}
	for _, noted := range []struct {
		query, note string
		ids         []string
	}{
		{skipMessage, driver.NoteReplacedByNew, plan.Replace},
		{skipMessage, driver.NoteRerouted, plan.Skip},
		{markMessage, driver.NoteRerouted, plan.Mark},
		{markMessage, "", plan.Unmark},
	} {
		for _, id := range noted.ids {
			if err := t.insert(noted.query, idArgs(id, noted.note)...); err != nil {
				return err
			}
		}
	}
	for i := range plan.Add {
		m := &plan.Add[i]
		if err := t.insert(insertReplayed, m.ID, key[:], plan.Generation, m.Route, m.Destination, t.now); err != nil {
			return err
		}
	}
	return nil
}

// reset makes a message of an event due again.
func (t *writeTx) reset(key driver.Key, id string, generation int) error {
	if _, err := t.exec(keepSent, idArgs(id)...); err != nil {
		return err
	}
	return t.insert(resetMessage, generation, t.now, key[:], id)
}

// nextGeneration returns the generation for rows of an event that become due now.
func (t *writeTx) nextGeneration(key driver.Key) (generation int, err error) {
	err = t.queryRow(nextGeneration, key[:]).Scan(&generation)
	return generation, err
}
