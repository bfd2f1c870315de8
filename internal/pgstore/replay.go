package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// lockEventSQL locks the row of an event, and lockEventAloneSQL also keeps out who locks it FOR KEY SHARE.
var (
	lockEventSQL      = statement(lockEvent("NO KEY UPDATE"))
	lockEventAloneSQL = statement(lockEvent("UPDATE"))
)

// lockEvent returns a statement that locks the row of an event with a strength. Before that it bounds every wait of the
// transaction for a lock, and how long a process that has stopped keeps its locks.
func lockEvent(strength string) string {
	return `
WITH setting AS MATERIALIZED (
	SELECT set_config('lock_timeout', '1s', true) AS bound, set_config('idle_in_transaction_session_timeout', '5s', true)
)
SELECT e.pruned, e.outbox
FROM setting
CROSS JOIN LATERAL (
	SELECT e.body IS NULL AS pruned, e.outbox
	FROM {schema}.event e
	WHERE e.key = $1::bytea AND setting.bound <> '' -- always true; it makes the bound take effect first
	FOR ` + strength + `
) e`
}

var (
	repeatedSQL = statement(`
SELECT h.generation, h.messages, h.action, coalesce((SELECT m.destination FROM {schema}.message m WHERE m.id = h.message_id), '')
FROM {schema}.history h
WHERE h.event_key = $1::bytea AND h.request_id = $2::text`)

	// stateSQL does not wait for events in a run, which are pending in any case. It need not lock
	// finished events, which change only under the lock of the event's row.
	stateSQL = statement(`
SELECT ` + stateColumns + `
FROM (SELECT $1::bytea AS key) e
LEFT JOIN {schema}.event_state s ON s.key = e.key`)

	lockMessagesSQL = statement(`
SELECT ` + partColumns + `, state = 1 AND due_at > coalesce($2::timestamptz, clock_timestamp())
FROM {schema}.message
WHERE event_key = $1::bytea
ORDER BY id
FOR UPDATE`)

	partsSQL = statement(`
SELECT e.key, e.body IS NULL, ` + stateColumns + `
FROM {schema}.event e
LEFT JOIN {schema}.event_state s ON s.key = e.key
WHERE e.key = ANY ($1::bytea[]) AND NOT e.outbox`)

	partsMessagesSQL = statement(`
SELECT event_key, ` + partColumns + `, false
FROM {schema}.message
WHERE event_key = ANY ($1::bytea[])
ORDER BY event_key, id`)

	markReroutedSQL = statement(`
UPDATE {schema}.message m
SET note = CASE WHEN m.id = ANY ($2::text[]) THEN '` + driver.NoteRerouted + `' ELSE '' END
FROM (SELECT {schema}.durably()) durable
WHERE m.event_key = $1::bytea AND (m.id = ANY ($2::text[]) OR m.id = ANY ($3::text[]))
RETURNING 1`)
)

const (
	// stateColumns are those of the event e with the state s.
	stateColumns = `coalesce(s.state, -1), coalesce(s.note, ''), coalesce(s.generation, 0),
	coalesce(s.undecided, false), coalesce(s.queued, false), coalesce(s.ended, false), coalesce((
		SELECT max(h.generation) FROM {schema}.history h WHERE h.event_key = e.key AND h.action = '` + driver.ActionReplayedAsNew + `'
	), 0)`

	partColumns = `id, route, destination, state, note, generation`
)

