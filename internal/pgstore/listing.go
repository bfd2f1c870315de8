package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// messageColumns are the columns of a messageRow.
var messageColumns = `m.id, m.route, m.destination, m.state, m.note, m.generation, m.attempts,
	coalesce(m.status_code, 0), coalesce(m.last_error, ''), ` +
	bounded("m.due_at") + ", " + bounded("m.created_at") + ", " + boundedOrNull("m.sent_at") + ", " + boundedOrNull("m.failed_at")

// The names of states. The indexes are the numbers in the tables.
var eventStates, messageStates = driver.EventStates(), driver.MessageStates()

// messageRow holds one row of messageColumns.
type messageRow struct {
	driver.MessageDetail
	state                            int16
	generation, attempts, statusCode int32
	dueAt                            time.Time
	sentAt, failedAt                 *time.Time
}

func (m *messageRow) targets() []any {
	return []any{
		&m.ID, &m.Route, &m.Destination, &m.state, &m.Note, &m.generation, &m.attempts,
		&m.statusCode, &m.LastError, &m.dueAt, &m.CreatedAt, &m.sentAt, &m.failedAt,
	}
}

// finish returns the message after a scan.
func (m *messageRow) finish() driver.MessageDetail {
	m.State = messageStates[m.state]
	m.Generation, m.Attempts, m.StatusCode = int(m.generation), int(m.attempts), int(m.statusCode)
	m.CreatedAt, m.SentAt, m.FailedAt = m.CreatedAt.UTC(), timeOf(m.sentAt), timeOf(m.failedAt)
	switch m.State {
	case driver.StatePending:
		m.DueAt = m.dueAt.UTC()
	case driver.StateSending:
		m.LeasedUntil = m.dueAt.UTC()
	}
	return m.MessageDetail
}

// listedColumns are the first columns of a listing of messages, of the event e.
var listedColumns = `e.key, e.source, e.event_id, e.type, ` + bounded("e.received_at") + ` AS received_at`

// messageOrder is the order of [driver.MessageCursor], for messages m joined with their events e.
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

// whereMessages returns the condition of a listing, and false if no message can match.
func whereMessages(f *driver.MessageFilter, order messageOrder) (*condition, bool) {
	c := newCondition()
	possible := c.equal("m.id", f.MessageID) && c.equal("m.destination", f.Destination) && c.equal("m.note", f.Note) &&
		c.event("e.", "m.event_key = ANY ($%[1]d::bytea[]) OR m.cause = ANY ($%[1]d::bytea[])",
			&eventTerms{f.Source, f.Type, f.EventID, f.Text, f.Since, f.Until})
	if after := f.After; !after.IsZero() {
		// The second condition implies the first one, which an index serves.
		c.add(order.receivedAt+" <= $%d::timestamptz", &after.Event.ReceivedAt)
		c.add("("+order.receivedAt+", "+order.key+`, m.id COLLATE "C") < ($%d::timestamptz, $%d::bytea, $%d::text)`,
			&after.Event.ReceivedAt, after.Event.Key[:], after.ID)
		possible = possible && driver.IsText(after.ID)
	}
	return c, possible
}

// Messages implements [driver.Store].
func (s *Store) Messages(ctx context.Context, f *driver.MessageFilter) (*driver.MessagePage, error) {
	order := byEvent
	if f.State == driver.StateDead || f.State == driver.StateSkipped {
		order = byMessage
	}
	where, possible := whereMessages(f, order)
	possible = where.messageState(f.State) && possible
	page := &driver.MessagePage{}
	if !possible {
		return page, nil
	}
	limit := pageSize(f.Limit)
	sql := "SELECT " + listedColumns + ", " + messageColumns +
		" FROM " + s.schema + ".message m JOIN " + s.schema + ".event e ON e.key = m.event_key" +
		where.sql() + order.sql() + where.limit(limit)
	err := read(ctx, s.pools.Admin, "listing messages", func(r Rows) error {
		var m driver.ListedMessage
		var row messageRow
		var key []byte
		if err := r.Scan(append([]any{&key, &m.Source, &m.EventID, &m.Type, &m.ReceivedAt}, row.targets()...)...); err != nil {
			return err
		}
		m.Key, m.ReceivedAt, m.MessageDetail = driver.Key(key), m.ReceivedAt.UTC(), row.finish()
		page.Messages = append(page.Messages, m)
		return nil
	}, sql, where.args...)
	if err != nil {
		return nil, err
	}
	if len(page.Messages) > limit {
		page.Messages = page.Messages[:limit]
		last := &page.Messages[limit-1]
		page.Next = messageCursor(last.ReceivedAt, last.Key, last.ID)
	}
	return page, nil
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

func messageCursor(receivedAt time.Time, key driver.Key, id string) driver.MessageCursor {
	return driver.MessageCursor{Event: driver.Cursor{ReceivedAt: receivedAt, Key: key}, ID: id}
}

// The sources of dead letters m.
const (
	deadMessagesFrom = ` FROM {schema}.message m`
	deadEventsFrom   = ` FROM (
		SELECT key AS event_key, NULL::bytea AS cause, ''::text AS id, ''::text AS route, ''::text AS destination,
			attempts, generation, NULL::int AS status_code, last_error, signature, failed_at, note, state
		FROM {schema}.event_state
	) m`
)

// lettersQuery returns the query of a listing of dead letters. It reads a page of messages and a
// page of events, and takes a page of both together.
func (s *Store) lettersQuery(f *driver.MessageFilter, limit int) (query string, args []any, possible bool) {
	var parts []string
	for _, from := range []struct {
		sql   string
		order messageOrder
	}{{deadMessagesFrom, byMessage}, {deadEventsFrom, byEvent}} {
		// Both parts use the same arguments under the same numbers.
		var where *condition
		where, possible = whereMessages(f, from.order)
		where.messageState(driver.StateDead)
		possible = where.equal("m.signature", f.Signature) && possible
		parts = append(parts, "(SELECT "+listedColumns+", m.id, m.route, m.destination, m.attempts, m.generation,"+
			" coalesce(m.status_code, 0), coalesce(m.last_error, ''), m.signature, "+boundedOrNull("m.failed_at")+
			strings.ReplaceAll(from.sql, "{schema}", s.schema)+" JOIN "+s.schema+".event e ON e.key = m.event_key"+
			where.sql()+from.order.sql()+where.limit(limit)+")")
		args = where.args
	}
	query = "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") l" +
		` ORDER BY received_at DESC, key DESC, id COLLATE "C" DESC` + fmt.Sprintf(" LIMIT $%d::int", len(args))
	return query, args, possible
}

