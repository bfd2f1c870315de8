package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const maxMessageID = 255 // bytes, see driver.OutboxMessage

const (
	insertEnqueued = `INSERT INTO hookonce_message
		(id, event_key, route, destination, token, received_at, due_at, created_at, cause)
		VALUES (?, ?, '', ?, ?4, ?4, ?4, ?4, ?5) ON CONFLICT (id) DO NOTHING`

	insertEnqueuedBody = `INSERT INTO hookonce_event
		(key, source, event_id, type, received_at, headers, body, body_sha256, work, outbox)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 1)`
)

// EnqueueTx implements driver.Driver.
func (s *Store) EnqueueTx(ctx context.Context, tx *sql.Tx, messages []driver.OutboxMessage) error {
	const op = "enqueue"
	for i := range messages {
		if err := checkOutbox(&messages[i]); err != nil {
			return fmt.Errorf("sqlite: %s: message %d: %w", op, i, err)
		}
	}
	return s.inTx(ctx, tx, op, time.Time{}, len(messages), func(t *writeTx, i int) error { return t.enqueue(&messages[i]) })
}

func checkOutbox(m *driver.OutboxMessage) error {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' || r == '.' }
	if m.ID == "" || len(m.ID) > maxMessageID || strings.ContainsFunc(m.ID, notPrintable) {
		return fmt.Errorf("%w: its id is not printable ASCII without '.' of 1 to %d bytes", driver.ErrBadRow, maxMessageID)
	}
	for _, text := range [...]string{m.Destination, m.Source, m.EventID, m.Type} {
		if !isText(text) {
			return fmt.Errorf("%w: its destination, source, event id or type is not valid UTF-8 or holds a NUL", driver.ErrBadRow)
		}
	}
	return nil
}

// enqueue writes one message, unless its id was enqueued before, and then its body
// and headers.
func (t *writeTx) enqueue(m *driver.OutboxMessage) error {
	key := driver.OutboxKey(m.ID)
	var cause any
	if m.Cause != (driver.Key{}) {
		cause = m.Cause[:]
	}
	inserted, err := t.exec(insertEnqueued, m.ID, key[:], m.Destination, t.now, cause)
	if err != nil || inserted == 0 {
		return err
	}
	hash := sha256.Sum256(m.Body)
	_, err = t.exec(insertEnqueuedBody, key[:], m.Source, m.EventID, m.Type, t.now, blob(m.Headers), blob(m.Body), hash[:])
	return err
}
