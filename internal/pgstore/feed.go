package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// feedWatchedSQL is the condition that the watch w lasts at the time %s. It has the longest watch in
// microseconds as $2.
const feedWatchedSQL = `w.until > %[1]s AND w.until <= %[1]s + $2::bigint * interval '1 microsecond'`

// watchFeedSQL takes the time $1, the longest watch $2 and the length of this one $3.
// A new watch begins without the rows that SQL consumers left before.
var watchFeedSQL = statement(`
WITH old AS (
	DELETE FROM {schema}.feed_consumed WHERE NOT EXISTS (SELECT FROM {schema}.feed_watch w WHERE ` + feedLasts + `)
)
INSERT INTO {schema}.feed_watch AS w (until, floor_seq, last_seq)
SELECT n.now + $3::bigint * interval '1 microsecond', n.micros, n.micros
FROM (
	SELECT c.now, (extract(epoch FROM c.now) * 1000000)::bigint AS micros
	FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) c
) n
ON CONFLICT (only_one) DO UPDATE SET
	until = excluded.until,
	floor_seq = CASE WHEN ` + feedLasts + ` THEN w.floor_seq ELSE greatest(w.last_seq + 1, excluded.last_seq) END,
	last_seq = CASE WHEN ` + feedLasts + ` THEN w.last_seq ELSE greatest(w.last_seq + 1, excluded.last_seq) END
RETURNING last_seq`)

var feedLasts = fmt.Sprintf(feedWatchedSQL, "coalesce($1::timestamptz, clock_timestamp())")

// watchedSQL returns how many microseconds the watch still lasts, and no row if it has ended.
var watchedSQL = statement(`
SELECT (extract(epoch FROM w.until - coalesce($1::timestamptz, clock_timestamp())) * 1000000)::bigint
FROM {schema}.feed_watch w WHERE ` + feedLasts)

// collectFeedSQL takes the longest group $1. Concurrent callers get different rows and do not wait for
// one another.
var collectFeedSQL = statement(`
WITH collected AS (
	DELETE FROM {schema}.feed_consumed c
	WHERE c.id = ANY (ARRAY(SELECT f.id FROM {schema}.feed_consumed f LIMIT $1::int FOR UPDATE SKIP LOCKED))
	RETURNING c.*
)
SELECT at, source, event_id, type, outcome, details FROM collected ORDER BY at`)

// addFeedSQL takes the number of rows $3, the number of rows to keep $4, and the columns $5 to $11. It
// returns what watchedSQL returns. The lock of the row of feed_watch orders the writers.
var addFeedSQL = statement(`
WITH w AS (
	UPDATE {schema}.feed_watch w
	SET last_seq = w.last_seq + $3::bigint, floor_seq = greatest(w.floor_seq, w.last_seq + $3 - $4::bigint)
	WHERE ` + feedLasts + `
	RETURNING w.until, w.floor_seq, w.last_seq
), trimmed AS (
	DELETE FROM {schema}.feed WHERE seq <= (SELECT floor_seq FROM w)
), added AS (
	INSERT INTO {schema}.feed (seq, stored_at, at, kind, source, event_id, type, outcome, details)
	SELECT w.last_seq - $3 + i.ord, coalesce($1::timestamptz, clock_timestamp()), i.at, i.kind, i.source, i.event_id, i.type, i.outcome, i.details
	FROM w
	CROSS JOIN unnest($5::timestamptz[], $6::smallint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[])
		WITH ORDINALITY AS i (at, kind, source, event_id, type, outcome, details, ord)
)
SELECT (extract(epoch FROM w.until - coalesce($1::timestamptz, clock_timestamp())) * 1000000)::bigint FROM w`)

// readFeedSQL returns at most $4 rows after the number $3, and at least one row if there is a watch.
var readFeedSQL = statement(`
SELECT ` + feedLasts + `, w.floor_seq, w.last_seq, f.seq, f.at, f.kind, f.source, f.event_id, f.type, f.outcome, f.details
FROM {schema}.feed_watch w
LEFT JOIN LATERAL (
	SELECT * FROM {schema}.feed f WHERE f.seq > greatest($3::bigint, w.floor_seq) AND f.seq <= w.last_seq ORDER BY f.seq LIMIT $4::int
) f ON true
ORDER BY f.seq`)

