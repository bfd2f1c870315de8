package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	detailColumns = eventColumns + `, headers, body, body IS NULL, body_sha256,
		coalesce((SELECT d.other_bodies FROM hookonce_delivery_count d WHERE d.key = v.key), 0),
		coalesce((SELECT d.repeats FROM hookonce_delivery_count d WHERE d.key = v.key), 0),
		(SELECT d.last_at FROM hookonce_delivery_count d WHERE d.key = v.key), remote, gateway,
		coalesce((SELECT f.event_id FROM hookonce_event f WHERE f.key = v.repeat_of), '')`

	messageColumns = `m.id, m.route, m.destination, m.state, m.note, m.generation, m.attempts, m.status_code, m.last_error,
		m.due_at, m.created_at, m.sent_at, m.failed_at`

	selectMessages = `SELECT ` + messageColumns + ` FROM hookonce_message m 
		WHERE m.event = (SELECT id FROM hookonce_event WHERE key = ?1) OR m.cause = ?1 ORDER BY m.route, m.id`

	selectAttempts = `SELECT a.message_id, a.generation, a.number, a.outcome, a.status_code, a.error, a.at, a.took,
			coalesce(r.content_type, ''), r.response
		FROM hookonce_attempt a LEFT JOIN hookonce_attempt_response r
			ON r.message_id = a.message_id AND r.generation = a.generation AND r.number = a.number
		WHERE a.message_id IN ` + evidence + `
		UNION ALL
		SELECT id, generation, attempts, 'sent', status_code, '', sent_at, took, '', NULL FROM hookonce_message
		WHERE (event = (SELECT id FROM hookonce_event WHERE key = ?1) OR cause = ?1) AND sent_at IS NOT NULL
		UNION ALL
		SELECT '', generation, number, outcome, 0, error, at, took, '', NULL FROM hookonce_event_attempt WHERE key = ?1
		ORDER BY 7, 2, 3, 1`
)

// Event implements driver.Store. It reads for at most 5 s.
func (s *Store) Event(ctx context.Context, source, eventID string) (*driver.EventDetail, error) {
	var detail *driver.EventDetail
	err := s.snapshot(ctx, "reading an event", func(ctx context.Context, tx *sql.Tx) (err error) {
		r := &detailReader{tx: tx}
		detail, err = r.read(ctx, source, eventID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return detail, nil
}

type detailReader struct {
	tx *sql.Tx
}

func (r *detailReader) read(ctx context.Context, source, eventID string) (*driver.EventDetail, error) {
	d, err := r.event(ctx, source, eventID)
	if err != nil {
		return nil, err
	}
	if err = r.recent(ctx, d); err != nil {
		return nil, err
	}
	if err = r.otherBody(ctx, d); err != nil {
		return nil, err
	}
	if d.Messages, err = r.messages(ctx, d.Key); err != nil {
		return nil, err
	}
	if d.Tries, err = r.attempts(ctx, d.Key); err != nil {
		return nil, err
	}
	d.History, err = r.history(ctx, d.Key)
	return d, err
}

func (r *detailReader) event(ctx context.Context, source, eventID string) (*driver.EventDetail, error) {
	key, err := r.find(ctx, source, eventID)
	if err != nil {
		return nil, err
	}
	rows, err := r.tx.QueryContext(ctx, `SELECT `+detailColumns+` FROM hookonce_event_overview v WHERE key = ?`, key[:])
	found, err := collect(rows, err, func(d *driver.EventDetail) error {
		var hash []byte
		var lastAt sql.NullInt64
		err := scanEvent(&d.Event, rows, &d.Headers, &d.Body, &d.BodyPruned, &hash,
			&d.Deliveries.OtherBodies, &d.Deliveries.Repeats, &lastAt,
			&d.Deliveries.FirstRemote, &d.Deliveries.FirstGateway, &d.Deliveries.RepeatOf)
		copy(d.BodySHA256[:], hash)
		d.Deliveries.Count = 1 + d.Duplicates
		d.Deliveries.FirstAt = d.ReceivedAt
		d.Deliveries.LastAt = d.ReceivedAt
		if last := fromNullMicros(lastAt); last.After(d.ReceivedAt) {
			d.Deliveries.LastAt = last
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found[0], nil // find saw it in the same transaction
}

// find returns the key of the event that is shown as eventID. If several are shown alike, it takes
// the one whose key is the first candidate. It scans all rows only for an id with so many parts
// that its candidates cannot be listed.
func (r *detailReader) find(ctx context.Context, source, eventID string) (driver.Key, error) {
	const query = `SELECT key FROM hookonce_event WHERE source = ? AND event_id = ? AND outbox = 0`
	candidates := driver.CandidateKeys(source, eventID)
	where, args := ` ORDER BY received_at LIMIT 1`, []any{source, eventID}
	if candidates != nil {
		where = ` AND ` + keyIn(`key`, len(candidates))
		args = append(args, keyArgs(candidates)...)
	}
	rows, err := r.tx.QueryContext(ctx, query+where, args...) //nolint:sqlclosecheck // collect closes them
	found, err := collect(rows, err, func(key *driver.Key) error {
		var b []byte
		err := rows.Scan(&b)
		copy(key[:], b)
		return err
	})
	switch {
	case err != nil:
		return driver.Key{}, err
	case len(found) == 0:
		return driver.Key{}, fmt.Errorf("%w: source %q has no event %q", driver.ErrNotFound, source, eventID)
	case len(found) == 1:
		return found[0], nil
	}
	i := slices.IndexFunc(candidates, func(key driver.Key) bool { return slices.Contains(found, key) })
	return candidates[i], nil
}

func (r *detailReader) messages(ctx context.Context, key driver.Key) ([]driver.MessageDetail, error) {
	rows, err := r.tx.QueryContext(ctx, selectMessages, key[:])
	return collect(rows, err, func(m *driver.MessageDetail) error { return scanMessage(m, rows) })
}

// scanMessage scans the additional targets, then messageColumns.
func scanMessage(m *driver.MessageDetail, rows *sql.Rows, more ...any) error {
	var state int
	var dueAt, createdAt int64
	var sentAt, failedAt sql.NullInt64
	if err := rows.Scan(slices.Concat(more, []any{
		&m.ID, &m.Route, &m.Destination, &state, &m.Note, &m.Generation, &m.Attempts,
		&m.StatusCode, &m.LastError, &dueAt, &createdAt, &sentAt, &failedAt,
	})...); err != nil {
		return err
	}
	m.State = messageStates[state]
	switch state {
	case statePending:
		m.DueAt = fromMicros(dueAt)
	case stateRunning:
		m.LeasedUntil = fromMicros(dueAt)
	}
	m.CreatedAt = fromMicros(createdAt)
	m.SentAt = fromNullMicros(sentAt)
	m.FailedAt = fromNullMicros(failedAt)
	return nil
}

func (r *detailReader) attempts(ctx context.Context, key driver.Key) ([]driver.Attempt, error) {
	rows, err := r.tx.QueryContext(ctx, selectAttempts, key[:])
	return collect(rows, err, func(a *driver.Attempt) error {
		var at, took int64
		err := rows.Scan(&a.MessageID, &a.Generation, &a.Number, &a.Outcome, &a.StatusCode, &a.Error, &at, &took, &a.ResponseType, &a.Response)
		a.At = fromMicros(at)
		a.Took = time.Duration(took) * time.Microsecond
		return err
	})
}
