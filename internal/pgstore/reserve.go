package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// dueSourcesSQL looks for the first row of each kind of each source, from a time on; see dueSQL. The
// index finds the first row; for any row the planner would read the table.
var dueSourcesSQL = statement(`
SELECT i.source, fresh.due_at IS NOT NULL, tried.due_at IS NOT NULL, suspect.due_at IS NOT NULL,
	` + bounded("coalesce(least(fresh.due_at, tried.due_at, suspect.due_at), now())") + `, now()
FROM unnest($1::text[], $2::timestamptz[]) AS i (source, since)
LEFT JOIN LATERAL (` + firstDueSQL(freshSQL) + `) fresh ON true
LEFT JOIN LATERAL (` + firstDueSQL(triedSQL+` AND s.crashes = 0`) + `) tried ON true
LEFT JOIN LATERAL (` + firstDueSQL(triedSQL+` AND s.crashes > 0`) + `) suspect ON true`)

// firstDueSQL finds the first due row of a kind of the source i.
func firstDueSQL(kind string) string {
	return `
	SELECT s.due_at FROM {schema}.event_state s
	WHERE ` + kind + `
		AND (s.source, s.due_at) >= (i.source, coalesce(i.since, '-infinity')) AND (s.source, s.due_at) <= (i.source, now())
	ORDER BY s.source, s.due_at
	LIMIT 1
`
}

// DueSources implements [driver.Store].
func (s *Store) DueSources(ctx context.Context, sources []string) ([]driver.DueSource, error) {
	if len(sources) == 0 {
		return nil, nil
	}
	looks, since := s.marks.beginAll("due events", sources)
	var due []driver.DueSource
	err := read(ctx, s.pools.Work, "looking for due events", func(r Rows) error {
		var d driver.DueSource
		var until, now time.Time
		if err := r.Scan(&d.Source, &d.Fresh, &d.Tried, &d.Suspect, &until, &now); err != nil {
			return err
		}
		looks[d.Source].end(until, now)
		if d.Fresh || d.Tried || d.Suspect {
			due = append(due, d)
		}
		return nil
	}, s.text(dueSourcesSQL), sources, since)
	if err != nil {
		return nil, err
	}
	return due, nil
}

// reserveSQL postpones the due events of a source. It looks for fresh and tried ones separately,
// because each kind has an index of its own.
var reserveSQL = statement(reserveText(""))

// reserveOneSQL is reserveSQL for the event $10.
var reserveOneSQL = statement(reserveText(" AND s.key = $10::bytea"))