// pruneFeedSQL removes the rows that were stored more than $2 microseconds before $1, and those that SQL
// consumers left and no gateway collected. It locks the
// row of feed_watch first, as writers do.
var pruneFeedSQL = statement(`
WITH old AS MATERIALIZED (
	SELECT max(f.seq) AS seq FROM {schema}.feed f WHERE f.stored_at < $1::timestamptz - $2::bigint * interval '1 microsecond'
), w AS (
	UPDATE {schema}.feed_watch w SET floor_seq = greatest(w.floor_seq, old.seq) FROM old WHERE old.seq IS NOT NULL
	RETURNING old.seq
), consumed AS (
	DELETE FROM {schema}.feed_consumed WHERE at < $1 - $2 * interval '1 microsecond'
)
DELETE FROM {schema}.feed WHERE seq <= (SELECT seq FROM w)`)

// WatchFeed implements [driver.Store].
func (s *Store) WatchFeed(ctx context.Context, p *driver.WatchFeedParams) (last int64, err error) {
	const op = "watching the feed"
	if err := p.Check(); err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	err = write(ctx, s.pools.Admin, op, func(r Rows) error { return r.Scan(&last) }, s.text(watchFeedSQL),
		clock(p.Now), driver.MaxFeedWatch.Microseconds(), p.For.Microseconds())
	return last, err
}

// FeedWatched implements [driver.Store].
func (s *Store) FeedWatched(ctx context.Context) (time.Duration, error) {
	var micros int64
	err := read(ctx, s.pools.Work, "asking whether the feed is watched", func(r Rows) error { return r.Scan(&micros) },
		s.text(watchedSQL), clock(time.Time{}), driver.MaxFeedWatch.Microseconds())
	return time.Duration(micros) * time.Microsecond, err
}

// CollectFeed implements [driver.Store].
func (s *Store) CollectFeed(ctx context.Context) ([]driver.FeedRow, error) {
	var rows []driver.FeedRow
	err := write(ctx, s.pools.Work, "collecting rows of SQL consumers for the feed", func(r Rows) error {
		row := driver.FeedRow{Kind: driver.FeedEvent}
		err := r.Scan(&row.At, &row.Source, &row.EventID, &row.Type, &row.Outcome, &row.Details)
		row.At = row.At.UTC()
		rows = append(rows, row)
		return err
	}, s.text(collectFeedSQL), int32(driver.MaxFeedRows))
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// AddFeed implements [driver.Store].
func (s *Store) AddFeed(ctx context.Context, p *driver.AddFeedParams) (time.Duration, error) {
	const op = "adding to the feed"
	if err := p.Check(); err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	n := len(p.Rows)
	at, kinds, details := make([]*time.Time, n), make([]int16, n), make([][]byte, n)
	sources, ids, types, outcomes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i := range p.Rows {
		r := &p.Rows[i]
		at[i], kinds[i], details[i] = &r.At, int16(r.Kind), notNil(r.Details)
		sources[i], ids[i], types[i], outcomes[i] = r.Source, r.EventID, r.Type, r.Outcome
	}
	var micros int64
	err := write(ctx, s.pools.Work, op, func(r Rows) error { return r.Scan(&micros) }, s.text(addFeedSQL),
		clock(p.Now), driver.MaxFeedWatch.Microseconds(), int64(n), int64(driver.MaxFeedRows),
		at, kinds, sources, ids, types, outcomes, details)
	return time.Duration(micros) * time.Microsecond, err
}

// ReadFeed implements [driver.Store].
func (s *Store) ReadFeed(ctx context.Context, p *driver.ReadFeedParams) (*driver.FeedPage, error) {
	limit := driver.MaxFeedRows
	if p.Limit > 0 {
		limit = min(p.Limit, limit)
	}
	page := &driver.FeedPage{}
	err := read(ctx, s.pools.Admin, "reading the feed", func(r Rows) error {
		var seq *int64
		var at *time.Time
		var kind *int16
		var source, id, eventType, outcome *string
		var details []byte
		if err := r.Scan(&page.Watched, &page.Floor, &page.Last, &seq, &at, &kind, &source, &id, &eventType, &outcome, &details); err != nil {
			return err
		}
		if seq != nil {
			page.Rows = append(page.Rows, driver.FeedRow{
				Seq: *seq, At: at.UTC(), Kind: driver.FeedKind(*kind), Source: *source, EventID: *id, Type: *eventType,
				Outcome: *outcome, Details: details,
			})
		}
		return nil
	}, s.text(readFeedSQL), clock(p.Now), driver.MaxFeedWatch.Microseconds(), p.After, int32(limit))
	if err != nil {
		return nil, err
	}
	return page, nil
}
