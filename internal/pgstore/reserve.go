package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// reserveOneSQL is reserveSQL for the event $11.
var reserveOneSQL = statement(reserveText(" AND s.key = $11::bytea"))

// reservableSQL returns the events that are due, with their sizes: the oldest, and the newest. Its arguments are those of reserveSQL,
// and it locks no row. Its WHERE is always true: it gives the arguments that it does not use their types.
var oldestReservableSQL, newestReservableSQL = reservableSQL(""), reservableSQL(" DESC")

func reservableSQL(direction string) text {
	return statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now
), fresh AS MATERIALIZED (` + dueKeysSQL(freshSQL, "", direction) + `
), tried AS MATERIALIZED (` + dueKeysSQL(triedSQL, "", direction) + `
)
SELECT c.key, e.event_id, e.size
FROM (SELECT * FROM fresh UNION ALL SELECT * FROM tried) c
CROSS JOIN LATERAL (SELECT e.event_id, ` + sizeSQL + ` AS size FROM {schema}.event e WHERE e.key = c.key LIMIT 1) e
WHERE $3::bigint + $7::bigint >= 0
ORDER BY c.due_at` + direction + `, c.key
LIMIT $1::int`)
}

// reserveText has one more condition on due events.
func reserveText(condition string) string {
	return `
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now
), fresh AS MATERIALIZED (` + dueKeysSQL(freshSQL, condition, "") + `
	FOR UPDATE SKIP LOCKED
), tried AS MATERIALIZED (` + dueKeysSQL(triedSQL, condition, "") + `
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

// dueKeysSQL finds the due rows of a kind.
func dueKeysSQL(kind, condition, direction string) string {
	return `
	SELECT s.key, s.due_at
	FROM {schema}.event_state s
	WHERE ` + kind + dueSQL + ` AND ` + notInRunSQL + ` AND s.key <> ALL ($10::bytea[])` + condition + `
	ORDER BY s.source` + direction + `, s.due_at` + direction + `
	LIMIT $1::int`
}

// Reserve implements [driver.Store].
func (s *Store) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	events, err := s.reserveReadable(ctx, p, nil)
	if mayBeOfEvent(err) {
		return s.reservePast(ctx, p, err)
	}
	return events, err
}

// reserveReadable is reserve. If an event cannot be read, it reserves the first one without headers and body, which it reads then.
func (s *Store) reserveReadable(ctx context.Context, p *driver.ReserveParams, key []byte) ([]driver.TakenEvent, error) {
	events, err := s.reserve(ctx, p, key)
	if !isUnreadable(err) {
		return events, err
	}
	unread := *p
	unread.Bytes = noBytes
	if events, err = s.reserve(ctx, &unread, key); err != nil || len(events) == 0 {
		return nil, err
	}
	ev := &events[0]
	if ev.Headers, ev.Body, ev.Unreadable, err = s.readAgain(ctx, ev.Key); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		return nil, errors.Join(err, s.RecordReserved(ctx, driver.Unreserved(ev)))
	}
	return events, nil
}

// mayBeOfEvent reports whether one event may be why a reservation failed: see mayBeOfRow.
func mayBeOfEvent(err error) bool { return mayBeOfRow(err) || isUnreadable(err) }

// reservePast reserves due events one by one, after the database has refused to change one of them. After many in a row that it
// refuses, it tries the newest ones. It tells of those that are at fault by themselves.
func (s *Store) reservePast(ctx context.Context, p *driver.ReserveParams, refusal error) (events []driver.TakenEvent, err error) {
	past := *p
	past.Limit = min(max(p.Limit, 1), maxTake)
	var refused []driver.RefusedEvent
	left, inRow := mostBytes(p.Bytes), maxPassedOver
	for _, listing := range []text{oldestReservableSQL, newestReservableSQL} {
		if inRow < maxPassedOver {
			break // it has tried all, or reserved enough
		}
		inRow = 0
		var due []reservable
		due, err = s.reservable(ctx, &past, listing)
		for i := 0; err == nil && i < len(due) && inRow < maxPassedOver; i++ {
			if len(events) > 0 && (len(events) == past.Limit || due[i].size > left) {
				break
			}
			var one []driver.TakenEvent
			if one, err = s.reserveReadable(ctx, p, due[i].Key[:]); mayBeOfEvent(err) {
				due[i].Err, refusal, err = err, err, nil
				refused, past.Skip = append(refused, due[i].RefusedEvent), append(slices.Clip(past.Skip), due[i].Key)
				inRow++
			} else if len(one) > 0 {
				events, left, inRow = append(events, one[0]), left-due[i].size, 0
			}
		}
	}
	for i := range refused {
		if p.Refused != nil && (len(events) > 0 || isOwnFault(refused[i].Err)) {
			p.Refused(refused[i])
		}
	}
	if len(events) > 0 {
		return events, nil // an error comes again
	}
	return nil, cmp.Or(err, refusal)
}

// reservable is a due event that may be refused.
type reservable struct {
	driver.RefusedEvent
	size int64
}

// reservable returns more due events than the limit, because some are refused.
func (s *Store) reservable(ctx context.Context, p *driver.ReserveParams, listing text) (due []reservable, err error) {
	args := reserveArgs(p, nil)
	args[0] = int32(p.Limit + maxPassedOver)
	err = read(ctx, s.pools.Work, "looking for events to reserve", func(r Rows) error {
		var d reservable
		var key []byte
		err := r.Scan(&key, &d.EventID, &d.size)
		if err == nil {
			d.Key = driver.Key(key)
			due = append(due, d)
		}
		return err
	}, s.text(listing), args...)
	return due, err
}

// unlessUnread leaves out headers and body if the bytes $7 are 0: then it returns one event.
func unlessUnread(columns string) string {
	return strings.Replace(columns, "e.headers, e.body", "CASE WHEN $7::bigint > 0 THEN e.headers END, CASE WHEN $7::bigint > 0 THEN e.body END", 1)
}

// reserve reserves due events, or the one with a key.
func (s *Store) reserve(ctx context.Context, p *driver.ReserveParams, key []byte) ([]driver.TakenEvent, error) {
	k := s.marks.begin(queue{fmt.Sprint("reserve", p.Suspects), p.Source}, strings.Join(p.Types, " "), p.Now)
	sql, args := reserveSQL, reserveArgs(p, k.from)
	if key != nil || len(p.Skip) > 0 {
		k, args = look{}, reserveArgs(p, nil) // it leaves due events behind
	}
	if key != nil {
		sql, args = reserveOneSQL, append(args, key)
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
		int32(p.Suspects), from, keyArgs(p.Skip),
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
