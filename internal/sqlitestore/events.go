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

// Events implements driver.Store. It fails after 5 s, whatever the context says.
func (s *Store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	const op = "list events"
	limit := f.Limit
	if limit <= 0 {
		limit = driver.DefaultLimit
	}
	limit = min(limit, driver.MaxLimit)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	where, args := conditions(f)
	// One more than asked for tells whether there is a next page.
	rows, err := s.reader.QueryContext(ctx, `SELECT `+eventColumns+` FROM hookonce_event_overview`+where+
		` ORDER BY received_at DESC, key DESC LIMIT ?`, append(args, limit+1)...)
	if err != nil {
		return nil, s.failed(ctx, op, err)
	}
	events, err := collect(rows, func(e *driver.Event) error { return scanEvent(e, rows) })
	if err != nil {
		return nil, s.failed(ctx, op, err)
	}
	page := &driver.EventPage{Events: events}
	if len(events) > limit {
		page.Events = events[:limit]
		last := &events[limit-1]
		page.Next = driver.Cursor{ReceivedAt: last.ReceivedAt, Key: last.Key}
	}
	return page, nil
}

// conditions returns the WHERE clause of a filter and its arguments.
func conditions(f *driver.EventFilter) (string, []any) {
	var all []string
	var args []any
	add := func(condition string, values ...any) {
		all = append(all, condition)
		args = append(args, values...)
	}
	for _, equal := range []struct{ column, value string }{
		{"source", f.Source}, {"type", f.Type}, {"state", f.State}, {"note", f.Note}, {"event_id", f.ID},
	} {
		if equal.value != "" {
			add(equal.column+` = ?`, equal.value)
		}
	}
	// What follows from the conditions above, and is found by small indexes.
	if candidates := driver.CandidateKeys(f.Source, f.ID); f.Source != "" && f.ID != "" && candidates != nil {
		add(keyIn(len(candidates)), keyArgs(candidates)...)
	}
	if implied := impliedBy[f.State]; implied != "" {
		add(implied)
	}
	if f.Text != "" {
		add(`(instr(event_id, ?) > 0 OR instr(type, ?) > 0 OR instr(body, ?) > 0)`, f.Text, f.Text, []byte(f.Text))
	}
	if !f.Since.IsZero() {
		add(`received_at >= ?`, ceilMicros(f.Since))
	}
	if !f.Until.IsZero() {
		add(`received_at < ?`, ceilMicros(f.Until))
	}
	if !f.After.IsZero() {
		add(`(received_at, key) < (?, ?)`, f.After.ReceivedAt.UnixMicro(), f.After.Key[:])
	}
	if len(all) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(all, ` AND `), args
}

// impliedBy narrows the states that few events are in: without it every event
// is looked at to find them.
var impliedBy = map[string]string{
	driver.StatePending: `key IN (SELECT key FROM hookonce_event_state WHERE state = 0)`,
	driver.StateDead: `key IN (SELECT event_key FROM hookonce_message WHERE state = 3
		UNION ALL SELECT key FROM hookonce_event_state WHERE state = 3)`,
}

// keyIn returns the condition that the key is one of n.
func keyIn(n int) string {
	return `key IN (` + strings.TrimSuffix(strings.Repeat(`?, `, n), `, `) + `)`
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

// scanEvent scans eventColumns and whatever more is asked for.
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