// DeadLetters implements [driver.Store].
func (s *Store) DeadLetters(ctx context.Context, f *driver.MessageFilter) (*driver.DeadLetterPage, error) {
	page := &driver.DeadLetterPage{}
	limit := pageSize(f.Limit)
	sql, args, possible := s.lettersQuery(f, limit)
	if !possible {
		return page, nil
	}
	err := read(ctx, s.pools.Admin, "listing dead letters", func(r Rows) error {
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
		page.DeadLetters = append(page.DeadLetters, d)
		return nil
	}, sql, args...)
	if err != nil {
		return nil, err
	}
	if len(page.DeadLetters) > limit {
		page.DeadLetters = page.DeadLetters[:limit]
		last := &page.DeadLetters[limit-1]
		page.Next = messageCursor(last.ReceivedAt, last.Key, last.MessageID)
	}
	return page, nil
}

// Quarantined implements [driver.Store].
func (s *Store) Quarantined(ctx context.Context, f *driver.QuarantineFilter) (*driver.QuarantinePage, error) {
	where := newCondition()
	page := &driver.QuarantinePage{}
	if !where.equal("source", f.Source) {
		return page, nil
	}
	if !f.After.IsZero() {
		where.add("(last_at, key) < ($%d::timestamptz, $%d::bytea)", &f.After.ReceivedAt, f.After.Key[:])
	}
	limit := pageSize(f.Limit)
	sql := s.selectQuarantined() + where.sql() + " ORDER BY last_at DESC, key DESC" + where.limit(limit)
	err := read(ctx, s.pools.Admin, "listing the quarantine", func(r Rows) error {
		q, err := scanQuarantined(r)
		page.Requests = append(page.Requests, q)
		return err
	}, sql, where.args...)
	if err != nil {
		return nil, err
	}
	if len(page.Requests) > limit {
		page.Requests = page.Requests[:limit]
		last := &page.Requests[limit-1]
		page.Next = driver.Cursor{ReceivedAt: last.LastAt, Key: last.Key}
	}
	return page, nil
}

// QuarantinedRequest implements [driver.Store].
func (s *Store) QuarantinedRequest(ctx context.Context, key driver.Key) (*driver.QuarantinedRequest, error) {
	var found *driver.QuarantinedRequest
	err := read(ctx, s.pools.Admin, "reading a quarantined request", func(r Rows) error {
		q, err := scanQuarantined(r)
		found = &q
		return err
	}, s.selectQuarantined()+" WHERE key = $1", key[:])
	if err == nil && found == nil {
		err = driver.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (s *Store) selectQuarantined() string {
	return "SELECT key, source, body_sha256, part, headers, body, reason, handled, count, first_at, last_at FROM " + s.schema + ".quarantine"
}

func scanQuarantined(r Rows) (driver.QuarantinedRequest, error) {
	var q driver.QuarantinedRequest
	var key, hash []byte
	var part int32
	if err := r.Scan(&key, &q.Source, &hash, &part, &q.Headers, &q.Body, &q.Reason, &q.Handled, &q.Count, &q.FirstAt, &q.LastAt); err != nil {
		return q, err
	}
	q.Key, q.BodySHA256, q.Part = driver.Key(key), [32]byte(hash), driver.Part(part)
	q.FirstAt, q.LastAt = q.FirstAt.UTC(), q.LastAt.UTC()
	return q, nil
}
