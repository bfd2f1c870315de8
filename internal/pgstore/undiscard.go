package pgstore

import (
	"context"

	"github.com/hookonce/hookonce/driver"
)

// nextDiscardsSQL selects the next $3 discards of the operation $1, behind the entry $2 of the history.
const nextDiscardsSQL = `	FROM {schema}.history h
	WHERE h.operation = $1::text AND h.action = '` + driver.ActionDiscarded + `' AND h.id > coalesce(nullif($2::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
	ORDER BY h.id
	LIMIT $3::int`

// undiscardSQL makes letters dead again that the operation $1 discarded: the next $3 behind the entry
// $2 of the history. It locks the rows of their events first, and passes over those that are locked.
// A discard is undone once, while the body is there; $5 passes over all. It returns the numbers of entries and of letters, and
// the last entry.
var undiscardSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($4::timestamptz, now()) AS now, {schema}.durably() AS durable
), entry AS MATERIALIZED (
	SELECT h.id, h.event_key AS key, h.message_id, h.generation, h.failed_at, h.note
` + nextDiscardsSQL + `
), mine AS MATERIALIZED (
	SELECT e.key
	FROM (SELECT DISTINCT key FROM entry ORDER BY key) i
	CROSS JOIN LATERAL (
		SELECT e.key FROM {schema}.event e WHERE e.key = i.key AND e.body IS NOT NULL AND NOT $5::boolean
		FOR NO KEY UPDATE SKIP LOCKED
	) e
), letter AS MATERIALIZED (
	SELECT l.* FROM entry l
	WHERE (l.key IN (SELECT key FROM mine)) IS TRUE AND (
		-- Counted, because the order of the entries is that of a clock that may be set back.
		SELECT count(*) FILTER (WHERE o.action = '` + driver.ActionDiscarded + `') > count(*) FILTER (WHERE o.action = '` + driver.ActionUndone + `')
		FROM {schema}.history o
		WHERE o.event_key = l.key AND o.operation = $1::text AND o.message_id IS NOT DISTINCT FROM l.message_id AND o.generation = l.generation
	)
), states AS (
	UPDATE {schema}.event_state s
	SET state = 3, note = coalesce(l.note, ''), failed_at = l.failed_at, ended = false
	FROM letter l
	WHERE l.message_id IS NULL AND s.key = l.key AND s.state = 4 AND s.note = '` + driver.NoteDiscarded + `' AND s.generation = l.generation
	RETURNING s.key, NULL::text AS message_id, s.generation
), messages AS (
	UPDATE {schema}.message m
	SET state = 3, note = coalesce(l.note, ''), failed_at = l.failed_at
	FROM letter l
	WHERE m.id = l.message_id AND m.event_key = l.key AND m.state = 4 AND m.note = '` + driver.NoteDiscarded + `' AND m.generation = l.generation
	RETURNING m.event_key, m.id, m.generation
), told AS (
	INSERT INTO {schema}.history (event_key, at, action, generation, message_id, operation)
	SELECT d.key, setting.now, '` + driver.ActionUndone + `', d.generation, d.message_id, $1::text
	FROM (SELECT * FROM states UNION ALL SELECT * FROM messages) d, setting
	RETURNING 1
)
SELECT (SELECT count(*) FROM entry), (SELECT count(*) FROM told),
	coalesce((SELECT id::text FROM entry ORDER BY id DESC LIMIT 1), '')`)

// settleUndoneSQL lets the letters of these entries hold their lines again. Its arguments are those of undiscardSQL.
var settleUndoneSQL = statement(`
SELECT {schema}.settle_places(ARRAY(
	SELECT coalesce(h.message_id, {schema}.place_of(h.event_key))
` + nextDiscardsSQL + `
), '{}', '{}', $4::timestamptz)`)

var discardsSQL = statement(`
SELECT (
	SELECT count(*) FROM (
		SELECT FROM {schema}.history WHERE operation = $1::text AND action = '` + driver.ActionDiscarded + `' LIMIT 1001
	) h
), coalesce((
	SELECT h.at >= now() - $2::bigint * interval '1 microsecond'
	FROM {schema}.history h WHERE h.operation = $1::text AND h.action = '` + driver.ActionDiscarded + `'
	ORDER BY h.id DESC LIMIT 1
), false)`)

// Undiscard implements [driver.Store].
func (s *Store) Undiscard(ctx context.Context, p *driver.UndiscardParams) (*driver.Undiscarded, error) {
	limit := min(max(p.Limit, 1), driver.MaxJobStep)
	var done driver.Undiscarded
	err := transact(ctx, s.pools.Work, "undoing a discard", func(conn Conn) (err error) {
		done = driver.Undiscarded{Held: true}
		if p.Step != nil {
			if done.Held, err = s.holdJob(ctx, conn, p.Step); err != nil || !done.Held {
				return err
			}
		}
		var entries, undone int64
		var last string
		if err := scan(ctx, conn, func(r Rows) error { return r.Scan(&entries, &undone, &last) },
			s.text(undiscardSQL), p.Operation, p.After, int32(limit), clock(p.Now), p.Pass); err != nil {
			return err
		}
		if err := scan(ctx, conn, noRows, s.text(settleUndoneSQL), p.Operation, p.After, int32(limit), clock(p.Now)); err != nil {
			return err
		}
		done.Undone, done.Skipped = int(undone), int(entries-undone)
		if entries == int64(limit) {
			done.Next = last
		}
		if p.Step == nil {
			return nil
		}
		return s.stepJob(ctx, conn, p.Recorded(&done))
	})
	if err != nil {
		return nil, err
	}
	return &done, nil
}

// Discards implements [driver.Store].
func (s *Store) Discards(ctx context.Context, operation string) (*driver.Discarded, error) {
	var found driver.Discarded
	if driver.IsText(operation) && operation != "" {
		var count int64
		err := read(ctx, s.pools.Admin, "looking for discards", func(r Rows) error { return r.Scan(&count, &found.Recent) },
			s.text(discardsSQL), operation, driver.UndoTime.Microseconds())
		if err != nil {
			return nil, err
		}
		found.Count = int(count)
	}
	if found.Count == 0 {
		return nil, driver.ErrNotFound
	}
	return &found, nil
}
