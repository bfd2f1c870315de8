package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

// condition builds a WHERE clause and its arguments.
type condition struct {
	terms []string
	args  []any
}

func newCondition() *condition { return &condition{terms: []string{"true"}} }

func (c *condition) sql() string { return " WHERE " + strings.Join(c.terms, " AND ") }

// add adds a term. Each %d in it stands for the number of the next argument.
func (c *condition) add(term string, args ...any) {
	numbers := make([]any, len(args))
	for i := range args {
		numbers[i] = len(c.args) + 1 + i
	}
	c.terms = append(c.terms, fmt.Sprintf(term, numbers...))
	c.args = append(c.args, args...)
}

// equal adds the condition that a column has a value; "" adds none. It returns false if no text can
// have the value.
func (c *condition) equal(column, value string) bool {
	if value != "" {
		c.add(column+" = $%d::text", value)
	}
	return driver.IsText(value)
}

// limit returns the end of a listing, with one row more than asked for: it tells whether there is a
// next page. It must be the last argument.
func (c *condition) limit(n int) string {
	c.args = append(c.args, int32(n+1))
	return fmt.Sprintf(" LIMIT $%d::int", len(c.args))
}

// eventTerms are the conditions that all listings share.
type eventTerms struct {
	source, kind, id, text string
	keys                   []driver.Key // of the events that may have the id, if isKeyed
	isKeyed                bool
}

// event adds the conditions that are set, on columns with the given prefix. byKey finds the rows of an
// event by its key. It returns false if no row can match.
func (c *condition) event(prefix, byKey string, t *eventTerms) bool {
	possible := c.equal(prefix+"source", t.source) && c.equal(prefix+"type", t.kind) && c.equal(prefix+"event_id", t.id)
	if t.isKeyed {
		c.add("("+byKey+")", keyArgs(t.keys)) // implied by the id
	}
	if t.text != "" {
		body := "position($%d::bytea IN " + prefix + "body) > 0"
		if driver.IsText(t.text) {
			c.add("(position($%d::text IN "+prefix+"event_id) > 0 OR position($%d::text IN "+prefix+"type) > 0 OR "+body+")",
				t.text, t.text, []byte(t.text))
		} else {
			c.add(body, []byte(t.text))
		}
	}
	return possible
}

func keyArgs(keys []driver.Key) [][]byte {
	args := make([][]byte, len(keys))
	for i := range keys {
		args[i] = keys[i][:]
	}
	return args
}

// impliedBy holds queries, on small indexes, for the keys of all events in a state, including those
// with only a message in it.
var impliedBy = map[string]string{
	driver.StatePending: "SELECT s.key FROM {schema}.event_state s WHERE " + freshSQL +
		" UNION ALL SELECT s.key FROM {schema}.event_state s WHERE " + triedSQL,
	driver.StateRunning: "SELECT event_key FROM {schema}.message WHERE state IN (0, 1)" +
		" UNION ALL SELECT key FROM {schema}.event_state WHERE state = 1" +
		" UNION ALL SELECT pg_catalog.unnest(keys) FROM {schema}.run",
}

// rowsOf holds conditions on event_overview that a state implies.
var rowsOf = map[string]string{
	driver.StatePending: "EXISTS (SELECT FROM {schema}.event_state r WHERE r.key = event_overview.key AND r.state = 0)",
	driver.StateRunning: "(EXISTS (SELECT FROM {schema}.message r WHERE r.event_key = event_overview.key AND r.state IN (0, 1))" +
		" OR EXISTS (SELECT FROM {schema}.event_state r WHERE r.key = event_overview.key AND r.state IN (0, 1)))",
}

// few returns a query, or "" if it returns more than most rows.
func (s *Store) few(ctx context.Context, op string, most int, query string, args ...any) (string, error) {
	query = strings.ReplaceAll(query, "{schema}", s.schema)
	if query == "" {
		return "", nil
	}
	var n int64
	count := fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d) k", query, most+1)
	if err := readStep(ctx, s.pools.Admin, op, func(r Rows) error { return r.Scan(&n) }, count, args...); err != nil || n > int64(most) {
		return "", err
	}
	return query, nil
}

// roundUp rounds the bound of received_at up to a microsecond, the unit of the column. The driver
// would round it down.
func roundUp(t time.Time) *time.Time {
	up := t.Truncate(time.Microsecond)
	if up.Before(t) {
		up = up.Add(time.Microsecond)
	}
	return &up
}

const opEvents = "listing events"

// eventWalk is one listing of events.
type eventWalk struct {
	s  *Store
	db DB
	f  *driver.EventFilter

	keys    []driver.Key // of the events that may have the id, if isKeyed
	isKeyed bool
	implied string // query for few keys that include those of all events; or ""
	number  string // see walk.IndexedState
}

// Events implements [driver.Store].
func (s *Store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	db, release, err := s.search(opEvents, f.Text != "" || f.TraceID != "")
	if err != nil {
		return nil, err
	}
	defer release()
	w := &eventWalk{s: s, db: db, f: f}
	if _, possible := w.where(); !possible {
		return &driver.EventPage{}, nil
	}
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
		Spans: func(ctx context.Context) ([]walk.Span, error) { return s.spans(ctx, opEvents, f) },
	}
	page, err := walk.Events(ctx, l, f, w.isKeyed || w.implied != "", w.number)
	if err == nil && f.Destinations {
		err = s.addDestinations(ctx, db, page.Events)
	}
	return page, err
}

