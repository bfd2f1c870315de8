package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
			coalesce(s.undecided, 0), coalesce(s.queued, 0), coalesce(s.ended, 0)
		FROM hookonce_event e LEFT JOIN hookonce_event_state s ON s.id = e.id WHERE e.key = ? AND e.outbox = 0`

	selectReplayableMessages = `SELECT id, route, destination, state, generation
		FROM hookonce_message WHERE event = (SELECT id FROM hookonce_event WHERE key = ?) ORDER BY id`

	selectRequest = `SELECT generation, messages, action FROM hookonce_history WHERE event_key = ? AND request_id = ?`

	resetState = `UPDATE hookonce_event_state SET ` + stateAgain + byOperator + `,
			key_generation = CASE WHEN ?4 THEN ?1 ELSE key_generation END
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3)`

	// For an undecided event that has no work but its messages.
	resetDone = `UPDATE hookonce_event_state SET state = 2, note = '', last_error = '', generation = ?1, processed_at = ?2,
			failed_at = NULL, undecided = 0, queued = 0, ended = 0` + byOperator + `,
			key_generation = CASE WHEN ?4 THEN ?1 ELSE key_generation END
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3)`

	resetMessage = `UPDATE hookonce_message SET ` + messageAgain + byOperator + ` WHERE id = ?4 AND event = (SELECT id FROM hookonce_event WHERE key = ?3)`

	replaceMessage = `UPDATE hookonce_message SET state = 4, note = ?5, failed_at = NULL WHERE ` + ofID

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
		first, action := driver.Replayed{Repeated: true}, ""
		err := t.queryRow(selectRequest, p.Key[:], p.RequestID).Scan(&first.Generation, &first.Messages, &action)
		switch {
		case err == nil && action != lifecycle.Action(p.Mode):
			return driver.Replayed{}, driver.ErrRequestReused
		case !errors.Is(err, sql.ErrNoRows):
			return first, err
		}
	}
	plan, err := lifecycle.Replay(&event, p.Mode, p.Note, &lifecycle.Now{Routes: p.Routes, Undecided: p.Undecided, Unknown: p.Unknown})
	if err != nil {
		return driver.Replayed{}, err
	}
	if err := t.apply(p.Key, plan); err != nil {
		return driver.Replayed{}, err
	}
	return driver.Replayed{Generation: plan.Generation, Messages: plan.Messages()}, t.record(&historyEntry{
		key: p.Key, action: plan.Action, generation: plan.Generation, messages: plan.Messages(), requestID: p.RequestID,
	})
}

// readReplayable reads an event with its messages.
func (t *writeTx) readReplayable(e *lifecycle.Event) error {
	var state sql.NullInt64
	switch err := t.queryRow(selectReplayable, e.Key[:]).Scan(&e.BodyPruned, &state, &e.Note, &e.Generation, &e.Undecided, &e.Queued, &e.Ended); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: there is no such event", driver.ErrNotFound)
	case err != nil:
		return err
	}
	if state.Valid {
		e.State = eventStates[state.Int64]
	}
	var err error
	e.Messages, err = t.lifecycleMessages(selectReplayableMessages, e.Key)
	return err
}

func (t *writeTx) lifecycleMessages(query string, key driver.Key) ([]lifecycle.Message, error) {
	rows, err := t.query(query, key[:])
	if err != nil {
		return nil, err
	}
	return collect(rows, func(m *lifecycle.Message) error {
		var state int
		err := rows.Scan(&m.ID, &m.Route, &m.Destination, &state, &m.Generation)
		m.State = messageStates[state]
		return err
	})
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
	for _, id := range plan.Replace {
		if _, err := t.exec(replaceMessage, idArgs(id, driver.NoteReplacedByNew)...); err != nil {
			return err
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
