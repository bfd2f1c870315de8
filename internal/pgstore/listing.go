package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
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

// Quarantined implements [driver.Store].
func (s *Store) Quarantined(ctx context.Context, f *driver.QuarantineFilter) (*driver.QuarantinePage, error) {
	where := newCondition()
	if !where.equal("source", f.Source) {
		return &driver.QuarantinePage{}, nil
	}
	if !f.After.IsZero() {
		where.add("(last_at, key) < ($%d::timestamptz, $%d::bytea)", &f.After.At, f.After.Key[:])
	}
	var rows []driver.QuarantinedRequest
	sql := s.selectQuarantined() + where.sql() + " ORDER BY last_at DESC, key DESC" + where.limit(driver.PageSize(f.Limit))
	err := read(ctx, s.pools.Admin, "listing the quarantine", func(r Rows) error {
		q, err := scanQuarantined(r)
		rows = append(rows, q)
		return err
	}, sql, where.args...)
	if err != nil {
		return nil, err
	}
	return walk.QuarantinePage(rows, f.Limit), nil
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
