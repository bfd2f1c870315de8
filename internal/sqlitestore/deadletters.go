package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// DeadLetters implements driver.Store. It reads for at most 5 s.
func (s *Store) DeadLetters(ctx context.Context, f *driver.MessageFilter) (*driver.DeadLetterPage, error) {
	page := &driver.DeadLetterPage{}
	limit := pageLimit(f.Limit)
	err := s.snapshot(ctx, "listing dead letters", func(ctx context.Context, tx *sql.Tx) error {
		letters, err := deadLetters(ctx, tx, limit+1, f, deadMessagesQuery)
		if err != nil {
			return err
		}
		// An event that is dead itself has neither a message id nor a destination.
		if f.MessageID == "" && f.Destination == "" {
			events, err := deadLetters(ctx, tx, limit+1, f, deadEventsQuery)
			if err != nil {
				return err
			}
			letters = append(letters, events...)
			slices.SortFunc(letters, compareLetters)
		}
		page.DeadLetters = letters[:min(limit, len(letters))]
		if len(letters) > limit {
			last := &letters[limit-1]
			page.Next = driver.MessageCursor{
				Event: driver.Cursor{ReceivedAt: last.ReceivedAt, Key: last.Key}, ID: last.MessageID,
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// compareLetters compares in the order of MessageCursor.
func compareLetters(a, b driver.DeadLetter) int {
	return cmp.Or(b.ReceivedAt.Compare(a.ReceivedAt), bytes.Compare(b.Key[:], a.Key[:]), strings.Compare(b.MessageID, a.MessageID))
}

func deadLetters(
	ctx context.Context, tx *sql.Tx, limit int, f *driver.MessageFilter, of func(*driver.MessageFilter) (string, []any),
) ([]driver.DeadLetter, error) {
	query, args := of(f)
	rows, err := tx.QueryContext(ctx, query, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(l *driver.DeadLetter) error {
		var key []byte
		var receivedAt int64
		var failedAt sql.NullInt64
		err := rows.Scan(&key, &l.Source, &l.EventID, &l.Type, &receivedAt, &l.MessageID, &l.Route, &l.Destination,
			&l.Attempts, &l.Generation, &l.StatusCode, &l.LastError, &l.Signature, &failedAt)
		copy(l.Key[:], key)
		l.ReceivedAt = fromMicros(receivedAt)
		l.FailedAt = fromNullMicros(failedAt)
		return err
	})
}

// deadMessagesQuery walks the index of dead messages, which has the order of the listing.
func deadMessagesQuery(f *driver.MessageFilter) (query string, args []any) {
	var c clause
	c.add(messagesIn[driver.StateDead])
	c.equal(`m.note`, f.Note)
	c.equal(`m.signature`, f.Signature)
	c.messages(f, byMessages)
	return `SELECT ` + listedEvent + `, m.id, m.route, m.destination,
		m.attempts, m.generation, m.status_code, m.last_error, m.signature, m.failed_at` +
		byMessages.from + c.where() + byMessages.order, c.args
}

func deadEventsQuery(f *driver.MessageFilter) (query string, args []any) {
	var c clause
	c.add(`s.state = 3`)
	c.equal(`s.note`, f.Note)
	c.equal(`s.signature`, f.Signature)
	c.event(f, `e.received_at`, `s.key`)
	if !f.After.IsZero() {
		// A dead event has the id "", so it comes after its own messages.
		at, key := f.After.Event.ReceivedAt.UnixMicro(), f.After.Event.Key[:]
		c.add(`(e.received_at, e.key, '') < (?, ?, ?)`, at, key, f.After.ID)
	}
	return `SELECT ` + listedEvent + `, '', '', '', s.attempts, s.generation, 0, s.last_error, s.signature, s.failed_at
		FROM hookonce_event_state s CROSS JOIN hookonce_event e ON e.key = s.key` +
		c.where() + ` ORDER BY e.received_at DESC, e.key DESC LIMIT ?`, c.args
}
