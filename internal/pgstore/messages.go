package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

const (
	opMessages = "listing messages"
	opLetters  = "listing dead letters"
)

// messageOrder is the order of [driver.Cursor], for messages m joined with their events e.
type messageOrder struct{ receivedAt, key string }

// Both orders are the same. The planner has an index on all events for byEvent, and one on the
// messages of some states for byMessage.
var (
	byEvent   = messageOrder{"e.received_at", "e.key"}
	byMessage = messageOrder{"m.received_at", "m.event_key"}
)

func (o messageOrder) sql() string {
	return " ORDER BY " + o.receivedAt + " DESC, " + o.key + ` DESC, m.id COLLATE "C" DESC`
}

// step returns the condition that a message is within a step. The conditions on the time alone are
// implied by the others, and an index serves them.
func (o messageOrder) step(c *condition, s walk.Step) string {
	sql := "true"
	row := func(at *driver.Cursor, bound, operator string) {
		time := c.arg(&at.At) + "::timestamptz"
		sql += " AND " + o.receivedAt + " " + bound + " " + time + " AND (" + o.receivedAt + ", " + o.key + `, m.id COLLATE "C") ` +
			operator + " (" + time + ", " + c.arg(at.Key[:]) + "::bytea, " + c.arg(at.ID) + "::text)"
	}
	if !s.After.IsZero() {
		row(&s.After, "<=", "<")
	}
	if !s.End.IsZero() {
		row(&s.End, ">=", ">=")
	}
	return sql
}

// messageWalk is one listing of messages or of dead letters.
type messageWalk struct {
	s  *Store
	db DB
	op string
	f  *driver.MessageFilter

	keys    []driver.Key // of the events that may have the id, if isKeyed
	isKeyed bool
	few     string // query for the ids of few messages that include all; or "". Its argument is the destination, unless that is "".
	number  string // of the state whose messages have an index in the order of the listing; or ""
}

// newMessageWalk returns a listing, or nil if no message can match. The caller must call release at
// the end.
func (s *Store) newMessageWalk(ctx context.Context, op string, f *driver.MessageFilter) (w *messageWalk, release func(), err error) {
	db, release, err := s.search(op, f.Text != "")
	if err != nil {
		return nil, nil, err
	}
	w = &messageWalk{s: s, db: db, op: op, f: f}
	if _, possible := w.where(); !possible || !driver.IsText(f.After.ID) {
		return nil, release, nil
	}
	if w.keys, w.isKeyed, err = s.lookUps(ctx, op, f.Source, f.EventID, f.Sources); err != nil {
		release()
		return nil, nil, err
	}
	return w, release, nil
}

// isPoint reports whether the listing has few rows, which an index finds.
func (w *messageWalk) isPoint() bool { return w.isKeyed || w.few != "" || w.f.MessageID != "" }

// where returns the conditions of the filter on messages m and their events e. It returns false if no
// message can match.
func (w *messageWalk) where() (*condition, bool) {
	c, f := newCondition(), w.f
	possible := c.equal("m.id", f.MessageID) && c.equal("m.destination", f.Destination) && c.equal("m.note", f.Note) &&
		c.event("e.", "m.event_key = ANY ($%[1]d::bytea[]) OR m.cause = ANY ($%[1]d::bytea[])", &eventTerms{
			source: f.Source, kind: f.Type, id: f.EventID, text: f.Text, keys: w.keys, isKeyed: w.isKeyed,
		})
	return c, possible
}

// from returns the messages of a step, and their events. table is that of the messages, or of dead
// events in their form. OFFSET and LIMIT keep the server from reading all events, or all messages, and
// looking for the others then.
func (w *messageWalk) from(c *condition, order messageOrder, step walk.Step, table string) string {
	if order == byEvent {
		events := walk.Step{After: step.After, End: step.End}
		if events.After.ID != "" {
			events.After.Key = next(events.After.Key)
		}
		c.terms = append(c.terms, order.step(c, step))
		return " FROM (SELECT * FROM " + w.s.schema + ".event e WHERE " + c.step(events, "e.received_at", "e.key") + " AND " +
			c.received("e.received_at", w.f.Since, w.f.Until) + " ORDER BY e.received_at DESC, e.key DESC OFFSET 0) e" +
			" CROSS JOIN LATERAL (SELECT * FROM " + w.s.schema + ".message m WHERE m.event_key = e.key OFFSET 0) m"
	}
	condition := order.step(c, step) + " AND " + c.received("m.received_at", w.f.Since, w.f.Until)
	if w.number != "" {
		condition += " AND m.state = " + w.number
	}
	if w.f.Destination != "" {
		condition += " AND m.destination = " + c.arg(w.f.Destination) + "::text"
	}
	if w.op == opLetters && w.f.Signature != "" {
		condition += " AND m.signature = " + c.arg(w.f.Signature) + "::text"
	}
	if w.f.MessageID != "" {
		condition += " AND m.id = " + c.arg(w.f.MessageID) + "::text"
	}
	if w.isKeyed {
		keys := c.arg(keyArgs(w.keys))
		condition += " AND (m.event_key = ANY (" + keys + "::bytea[]) OR m.cause = ANY (" + keys + "::bytea[]))"
	}
	if w.few != "" {
		few := w.few
		if strings.Contains(few, "$1") {
			few = strings.ReplaceAll(few, "$1", c.arg(w.f.Destination))
		}
		condition += " AND m.id = ANY (ARRAY(" + few + "))"
	}
	return " FROM (SELECT * FROM " + table + " m WHERE " + condition + byMessage.sql() + " OFFSET 0) m" +
		" CROSS JOIN LATERAL (SELECT * FROM " + w.s.schema + ".event e WHERE e.key = m.event_key LIMIT 1) e"
}