// replaySQL carries out a plan, under the locks of all rows that it changes. It reads the clock
// here, after the waits for the locks. A message that becomes due again loses the attempt that sent
// it, so that attempt gets a row of its own. It returns how many events and messages it changed.
var replaySQL = statement(again(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, clock_timestamp()) AS now, {schema}.durably() AS durable
), states AS (
	UPDATE {schema}.event_state s
	SET {state}, generation = $3::int,
		key_generation = CASE WHEN $10::text = '`+driver.ActionReplayedAsNew+`' THEN $3::int ELSE s.key_generation END
	FROM setting
	WHERE s.key = $1::bytea AND $4::bool
	RETURNING 1
), decided AS (
	UPDATE {schema}.event_state s
	SET state = 2, note = '', last_error = NULL, replayed = true, generation = $3::int, processed_at = setting.now,
		failed_at = NULL, undecided = false, queued = false, ended = false,
		key_generation = CASE WHEN $10::text = '`+driver.ActionReplayedAsNew+`' THEN $3::int ELSE s.key_generation END
	FROM setting
	WHERE s.key = $1::bytea AND $14::bool
	RETURNING 1
), sent AS (
	INSERT INTO {schema}.attempt (message_id, generation, number, outcome, status_code, at, took)
	SELECT m.id, m.generation, m.attempts, 1, m.status_code, m.sent_at, m.took
	FROM {schema}.message m
	WHERE m.event_key = $1::bytea AND m.id = ANY ($5::text[]) AND m.sent_at IS NOT NULL
), again AS (
	UPDATE {schema}.message m
	SET `+messageAgainSQL+`, generation = $3::int
	FROM setting
	WHERE m.event_key = $1::bytea AND m.id = ANY ($5::text[])
	RETURNING 1
), replaced AS (
	UPDATE {schema}.message m
	SET state = 4, note = '`+driver.NoteReplacedByNew+`', failed_at = NULL
	WHERE m.event_key = $1::bytea AND m.id = ANY ($6::text[])
), skipped AS (
	UPDATE {schema}.message m
	SET state = 4, note = '`+driver.NoteRerouted+`', failed_at = NULL
	WHERE m.event_key = $1::bytea AND m.id = ANY ($15::text[])
	RETURNING 1
), added AS (
	INSERT INTO {schema}.message (
		id, event_key, generation, route, destination, received_at, due_at, created_at, replayed
	)
	SELECT n.id, e.key, $3::int, n.route, n.destination, e.received_at, setting.now, setting.now, true
	FROM setting
	CROSS JOIN {schema}.event e
	CROSS JOIN unnest($7::text[], $8::text[], $9::text[]) AS n (id, route, destination)
	WHERE e.key = $1::bytea
	RETURNING 1
)
INSERT INTO {schema}.history (event_key, at, action, generation, messages, message_id, request_id)
SELECT $1::bytea, now, $10::text, $3::int, $11::int, nullif($12::text, ''), nullif($13::text, '')
FROM setting
RETURNING (SELECT count(*) FROM states) + (SELECT count(*) FROM decided),
	(SELECT count(*) FROM again) + (SELECT count(*) FROM added) + (SELECT count(*) FROM skipped)`, stateAgainSQL, true))

// refusedError is a reason to give a transaction up that is no fault of the database.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// transact runs f in a transaction that writes. Nothing can be committed before f returns.
func transact(ctx context.Context, db DB, op string, f func(Conn) error) error {
	ended := false
	err := db.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		err := f(conn)
		ended = err == nil
		return err
	})
	var refused refusedError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%s: %w", op, refused.error)
	case ended:
		return writeFailed(db, op, err)
	}
	return readFailed(db, op, err)
}

// Replay implements [driver.Store].
func (s *Store) Replay(ctx context.Context, p *driver.ReplayParams) (*driver.Replayed, error) {
	var replayed *driver.Replayed
	err := transact(ctx, s.pools.Admin, "replaying an event", func(conn Conn) error {
		pruned, outbox, err := s.lockEvent(ctx, conn, s.text(lockEventSQL), p.Key)
		if err != nil {
			return err
		}
		if outbox {
			return refusedError{driver.ErrNotFound}
		}
		if replayed, err = s.repeated(ctx, conn, p); err != nil || replayed != nil {
			return err
		}
		event, err := s.lockAll(ctx, conn, s.text(lockMessagesSQL), p.Key, p.Now)
		if err != nil {
			return err
		}
		event.BodyPruned = pruned
		plan, err := lifecycle.For(event, p)
		if err != nil {
			return refusedError{err}
		}
		if err := s.keepOrder(ctx, conn, p, event, plan); err != nil {
			return err
		}
		result := plan.Replayed(event)
		replayed = &result
		if err := s.carryOut(ctx, conn, p, plan); err != nil {
			return err
		}
		return s.replace(ctx, conn, p, event, plan)
	})
	if err != nil {
		return nil, err
	}
	return replayed, nil
}

// lockEvent locks the row of an event by lockEventSQL, or the row of a message that was enqueued by itself.
func (s *Store) lockEvent(ctx context.Context, conn Conn, sql string, key driver.Key) (pruned, outbox bool, err error) {
	found := false
	err = scan(ctx, conn, func(r Rows) error {
		found = true
		return r.Scan(&pruned, &outbox)
	}, sql, key[:])
	if err == nil && !found {
		return false, false, refusedError{driver.ErrNotFound}
	}
	return pruned, outbox, err
}

// repeated returns the earlier result of the request; nil if the request is new.
func (s *Store) repeated(ctx context.Context, conn Conn, p *driver.ReplayParams) (before *driver.Replayed, err error) {
	if p.RequestID == "" {
		return nil, nil
	}
	err = scan(ctx, conn, func(r Rows) error {
		var generation, messages int32
		var action, to string
		err := r.Scan(&generation, &messages, &action, &to)
		if err == nil && (action != lifecycle.Action(p.Mode) || to != p.To) {
			return refusedError{driver.ErrRequestReused}
		}
		before = &driver.Replayed{Generation: int(generation), Messages: int(messages), Repeated: true}
		return err
	}, s.text(repeatedSQL), p.Key[:], p.RequestID)
	return before, err
}

// lockAll reads the state of an event, and locks the messages that a statement finds.
func (s *Store) lockAll(ctx context.Context, conn Conn, messages string, key driver.Key, now time.Time) (*lifecycle.Event, error) {
	e := &driver.EventParts{Key: key}
	if err := scan(ctx, conn, func(r Rows) error { return scanParts(r, e) }, s.text(stateSQL), key[:]); err != nil {
		return nil, err
	}
	err := scan(ctx, conn, func(r Rows) error { return scanMessagePart(r, e) }, messages, key[:], clock(now))
	return (*lifecycle.Event)(e), err
}

// scanParts scans the additional targets, then stateColumns.
func scanParts(r Rows, e *driver.EventParts, more ...any) error {
	var state int16
	var generation, asNew int32
	err := r.Scan(append(more, &state, &e.Note, &generation, &e.Undecided, &e.Queued, &e.Ended, &asNew)...)
	if err == nil && state >= 0 {
		e.State = eventStates[state]
	}
	e.Generation, e.AsNew = int(generation), int(asNew)
	return err
}

// scanMessagePart scans the additional targets, then partColumns and whether a lease holds, into a message of e.
func scanMessagePart(r Rows, e *driver.EventParts, more ...any) error {
	var m driver.EventPart
	var state int16
	var generation int32
	err := r.Scan(append(more, &m.ID, &m.Route, &m.Destination, &state, &m.Note, &generation, &m.Leased)...)
	m.State, m.Generation = messageStates[state], int(generation)
	e.Messages = append(e.Messages, m)
	return err
}

// EventParts implements [driver.Store].
func (s *Store) EventParts(ctx context.Context, keys []driver.Key) ([]driver.EventParts, error) {
	const op = "reading events"
	var all []driver.EventParts
	err := read(ctx, s.pools.Admin, op, func(r Rows) error {
		var key []byte
		var e driver.EventParts
		err := scanParts(r, &e, &key, &e.BodyPruned)
		copy(e.Key[:], key)
		all = append(all, e)
		return err
	}, s.text(partsSQL), keyArgs(keys))
	if err != nil {
		return nil, err
	}
	at := make(map[driver.Key]int, len(all))
	for i := range all {
		at[all[i].Key] = i
	}
	err = read(ctx, s.pools.Admin, op, func(r Rows) error {
		var key []byte
		var one driver.EventParts
		err := scanMessagePart(r, &one, &key)
		if i, ok := at[driver.Key(key)]; ok && err == nil {
			all[i].Messages = append(all[i].Messages, one.Messages...)
		}
		return err
	}, s.text(partsMessagesSQL), keyArgs(keys))
	return all, err
}

func (s *Store) carryOut(ctx context.Context, conn Conn, p *driver.ReplayParams, plan *lifecycle.Plan) error {
	if marks := len(plan.Mark) + len(plan.Unmark); marks > 0 {
		marked := 0
		err := scan(ctx, conn, func(Rows) error { marked++; return nil }, s.text(markReroutedSQL), p.Key[:], notNone(plan.Mark), notNone(plan.Unmark))
		if err == nil && marked != marks {
			err = refusedError{driver.ErrNotStored}
		}
		if err != nil {
			return err
		}
	}
	if !plan.Changes() {
		return nil
	}
	ids, routes, destinations := []string{}, []string{}, []string{}
	for _, m := range plan.Add {
		ids, routes, destinations = append(ids, m.ID), append(routes, m.Route), append(destinations, m.Destination)
	}
	var events, messages int64
	err := scan(ctx, conn, func(r Rows) error { return r.Scan(&events, &messages) }, s.text(replaySQL),
		p.Key[:], clock(p.Now), int32(plan.Generation), plan.Event,
		notNone(plan.Reset), notNone(plan.Replace), ids, routes, destinations,
		plan.Action, int32(plan.Messages()), plan.MessageID(), p.RequestID, plan.Done, notNone(plan.Skip))
	if err == nil && ((plan.Event || plan.Done) != (events > 0) || messages != int64(plan.Messages()+len(plan.Skip))) {
		return refusedError{driver.ErrNotStored}
	}
	return err
}

// notNone returns an empty slice for nil, which would be NULL.
func notNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
