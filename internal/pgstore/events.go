package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
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

// pageSize returns the page size for the limit of a filter.
func pageSize(limit int) int {
	if limit <= 0 {
		limit = driver.DefaultLimit
	}
	return min(limit, driver.MaxLimit)
}

// eventTerms are the conditions that all listings share.
type eventTerms struct {
	source, kind, id, text string
	since, until           time.Time
}

// event adds the conditions that are set, on columns with the given prefix. If both source and id
// are set, byKey finds the rows of the event by its key. It returns false if no row can match.
func (c *condition) event(prefix, byKey string, t *eventTerms) bool {
	possible := c.equal(prefix+"source", t.source) && c.equal(prefix+"type", t.kind) && c.equal(prefix+"event_id", t.id)
	if t.source != "" && t.id != "" {
		if candidates := driver.CandidateKeys(t.source, t.id); candidates != nil {
			c.add("("+byKey+")", keyArgs(candidates)) // implied by both
		}
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
	if !t.since.IsZero() {
		c.add(prefix+"received_at >= $%d::timestamptz", roundUp(t.since))
	}
	if !t.until.IsZero() {
		c.add(prefix+"received_at < $%d::timestamptz", roundUp(t.until))
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
// with only a message in it. There is no such index, and no need for one, for events that are done.
var impliedBy = map[string]string{
	driver.StatePending: "SELECT s.key FROM {schema}.event_state s WHERE " + freshSQL +
		" UNION ALL SELECT s.key FROM {schema}.event_state s WHERE " + triedSQL,
	driver.StateRunning: "SELECT event_key FROM {schema}.message WHERE state IN (0, 1)" +
		" UNION ALL SELECT key FROM {schema}.event_state WHERE state = 1" +
		" UNION ALL SELECT unnest(keys) FROM {schema}.run",
	driver.StateDead: "SELECT event_key FROM {schema}.message WHERE state = 3" +
		" UNION ALL SELECT key FROM {schema}.event_state WHERE state = 3",
	driver.StateSkipped: "SELECT event_key FROM {schema}.message WHERE state = 4" +
		" UNION ALL SELECT key FROM {schema}.event_state WHERE state = 4",
}

// fewKeys is the most keys of a state that are looked up for one page of a listing. With more keys,
// walking the events from the newest on finds a page sooner.
const fewKeys = 10_000

// implied returns a query for a superset of the keys of the events that f selects. It returns "" if
// there is no such query or if it finds more than fewKeys.
func (s *Store) implied(ctx context.Context, f *driver.EventFilter) (query string, err error) {
	state := f.State
	if state == "" && f.Note == driver.NoteDiscarded {
		state = driver.StateSkipped // of the event or of one of its messages
	}
	query = strings.ReplaceAll(impliedBy[state], "{schema}", s.schema)
	if query == "" {
		return "", nil
	}
	var n int64
	count := fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d) k", query, fewKeys+1)
	if err := read(ctx, s.pools.Admin, "listing events", func(r Rows) error { return r.Scan(&n) }, count); err != nil {
		return "", err
	}
	if n > fewKeys {
		return "", nil
	}
	return query, nil
}

// whereEvents returns the condition of a listing, and false if no event can match.
func whereEvents(f *driver.EventFilter) (*condition, bool) {
	c := newCondition()
	possible := c.equal("state", f.State) && c.equal("note", f.Note) &&
		c.event("", "key = ANY ($%d::bytea[])", &eventTerms{f.Source, f.Type, f.ID, f.Text, f.Since, f.Until})
	if !f.After.IsZero() {
		c.add("(received_at, key) < ($%d::timestamptz, $%d::bytea)", &f.After.ReceivedAt, f.After.Key[:])
	}
	return c, possible
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

// Events implements [driver.Store].
func (s *Store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	where, possible := whereEvents(f)
	if !possible {
		return &driver.EventPage{}, nil
	}
	implied, err := s.implied(ctx, f)
	if err != nil {
		return nil, err
	}
	if implied != "" {
		// With an array the planner can only look the keys up one by one. With IN it may join and
		// read all events.
		where.terms = append(where.terms, "key = ANY (ARRAY("+implied+"))")
	}
	limit := pageSize(f.Limit)
	sql := "SELECT " + eventColumns + " FROM " + s.schema + ".event_overview" + where.sql() +
		" ORDER BY received_at DESC, key DESC" + where.limit(limit)
	page := &driver.EventPage{}
	err = read(ctx, s.pools.Admin, "listing events", func(r Rows) error {
		var row eventRow
		if err := r.Scan(row.targets()...); err != nil {
			return err
		}
		page.Events = append(page.Events, row.finish())
		return nil
	}, sql, where.args...)
	if err != nil {
		return nil, err
	}
	if len(page.Events) > limit {
		page.Events = page.Events[:limit]
		last := &page.Events[limit-1]
		page.Next = driver.Cursor{ReceivedAt: last.ReceivedAt, Key: last.Key}
	}
	return page, nil
}