// order returns the order of the messages.
func (w *messageWalk) order() messageOrder {
	if w.number != "" || w.isPoint() {
		return byMessage
	}
	return byEvent
}

// reader returns the function that runs a statement.
func (w *messageWalk) reader() func(context.Context, DB, string, func(Rows) error, string, ...any) error {
	if w.isPoint() {
		return readPoints
	}
	return readStep
}

// messageState adds the condition on the state of a message. The number stands in the text, so that
// the partial indexes on states match in any plan.
func (c *condition) messageState(state string) bool {
	if state == "" {
		return true
	}
	for number, name := range messageStates {
		if name == state {
			c.terms = append(c.terms, fmt.Sprint("m.state = ", number))
			return true
		}
	}
	return false
}

// Messages implements [driver.Store].
func (s *Store) Messages(ctx context.Context, f *driver.MessageFilter) (*driver.MessagePage, error) {
	w, release, err := s.newMessageWalk(ctx, opMessages, f)
	if err != nil {
		return nil, err
	}
	defer release()
	if w == nil || !newCondition().messageState(f.State) {
		return &driver.MessagePage{}, nil
	}
	if w.number = walk.IndexedState(f.State, f.Note); w.number == "" && !w.isPoint() {
		if w.few, err = s.fewIDs(ctx, f); err != nil {
			return nil, err
		}
	}
	l := &walk.Listing[driver.ListedMessage]{Edge: w.messageEdge, Match: w.matchMessages}
	return walk.Messages(ctx, l, f, w.isPoint(), w.number)
}

// fewIDs returns a query for the ids of the messages that may match, or "" if they are many.
func (s *Store) fewIDs(ctx context.Context, f *driver.MessageFilter) (string, error) {
	if f.State != driver.StatePending && f.State != driver.StateSending {
		return s.few(ctx, opMessages, walk.FewMessages, "SELECT id FROM {schema}.message ORDER BY id")
	}
	query := "SELECT id FROM {schema}.message WHERE state IN (0, 1)"
	if f.Destination == "" {
		return s.few(ctx, opMessages, walk.FewKeys, query)
	}
	return s.few(ctx, opMessages, walk.FewKeys, query+" AND destination = $1::text", f.Destination)
}

// messageEdge implements Edge of [walk.Listing]. Unless the messages have an index in the order of the
// listing, the candidates are all events: those of other events, too, which have no messages.
func (w *messageWalk) messageEdge(ctx context.Context, step walk.Step, n int) (driver.Cursor, int, error) {
	if w.number != "" {
		return w.indexEdge(ctx, step, n, false)
	}
	c := newCondition()
	s := walk.Step{After: step.After, End: step.End}
	if s.After.ID != "" {
		// Some messages of this event are not read yet, so it is a candidate again: the condition
		// on events excludes the event itself.
		s.After.Key = next(s.After.Key)
	}
	sql := "SELECT received_at, key FROM " + w.s.schema + ".event WHERE " + c.step(s, "received_at", "key") + " AND " +
		c.received("received_at", w.f.Since, w.f.Until) + fmt.Sprintf(" ORDER BY received_at DESC, key DESC LIMIT %d", n)
	return edgeOf(ctx, w.db, w.op, sql, bounded("received_at")+", key, ''", c.args)
}

// next returns the key after a key; the highest key is its own.
func next(key driver.Key) driver.Key {
	higher := key
	for i := len(higher) - 1; i >= 0; i-- {
		if higher[i]++; higher[i] != 0 {
			return higher
		}
	}
	return key
}

