package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const opClaim = "claiming"

const (
	insertEvent = `INSERT INTO hookonce_event
		(key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, repeat_of, remote, gateway)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`

	insertState = `INSERT INTO hookonce_event_state (id, key, source, type, state, received_at, due_at, run)
		VALUES (?, ?, ?, ?, 0, ?5, ?5, ?5)`

	insertUndecided = `INSERT INTO hookonce_event_state
		(id, key, source, type, state, received_at, due_at, run, failed_at, undecided, queued, note, last_error, signature)
		VALUES (?, ?, ?, ?, 3, ?5, ?5, ?5, ?5, 1, ?6, ?7, ?7, ?8)`

	// For a claim whose transaction does the work too.
	insertDone = `INSERT INTO hookonce_event_state (id, key, source, type, state, attempts, received_at, due_at, processed_at, run)
		VALUES (?, ?, ?, ?, 2, 1, ?5, ?5, ?5, ?5)`

	insertMessage = `INSERT INTO hookonce_message
		(id, event, event_key, route, destination, token, received_at, created_at, state, attempts, due_at)
		VALUES (?, ?, ?, ?, ?, ?6, ?6, ?6, ?7, ?7, ?8)`

	selectIsPaused = `SELECT EXISTS (SELECT 1 FROM hookonce_paused_destination WHERE destination = ?)`

	insertBodySeen = `INSERT INTO hookonce_body_seen (body_key, key, seen_at) VALUES (?, ?, ?)`

	selectBodySeen = `SELECT b.key, e.event_id FROM hookonce_body_seen b
		JOIN hookonce_event e ON e.key = b.key WHERE b.body_key = ?`

	// For Prove.
	unclaim = `DELETE FROM hookonce_event WHERE key = ?`

	selectClaimed = `SELECT body_sha256, state = 'dead' FROM hookonce_event_overview WHERE key = ?`
)

