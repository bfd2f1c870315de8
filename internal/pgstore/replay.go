package pgstore

import (
	"context"
	"errors"
	"fmt"

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
SELECT generation, messages, action FROM {schema}.history WHERE event_key = $1::bytea AND request_id = $2::text`)

	// stateSQL does not wait for events in a run, which are pending in any case. It need not lock
	// finished events, which change only under the lock of the event's row.
	stateSQL = statement(`
SELECT state, note, generation, undecided, queued, ended FROM {schema}.event_state WHERE key = $1::bytea`)

	lockMessagesSQL = statement(`
SELECT id, route, destination, state, generation
FROM {schema}.message
WHERE event_key = $1::bytea
ORDER BY id
FOR UPDATE`)
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
	(SELECT count(*) FROM again) + (SELECT count(*) FROM added)`, stateAgainSQL, true))

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
		event, err := s.lockAll(ctx, conn, s.text(lockMessagesSQL), p.Key)
		if err != nil {
			return err
		}
		event.BodyPruned = pruned
		plan, err := lifecycle.Replay(event, p.Mode, p.Note, &lifecycle.Now{Routes: p.Routes, Undecided: p.Undecided, Unknown: p.Unknown})
		if err != nil {
			return refusedError{err}
		}
		replayed = &driver.Replayed{Generation: plan.Generation, Messages: plan.Messages()}
		return s.carryOut(ctx, conn, p, plan)
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
		var action string
		err := r.Scan(&generation, &messages, &action)
		if err == nil && action != lifecycle.Action(p.Mode) {
			return refusedError{driver.ErrRequestReused}
		}
		before = &driver.Replayed{Generation: int(generation), Messages: int(messages), Repeated: true}
		return err
	}, s.text(repeatedSQL), p.Key[:], p.RequestID)
	return before, err
}

// lockAll reads the state of an event, and locks the messages that a statement finds.
func (s *Store) lockAll(ctx context.Context, conn Conn, messages string, key driver.Key) (*lifecycle.Event, error) {
	e := &lifecycle.Event{Key: key}
	var state int16
	var generation int32
	if err := scan(ctx, conn, func(r Rows) error {
		err := r.Scan(&state, &e.Note, &generation, &e.Undecided, &e.Queued, &e.Ended)
		e.State, e.Generation = eventStates[state], int(generation)
		return err
	}, s.text(stateSQL), key[:]); err != nil {
		return nil, err
	}
	err := scan(ctx, conn, func(r Rows) error {
		var m lifecycle.Message
		err := r.Scan(&m.ID, &m.Route, &m.Destination, &state, &generation)
		m.State, m.Generation = messageStates[state], int(generation)
		e.Messages = append(e.Messages, m)
		return err
	}, messages, key[:])
	return e, err
}

func (s *Store) carryOut(ctx context.Context, conn Conn, p *driver.ReplayParams, plan *lifecycle.Plan) error {
	ids, routes, destinations := []string{}, []string{}, []string{}
	for _, m := range plan.Add {
		ids, routes, destinations = append(ids, m.ID), append(routes, m.Route), append(destinations, m.Destination)
	}
	var events, messages int64
	err := scan(ctx, conn, func(r Rows) error { return r.Scan(&events, &messages) }, s.text(replaySQL),
		p.Key[:], clock(p.Now), int32(plan.Generation), plan.Event,
		notNone(plan.Reset), notNone(plan.Replace), ids, routes, destinations,
		plan.Action, int32(plan.Messages()), "", p.RequestID, plan.Done)
	if err == nil && ((plan.Event || plan.Done) != (events > 0) || messages != int64(plan.Messages())) {
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
