package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

// DeadLetters implements driver.Store. Each of its steps reads for at most 5 s.
func (s *Store) DeadLetters(ctx context.Context, f *driver.MessageFilter) (*driver.DeadLetterPage, error) {
	w, release, err := s.newMessageWalk(ctx, opLetters, f)
	if err != nil {
		return nil, err
	}
	defer release()
	w.number = walk.DeadNumber
	l := &walk.Listing[driver.DeadLetter]{Edge: w.letterEdge, Match: w.letters}
	return walk.Letters(ctx, l, f, w.isPoint())
}

// letterEdge implements Edge of [walk.Listing].
func (w *messageWalk) letterEdge(ctx context.Context, step walk.Step, n int) (driver.Cursor, int, error) {
	query, args := edgeQuery(w.letterPlaces(step, n))
	return w.s.edgeOf(ctx, w.op, query, args)
}

// letterPlaces returns a query for the places of dead messages and of dead events.
func (w *messageWalk) letterPlaces(step walk.Step, n int) (query string, args []any) {
	query, args = w.indexPlaces(`hookonce_message`, `event_key`, `id`, step, n)
	if !w.hasEvents() {
		return query, args
	}
	events, more := w.indexPlaces(`hookonce_event_state`, `key`, `''`, step, n)
	return `SELECT * FROM (` + query + `) UNION ALL SELECT * FROM (` + events + `)` +
		fmt.Sprint(` ORDER BY received_at DESC, key DESC, id DESC LIMIT `, n), append(args, more...)
}

// hasEvents reports whether the listing may have events that are dead themselves. They have neither a
// message id nor a destination.
func (w *messageWalk) hasEvents() bool { return w.f.MessageID == "" && w.f.Destination == "" }

func (w *messageWalk) letters(ctx context.Context, step walk.Step, n int) (letters []driver.DeadLetter, err error) {
	err = w.s.snapshot(ctx, w.op, func(ctx context.Context, tx *sql.Tx) error {
		query, args := w.deadMessages(step, n)
		if letters, err = deadLetters(ctx, tx, query, args); err != nil || !w.hasEvents() {
			return err
		}
		query, args = w.deadEvents(step, n)
		events, err := deadLetters(ctx, tx, query, args)
		letters = append(letters, events...)
		slices.SortFunc(letters, compareLetters)
		letters = letters[:min(n, len(letters))]
		return err
	})
	return letters, err
}

// compareLetters compares in the order of driver.Cursor.
func compareLetters(a, b driver.DeadLetter) int {
	return cmp.Or(b.ReceivedAt.Compare(a.ReceivedAt), bytes.Compare(b.Key[:], a.Key[:]), strings.Compare(b.MessageID, a.MessageID))
}

func deadLetters(ctx context.Context, tx *sql.Tx, query string, args []any) ([]driver.DeadLetter, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	return collect(rows, err, func(l *driver.DeadLetter) error {
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

// deadMessages walks an index of dead messages, which has the order of the listing, or looks up the
// messages of an event.
func (w *messageWalk) deadMessages(step walk.Step, n int) (query string, args []any) {
	var c clause
	c.add(messagesIn[driver.StateDead])
	c.equal(`m.note`, w.f.Note)
	c.equal(`m.signature`, w.f.Signature)
	w.where(&c, step, byMessages)
	return `SELECT ` + listedEvent + `, m.id, m.route, m.destination,
		m.attempts, m.generation, m.status_code, m.last_error, m.signature, m.failed_at` +
		byMessages.from + c.where() + byMessages.order + fmt.Sprint(n), c.args
}

// deadEvents walks the index of dead events, which has the order of the listing, or looks up an event.
func (w *messageWalk) deadEvents(step walk.Step, n int) (query string, args []any) {
	var c clause
	c.add(`s.state = 3`)
	c.equal(`s.note`, w.f.Note)
	c.equal(`s.signature`, w.f.Signature)
	from := ` FROM hookonce_event_state s CROSS JOIN hookonce_event e ON e.id = s.id`
	if w.isKeyed {
		from = ` FROM hookonce_event e CROSS JOIN hookonce_event_state s ON s.id = e.id`
	}
	w.event(&c, `s.received_at`, `e.key IN (%s)`)
	c.place(`s.received_at, s.key, ''`, step)
	return `SELECT ` + listedEvent + `, '', '', '', s.attempts, s.generation, 0, s.last_error, s.signature, s.failed_at` + from +
		c.where() + fmt.Sprint(` ORDER BY s.received_at DESC, s.key DESC LIMIT `, n), c.args
}
