package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	insertEnqueued = `INSERT INTO hookonce_message
		(id, event, event_key, route, destination, token, received_at, due_at, created_at, cause, cause_generation)
		VALUES (?, ?, ?, '', ?, ?5, ?5, ?5, ?5, ?6, ?7)`

	insertEnqueuedBody = `INSERT INTO hookonce_event
		(key, source, event_id, type, received_at, headers, body, body_sha256, work, outbox)
		SELECT ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, 1 WHERE NOT EXISTS (SELECT 1 FROM hookonce_message WHERE ` + ofID + `)
		ON CONFLICT (key) DO NOTHING`

	selectEnqueued = `SELECT generation, state >= 2 AND cause_generation < ?5 FROM hookonce_message WHERE ` + ofID

	enqueueAgain = `UPDATE hookonce_message SET ` + messageAgain + bySender + `, cause_generation = ?3
		WHERE id = ?4 AND event = (SELECT id FROM hookonce_event WHERE key = ?5)`

	restoreBody = `UPDATE hookonce_event SET headers = ?, body = ? WHERE key = ? AND body IS NULL`
)

// EnqueueTx implements driver.Driver.
func (s *Store) EnqueueTx(ctx context.Context, tx *sql.Tx, messages []driver.OutboxMessage) error {
	const op = "enqueueing"
	if err := checkOutbox(op, messages); err != nil {
		return err
	}
	return s.inTx(ctx, tx, op, time.Time{}, len(messages), func(t *writeTx, i int) error { return t.enqueue(&messages[i]) })
}

// checkOutbox returns an error that matches driver.ErrBadRow if a message cannot be stored.
func checkOutbox(op string, messages []driver.OutboxMessage) error {
	for i := range messages {
		if err := messages[i].Check(); err != nil {
			return fmt.Errorf("%s: message %d: %w: %w", op, i, driver.ErrBadRow, err)
		}
	}
	return nil
}

// enqueue writes one message with its body and headers, unless its id exists. The error matches
// driver.ErrNotStored if a trigger drops a row.
func (t *writeTx) enqueue(m *driver.OutboxMessage) error {
	key := driver.OutboxKey(m.ID)
	var cause any
	if m.Cause != (driver.Key{}) {
		cause = m.Cause[:]
	}
	hash := sha256.Sum256(m.Body)
	// This writes before it reads, see selectPath.
	inserted, event, err := t.execID(insertEnqueuedBody,
		idArgs(m.ID, m.Source, m.EventID, m.Type, t.now, blob(m.Headers), blob(m.Body), hash[:])...)
	if err != nil {
		return err
	}
	if inserted == 0 {
		var generation int
		var later bool
		switch err := t.queryRow(selectEnqueued, idArgs(m.ID, m.CauseGeneration)...).Scan(&generation, &later); {
		case errors.Is(err, sql.ErrNoRows):
			return driver.ErrNotStored
		case err != nil || !later:
			return err
		}
		return t.enqueueAgain(key, m, generation+1)
	}
	return t.insert(insertEnqueued, m.ID, event, key[:], m.Destination, t.now, cause, m.CauseGeneration)
}

// enqueueAgain makes a finished message due again in a generation of its own. The attempt that sent it gets a
// row of its own.
func (t *writeTx) enqueueAgain(key driver.Key, m *driver.OutboxMessage, generation int) error {
	if _, err := t.exec(keepSent, idArgs(m.ID)...); err != nil {
		return err
	}
	if _, err := t.exec(restoreBody, blob(m.Headers), blob(m.Body), key[:]); err != nil {
		return err
	}
	if err := t.insert(enqueueAgain, generation, t.now, m.CauseGeneration, m.ID, key[:]); err != nil {
		return err
	}
	return t.record(&historyEntry{key: key, action: driver.ActionReplayed, generation: generation, messages: 1, messageID: m.ID})
}
