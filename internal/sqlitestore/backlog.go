package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The statements of Backlog search a partial index for one name, and read up to a limit of rows from
// there.
const (
	backlogOfSource = `SELECT
		(SELECT count(*) FROM (
			SELECT 1 FROM hookonce_event_state WHERE source = ?1 AND state = 0 AND attempts = 0 AND crashes = 0 LIMIT ?2))
		+ (SELECT count(*) FROM (
			SELECT 1 FROM hookonce_event_state WHERE source = ?1 AND state = 0 AND (attempts > 0 OR crashes > 0) LIMIT ?2)),
		(SELECT min(due_at) FROM (
			SELECT * FROM (SELECT due_at FROM hookonce_event_state
				WHERE source = ?1 AND state = 0 AND attempts = 0 AND crashes = 0 AND due_at < ` + parked + ` ORDER BY due_at LIMIT 1)
			UNION ALL
			SELECT * FROM (SELECT due_at FROM hookonce_event_state
				WHERE source = ?1 AND state = 0 AND (attempts > 0 OR crashes > 0) AND due_at < ` + parked + ` ORDER BY due_at LIMIT 1))),
		(SELECT count(*) FROM (SELECT 1 FROM hookonce_event_state WHERE source = ?1 AND state = 3 LIMIT ?2)),
		(SELECT count(*) FROM (SELECT 1 FROM hookonce_ordered_message WHERE destination = char(10) || ?1 AND state = 1 LIMIT ?2))`

	backlogOfDestination = `SELECT
		(SELECT count(*) FROM (SELECT 1 FROM hookonce_message WHERE destination = ?1 AND state IN (0, 1) LIMIT ?2)),
		(SELECT due_at FROM hookonce_message WHERE destination = ?1 AND state IN (0, 1) ORDER BY due_at LIMIT 1),
		(SELECT count(*) FROM (SELECT 1 FROM hookonce_message WHERE destination = ?1 AND state = 3 LIMIT ?2)),
		(SELECT count(*) FROM (SELECT 1 FROM hookonce_ordered_message WHERE destination = ?1 AND state = 1 LIMIT ?2))`

	fileBytes = `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`
)

// Backlog implements driver.Store. It reads for at most 5 s. The size of the log is
// known after the first write.
func (s *Store) Backlog(ctx context.Context, p *driver.BacklogParams) (*driver.Backlog, error) {
	b := &driver.Backlog{At: fromMicros(clock(time.Time{})), LogBytes: s.log.size()}
	err := s.snapshot(ctx, "measuring the backlog", func(ctx context.Context, tx *sql.Tx) (err error) {
		if err = tx.QueryRowContext(ctx, fileBytes).Scan(&b.Bytes); err != nil {
			return err
		}
		if b.Sources, err = backlogOf(ctx, tx, backlogOfSource, p.Sources, p.Limit); err != nil {
			return err
		}
		b.Destinations, err = backlogOf(ctx, tx, backlogOfDestination, p.Destinations, p.Limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

func backlogOf(ctx context.Context, tx *sql.Tx, query string, names []string, limit int) (map[string]driver.Waiting, error) {
	all := make(map[string]driver.Waiting, len(names))
	for _, name := range names {
		var w driver.Waiting
		var oldest sql.NullInt64
		if err := tx.QueryRowContext(ctx, query, name, limit).Scan(&w.Open, &oldest, &w.Dead, &w.HeldLines); err != nil {
			return nil, err
		}
		w.Open, w.OldestDueAt = min(w.Open, int64(limit)), fromNullMicros(oldest)
		all[name] = w
	}
	return all, nil
}
