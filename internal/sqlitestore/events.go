package sqlitestore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const eventColumns = `key, source, event_id, type, state, note, attempts, generation, duplicates,
	received_at, occurred_at, processed_at, failed_at, last_error`

// Events implements driver.Store. It reads for at most 5 s.
func (s *Store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	page := &driver.EventPage{}
	limit := pageLimit(f.Limit)
	err := s.snapshot(ctx, "listing events", func(ctx context.Context, tx *sql.Tx) error {
		implied := impliedBy[f.State]
		if implied != "" {
			isFew, err := few(ctx, tx, implied)
			if err != nil {
				return err
			}
			if !isFew {
				implied = ""
			}
		}
		query, args := eventsQuery(f, implied)
		rows, err := tx.QueryContext(ctx, query, append(args, limit+1)...)
		if err != nil {
			return err
		}
		var more bool
		page.Events, more, err = collectPage(rows, limit, func(e *driver.Event) error { return scanEvent(e, rows) })
		if more {
			last := &page.Events[limit-1]
			page.Next = driver.Cursor{ReceivedAt: last.ReceivedAt, Key: last.Key}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// eventsQuery returns the query of a listing, and its arguments except the last, the limit. implied
// is empty, or it selects keys that include those of all events in the filter's state.
func eventsQuery(f *driver.EventFilter, implied string) (query string, args []any) {
	var c clause
	for _, equal := range []struct{ column, value string }{
		{"source", f.Source}, {"type", f.Type}, {"state", f.State}, {"note", f.Note}, {"event_id", f.ID},
	} {
		c.equal(equal.column, equal.value)
	}
	// Implied by the conditions above, and served by partial indexes.
	if candidates := driver.CandidateKeys(f.Source, f.ID); f.Source != "" && f.ID != "" && candidates != nil {
		c.add(keyIn(`key`, len(candidates)), keyArgs(candidates)...)
	}
	if implied != "" {
		c.add(`key IN (` + implied + `)`)
	}
	c.text("", f.Text)
	c.received(`received_at`, f.Since, f.Until)
	if !f.After.IsZero() {
		c.add(`(received_at, key) < (?, ?)`, f.After.ReceivedAt.UnixMicro(), f.After.Key[:])
	}
	return `SELECT ` + eventColumns + ` FROM hookonce_event_overview` + c.where() +
		` ORDER BY received_at DESC, key DESC LIMIT ?`, c.args
}

// impliedBy holds queries, on partial indexes, for keys that include those of all events in a
// state; without them a listing looks at every event. There is no such index, and no need for one,
// for events that are done.
var impliedBy = map[string]string{
	driver.StatePending: `SELECT key FROM hookonce_event_state WHERE state = 0`,
	driver.StateRunning: `SELECT event_key FROM hookonce_message WHERE state IN (0, 1)
		UNION ALL SELECT key FROM hookonce_event_state WHERE state = 1`,
	driver.StateDead: `SELECT event_key FROM hookonce_message WHERE state = 3
		UNION ALL SELECT key FROM hookonce_event_state WHERE state = 3`,
	driver.StateSkipped: `SELECT event_key FROM hookonce_message WHERE state = 4
		UNION ALL SELECT key FROM hookonce_event_state WHERE state = 4`,
}

// keyIn returns the condition that the key in column is one of n.
func keyIn(column string, n int) string {
	return column + ` IN (` + strings.TrimSuffix(strings.Repeat(`?, `, n), `, `) + `)`
}

func keyArgs(keys []driver.Key) []any {
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = keys[i][:]
	}
	return args
}

// ceilMicros returns the first microsecond that is not before at.
func ceilMicros(at time.Time) int64 {
	us := at.UnixMicro()
	if time.UnixMicro(us).Before(at) {
		us++
	}
	return us
}

// scanEvent scans eventColumns and the additional targets.
func scanEvent(e *driver.Event, rows *sql.Rows, more ...any) error {
	var key []byte
	var receivedAt int64
	var occurredAt, processedAt, failedAt sql.NullInt64
	err := rows.Scan(slices.Concat([]any{
		&key, &e.Source, &e.EventID, &e.Type, &e.State, &e.Note, &e.Attempts, &e.Generation, &e.Duplicates,
		&receivedAt, &occurredAt, &processedAt, &failedAt, &e.LastError,
	}, more)...)
	copy(e.Key[:], key)
	e.ReceivedAt = fromMicros(receivedAt)
	e.OccurredAt = fromNullMicros(occurredAt)
	e.ProcessedAt = fromNullMicros(processedAt)
	e.FailedAt = fromNullMicros(failedAt)
	return err
}
