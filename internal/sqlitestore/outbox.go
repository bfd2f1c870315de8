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
		(id, event_key, route, destination, token, received_at, due_at, created_at, cause)
		VALUES (?, ?, '', ?, ?4, ?4, ?4, ?4, ?5) ON CONFLICT (id) DO NOTHING`

	insertEnqueuedBody = `INSERT INTO hookonce_event
		(key, source, event_id, type, received_at, headers, body, body_sha256, work, outbox)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 1)`

	selectEnqueued = `SELECT id FROM hookonce_message WHERE id = ?`
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
	inserted, err := t.exec(insertEnqueued, m.ID, key[:], m.Destination, t.now, cause)
	if err != nil {
		return err
	}
	if inserted == 0 {
		var id string
		if err := t.queryRow(selectEnqueued, m.ID).Scan(&id); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return driver.ErrNotStored
	}
	hash := sha256.Sum256(m.Body)
	return t.insert(insertEnqueuedBody, key[:], m.Source, m.EventID, m.Type, t.now, blob(m.Headers), blob(m.Body), hash[:])
}
