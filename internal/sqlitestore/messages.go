package sqlitestore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// direction is a way to list messages: which of the two tables comes first, and so which columns
// sort the listing. CROSS JOIN keeps SQLite from changing the order of the tables.
type direction struct {
	from  string
	place string // received_at, key and id of a row
	order string
	at    string // the column of the first table: received_at
	// keys are the columns with the key of a message's event: the event whose routes made the
	// message, or whose handler enqueued it.
	keys [2]string
}

var (
	// byEvents finds the messages of one event after another. It names the index, because SQLite
	// has no statistics of the tables and might look through all messages of a destination.
	byEvents = direction{
		from: ` FROM hookonce_event e
			CROSS JOIN hookonce_message m INDEXED BY hookonce_message_event ON m.event_key = e.key`,
		place: `e.received_at, e.key, m.id`,
		order: ` ORDER BY e.received_at DESC, e.key DESC, m.id DESC LIMIT ?`,
		at:    `e.received_at`,
		keys:  [2]string{`m.event_key`, `m.cause`},
	}
	// byMessages looks up the event of one message after another.
	byMessages = direction{
		from:  ` FROM hookonce_message m CROSS JOIN hookonce_event e ON e.key = m.event_key`,
		place: `m.received_at, m.event_key, m.id`,
		order: ` ORDER BY m.received_at DESC, m.event_key DESC, m.id DESC LIMIT ?`,
		at:    `m.received_at`,
		keys:  [2]string{`m.event_key`, `m.cause`},
	}
	// byID looks up one message, or the messages of one event, and then the event.
	byID = direction{from: byMessages.from, place: byEvents.place, order: byEvents.order, at: byEvents.at, keys: byEvents.keys}
)

const listedEvent = `e.key, e.source, e.event_id, e.type, e.received_at`

// messagesIn holds, for each state, the condition that its partial index serves. There is no such
// index for sent messages.
var messagesIn = map[string]string{
	driver.StatePending: `m.state IN (0, 1) AND m.state = 0`,
	driver.StateSending: `m.state IN (0, 1) AND m.state = 1`,
	driver.StateSent:    `m.state = 2`,
	driver.StateDead:    `m.state = 3`,
	driver.StateSkipped: `m.state = 4`,
}

// Messages implements driver.Store. It reads for at most 5 s.
func (s *Store) Messages(ctx context.Context, f *driver.MessageFilter) (*driver.MessagePage, error) {
	page := &driver.MessagePage{}
	limit := pageLimit(f.Limit)
	err := s.snapshot(ctx, "listing messages", func(ctx context.Context, tx *sql.Tx) error {
		how, err := messagesDirection(ctx, tx, f)
		if err != nil {
			return err
		}
		query, args := messagesQuery(f, how)
		rows, err := tx.QueryContext(ctx, query, append(args, limit+1)...)
		if err != nil {
			return err
		}
		var more bool
		page.Messages, more, err = collectPage(rows, limit, func(m *driver.ListedMessage) error {
			var key []byte
			var receivedAt int64
			err := scanMessage(&m.MessageDetail, rows, &key, &m.Source, &m.EventID, &m.Type, &receivedAt)
			copy(m.Key[:], key)
			m.ReceivedAt = fromMicros(receivedAt)
			return err
		})
		if more {
			last := &page.Messages[limit-1]
			page.Next = driver.MessageCursor{Event: driver.Cursor{ReceivedAt: last.ReceivedAt, Key: last.Key}, ID: last.ID}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// messagesDirection chooses the direction that reads fewer rows. The indexes on dead and on skipped
// messages have the order of the listing, so their size does not matter. The index on open messages
// has another order.
func messagesDirection(ctx context.Context, q queryer, f *driver.MessageFilter) (direction, error) {
	if f.MessageID != "" || candidateKeys(f) != nil {
		return byID, nil
	}
	switch f.State {
	case driver.StateDead, driver.StateSkipped:
		return byMessages, nil
	case driver.StatePending, driver.StateSending:
		query, args := openMessages(f.Destination)
		isFew, err := few(ctx, q, query, args...)
		if err != nil || isFew {
			return byMessages, err
		}
	}
	return byEvents, nil
}

// openMessages selects the open messages of a destination; "" means of all destinations.
func openMessages(destination string) (query string, args []any) {
	query = `SELECT 1 FROM hookonce_message WHERE state IN (0, 1)`
	if destination == "" {
		return query, nil
	}
	return query + ` AND destination = ?`, []any{destination}
}

func messagesQuery(f *driver.MessageFilter, how direction) (query string, args []any) {
	var c clause
	if f.State != "" {
		in, known := messagesIn[f.State]
		if !known {
			in = `FALSE`
		}
		c.add(in)
	}
	c.equal(`m.note`, f.Note)
	c.messages(f, how)
	return `SELECT ` + listedEvent + `, ` + messageColumns + how.from + c.where() + how.order, c.args
}

// messages adds the conditions that listings of messages share.
func (c *clause) messages(f *driver.MessageFilter, how direction) {
	c.equal(`m.id`, f.MessageID)
	c.equal(`m.destination`, f.Destination)
	c.event(f, how.at, how.keys[:]...)
	if !f.After.IsZero() {
		after := []any{f.After.Event.ReceivedAt.UnixMicro(), f.After.Event.Key[:]}
		c.add(`(`+how.place+`) < (?, ?, ?)`, append(slices.Clone(after), f.After.ID)...)
		if how == byEvents {
			// Implied by the condition before, and served by the index of the events.
			c.add(`(e.received_at, e.key) <= (?, ?)`, after...)
		}
	}
}

// candidateKeys returns the possible keys of the event that a filter names. It returns nil if the
// filter names none, or one with too many candidates.
func candidateKeys(f *driver.MessageFilter) []driver.Key {
	if f.Source == "" || f.EventID == "" {
		return nil
	}
	return driver.CandidateKeys(f.Source, f.EventID)
}

// event adds the conditions on the event of a message, or of a dead letter that is an event. The
// column at holds the event's time, and one of keys its key.
func (c *clause) event(f *driver.MessageFilter, at string, keys ...string) {
	c.equal(`e.source`, f.Source)
	c.equal(`e.type`, f.Type)
	c.equal(`e.event_id`, f.EventID)
	if candidates := candidateKeys(f); candidates != nil {
		var in []string
		var args []any
		for _, column := range keys {
			in = append(in, keyIn(column, len(candidates)))
			args = append(args, keyArgs(candidates)...)
		}
		c.add(`(`+strings.Join(in, ` OR `)+`)`, args...)
	}
	c.text(`e.`, f.Text)
	c.received(at, f.Since, f.Until)
}
