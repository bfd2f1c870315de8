package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// For a due message without attempts left: its last lease ran out, or the limit was lowered. Also
	// for one whose token cannot grow. These errors are their own signatures.
	buryUsedUp = `UPDATE hookonce_message
		SET state = 3, failed_at = ?1, last_error = CASE WHEN token = 9223372036854775807 THEN '` + driver.ErrorTokenUsedUp + `'
			WHEN state = 1 THEN ?2 ELSE last_error END,
			signature = CASE WHEN token = 9223372036854775807 THEN '` + driver.ErrorTokenUsedUp + `'
			WHEN state = 1 THEN ?2 WHEN last_error = '' THEN '` + driver.NoErrorSignature + `' ELSE signature END
		WHERE number = ?3`

	// In the order of the index alone. Sorting messages that became due in the same microsecond
	// would read all their bodies.
	selectOldestDue  = selectDue + ` ORDER BY m.due_at LIMIT ?3`
	selectUntriedDue = selectDue + ` AND m.attempts = 0 ORDER BY m.due_at DESC LIMIT ?3`

	selectDue = `SELECT m.number, m.id, m.event_key, m.token, m.attempts, m.state = 1, m.generation,
			e.source, e.event_id, e.type, m.route, m.destination, e.received_at, m.replayed, ` + bodyColumns + `
		FROM hookonce_message m JOIN hookonce_event e ON e.id = m.event
		WHERE m.destination = ?1 AND m.state IN (0, 1) AND m.due_at <= ?2 AND m.id NOT IN (SELECT value FROM json_each(?4))
			AND NOT EXISTS (SELECT 1 FROM hookonce_paused_destination WHERE destination = ?1)`

	selectDueDestinations = `SELECT d.value FROM json_each(?1) d
		WHERE EXISTS (SELECT 1 FROM hookonce_message INDEXED BY hookonce_message_due
				WHERE destination = d.value AND state IN (0, 1) AND due_at <= ?2)
			AND NOT EXISTS (SELECT 1 FROM hookonce_paused_destination WHERE destination = d.value)`

	takeLease = `UPDATE hookonce_message SET state = 1, token = ?, attempts = ?, due_at = ? WHERE number = ?`

	// The attempt was not recorded, so its number is free. If it is not free, the existing row is
	// better.
	insertLost = `INSERT INTO hookonce_attempt
		(message_id, generation, number, outcome, status_code, error, at, took) VALUES (?, ?, ?, ?, 0, ?, ?, 0)
		ON CONFLICT DO NOTHING`

	releaseMessage = `UPDATE hookonce_message SET state = 0, attempts = attempts - 1, due_at = ?5
		WHERE ` + ofID + ` AND token = ?6 AND state = 1`
)