// Claim implements driver.Store. SQLite has no lock on a single key, so LockTimeout bounds nothing:
// a call waits for the write lock until the context ends.
func (s *Store) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	if err := checkClaims(p.Claims); err != nil {
		return nil, fmt.Errorf("%s: %w", opClaim, err)
	}
	results := make([]driver.ClaimResult, len(p.Claims))
	err := s.writeEachApart(ctx, opClaim, p.Now, len(p.Claims), func(t *writeTx, i int) error {
		if i == 0 {
			if err := t.checkFlush(p.AllowUnsafe); err != nil {
				return err
			}
		}
		t.leases = true
		return t.claim(&p.Claims[i], &results[i])
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// Prove implements driver.Store. A second session has nothing to show: there is one writer.
func (s *Store) Prove(ctx context.Context) (skipped []string, err error) {
	probe := driver.NewProbe()
	return nil, s.writeEach(ctx, "testing a claim", time.Time{}, 1, func(t *writeTx, _ int) error {
		var first, second driver.ClaimResult
		if err := t.claim(probe, &first); err != nil {
			return err
		}
		if err := t.claim(probe, &second); err != nil {
			return err
		}
		if !first.Claimed {
			return driver.ErrNotStored
		}
		if !second.Duplicate {
			return &driver.ServerError{
				Found:  "the file lacks what hookonce needs: a claimed event is a duplicate from then on",
				Remedy: "restore the file from a backup",
			}
		}
		_, err := t.exec(unclaim, probe.Key[:])
		return err
	})
}

// Server implements driver.Store. There is none.
func (s *Store) Server(context.Context) (string, error) { return "", nil }

// checkClaims panics if the claims are out of order, and fails if checkClaim refuses one.
func checkClaims(claims []driver.Claim) error {
	for i := 1; i < len(claims); i++ {
		if bytes.Compare(claims[i-1].Key[:], claims[i].Key[:]) >= 0 {
			panic("sqlitestore: claims are not sorted by key without repetition")
		}
	}
	for i := range claims {
		if err := checkClaim(&claims[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkClaim refuses texts that SQLite would store but could not return: its text columns accept
// any bytes, and its functions stop at a NUL.
func checkClaim(c *driver.Claim) error {
	for _, text := range [...]string{c.Source, c.EventID, c.Type, c.Undecided, c.Remote, c.Gateway} {
		if !driver.IsText(text) {
			return fmt.Errorf("%w: its source, event id, type, note, remote or gateway is not valid UTF-8 or holds a NUL", driver.ErrBadRow)
		}
	}
	for i := range c.Messages {
		// No index has the ids of all messages, so an id must lead to its event.
		first, last, ok := driver.EventsOfMessage(c.Messages[i].ID)
		if !ok || bytes.Compare(c.Key[:], first[:]) < 0 || bytes.Compare(c.Key[:], last[:]) > 0 {
			return fmt.Errorf("%w: the id %.255q of a message is not that of driver.MessageID", driver.ErrBadRow, c.Messages[i].ID)
		}
	}
	return checkMessages(c.Messages)
}

func checkMessages(messages []driver.NewMessage) error {
	for i := range messages {
		m := &messages[i]
		if !driver.IsText(m.ID) || !driver.IsText(m.Route) || !driver.IsText(m.Destination) {
			return fmt.Errorf("%w: the id, route or destination of a message is not valid UTF-8 or holds a NUL", driver.ErrBadRow)
		}
	}
	return nil
}

// nullMicros returns NULL for the zero time.
func nullMicros(at time.Time) (sql.NullInt64, error) {
	if at.IsZero() {
		return sql.NullInt64{}, nil
	}
	// Beyond these years the microseconds overflow 64 bits.
	if year := at.Year(); year < -290_000 || year > 290_000 {
		return sql.NullInt64{}, fmt.Errorf("%w: the event's time is in the year %d", driver.ErrBadRow, year)
	}
	return sql.NullInt64{Int64: at.UnixMicro(), Valid: true}, nil
}

func (t *writeTx) claim(c *driver.Claim, result *driver.ClaimResult) error {
	var repeatOf any
	if c.BodyGuard != driver.BodyIgnore {
		if err := t.findRepeat(c, result); err != nil {
			return err
		}
		if result.RepeatOf != "" {
			repeatOf = result.RepeatOfKey[:]
		}
	}
	if repeatOf != nil && c.BodyGuard == driver.BodyRefuse {
		// A new event is refused; an event that exists already is a plain duplicate.
		if err := t.readClaimed(c, result); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		result.Duplicate = true
		return nil
	}
	occurredAt, err := nullMicros(c.OccurredAt)
	if err != nil {
		return err
	}
	inserted, id, err := t.execID(insertEvent, c.Key[:], c.Source, c.EventID, c.Type, occurredAt, t.now,
		blob(c.Headers), blob(c.Body), c.BodyHash[:], c.Work != driver.WorkNone || c.Undecided != "", repeatOf, c.Remote, c.Gateway)
	if err != nil {
		return err
	}
	if inserted == 0 {
		if err := t.readClaimed(c, result); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return driver.ErrNotStored
	}
	result.Claimed = true
	return t.writeWork(c, id, repeatOf == nil, result)
}

// writeWork writes the rows of a new event with the number id: its state, its messages, and its body's key if bodies
// are compared and the body is new. It adds the leases to result.
func (t *writeTx) writeWork(c *driver.Claim, id int64, newBody bool, result *driver.ClaimResult) error {
	if c.Work != driver.WorkNone || c.Undecided != "" {
		query, args := insertState, []any{id, c.Key[:], c.Source, c.Type, t.now}
		switch {
		case c.Undecided != "":
			query, args = insertUndecided, append(args, c.Work == driver.WorkQueued, c.Undecided, driver.ErrorSignature(c.Undecided))
		case c.Work == driver.WorkDone:
			query = insertDone
		}
		if err := t.insert(query, args...); err != nil {
			return err
		}
	}
	if c.Order != nil && c.Work == driver.WorkQueued && c.Undecided == "" {
		if err := t.joinLine(id+1<<62, "\n"+c.Source, t.now, c.Order); err != nil {
			return err
		}
	}
	for i := range c.Messages {
		if err := t.writeMessage(c, id, &c.Messages[i], result); err != nil {
			return err
		}
	}
	if c.BodyGuard == driver.BodyIgnore || !newBody {
		return nil
	}
	bodyKey := driver.BodyKey(c.Source, c.BodyHash)
	return t.insert(insertBodySeen, bodyKey[:], c.Key[:], t.now)
}

// writeMessage writes a message of a new event, and leases it if it may.
func (t *writeTx) writeMessage(c *driver.Claim, event int64, m *driver.NewMessage, result *driver.ClaimResult) error {
	leased := 0
	if t.leases && m.LeaseFor > 0 {
		var paused bool
		if err := t.queryRow(selectIsPaused, m.Destination).Scan(&paused); err != nil {
			return err
		}
		if !paused {
			leased = 1
			result.Leases = append(result.Leases, driver.MessageLease{ID: m.ID, Token: t.now})
			result.ReceivedAt = fromMicros(t.now)
		}
	}
	due := t.now + int64(leased)*m.LeaseFor.Microseconds()
	if m.Order == nil {
		return t.insert(insertMessage, m.ID, event, c.Key[:], m.Route, m.Destination, t.now, leased, due)
	}
	inserted, number, err := t.execID(insertMessage, m.ID, event, c.Key[:], m.Route, m.Destination, t.now, leased, due)
	if err == nil && inserted != 1 {
		return driver.ErrNotStored
	}
	if err != nil {
		return err
	}
	return t.joinLine(number, m.Destination, t.now, m.Order)
}

// insert inserts one row, or changes one. The error is driver.ErrNotStored if a trigger drops it.
func (t *writeTx) insert(query string, args ...any) error {
	inserted, err := t.exec(query, args...)
	if err == nil && inserted != 1 {
		return driver.ErrNotStored
	}
	return err
}

// readClaimed fills in the result of a duplicate. The error is sql.ErrNoRows if the event does not
// exist.
func (t *writeTx) readClaimed(c *driver.Claim, result *driver.ClaimResult) error {
	var hash []byte
	if err := t.queryRow(selectClaimed, c.Key[:]).Scan(&hash, &result.Dead); err != nil {
		return err
	}
	result.Duplicate = true
	result.OtherBody = c.OtherBody(hash)
	return nil
}

// findRepeat sets RepeatOf if another event brought the body of c first.
func (t *writeTx) findRepeat(c *driver.Claim, result *driver.ClaimResult) error {
	bodyKey := driver.BodyKey(c.Source, c.BodyHash)
	var first []byte
	var eventID string
	switch err := t.queryRow(selectBodySeen, bodyKey[:]).Scan(&first, &eventID); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if !bytes.Equal(first, c.Key[:]) {
		result.RepeatOf = eventID
		copy(result.RepeatOfKey[:], first)
	}
	return nil
}
