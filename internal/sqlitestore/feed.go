package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// ?1 is the time, ?2 the end of the watch, ?3 the latest end that a watch can have.
	watchFeed = `INSERT INTO hookonce_feed_watch (only_one, until, floor_seq, last_seq) VALUES (1, ?2, ?1, ?1)
		ON CONFLICT (only_one) DO UPDATE SET
			until = ?2,
			floor_seq = CASE WHEN until > ?1 AND until <= ?3 THEN floor_seq ELSE max(last_seq + 1, ?1) END,
			last_seq = CASE WHEN until > ?1 AND until <= ?3 THEN last_seq ELSE max(last_seq + 1, ?1) END
		RETURNING last_seq`

	selectWatch = `SELECT until FROM hookonce_feed_watch WHERE until > ? AND until <= ?`

	// wantFeed takes ?1 numbers, if the watch lasts.
	wantFeed = `UPDATE hookonce_feed_watch SET last_seq = last_seq + ?1, floor_seq = max(floor_seq, last_seq + ?1 - ?2)
		WHERE until > ?3 AND until <= ?4
		RETURNING until, floor_seq, last_seq`

	insertFeed = `INSERT INTO hookonce_feed (seq, stored_at, at, kind, source, event_id, type, outcome, details)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	trimFeed = `DELETE FROM hookonce_feed WHERE seq <= ?`

	selectFloor = `SELECT until, floor_seq, last_seq FROM hookonce_feed_watch`

	selectFeed = `SELECT seq, at, kind, source, event_id, type, outcome, details
		FROM hookonce_feed WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`

	oldFeed = `SELECT max(seq) FROM (SELECT seq FROM hookonce_feed WHERE stored_at < ? ORDER BY seq LIMIT ?)`

	raiseFloor = `UPDATE hookonce_feed_watch SET floor_seq = max(floor_seq, ?)`
)

// latestWatch returns the latest end of a watch at a time.
func latestWatch(now int64) int64 { return now + driver.MaxFeedWatch.Microseconds() }

// WatchFeed implements driver.Store.
func (s *Store) WatchFeed(ctx context.Context, p *driver.WatchFeedParams) (last int64, err error) {
	const op = "watching the feed"
	if err := p.Check(); err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	err = s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		return t.queryRow(watchFeed, t.now, t.now+p.For.Microseconds(), latestWatch(t.now)).Scan(&last)
	})
	return last, err
}

// FeedWatched implements driver.Store.
func (s *Store) FeedWatched(ctx context.Context) (left time.Duration, err error) {
	err = s.snapshot(ctx, "asking whether the feed is watched", func(ctx context.Context, tx *sql.Tx) error {
		now := clock(time.Time{})
		var until int64
		err := tx.QueryRowContext(ctx, selectWatch, now, latestWatch(now)).Scan(&until)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		left = time.Duration(until-now) * time.Microsecond
		return err
	})
	return left, err
}

// CollectFeed implements driver.Store. There are no SQL consumers.
func (s *Store) CollectFeed(context.Context) ([]driver.FeedRow, error) { return nil, nil }

// AddFeed implements driver.Store.
func (s *Store) AddFeed(ctx context.Context, p *driver.AddFeedParams) (left time.Duration, err error) {
	const op = "adding to the feed"
	if err := p.Check(); err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	err = s.write(ctx, op, func(t *writeTx) error {
		now, n := clock(p.Now), int64(len(p.Rows))
		var until, floor, last int64
		err := t.queryRow(wantFeed, n, driver.MaxFeedRows, now, latestWatch(now)).Scan(&until, &floor, &last)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		left = time.Duration(until-now) * time.Microsecond
		if _, err := t.exec(trimFeed, floor); err != nil {
			return err
		}
		return t.each(len(p.Rows), func(t *writeTx, i int) error {
			r := &p.Rows[i]
			return t.insert(insertFeed, last-n+1+int64(i), now, r.At.UnixMicro(), int(r.Kind), r.Source, r.EventID, r.Type, r.Outcome, blob(r.Details))
		})
	})
	return left, err
}

// ReadFeed implements driver.Store. It reads for at most 5 s.
func (s *Store) ReadFeed(ctx context.Context, p *driver.ReadFeedParams) (*driver.FeedPage, error) {
	limit := driver.MaxFeedRows
	if p.Limit > 0 {
		limit = min(p.Limit, limit)
	}
	page := &driver.FeedPage{}
	err := s.snapshot(ctx, "reading the feed", func(ctx context.Context, tx *sql.Tx) error {
		var until int64
		err := tx.QueryRowContext(ctx, selectFloor).Scan(&until, &page.Floor, &page.Last)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		now := clock(p.Now)
		page.Watched = until > now && until <= latestWatch(now)
		rows, err := tx.QueryContext(ctx, selectFeed, max(p.After, page.Floor), page.Last, limit)
		page.Rows, err = collect(rows, err, func(r *driver.FeedRow) error {
			var at int64
			err := rows.Scan(&r.Seq, &at, &r.Kind, &r.Source, &r.EventID, &r.Type, &r.Outcome, &r.Details)
			r.At = fromMicros(at)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// feed removes the rows of the feed that are older than they are kept, a few under one hold of the
// write lock, which it takes only if there are any.
func (r *pruner) feed(ctx context.Context) error {
	for {
		began := time.Now()
		var last sql.NullInt64
		if err := r.store.reader.QueryRowContext(ctx, oldFeed, r.before(driver.FeedKept), r.lock()).Scan(&last); err != nil {
			return r.store.failed(ctx, opPrune, err)
		}
		if !last.Valid {
			return nil
		}
		if err := r.write(ctx, opPrune, func(t *writeTx) error {
			if _, err := t.exec(raiseFloor, last.Int64); err != nil {
				return err
			}
			_, err := t.exec(trimFeed, last.Int64)
			return err
		}); err != nil {
			return err
		}
		if err := r.p.Pause(ctx, began); err != nil {
			return err
		}
	}
}
