package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// parked is driver.ParkedUntil. Nothing finds a message or an event that is due then.
const parked = `253370764800000000`

// eventPlaces is what the number of an event in a line is higher than its id. No message has such a number.
const eventPlaces = `4611686018427387904`

const (
	insertLine = `INSERT INTO hookonce_object_version (object, source, version, shown, applied_at)
		VALUES (?, ?, x'', '', ?) ON CONFLICT (object) DO NOTHING`

	insertOrdered = `INSERT INTO hookonce_ordered_message (number, line, source, destination, version, received_at, hold)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE
		SET line = excluded.line, version = excluded.version, hold = excluded.hold, state = 0`

	reopenOrdered = `UPDATE hookonce_ordered_message SET state = 0 WHERE number = ? AND state > 0`

	// Whether it is forced counts until it ends.
	unforceOrdered = `UPDATE hookonce_ordered_message SET forced = 0 WHERE number = ?1 AND forced
		AND NOT EXISTS (SELECT 1 FROM hookonce_message WHERE number = ?1 AND state < 2)
		AND NOT EXISTS (SELECT 1 FROM hookonce_event_state WHERE id = ?1 - ` + eventPlaces + ` AND state < 2)`

	endOrdered = `UPDATE hookonce_ordered_message SET state = 2, forced = 0 WHERE number = ?`

	setOrdered = `UPDATE hookonce_ordered_message SET state = ? WHERE number = ?`

	selectLeased = `SELECT number, destination, received_at, token = ?5 AND state = 1 FROM hookonce_message WHERE ` + ofID

	selectOrdered = `SELECT line, source, version, received_at, forced FROM hookonce_ordered_message WHERE number = ?`

	selectLine = `SELECT version, shown FROM hookonce_object_version WHERE object = ?`

	// The message of a line that was let go, if it is open and no answer to it is recorded. It may have arrived,
	// so it goes again before all others.
	selectHolder = `SELECT v.sending FROM hookonce_object_version v CROSS JOIN hookonce_ordered_message o ON o.number = v.sending
		CROSS JOIN hookonce_message m ON m.number = v.sending WHERE v.object = ?1 AND o.line = ?1 AND m.state < 2
		UNION ALL
		SELECT v.sending FROM hookonce_object_version v CROSS JOIN hookonce_ordered_message o ON o.number = v.sending
		CROSS JOIN hookonce_event_state s ON s.id = v.sending - ` + eventPlaces + ` WHERE v.object = ?1 AND o.line = ?1 AND s.state = 1`

	setSending = `UPDATE hookonce_object_version SET sending = ? WHERE object = ?`

	// An attempt of a message got no answer: a later one of another kind does not tell that it did not arrive.
	selectUnanswered = `SELECT EXISTS (SELECT 1 FROM hookonce_message m JOIN hookonce_attempt a ON a.message_id = m.id
		AND a.generation = m.generation WHERE m.number = ? AND a.status_code = 0)`

	clearSending = `UPDATE hookonce_object_version SET sending = NULL WHERE object = ? AND sending = ?`

	// The first message of a line that keeps others of version ?2 or higher waiting.
	// If ?3, of those that are forced: one that is passed waits for no others.
	selectBefore = `SELECT o.number` + fromPlaces + `
		WHERE o.line = ?1 AND o.state < 2 AND CASE WHEN ?3 THEN o.forced AND coalesce(m.state, s.state) < 2
			ELSE (o.version = x'' OR o.version >= ?2) AND (coalesce(m.state, s.state) < 2 OR coalesce(m.state, s.state) = 3 AND o.hold) END
		ORDER BY o.version, o.received_at, o.number LIMIT 1`

	selectFront = `SELECT o.number, o.version, o.state, o.hold, coalesce(m.state, s.state, 2), coalesce(m.due_at, s.due_at, 0)` + fromPlaces + `
		WHERE o.line = ? AND o.state < 2 ORDER BY o.version, o.received_at, o.number LIMIT 1`

	fromPlaces = ` FROM hookonce_ordered_message o LEFT JOIN hookonce_message m ON m.number = o.number
		LEFT JOIN hookonce_event_state s ON s.id = o.number - ` + eventPlaces

	parkMessage = `UPDATE hookonce_message SET state = 0, attempts = attempts - 1, due_at = ? WHERE number = ?`

	wakeMessage = `UPDATE hookonce_message SET due_at = ? WHERE number = ? AND state = 0`

	parkEvent = `UPDATE hookonce_event_state SET due_at = ? WHERE id = ? - ` + eventPlaces

	wakeEvent = parkEvent + ` AND state = 0`

	selectReserved = `SELECT s.id + ` + eventPlaces + `, char(10) || s.source, s.received_at, s.due_at = ? AND s.state = 0
		FROM hookonce_event_state s WHERE s.id = (SELECT id FROM hookonce_event WHERE key = ?)`

	numberOfEvent = `SELECT id + ` + eventPlaces + ` FROM hookonce_event WHERE key = ?`

	// The event is the one of its line that was let go last.
	selectMayRun = `SELECT EXISTS (SELECT 1 FROM hookonce_object_version
		WHERE object = ?1 AND sending = (SELECT id + ` + eventPlaces + ` FROM hookonce_event WHERE key = ?2))`

	numberOf = `SELECT number FROM hookonce_message WHERE ` + ofID

	nextLine = `SELECT line FROM hookonce_ordered_message WHERE line > ? AND state < 2 ORDER BY line LIMIT 1`

	countWaiting = `SELECT count(*) FROM (SELECT 1 FROM hookonce_ordered_message d JOIN hookonce_ordered_message o ON o.line = d.line
		WHERE d.number = ?1 AND d.state = 1 AND o.state < 2 AND o.number <> d.number LIMIT ?2)`

	selectPassed = `SELECT EXISTS (SELECT 1 FROM hookonce_ordered_message o JOIN hookonce_object_version v ON v.object = o.line
		WHERE o.number = ? AND o.version <> x'' AND o.version < v.version)`

	forceOrdered = `UPDATE hookonce_ordered_message SET forced = 1 WHERE number = ?`

	copyOrdered = `INSERT INTO hookonce_ordered_message (number, line, source, destination, version, received_at, hold, forced)
		SELECT ?6, line, source, destination, version, received_at, hold, ?5 FROM hookonce_ordered_message WHERE ` + ofID + `
		ON CONFLICT (number) DO NOTHING`
)