// DueDestinations implements driver.Store.
func (s *Store) DueDestinations(ctx context.Context, destinations []string) ([]string, error) {
	const op = "looking for due messages"
	if len(destinations) == 0 {
		return nil, nil
	}
	names, err := json.Marshal(destinations)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	var due []string
	err = s.read(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, selectDueDestinations, string(names), clock(time.Time{})) //nolint:sqlclosecheck // collect closes them
		due, err = collect(rows, err, func(name *string) error { return rows.Scan(name) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

// Lease implements driver.Store.
func (s *Store) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	leased := &driver.Leased{}
	if p.Limit <= 0 {
		return leased, nil
	}
	for range driver.MaxLeaseRounds {
		round, err := s.leaseOnce(ctx, p, false)
		if isOfRow(err) || isUnreadable(err) {
			if round, err = s.leaseOnce(ctx, p, true); err == nil {
				err = s.readApart(ctx, &round)
			}
		}
		leased.Messages = round.Messages
		leased.Buried = append(leased.Buried, round.Buried...)
		leased.Refused = append(leased.Refused, round.Refused...)
		switch {
		case err == nil:
		case len(leased.Buried) > 0:
			// The buried messages are dead for good, and no later call would return them.
			return leased, nil
		default:
			return nil, err
		}
		// If all due messages had used up their attempts, there may be more. A refused one would be named again.
		if len(round.Messages) > 0 || len(round.Buried) == 0 || len(round.Refused) > 0 {
			break
		}
	}
	return leased, nil
}

func (s *Store) leaseOnce(ctx context.Context, p *driver.LeaseParams, apart bool) (leased driver.Leased, err error) {
	err = s.writeEach(ctx, "leasing messages", p.Now, 1, func(t *writeTx, _ int) (err error) {
		leased, err = t.lease(ctx, p, apart)
		return err
	})
	if err != nil {
		return driver.Leased{}, err
	}
	return leased, nil
}

// lease takes at most p.Limit due messages: it holds the write lock, and a backlog must not prolong
// that. If apart is true, it passes over rows that the database refuses to change, and reads no bodies.
func (t *writeTx) lease(ctx context.Context, p *driver.LeaseParams, apart bool) (leased driver.Leased, err error) {
	due, err := t.due(p, apart)
	if err != nil {
		return driver.Leased{}, err
	}
	until := t.now + p.For.Microseconds()
	for i := range due {
		m := &due[i]
		buried := m.Attempt >= p.MaxAttempts || m.Token == math.MaxInt64
		lease := func() error { return t.leaseOne(m, buried, until) }
		if apart {
			err = t.whole(lease)
		} else {
			err = lease()
		}
		if err != nil {
			if !apart || !isOfRow(err) {
				return driver.Leased{}, err
			}
			// Only the statements for this message were undone.
			err = t.store.failed(ctx, "leasing a message", err)
			leased.Refused = append(leased.Refused, driver.RefusedMessage{ID: m.ID, Err: err})
			continue
		}
		if buried {
			m.Token, m.Headers, m.Body = 0, nil, nil
			leased.Buried = append(leased.Buried, m.Message)
			continue
		}
		leased.Messages = append(leased.Messages, m.Message)
	}
	return leased, nil
}

// leaseOne leases or buries m.
func (t *writeTx) leaseOne(m *dueMessage, buried bool, until int64) (err error) {
	if m.Expired {
		if err := t.recordLost(&m.Message, buried); err != nil {
			return err
		}
	}
	if buried {
		_, err = t.exec(buryUsedUp, t.now, driver.ErrorLastLeaseRanOut, m.number)
		return err
	}
	m.Token, m.Attempt = m.Token+1, m.Attempt+1
	_, err = t.exec(takeLease, m.Token, m.Attempt, until, m.number)
	return err
}

// recordLost records the attempt m.Attempt, whose lease ran out.
func (t *writeTx) recordLost(m *driver.Message, buried bool) error {
	outcome, reason := "retry", driver.ErrorLeaseRanOut
	if buried {
		outcome, reason = "dead", driver.ErrorLastLeaseRanOut
	}
	_, err := t.exec(insertLost, m.ID, m.Generation, m.Attempt, outcome, reason, t.now)
	return err
}

// dueMessage is a message with the number of its row.
type dueMessage struct {
	driver.Message
	number int64
}

// due returns the due messages with the token and the attempt of their last lease; if apart is true, without headers and bodies.
func (t *writeTx) due(p *driver.LeaseParams, apart bool) ([]dueMessage, error) {
	query := selectOldestDue
	if p.Untried {
		query = selectUntriedDue
	}
	if apart {
		query = withoutBodies(query)
	}
	skip, err := json.Marshal(append([]string{}, p.Skip...))
	if err != nil {
		return nil, err
	}
	rows, err := t.query(query, p.Destination, t.now, p.Limit, string(skip))
	return collect(rows, err, func(m *dueMessage) error {
		var key []byte
		var receivedAt int64
		err := rows.Scan(&m.number, &m.ID, &key, &m.Token, &m.Attempt, &m.Expired, &m.Generation,
			&m.Source, &m.EventID, &m.Type, &m.Route, &m.Destination, &receivedAt, &m.Replayed, &m.Headers, &m.Body)
		copy(m.Key[:], key)
		m.ReceivedAt = fromMicros(receivedAt)
		return err
	})
}

// bodyColumns are the columns of an event that may lie on damaged pages of their own.
const bodyColumns = `e.headers, e.body`

const selectBody = `SELECT ` + bodyColumns + ` FROM hookonce_event e WHERE e.key = ?`

func withoutBodies(query string) string { return strings.Replace(query, bodyColumns, `NULL, NULL`, 1) }

// readApart reads the headers and the bodies of leased messages one by one. SQLite writes nothing in a transaction that has met a
// damaged page. After an error it gives the leases back.
func (s *Store) readApart(ctx context.Context, leased *driver.Leased) (err error) {
	for i := range leased.Messages {
		m := &leased.Messages[i]
		if m.Headers, m.Body, m.Unreadable, err = s.readBody(ctx, m.Key); err != nil {
			break
		}
	}
	if err == nil {
		return nil
	}
	p := &driver.ReleaseParams{}
	for i := range leased.Messages {
		p.Leases = append(p.Leases, driver.MessageLease{ID: leased.Messages[i].ID, Token: leased.Messages[i].Token})
	}
	leased.Messages = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	return errors.Join(err, s.Release(ctx, p))
}

// readBody returns the headers and the body of an event, or why they cannot be read.
func (s *Store) readBody(ctx context.Context, key driver.Key) (headers, body []byte, unreadable, err error) {
	err = s.reader.QueryRowContext(ctx, selectBody, key[:]).Scan(&headers, &body)
	switch {
	case isUnreadable(err):
		return nil, nil, err, nil
	case err != nil:
		return nil, nil, nil, s.failed(ctx, "reading a body", err)
	}
	return headers, body, nil, nil
}

// isUnreadable reports whether a page of the database is damaged.
func isUnreadable(err error) bool { return resultCode(err) == codeCorrupt }

// collect reads all rows of a query, whose error is err, with scan, and closes them.
func collect[T any](rows *sql.Rows, err error, scan func(*T) error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		var one T
		if err := scan(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, p *driver.ReleaseParams) error {
	return s.writeEach(ctx, "releasing messages", p.Now, len(p.Leases), func(t *writeTx, i int) error {
		_, err := t.exec(releaseMessage, idArgs(p.Leases[i].ID, t.now, p.Leases[i].Token)...)
		return err
	})
}