// indexEdge is Edge for messages in the order of an index, and also for dead events if withEvents is
// true.
func (w *messageWalk) indexEdge(ctx context.Context, step walk.Step, n int, withEvents bool) (driver.Cursor, int, error) {
	c := newCondition()
	limit := fmt.Sprint(" LIMIT ", n)
	condition := "m.state = " + w.number
	if w.f.Destination != "" && w.number == walk.DeadNumber { // no other index has it
		condition += " AND m.destination = " + c.arg(w.f.Destination) + "::text"
	}
	if withEvents && w.f.Signature != "" {
		condition += " AND m.signature = " + c.arg(w.f.Signature) + "::text"
	}
	part := func(from string) string {
		return "(SELECT m.received_at, m.event_key, m.id" + from + " WHERE " + condition + " AND " + byMessage.step(c, step) + " AND " +
			c.received("m.received_at", w.f.Since, w.f.Until) + byMessage.sql() + limit + ")"
	}
	sql := part(" FROM " + w.s.schema + ".message m")
	if withEvents {
		sql = "SELECT * FROM (" + sql + " UNION ALL " + part(" FROM "+strings.ReplaceAll(deadEvents, "{schema}", w.s.schema)+" m") +
			`) u ORDER BY received_at DESC, event_key DESC, id COLLATE "C" DESC` + limit
	}
	return edgeOf(ctx, w.db, w.op, sql, bounded("received_at")+", event_key, id", c.args)
}

func (w *messageWalk) matchMessages(ctx context.Context, step walk.Step, n int) (messages []driver.ListedMessage, err error) {
	order := w.order()
	where, _ := w.where()
	where.messageState(w.f.State)
	from := w.from(where, order, step, w.s.schema+".message")
	err = w.reader()(ctx, w.db, w.op, func(r Rows) error {
		var m driver.ListedMessage
		var row messageRow
		var key []byte
		if err := r.Scan(append([]any{&key, &m.Source, &m.EventID, &m.Type, &m.ReceivedAt}, row.targets()...)...); err != nil {
			return err
		}
		m.Key, m.ReceivedAt, m.MessageDetail = driver.Key(key), m.ReceivedAt.UTC(), row.finish()
		messages = append(messages, m)
		return nil
	}, "SELECT "+listedColumns+", "+messageColumns+from+where.sql()+order.sql()+fmt.Sprint(" LIMIT ", n), where.args...)
	return messages, err
}

// deadEvents are dead events in the form of messages.
const deadEvents = `(
		SELECT key AS event_key, NULL::bytea AS cause, ''::text AS id, ''::text AS route, ''::text AS destination, received_at,
			attempts, generation, NULL::int AS status_code, last_error, signature, failed_at, note, state
		FROM {schema}.event_state
	)`

// DeadLetters implements [driver.Store].
func (s *Store) DeadLetters(ctx context.Context, f *driver.MessageFilter) (*driver.DeadLetterPage, error) {
	w, release, err := s.newMessageWalk(ctx, opLetters, f)
	if err != nil {
		return nil, err
	}
	defer release()
	if w == nil || !driver.IsText(f.Signature) {
		return &driver.DeadLetterPage{}, nil
	}
	w.number = walk.DeadNumber
	l := &walk.Listing[driver.DeadLetter]{
		Edge: func(ctx context.Context, step walk.Step, n int) (driver.Cursor, int, error) {
			return w.indexEdge(ctx, step, n, f.Destination == "")
		},
		Match: w.matchLetters,
	}
	return walk.Letters(ctx, l, f, w.isPoint())
}

// matchLetters reads a page of messages and a page of events, and takes a page of both together.
func (w *messageWalk) matchLetters(ctx context.Context, step walk.Step, n int) (letters []driver.DeadLetter, err error) {
	var parts []string
	var args []any
	for _, table := range []string{w.s.schema + ".message", strings.ReplaceAll(deadEvents, "{schema}", w.s.schema)} {
		// Both parts use the same arguments under the same numbers.
		where, _ := w.where()
		from := w.from(where, byMessage, step, table)
		parts = append(parts, "(SELECT "+listedColumns+", m.id, m.route, m.destination, m.attempts, m.generation,"+
			" coalesce(m.status_code, 0), coalesce(m.last_error, ''), coalesce(m.signature, '(no error)'), "+boundedOrNull("m.failed_at")+
			from+where.sql()+byMessage.sql()+fmt.Sprintf(" LIMIT %d)", n))
		args = where.args
	}
	err = w.reader()(ctx, w.db, w.op, func(r Rows) error {
		var d driver.DeadLetter
		var key []byte
		var attempts, generation, statusCode int32
		var failedAt *time.Time
		if err := r.Scan(&key, &d.Source, &d.EventID, &d.Type, &d.ReceivedAt, &d.MessageID, &d.Route, &d.Destination,
			&attempts, &generation, &statusCode, &d.LastError, &d.Signature, &failedAt); err != nil {
			return err
		}
		d.Key, d.ReceivedAt, d.FailedAt = driver.Key(key), d.ReceivedAt.UTC(), timeOf(failedAt)
		d.Attempts, d.Generation, d.StatusCode = int(attempts), int(generation), int(statusCode)
		letters = append(letters, d)
		return nil
	}, "SELECT * FROM ("+strings.Join(parts, " UNION ALL ")+") l"+
		` ORDER BY received_at DESC, key DESC, id COLLATE "C" DESC`+fmt.Sprint(" LIMIT ", n), args...)
	return letters, err
}