// addDestinations sets the destinations of events.
func (s *Store) addDestinations(ctx context.Context, db DB, events []driver.Event) error {
	keys, at := make([]driver.Key, len(events)), make(map[driver.Key]int, len(events))
	for i := range events {
		keys[i], at[events[i].Key] = events[i].Key, i
	}
	return read(ctx, db, opEvents, func(r Rows) error {
		var key []byte
		var name string
		err := r.Scan(&key, &name)
		if err == nil {
			e := &events[at[driver.Key(key)]]
			e.Destinations = append(e.Destinations, name)
		}
		return err
	}, strings.ReplaceAll(destinationsSQL, "{schema}", s.schema), keyArgs(keys))
}

const destinationsSQL = `
SELECT * FROM (
	SELECT event_key, destination FROM {schema}.message WHERE event_key = ANY ($1::bytea[])
	UNION
	SELECT cause, destination FROM {schema}.message WHERE cause = ANY ($1::bytea[])
) d
ORDER BY destination COLLATE "C"`

// where returns the conditions of the filter, and false if no event can match.
func (w *eventWalk) where() (*condition, bool) {
	c, f := newCondition(), w.f
	possible := c.equal("state", f.State) && c.equal("note", f.Note) && c.event("", "key = ANY ($%d::bytea[])", &eventTerms{
		source: f.Source, kind: f.Type, id: f.ID, text: f.Text, keys: w.keys, isKeyed: w.isKeyed,
	})
	if f.Destination != "" {
		possible = possible && driver.IsText(f.Destination)
		message := "EXISTS (SELECT FROM " + w.s.schema + ".message r WHERE r.destination = $%d::text AND "
		c.add("("+message+"r.event_key = event_overview.key) OR "+message+"r.cause = event_overview.key))", f.Destination, f.Destination)
	}
	if f.TraceID != "" {
		c.add("position($%d::bytea IN headers) > 0", []byte("-"+f.TraceID+"-"))
	}
	return c, possible
}

// candidates returns a query for the places that a step has to look at.
func (w *eventWalk) candidates(c *condition, step walk.Step, limit string) string {
	part := func(table, key, condition string) string {
		return "(SELECT received_at, " + key + " AS key FROM " + w.s.schema + "." + table + " WHERE " + condition +
			" AND " + c.step(step, "received_at", key) + " AND " + c.received("received_at", w.f.Since, w.f.Until) +
			" ORDER BY received_at DESC, " + key + " DESC" + limit + ")"
	}
	if w.number == "" {
		return part("event", "key", "true")
	}
	return part("message", "event_key", "state = "+w.number) + " UNION ALL " + part("event_state", "key", "state = "+w.number) +
		" ORDER BY received_at DESC, key DESC" + limit
}

func (w *eventWalk) edge(ctx context.Context, step walk.Step, n int) (last driver.Cursor, count int, err error) {
	c := newCondition()
	return edgeOf(ctx, w.db, opEvents, w.candidates(c, step, fmt.Sprint(" LIMIT ", n)), bounded("received_at")+", key, ''", c.args)
}

func (w *eventWalk) match(ctx context.Context, step walk.Step, n int) (events []driver.Event, err error) {
	where, _ := w.where()
	if rows := rowsOf[w.f.State]; rows != "" {
		where.terms = append(where.terms, strings.ReplaceAll(rows, "{schema}", w.s.schema)) // implied by the state, and cheaper
	}
	from, order, run := w.s.schema+".event_overview", "received_at DESC, key DESC", readStep
	// A lateral query looks the events up one by one. Its OFFSET keeps the order of the look-ups.
	lookUp := func(places, terms string) string {
		return places + " p CROSS JOIN LATERAL (SELECT * FROM " + from + terms + " AND key = p.place_key OFFSET 0) o"
	}
	if w.number == "" || w.isKeyed || w.implied != "" {
		where.terms = append(where.terms, where.step(step, "received_at", "key"), where.received("received_at", w.f.Since, w.f.Until))
	}
	switch points := w.implied; {
	case w.isKeyed || points != "":
		if w.isKeyed {
			points = "SELECT pg_catalog.unnest(" + where.arg(keyArgs(w.keys)) + "::bytea[])"
		}
		from = lookUp("(SELECT DISTINCT k.key AS place_key FROM ("+points+") k (key))", where.sql())
		run, where.terms = readPoints, []string{"true"}
	case w.number != "":
		terms := where.sql()
		from = lookUp("(SELECT DISTINCT u.received_at AS place_at, u.key AS place_key FROM ("+w.candidates(where, step, "")+") u"+
			" ORDER BY u.received_at DESC, u.key DESC OFFSET 0)", terms)
		order, where.terms = "place_at DESC, place_key DESC", []string{"true"}
	}
	err = run(ctx, w.db, opEvents, func(r Rows) error {
		var row eventRow
		err := r.Scan(row.targets()...)
		if err == nil {
			events = append(events, row.finish())
		}
		return err
	}, "SELECT "+eventColumns+" FROM "+from+where.sql()+" ORDER BY "+order+fmt.Sprint(" LIMIT ", n), where.args...)
	return events, err
}
