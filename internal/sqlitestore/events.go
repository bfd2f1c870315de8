package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

const eventColumns = `key, source, event_id, type, state, waiting, note, attempts, generation, duplicates,
	received_at, occurred_at, processed_at, failed_at, last_error, remote = '` + driver.RemoteReconcile + `'`

const opEvents = "listing events"

// eventWalk is one listing of events.
type eventWalk struct {
	s *Store
	f *driver.EventFilter

	keys    []driver.Key // of the events that may have the id, if isKeyed
	isKeyed bool
	implied string // query for few keys that include those of all events; or ""
	number  string // see walk.IndexedState
}

// Events implements driver.Store. Each of its steps reads for at most 5 s.
func (s *Store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	release, err := s.search(opEvents, f.Text != "" || f.TraceID != "")
	if err != nil {
		return nil, err
	}
	defer release()
	w := &eventWalk{s: s, f: f}
	if w.keys, w.isKeyed, err = s.lookUps(ctx, opEvents, f.Source, f.ID, f.Sources); err != nil {
		return nil, err
	}
	if w.number = walk.IndexedState(f.State, f.Note); !w.isKeyed {
		if w.implied, err = s.few(ctx, opEvents, walk.FewKeys, impliedBy[f.State]); err != nil {
			return nil, err
		}
	}
	l := &walk.Listing[driver.Event]{
		Edge: w.edge, Match: w.match,
		Spans: func(ctx context.Context) ([]walk.Span, error) { return s.spans(ctx, f) },
	}
	page, err := walk.Events(ctx, l, f, w.isKeyed || w.implied != "", w.number)
	if err == nil && f.Destinations {
		err = s.addDestinations(ctx, page.Events)
	}
	return page, err
}

// addDestinations sets the destinations of events.
func (s *Store) addDestinations(ctx context.Context, events []driver.Event) error {
	if len(events) == 0 {
		return nil
	}
	keys, at := make([]driver.Key, len(events)), make(map[driver.Key]int, len(events))
	for i := range events {
		keys[i], at[events[i].Key] = events[i].Key, i
	}
	query := `SELECT e.key, m.destination FROM hookonce_event e CROSS JOIN hookonce_message m ON m.event = e.id
		WHERE ` + keyIn(`e.key`, len(keys)) + `
		UNION SELECT cause, destination FROM hookonce_message WHERE ` + keyIn(`cause`, len(keys)) + ` ORDER BY 2`
	return s.snapshot(ctx, opEvents, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, slices.Repeat(keyArgs(keys), 2)...)
		_, err = collect(rows, err, func(*struct{}) error {
			var key []byte
			var name string
			err := rows.Scan(&key, &name)
			if err == nil {
				e := &events[at[driver.Key(key)]]
				e.Destinations = append(e.Destinations, name)
			}
			return err
		})
		return err
	})
}

func (w *eventWalk) edge(ctx context.Context, step walk.Step, n int) (driver.Cursor, int, error) {
	query, args := edgeQuery(w.candidates(step, n))
	return w.s.edgeOf(ctx, opEvents, query, args)
}

// candidates returns a query for the places that a step has to look at; n is 0 for all of them.
func (w *eventWalk) candidates(step walk.Step, n int) (query string, args []any) {
	limit := ""
	if n > 0 {
		limit = fmt.Sprint(` LIMIT `, n)
	}
	part := func(table, key, condition string) string {
		var c clause
		if condition != "" {
			c.add(condition)
		}
		c.step(step, `received_at`, key)
		c.received(`received_at`, w.f.Since, w.f.Until)
		args = append(args, c.args...)
		return `SELECT received_at, ` + key + ` AS key, '' AS id FROM ` + table + c.where() + ` ORDER BY received_at DESC, ` + key + ` DESC` + limit
	}
	if w.number == "" {
		return part(`hookonce_event`, `key`, ``), args
	}
	query = `SELECT * FROM (` + part(`hookonce_message`, `event_key`, `state = `+w.number) + `) UNION ALL SELECT * FROM (` +
		part(`hookonce_event_state`, `key`, `state = `+w.number) + `) ORDER BY received_at DESC, key DESC` + limit
	return query, args
}

func (w *eventWalk) match(ctx context.Context, step walk.Step, n int) (events []driver.Event, err error) {
	query, args := w.query(step, n)
	err = w.s.snapshot(ctx, opEvents, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		events, err = collect(rows, err, func(e *driver.Event) error { return scanEvent(e, rows) })
		return err
	})
	return events, err
}

// query returns the query for the events of a step.
func (w *eventWalk) query(step walk.Step, n int) (query string, args []any) {
	var c clause
	f := w.f
	for _, equal := range []struct{ column, value string }{
		{"source", f.Source}, {"type", f.Type}, {"state", f.State}, {"note", f.Note}, {"event_id", f.ID},
	} {
		c.equal(equal.column, equal.value)
	}
	switch {
	case w.isKeyed:
		c.add(keyIn(`key`, len(w.keys)), keyArgs(w.keys)...) // implied by the id, and served by an index
	case w.implied != "":
		c.add(`key IN (` + w.implied + `)`)
	case w.number != "":
		in, args := w.candidates(step, 0)
		c.add(`key IN (SELECT key FROM (`+in+`))`, args...)
	}
	if w.number == "" || w.isKeyed {
		c.step(step, `received_at`, `key`)
		c.received(`received_at`, f.Since, f.Until)
	}
	c.text("", f.Text)
	if f.Destination != "" {
		c.add(`(EXISTS (SELECT 1 FROM hookonce_event e CROSS JOIN hookonce_message r ON r.event = e.id
				WHERE e.key = hookonce_event_overview.key AND r.destination = ?)
			OR EXISTS (SELECT 1 FROM hookonce_message r WHERE r.cause = hookonce_event_overview.key AND r.destination = ?))`,
			f.Destination, f.Destination)
	}
	if f.TraceID != "" {
		c.add(`instr(headers, ?) > 0`, []byte("-"+f.TraceID+"-"))
	}
	return `SELECT ` + eventColumns + ` FROM hookonce_event_overview` + c.where() +
		fmt.Sprint(` ORDER BY received_at DESC, key DESC LIMIT `, n), c.args
}

// impliedBy holds queries, on partial indexes, for keys that include those of all events in a state.
var impliedBy = map[string]string{
	driver.StatePending: `SELECT key FROM hookonce_event_state WHERE ` + fresh + `
		UNION ALL SELECT key FROM hookonce_event_state WHERE ` + tried,
	driver.StateRunning: `SELECT event_key FROM hookonce_message WHERE state IN (0, 1)
		UNION ALL SELECT key FROM hookonce_event_state WHERE state = 1`,
}

// keyIn returns the condition that the key in column is one of n.
func keyIn(column string, n int) string {
	return column + ` IN (` + places(n) + `)`
}

// places returns the places of n arguments.
func places(n int) string { return strings.TrimSuffix(strings.Repeat(`?, `, n), `, `) }

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
		&key, &e.Source, &e.EventID, &e.Type, &e.State, &e.Waiting, &e.Note, &e.Attempts, &e.Generation, &e.Duplicates,
		&receivedAt, &occurredAt, &processedAt, &failedAt, &e.LastError, &e.Reconciled,
	}, more)...)
	copy(e.Key[:], key)
	e.ReceivedAt = fromMicros(receivedAt)
	e.OccurredAt = fromNullMicros(occurredAt)
	e.ProcessedAt = fromNullMicros(processedAt)
	e.FailedAt = fromNullMicros(failedAt)
	return err
}
