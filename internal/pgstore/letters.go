package pgstore

import (
	"context"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// lettersSQL locks dead letters: first the rows of their events in the order of their keys, then
// the letters that are still dead. It never waits. $1 holds the events of the letters. $2 holds
// their messages, with "" for an event that is dead itself. $3 is the time, and $4 the operation, for
// the history. {kept} is a further condition on the rows that hold the bodies, and {replayable} one on
// dead events.
const lettersSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($3::timestamptz, now()) AS now, {schema}.durably() AS durable
), mine AS MATERIALIZED (
	SELECT e.key
	FROM (SELECT DISTINCT key FROM unnest($1::bytea[]) AS k (key) ORDER BY key) i
	CROSS JOIN LATERAL (
		SELECT e.key FROM {schema}.event e WHERE e.key = i.key{kept}
		FOR NO KEY UPDATE SKIP LOCKED
	) e
), letter AS MATERIALIZED (
	SELECT l.place, l.key, l.id
	FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY AS l (key, id, place)
	WHERE (l.key IN (SELECT key FROM mine)) IS TRUE
), queued AS MATERIALIZED (
	SELECT l.place, s.key, s.generation, s.failed_at, s.note
	FROM letter l
	CROSS JOIN LATERAL (
		SELECT s.key, s.generation, s.failed_at, s.note FROM {schema}.event_state s
		WHERE l.id = '' AND s.key = l.key AND s.state = 3{replayable}
		FOR UPDATE SKIP LOCKED
	) s
), routed AS MATERIALIZED (
	SELECT l.place, m.id, m.key, m.generation, m.failed_at, m.note
	FROM letter l
	CROSS JOIN LATERAL (
		SELECT m.id, m.event_key AS key, m.generation, m.failed_at, m.note FROM {schema}.message m
		WHERE l.id <> '' AND m.id = l.id AND m.event_key = l.key AND m.state = 3
		FOR UPDATE SKIP LOCKED
	) m`

// lettersWhere fills in the conditions of lettersSQL.
func lettersWhere(sql, kept, replayable string) string {
	return strings.NewReplacer("{kept}", kept, "{replayable}", replayable).Replace(sql)
}

// lettersDoneSQL ends a statement on letters. It returns their places.
const lettersDoneSQL = `
SELECT place FROM queued
UNION ALL
SELECT place FROM routed`

var replayDeadSQL = statement(lettersWhere(again(lettersSQL+againSQL+`, told AS (
	INSERT INTO {schema}.history (event_key, at, action, generation, messages, message_id, operation)
	SELECT d.key, setting.now, '`+driver.ActionReplayed+`', next.generation, d.messages, d.id, nullif($4::text, '')
	FROM (
		SELECT place, key, 0 AS messages, NULL AS id FROM queued
		UNION ALL
		SELECT place, key, 1, id FROM routed
	) d
	JOIN next ON next.key = d.key
	CROSS JOIN setting
	ORDER BY d.place
)`+lettersDoneSQL, stateAgainSQL, true), " AND e.body IS NOT NULL", " AND NOT s.undecided AND "+notEndedSQL))

// discardSQL keeps the last error, which tells why the letters were discarded. It records a
// NoteTxEnded that it replaces, because a replay must still name that note. The history keeps the
// replaced time of failure and note, so that the discard can be undone.
var discardSQL = statement(lettersWhere(lettersSQL+`
), states AS (
	UPDATE {schema}.event_state s
	SET state = 4, note = '`+driver.NoteDiscarded+`', ended = (s.note = '`+driver.NoteTxEnded+`'), failed_at = NULL
	FROM queued
	WHERE s.key = queued.key
), messages AS (
	UPDATE {schema}.message m
	SET state = 4, note = '`+driver.NoteDiscarded+`', failed_at = NULL
	FROM routed
	WHERE m.id = routed.id
), told AS (
	INSERT INTO {schema}.history (event_key, at, action, generation, message_id, operation, failed_at, note)
	SELECT d.key, setting.now, '`+driver.ActionDiscarded+`', d.generation, d.id, nullif($4::text, ''), d.failed_at, d.note
	FROM (
		SELECT place, key, generation, NULL AS id, failed_at, note FROM queued
		UNION ALL
		SELECT place, key, generation, id, failed_at, note FROM routed
	) d
	CROSS JOIN setting
	ORDER BY d.place
)`+lettersDoneSQL, "", ""))

// ReplayDead implements [driver.Store]. If a letter is named twice, the first one is replayed.
func (s *Store) ReplayDead(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	return s.onLettersAlone(ctx, "replaying dead letters", s.text(replayDeadSQL), p)
}

// Discard implements [driver.Store]. If a letter is named twice, the first one is discarded.
func (s *Store) Discard(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	return s.onLettersAlone(ctx, "discarding dead letters", s.text(discardSQL), p)
}

func (s *Store) onLettersAlone(ctx context.Context, op, sql string, p *driver.DeadLetterParams) ([]bool, error) {
	var done []bool
	err := transact(ctx, s.pools.Admin, op, func(conn Conn) (err error) {
		done, err = s.onLetters(ctx, conn, sql, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// onLetters runs a statement on letters, and lets their lines go on. It returns which letters it changed.
func (s *Store) onLetters(ctx context.Context, conn Conn, sql string, p *driver.DeadLetterParams) ([]bool, error) {
	done := make([]bool, len(p.Letters))
	var places []int
	var keys [][]byte
	var ids []string
	seen := make(map[driver.DeadLetterRef]bool, len(p.Letters))
	for i, letter := range p.Letters {
		if seen[letter] || !driver.IsText(letter.MessageID) {
			continue
		}
		seen[letter] = true
		places = append(places, i)
		keys, ids = append(keys, slices.Clone(letter.Key[:])), append(ids, letter.MessageID)
	}
	if len(places) == 0 {
		return done, nil
	}
	err := scan(ctx, conn, func(r Rows) error {
		var place int64
		if err := r.Scan(&place); err != nil {
			return err
		}
		done[places[place-1]] = true
		return nil
	}, sql, keys, ids, clock(p.Now), p.Operation)
	if err != nil {
		return nil, err
	}
	ids = ids[:0]
	for i := range done {
		if done[i] {
			ids = append(ids, p.Letters[i].Place())
		}
	}
	return done, s.settle(ctx, conn, ids, p.Now)
}

var (
	eventOfMessageSQL = statement(`
