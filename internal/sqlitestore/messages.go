package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

// direction is a way to list messages: which of the two tables comes first, and so which columns
// sort the listing. CROSS JOIN keeps SQLite from changing the order of the tables.
type direction struct {
	from  string
	place string // received_at, key and id of a row
	order string
	at    string // the column of the first table: received_at
}

var (
	// byEvents finds the messages of one event after another. It names the index, because SQLite
	// has no statistics of the tables and might look through all messages of a destination.
	byEvents = direction{
		from: ` FROM hookonce_event e
			CROSS JOIN hookonce_message m INDEXED BY hookonce_message_event ON m.event = e.id`,
		place: `e.received_at, e.key, m.id`,
		order: ` ORDER BY e.received_at DESC, e.key DESC, m.id DESC LIMIT `,
		at:    `e.received_at`,
	}
	// byMessages looks up the event of one message after another.
	byMessages = direction{
		from:  ` FROM hookonce_message m CROSS JOIN hookonce_event e ON e.id = m.event`,
		place: `m.received_at, m.event_key, m.id`,
		order: ` ORDER BY m.received_at DESC, m.event_key DESC, m.id DESC LIMIT `,
		at:    `m.received_at`,
	}
	// byID looks up one message, or the messages of one event, and then the event.
	byID = direction{from: byMessages.from, place: byEvents.place, order: byEvents.order, at: byEvents.at}
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

const (
	opMessages = "listing messages"
	opLetters  = "listing dead letters"
)

// messageWalk is one listing of messages or of dead letters.
type messageWalk struct {
	s  *Store
	op string
	f  *driver.MessageFilter

	keys    []driver.Key // of the events that may have the id, if isKeyed
	isKeyed bool
	few     string // query for the numbers of few messages that include all; or ""
	fewArgs []any
	number  string // of the state whose messages have an index in the order of the listing; or ""
}

// newMessageWalk returns a listing. The caller must call release at the end.
func (s *Store) newMessageWalk(ctx context.Context, op string, f *driver.MessageFilter) (w *messageWalk, release func(), err error) {
	if release, err = s.search(op, f.Text != ""); err != nil {
		return nil, nil, err
	}
	w = &messageWalk{s: s, op: op, f: f}
	if w.keys, w.isKeyed, err = s.lookUps(ctx, op, f.Source, f.EventID, f.Sources); err != nil {
		release()
		return nil, nil, err
	}
	return w, release, nil
}

// isPoint reports whether the listing has few rows, which an index finds.
func (w *messageWalk) isPoint() bool { return w.isKeyed || w.few != "" || w.f.MessageID != "" }

// direction returns the direction that reads fewer rows.
func (w *messageWalk) direction() direction {
	switch {
	case w.isPoint():
		return byID
	case w.number != "":
		return byMessages
	}
	return byEvents
}

// Messages implements driver.Store. Each of its steps reads for at most 5 s.
func (s *Store) Messages(ctx context.Context, f *driver.MessageFilter) (*driver.MessagePage, error) {
	w, release, err := s.newMessageWalk(ctx, opMessages, f)
	if err != nil {
		return nil, err
	}
	defer release()
	if w.number = walk.IndexedState(f.State, f.Note); w.number == "" && !w.isPoint() {
		most := walk.FewMessages
		if w.few = `SELECT number FROM hookonce_message`; f.State == driver.StatePending || f.State == driver.StateSending {
			most = walk.FewKeys
			w.few, w.fewArgs = openMessages(f.Destination)
		}
		if w.few, err = s.few(ctx, opMessages, most, w.few, w.fewArgs...); err != nil {
			return nil, err
		}
	}
	l := &walk.Listing[driver.ListedMessage]{Edge: w.edge, Match: w.match}
	return walk.Messages(ctx, l, f, w.isPoint(), w.number)
}

// openMessages selects the open messages of a destination; "" means of all destinations.
func openMessages(destination string) (query string, args []any) {
	query = `SELECT number FROM hookonce_message WHERE state IN (0, 1)`
	if destination == "" {
		return query, nil
	}
	return query + ` AND destination = ?`, []any{destination}
}

// edge implements Edge of [walk.Listing].
func (w *messageWalk) edge(ctx context.Context, step walk.Step, n int) (driver.Cursor, int, error) {
	query, args := edgeQuery(w.candidates(step, n))
	return w.s.edgeOf(ctx, w.op, query, args)
}

// candidates returns a query for the places that a step has to look at. Unless the messages have an
// index in the order of the listing, these are all events, also those without messages.
func (w *messageWalk) candidates(step walk.Step, n int) (query string, args []any) {
	if w.number != "" {
		return w.indexPlaces(`hookonce_message`, `event_key`, `id`, step, n)
	}
	var c clause
	if !step.After.IsZero() {
		// The event of the place is a candidate again if some of its messages are left.
		operator := `<`
		if step.After.ID != "" {
			operator = `<=`
		}
		c.add(`(received_at, key) `+operator+` (?, ?)`, step.After.At.UnixMicro(), step.After.Key[:])
	}
	c.received(`received_at`, w.f.Since, w.f.Until)
	return `SELECT received_at, key, '' AS id FROM hookonce_event` + c.where() +
		fmt.Sprint(` ORDER BY received_at DESC, key DESC LIMIT `, n), c.args
}

// indexPlaces returns a query for the places of messages, or of events, of the state.
func (w *messageWalk) indexPlaces(table, key, id string, step walk.Step, n int) (query string, args []any) {
	var c clause
	c.add(`state = ` + w.number)
	if table == `hookonce_message` && w.number == walk.DeadNumber { // no other index has it
		c.equal(`destination`, w.f.Destination)
	}
	place := `received_at, ` + key + `, ` + id
	c.place(place, step)
	c.received(`received_at`, w.f.Since, w.f.Until)
	return `SELECT received_at, ` + key + ` AS key, ` + id + ` AS id FROM ` + table + c.where() +
		fmt.Sprintf(` ORDER BY received_at DESC, %s DESC, %s DESC LIMIT %d`, key, id, n), c.args
}

// place adds the condition that a row with a place is within a step.
func (c *clause) place(place string, step walk.Step) {
	for _, bound := range []struct {
		operator string
		at       *driver.Cursor
	}{{`<`, &step.After}, {`>=`, &step.End}} {
		if !bound.at.IsZero() {
			c.add(`(`+place+`) `+bound.operator+` (?, ?, ?)`, bound.at.At.UnixMicro(), bound.at.Key[:], bound.at.ID)
		}
	}
}

func (w *messageWalk) match(ctx context.Context, step walk.Step, n int) (messages []driver.ListedMessage, err error) {
	query, args := w.query(step, n)
	err = w.s.snapshot(ctx, w.op, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		messages, err = collect(rows, err, func(m *driver.ListedMessage) error {
			var key []byte
			var receivedAt int64
			err := scanMessage(&m.MessageDetail, rows, &key, &m.Source, &m.EventID, &m.Type, &receivedAt)
			copy(m.Key[:], key)
			m.ReceivedAt = fromMicros(receivedAt)
			return err
		})
		return err
	})
	return messages, err
}

