package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/hookonce/hookonce/driver"
)

const (
	insertHistory = `INSERT INTO hookonce_history
		(event_key, at, action, generation, messages, message_id, request_id, operation, failed_at, note)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	deleteHistory = `DELETE FROM hookonce_history WHERE event_key = ?`

	selectHistory = `SELECT at, action, generation, coalesce(message_id, ''), coalesce(request_id, operation, '')
		FROM hookonce_history WHERE event_key = ? ORDER BY id`
)

// historyEntry is a row of the history.
type historyEntry struct {
	key        driver.Key
	action     string
	generation int
	messages   int            // that became due
	messageID  string         // "" if it concerned the whole event
	requestID  string         // "" if the request cannot be repeated
	operation  string         // "" if the change was of this letter alone
	failedAt   sql.NullInt64  // of a discard: when the letter had failed
	note       sql.NullString // of a discard: the letter's note before
}

// record writes the entry, in the transaction of the recorded change.
func (t *writeTx) record(e *historyEntry) error {
	_, err := t.exec(insertHistory, e.key[:], t.now, e.action, e.generation, e.messages,
		nullText(e.messageID), nullText(e.requestID), nullText(e.operation), e.failedAt, e.note)
	return err
}

// nullText returns NULL for "".
func nullText(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func (r *detailReader) history(ctx context.Context, key driver.Key) ([]driver.HistoryEntry, error) {
	rows, err := r.tx.QueryContext(ctx, selectHistory, key[:])
	return collect(rows, err, func(e *driver.HistoryEntry) error {
		var at int64
		err := rows.Scan(&at, &e.Action, &e.Generation, &e.MessageID, &e.RequestID)
		e.At = fromMicros(at)
		return err
	})
}