SELECT event_key FROM {schema}.message WHERE id = $1::text`)

	// lockMessageSQL locks a message and reads the generation of its event.
	lockMessageSQL = statement(`
SELECT m.state, m.generation, greatest(
	(SELECT max(o.generation) FROM {schema}.message o WHERE o.event_key = $2::bytea),
	(SELECT s.generation FROM {schema}.event_state s WHERE s.key = $2::bytea)
)
FROM {schema}.message m
WHERE m.id = $1::text
FOR UPDATE OF m`)

	retrySQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($3::timestamptz, clock_timestamp()) AS now, {schema}.durably() AS durable
), due AS (
	UPDATE {schema}.message m
	SET due_at = least(m.due_at, setting.now)
	FROM setting
	WHERE m.id = $1::text
	RETURNING m.generation
)
INSERT INTO {schema}.history (event_key, at, action, generation, messages, message_id)
SELECT $2::bytea, setting.now, '` + driver.ActionRetried + `', due.generation, 1, $1::text
FROM due, setting`)
)

// RetryMessage implements [driver.Store].
func (s *Store) RetryMessage(ctx context.Context, p *driver.RetryMessageParams) error {
	return transact(ctx, s.pools.Admin, "retrying a message", func(conn Conn) error {
		if !driver.IsText(p.ID) {
			return refusedError{driver.ErrNotFound}
		}
		var key []byte
		if err := scan(ctx, conn, func(r Rows) error { return r.Scan(&key) }, s.text(eventOfMessageSQL), p.ID); err != nil {
			return err
		}
		if key == nil {
			return refusedError{driver.ErrNotFound}
		}
		pruned, _, err := s.lockEvent(ctx, conn, s.text(lockEventSQL), driver.Key(key))
		if err != nil {
			return err
		}
		return s.retry(ctx, conn, p, key, pruned)
	})
}

// retry retries a message under the lock of its event.
func (s *Store) retry(ctx context.Context, conn Conn, p *driver.RetryMessageParams, key []byte, pruned bool) error {
	var found bool
	var state int16
	var own, highest int32
	if err := scan(ctx, conn, func(r Rows) error {
		found = true
		return r.Scan(&state, &own, &highest)
	}, s.text(lockMessageSQL), p.ID, key); err != nil {
		return err
	}
	if !found {
		// The event was pruned before the lock, and claimed again with other routes.
		return refusedError{driver.ErrNotFound}
	}
	switch name := messageStates[state]; {
	case name == driver.StateSending:
		return refusedError{driver.ErrOpen}
	case name == driver.StateSent:
		return refusedError{driver.ErrSent}
	case pruned:
		return refusedError{driver.ErrBodyPruned}
	case name == driver.StatePending:
		return scan(ctx, conn, noRows, s.text(retrySQL), p.ID, key, clock(p.Now))
	}
	none := []string{}
	if err := scan(ctx, conn, noRows, s.text(replaySQL), key, clock(p.Now), max(own, highest)+1, false,
		[]string{p.ID}, none, none, none, none, driver.ActionReplayed, int32(1), p.ID, "", false, none); err != nil {
		return err
	}
	return s.settle(ctx, conn, []string{p.ID}, p.Now)
}
