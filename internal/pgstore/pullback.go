package pgstore

import (
	"cmp"
	"context"
	"strconv"

	"github.com/hookonce/hookonce/driver"
)

// The statements of this file share their arguments: $1 the time (NULL means the database's clock);
// $2 the sources or destinations; $3 how far ahead, in microseconds, due times may lie; $4 how many
// rows to change for each of $2. The conditions on due_at read only the far end of an index.

// longestLease is driver.LongestLease in microseconds.
var longestLease = strconv.FormatInt(driver.LongestLease.Microseconds(), 10)

// pullEventsSQL makes events due after the wait that their last failed attempt set.
var pullEventsSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now, coalesce($1::timestamptz, now()) + $3::bigint * interval '1 microsecond' AS farthest
), fresh AS MATERIALIZED (` + farEventsSQL(freshSQL) + `
), tried AS MATERIALIZED (` + farEventsSQL(triedSQL) + `
), pulled AS (
	UPDATE {schema}.event_state s
	SET due_at = setting.now + far.wait * interval '1 microsecond'
	FROM (SELECT * FROM fresh UNION ALL SELECT * FROM tried) far, setting
	WHERE s.key = far.key
	RETURNING s.key
)
SELECT count(*) FROM pulled`)

// farEventsSQL locks events of a kind that are due too far ahead.
func farEventsSQL(kind string) string {
	return `
	SELECT far.key, far.wait
	FROM setting, unnest($2::text[]) AS i (source)
	CROSS JOIN LATERAL (
		SELECT s.key, CASE WHEN s.attempts > 0 THEN s.retry_in ELSE 0 END AS wait
		FROM {schema}.event_state s
		WHERE ` + kind + `
			AND (s.source, s.due_at) > (i.source, setting.farthest) AND (s.source, s.due_at) < (i.source, {schema}.parked())
			AND s.due_at > setting.now + CASE WHEN s.attempts > 0 THEN s.retry_in ELSE 0 END * interval '1 microsecond'
		ORDER BY s.source, s.due_at
		LIMIT $4::int
		FOR UPDATE SKIP LOCKED
	) far`
}

// pullMessagesSQL makes messages due after the wait that their last failed attempt set. A leased one gets the longest
// lease: its holder may still be sending.
var pullMessagesSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now, coalesce($1::timestamptz, now()) + $3::bigint * interval '1 microsecond' AS farthest
), far AS MATERIALIZED (
	SELECT far.id, far.wait
	FROM setting, unnest($2::text[]) AS i (destination)
	CROSS JOIN LATERAL (
		SELECT m.id, CASE WHEN m.state = 1 THEN ` + longestLease + ` WHEN m.attempts > 0 THEN m.retry_in ELSE 0 END AS wait
		FROM {schema}.message m
		WHERE m.state IN (0, 1)
			AND (m.destination, m.due_at) > (i.destination, setting.farthest)
			AND (m.destination, m.due_at) < (i.destination, {schema}.parked())
			AND m.due_at > setting.now + CASE WHEN m.state = 1 THEN ` + longestLease + ` WHEN m.attempts > 0 THEN m.retry_in ELSE 0 END * interval '1 microsecond'
		ORDER BY m.destination, m.due_at
		LIMIT $4::int
		FOR UPDATE SKIP LOCKED
	) far
), pulled AS (
	UPDATE {schema}.message m
	SET due_at = setting.now + far.wait * interval '1 microsecond'
	FROM far, setting
	WHERE m.id = far.id
	RETURNING m.id
)
SELECT count(*) FROM pulled`)

// pullArmedSQL shortens the arming of sources that were armed while the clock was ahead.
var pullArmedSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now
), pulled AS (
	UPDATE {schema}.armed_source a
	SET armed_until = setting.now + a.armed_for * interval '1 microsecond'
	FROM setting
	WHERE a.source = ANY ($2::text[]) AND a.armed_until > setting.now + a.armed_for * interval '1 microsecond'
	RETURNING a.source
)
SELECT count(*) FROM pulled`)

// PullBack implements [driver.Store].
func (s *Store) PullBack(ctx context.Context, p *driver.PullBackParams) (events, messages int, err error) {
	var n int64
	count := func(r Rows) error { return r.Scan(&n) }
	for _, kind := range []struct {
		n     *int
		sql   string
		names []string
	}{{&events, s.text(pullEventsSQL), p.Sources}, {&messages, s.text(pullMessagesSQL), p.Destinations}} {
		if len(kind.names) == 0 {
			continue
		}
		if err := write(ctx, s.pools.Work, "pulling due times back", count, kind.sql,
			clock(p.Now), kind.names, cmp.Or(p.Ahead, driver.MaxAhead).Microseconds(), int32(p.Limit)); err != nil {
			return events, messages, err
		}
		*kind.n = int(n)
	}
	// Last, because a role may have no right to change the secrets of sources.
	if len(p.Armable) > 0 {
		err = write(ctx, s.pools.Admin, "shortening the arming of sources", count, s.text(pullArmedSQL), clock(p.Now), p.Armable)
	}
	return events, messages, err
}