// joinLine puts a message into a line.
func (t *writeTx) joinLine(number int64, destination string, receivedAt int64, o *driver.Order) error {
	if err := checkVersion(&o.Line); err != nil {
		return err
	}
	return t.insert(insertOrdered, number, o.Line.Object[:], o.Line.Source, destination, blob(o.Line.Version), receivedAt, o.Hold)
}

// inLine is a leased message of a line.
type inLine struct {
	place      int
	number     int64
	line       driver.Key
	source     string
	version    []byte
	receivedAt int64
	forced     bool
	// next is its place by the settings, if that is in another line.
	next        *driver.Order
	destination string
}

// Admit implements driver.Store.
func (s *Store) Admit(ctx context.Context, p *driver.AdmitParams) (all []driver.Admission, err error) {
	if len(p.Messages) == 0 {
		return nil, nil
	}
	err = s.writeEach(ctx, "ordering messages", p.Now, 1, func(t *writeTx, _ int) error {
		all = make([]driver.Admission, len(p.Messages))
		return t.admitAll(p, all)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (t *writeTx) admitAll(p *driver.AdmitParams, all []driver.Admission) error {
	var found []inLine
	for i := range p.Messages {
		m, err := t.findInLine(&p.Messages[i], &all[i])
		if err != nil {
			return err
		}
		if m != nil {
			m.place = i
			found = append(found, *m)
		}
	}
	slices.SortFunc(found, func(a, b inLine) int {
		return cmp.Or(bytes.Compare(a.line[:], b.line[:]), bytes.Compare(a.version, b.version),
			cmp.Compare(a.receivedAt, b.receivedAt), cmp.Compare(a.number, b.number))
	})
	var behind []driver.Key
	for i := range found {
		m := &found[i]
		a := &all[m.place]
		if err := t.admit(m, a); err != nil {
			return err
		}
		if a.Verdict == driver.Parked {
			behind = append(behind, a.Line.Object)
		}
		if m.next != nil && a.Line.Object != m.line {
			behind = append(behind, m.line)
		}
	}
	return t.settleAll(behind)
}

// findInLine returns a leased message with its place in a line; nil if it is in none, or its lease is lost.
func (t *writeTx) findInLine(o *driver.OrderedMessage, a *driver.Admission) (*inLine, error) {
	m := inLine{}
	var held bool
	query, args := selectLeased, idArgs(o.ID, o.Token)
	if key, ok := eventAt(o.ID); ok {
		query, args = selectReserved, []any{o.Token, key}
	}
	switch err := t.queryRow(query, args...).Scan(&m.number, &m.destination, &m.receivedAt, &held); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return nil, err
	}
	if o.Order != nil {
		a.Verdict, a.Line = driver.Parked, o.Order.Line
		if !held {
			return nil, nil
		}
	}
	placed, err := t.findPlace(&m)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Order != nil && placed && m.line != o.Order.Line.Object:
		m.next = o.Order // it stays where it is for now
	case o.Order != nil:
		if err := t.joinLine(m.number, m.destination, m.receivedAt, o.Order); err != nil {
			return nil, err
		}
		m.line, m.source, m.version = o.Order.Line.Object, o.Order.Line.Source, o.Order.Line.Version
	case !placed:
		return nil, nil
	}
	a.Verdict = driver.Parked
	if !held {
		return nil, nil
	}
	if _, err := t.exec(reopenOrdered, m.number); err != nil {
		return nil, err
	}
	_, err = t.exec(insertLine, m.line[:], m.source, t.now)
	return &m, err
}

// findPlace reads the place of a message. It reports whether the message is in a line.
func (t *writeTx) findPlace(m *inLine) (bool, error) {
	var line []byte
	switch err := t.queryRow(selectOrdered, m.number).Scan(&line, &m.source, &m.version, &m.receivedAt, &m.forced); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	copy(m.line[:], line)
	return true, nil
}

// move puts m into the line that the settings name. It is its turn where it is, so all before it there have ended, or have
// moved before it.
func (t *writeTx) move(m *inLine) (*inLine, error) {
	if err := t.joinLine(m.number, m.destination, m.receivedAt, m.next); err != nil {
		return nil, err
	}
	to := *m
	to.line, to.source, to.version, to.next = m.next.Line.Object, m.next.Line.Source, m.next.Line.Version, nil
	_, err := t.exec(insertLine, to.line[:], to.source, t.now)
	return &to, err
}

// admit decides about m, which is leased.
func (t *writeTx) admit(m *inLine, a *driver.Admission) error {
	a.Line.Object, a.Line.Version = m.line, m.version
	applied, shown, err := t.appliedTo(m.line)
	if err != nil {
		return err
	}
	if isPassed := len(m.version) > 0 && bytes.Compare(m.version, applied) < 0; isPassed && !m.forced {
		a.Verdict, a.Newer = driver.Passed, shown
		return nil
	} else if free, holds, err := t.mayGo(m, applied, isPassed); err != nil {
		return err
	} else if free && m.next != nil && !holds {
		to, err := t.move(m)
		if err != nil {
			return err
		}
		return t.admit(to, a)
	} else if free {
		a.Verdict = driver.Admitted
		_, err = t.exec(setSending, m.number, m.line[:])
		return err
	}
	query := parkMessage
	if isEvent(m.number) {
		query = parkEvent
	}
	_, err = t.exec(query, driver.ParkedUntil.UnixMicro(), m.number)
	return err
}

// mayGo reports whether m is the first of its line, or, as holds, the one that may be on its way. A message that is sent
// although a higher version was waits only for the latter, and for lower ones of its kind.
func (t *writeTx) mayGo(m *inLine, applied []byte, isPassed bool) (free, holds bool, err error) {
	holder, err := t.holder(m.line)
	if err != nil || holder != 0 {
		return err == nil && holder == m.number, holder != 0, err
	}
	var first int64
	err = t.queryRow(selectBefore, m.line[:], blob(applied), isPassed).Scan(&first)
	return first == m.number, false, err
}

// holder returns the message of a line that may be on its way; 0 if there is none.
func (t *writeTx) holder(line driver.Key) (number int64, err error) {
	err = t.queryRow(selectHolder, line[:]).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return number, err
}

// appliedTo returns the highest version that was sent in a line; none if the line has none.
func (t *writeTx) appliedTo(line driver.Key) (version []byte, shown string, err error) {
	err = t.queryRow(selectLine, line[:]).Scan(&version, &shown)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return version, shown, err
}

// goOn applies the outcome of a message to its line. held says that the outcome was recorded.
func (t *writeTx) goOn(c *driver.Completion, held bool) error {
	if held {
		if err := t.answered(c); err != nil {
			return err
		}
	}
	if held && c.Outcome == driver.MessageSent && len(c.Line.Version) > 0 {
		if err := t.keepVersion(c.Line); err != nil {
			return err
		}
	}
	return t.settleLine(c.Line.Object)
}

// answered notes that the outcome of a message is known.
func (t *writeTx) answered(c *driver.Completion) error {
	var number int64
	if err := t.queryRow(numberOf, idArgs(c.ID)...).Scan(&number); err != nil {
		return err
	}
	unanswered := false
	if c.Outcome == driver.MessageRetry {
		if err := t.queryRow(selectUnanswered, number).Scan(&unanswered); err != nil {
			return err
		}
	}
	if !unanswered {
		if _, err := t.exec(clearSending, c.Line.Object[:], number); err != nil {
			return err
		}
	}
	var err error
	switch c.Outcome {
	case driver.MessageSent, driver.MessageStale:
		_, err = t.exec(endOrdered, number)
	case driver.MessageDead:
		_, err = t.exec(unforceOrdered, number)
	}
	return err
}

// settleAll is settleLine for several lines.
func (t *writeTx) settleAll(lines []driver.Key) error {
	for i, line := range lines {
		if slices.Contains(lines[:i], line) {
			continue
		}
		if err := t.settleLine(line); err != nil {
			return err
		}
	}
	return nil
}

// settleLine makes the first open message of a line due if it is parked and none of the line may be on its
// way. On its way it closes the rows of messages that have ended. A dead letter with hold stops it, unless a
// higher version was sent.
func (t *writeTx) settleLine(line driver.Key) error {
	applied, _, err := t.appliedTo(line)
	if err != nil {
		return err
	}
	for {
		var number, due int64
		var version []byte
		var own, state int
		var hold bool
		switch err := t.queryRow(selectFront, line[:]).Scan(&number, &version, &own, &hold, &state, &due); {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		if state == statePending || state == stateRunning {
			if own == 1 {
				if _, err := t.exec(setOrdered, 0, number); err != nil {
					return err
				}
			}
			if state == stateRunning || due != driver.ParkedUntil.UnixMicro() {
				return nil
			}
			return t.wake(line, number)
		}
		if state == stateDead && hold && (len(version) == 0 || bytes.Compare(version, applied) >= 0) {
			_, err := t.exec(setOrdered, 1, number)
			return err
		}
		ended := 2
		if state > stateDone {
			ended = 3
		}
		if _, err := t.exec(setOrdered, ended, number); err != nil {
			return err
		}
	}
}

func (t *writeTx) wake(line driver.Key, number int64) error {
	if holder, err := t.holder(line); err != nil || holder != 0 && holder != number {
		return err
	}
	query := wakeMessage
	if isEvent(number) {
		query = wakeEvent
	}
	// If a trigger refuses this row, the outcome of the message before it counts, and the sweep tries again.
	err := t.whole(func() error {
		_, err := t.exec(query, t.now, number)
		return err
	})
	if resultCode(err) == codeConstraint {
		return nil
	}
	return err
}

// SettleLines implements driver.Store.
func (s *Store) SettleLines(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.writeEach(ctx, "letting lines go on", time.Time{}, 1, func(t *writeTx, _ int) error { return t.settleIDs(ids) })
}

// SweepLines implements driver.Store. It takes the write lock only if there are lines.
func (s *Store) SweepLines(ctx context.Context, after driver.Key, limit int) (seen int, last driver.Key, err error) {
	const op = "sweeping lines"
	var lines []driver.Key
	err = s.read(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		lines = nil
		for place := after; len(lines) < limit; {
			var line []byte
			switch err := tx.QueryRowContext(ctx, nextLine, place[:]).Scan(&line); {
			case errors.Is(err, sql.ErrNoRows):
				return nil
			case err != nil:
				return err
			}
			place = driver.Key(line)
			lines = append(lines, place)
		}
		return nil
	})
	if err != nil || len(lines) == 0 {
		return 0, driver.Key{}, err
	}
	var refusal error
	err = s.writeEach(ctx, op, time.Time{}, 1, func(t *writeTx, _ int) (err error) {
		_, refusal, err = passOver(t, lines, func(line *driver.Key) error { return t.settleLine(*line) })
		return err
	})
	if err != nil {
		return 0, driver.Key{}, err
	}
	if refusal != nil {
		err = s.failed(ctx, op, refusal)
	}
	return len(lines), lines[len(lines)-1], err
}

// WaitingBehind implements driver.Store.
func (s *Store) WaitingBehind(ctx context.Context, messageID string) (n int, err error) {
	err = s.read(ctx, "counting messages that wait", func(ctx context.Context, tx *sql.Tx) error {
		number, err := numberAt(func(query string, args ...any) *sql.Row { return tx.QueryRowContext(ctx, query, args...) }, messageID)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		return tx.QueryRowContext(ctx, countWaiting, number, driver.MaxWaiting).Scan(&n)
	})
	return n, err
}