// query returns the query for the messages of a step.
func (w *messageWalk) query(step walk.Step, n int) (query string, args []any) {
	var c clause
	switch in, known := messagesIn[w.f.State]; {
	case known:
		c.add(in)
	case w.f.State != "":
		c.add(`FALSE`)
	case w.number != "":
		c.add(`m.state = ` + w.number) // implied by the note
	}
	how := w.direction()
	c.equal(`m.note`, w.f.Note)
	if w.few != "" {
		c.add(`m.number IN (`+w.few+`)`, w.fewArgs...)
	}
	w.where(&c, step, how)
	return `SELECT ` + listedEvent + `, ` + messageColumns + how.from + c.where() + how.order + fmt.Sprint(n), c.args
}

// where adds the conditions that listings of messages share.
func (w *messageWalk) where(c *clause, step walk.Step, how direction) {
	if w.f.MessageID != "" {
		c.add(`m.id = ? AND m.event IN (SELECT id FROM hookonce_event WHERE key BETWEEN ? AND ? OR key = ?)`, idArgs(w.f.MessageID)...)
	}
	c.equal(`m.destination`, w.f.Destination)
	w.event(c, how.at, `m.event IN (SELECT id FROM hookonce_event WHERE key IN (%s))`, `m.cause IN (%s)`)
	c.place(how.place, step)
	if how == byEvents {
		// Implied by the conditions before, and served by the index of the events.
		if !step.After.IsZero() {
			c.add(`(e.received_at, e.key) <= (?, ?)`, step.After.At.UnixMicro(), step.After.Key[:])
		}
		if !step.End.IsZero() {
			c.add(`(e.received_at, e.key) >= (?, ?)`, step.End.At.UnixMicro(), step.End.Key[:])
		}
	}
}

// event adds the conditions on the event of a message, or of a dead letter that is an event. The
// column at holds the event's time. keyed are the conditions for a list of keys, of which one must
// hold: of the event whose routes made the message, or of that whose handler enqueued it.
func (w *messageWalk) event(c *clause, at string, keyed ...string) {
	f := w.f
	c.equal(`e.source`, f.Source)
	c.equal(`e.type`, f.Type)
	c.equal(`e.event_id`, f.EventID)
	if w.isKeyed {
		var in []string
		var args []any
		for _, condition := range keyed {
			in = append(in, fmt.Sprintf(condition, places(len(w.keys))))
			args = append(args, keyArgs(w.keys)...)
		}
		c.add(`(`+strings.Join(in, ` OR `)+`)`, args...)
	}
	c.text(`e.`, f.Text)
	c.received(at, f.Since, f.Until)
}