// reservableKeysSQL returns the keys of the events that are due. Its arguments are those of reserveSQL, and it locks no row.
// Its WHERE is always true: it gives the arguments that it does not use their types.
var reservableKeysSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now
), fresh AS MATERIALIZED (` + reservableSQL(freshSQL, "") + `
), tried AS MATERIALIZED (` + reservableSQL(triedSQL, "") + `
)
SELECT c.key
FROM (SELECT * FROM fresh UNION ALL SELECT * FROM tried) c
WHERE $3::bigint + $7::bigint >= 0
ORDER BY c.due_at, c.key
LIMIT $1::int`)

// reserveText has one more condition on due events.
func reserveText(condition string) string {
	return `
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now
), fresh AS MATERIALIZED (` + reservableSQL(freshSQL, condition) + `
	FOR UPDATE SKIP LOCKED
), tried AS MATERIALIZED (` + reservableSQL(triedSQL, condition) + `
	FOR UPDATE SKIP LOCKED
), sized AS MATERIALIZED (
	SELECT c.key, c.due_at, (sum(s.size) OVER w)::bigint AS bytes, row_number() OVER w AS place
	FROM (SELECT * FROM fresh UNION ALL SELECT * FROM tried) c
	CROSS JOIN LATERAL (SELECT ` + sizeSQL + ` AS size FROM {schema}.event e WHERE e.key = c.key LIMIT 1) s
	WINDOW w AS (ORDER BY c.due_at, c.key)
), due AS MATERIALIZED (
	SELECT key, due_at FROM sized
	WHERE place = 1 OR bytes <= $7::bigint
	ORDER BY place
	LIMIT $1::int
), d AS (
	UPDATE {schema}.event_state s
	SET due_at = setting.now + $3::bigint * interval '1 microsecond'
	FROM due, setting
	WHERE s.key = due.key
	RETURNING s.key, due.due_at AS was_due_at, s.due_at, s.generation, s.key_generation, s.attempts, s.crashes, s.replayed
)
SELECT ` + unlessUnread(takenColumns) + `, ` + bounded("d.was_due_at") + `, setting.now
FROM d
CROSS JOIN setting
CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = d.key LIMIT 1) e
ORDER BY d.was_due_at, d.key`
}

// reservableSQL finds the due rows of a kind.
func reservableSQL(kind, condition string) string {
	return `
	SELECT s.key, s.due_at
	FROM {schema}.event_state s
	WHERE ` + kind + dueSQL + ` AND ` + notInRunSQL + condition + `
	ORDER BY s.source, s.due_at
	LIMIT $1::int`
}

// Reserve implements [driver.Store].
func (s *Store) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	events, err := s.reserve(ctx, p, nil)
	if !isUnreadable(err) && mayBeOfRow(err) {
		return s.reservePast(ctx, p, err)
	}
	if !isUnreadable(err) {
		return events, err
	}
	unread := *p
	unread.Bytes = noBytes
	if events, err = s.reserve(ctx, &unread, nil); err == nil && len(events) > 0 {
		ev := &events[0]
		ev.Headers, ev.Body, ev.Unreadable, err = s.readAgain(ctx, ev.Key)
	}
	return events, err
}

// reservePast reserves due events one by one, after the database has refused to change one of them. It passes over a bounded number.
func (s *Store) reservePast(ctx context.Context, p *driver.ReserveParams, refusal error) (events []driver.TakenEvent, err error) {
	var keys []driver.Key
	args := reserveArgs(p, nil)
	limit := args[0].(int32)
	args[0] = limit + maxPassedOver
	err = read(ctx, s.pools.Work, "looking for events to reserve", eachKey(&keys), s.text(reservableKeysSQL), args...)
	for i := 0; err == nil && i < len(keys) && len(events) < int(limit); i++ {
		var one []driver.TakenEvent
		if one, err = s.reserve(ctx, p, keys[i][:]); mayBeOfRow(err) {
			refusal, err = err, nil
		}
		events = append(events, one...)
	}
	if err == nil && len(events) == 0 {
		err = refusal
	}
	return events, err
}

// unlessUnread leaves out headers and body if the bytes $7 are 0: then it returns one event.
func unlessUnread(columns string) string {
	return strings.Replace(columns, "e.headers, e.body", "CASE WHEN $7::bigint > 0 THEN e.headers END, CASE WHEN $7::bigint > 0 THEN e.body END", 1)
}

// reserve reserves due events, or the one with a key.
func (s *Store) reserve(ctx context.Context, p *driver.ReserveParams, key []byte) ([]driver.TakenEvent, error) {
	k := s.marks.begin(queue{fmt.Sprint("reserve", p.Suspects), p.Source}, strings.Join(p.Types, " "), p.Now)
	sql, args := reserveSQL, reserveArgs(p, k.from)
	if key != nil {
		k = look{} // it leaves due events behind
		sql, args = reserveOneSQL, append(reserveArgs(p, nil), key)
	}
	var events []driver.TakenEvent
	var due, now time.Time // of the last event
	err := write(ctx, s.pools.Work, "reserving events", func(r Rows) error {
		var row takenRow
		if err := r.Scan(append(row.targets(), &due, &now)...); err != nil {
			return err
		}
		events = append(events, row.finish())
		return nil
	}, s.text(sql), args...)
	if err != nil {
		return nil, err
	}
	k.end(due, now)
	return events, nil
}

// reserveArgs returns the arguments of reserveSQL.
func reserveArgs(p *driver.ReserveParams, from *time.Time) []any {
	exact, patterns := typeArgs(p.Types)
	return []any{
		int32(min(max(p.Limit, 1), maxTake)), clock(p.Now), max(0, p.For.Microseconds()), p.Source, exact, patterns, mostBytes(p.Bytes),
		int32(p.Suspects), from,
	}
}

// RecordReserved implements [driver.Store].
func (s *Store) RecordReserved(ctx context.Context, p *driver.FinishParams) error {
	checkResults(p.Results)
	if len(p.Results) == 0 {
		return nil
	}
	const op = "recording outcomes"
	args := append(outcomeArgs(p), reservedUntil(p.Results))
	var inLines []driver.Key
	for i := range p.Results {
		if p.Results[i].Line != nil {
			inLines = append(inLines, p.Results[i].Key)
		}
	}
	if len(inLines) == 0 {
		return write(ctx, s.pools.Work, op, noRows, s.text(recordReservedSQL), args...)
	}
	return transact(ctx, s.pools.Work, op, func(conn Conn) error {
		if err := scan(ctx, conn, noRows, s.text(recordReservedSQL), args...); err != nil {
			return err
		}
		return s.settleEvents(ctx, conn, inLines, p)
	})
}

// reservedUntil returns the ends of the reservations in the form of dueMicros.
func reservedUntil(results []driver.WorkResult) []int64 {
	until := make([]int64, len(results))
	for i := range results {
		if at := results[i].ReservedUntil; !at.IsZero() {
			until[i] = at.UnixMicro()
		}
	}
	return until
}
