package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
)

// condition collects a WHERE clause and its arguments.
type condition struct {
	terms []string
	args  []any
}

// add adds a term; each %d stands for the number of the next argument.
func (c *condition) add(term string, args ...any) {
	numbers := make([]any, len(args))
	for i := range args {
		numbers[i] = len(c.args) + 1 + i
	}
	c.terms = append(c.terms, fmt.Sprintf(term, numbers...))
	c.args = append(c.args, args...)
}

// isText reports whether a PostgreSQL text can hold s.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// where returns the condition of a listing, and false where nothing can meet
// it.
func (s *Store) where(f *driver.EventFilter) (*condition, bool) {
	c := &condition{terms: []string{"true"}}
	for _, equal := range []struct{ column, value string }{
		{"source", f.Source}, {"type", f.Type}, {"state", f.State}, {"note", f.Note}, {"event_id", f.ID},
	} {
		if equal.value == "" {
			continue
		}
		if !isText(equal.value) {
			return nil, false
		}
		c.add(equal.column+" = $%d::text", equal.value)
	}
	if f.State == driver.StateDead {
		// Implied by the state, and found by two small indexes.
		c.add("key IN (SELECT event_key FROM " + s.schema + ".message WHERE state = 3" +
			" UNION ALL SELECT key FROM " + s.schema + ".event_state WHERE state = 3)")
	}
	if f.Text != "" {
		body := "position($%d::bytea IN body) > 0"
		if isText(f.Text) {
			c.add("(position($%d::text IN event_id) > 0 OR position($%d::text IN type) > 0 OR "+body+")",
				f.Text, f.Text, []byte(f.Text))
		} else {
			c.add(body, []byte(f.Text))
		}
	}
	if !f.Since.IsZero() {
		c.add("received_at >= $%d::timestamptz", roundUp(f.Since))
	}
	if !f.Until.IsZero() {
		c.add("received_at < $%d::timestamptz", roundUp(f.Until))
	}
	if !f.After.IsZero() {
		c.add("(received_at, key) < ($%d::timestamptz, $%d::bytea)", &f.After.ReceivedAt, f.After.Key[:])
	}
	return c, true
}

// roundUp returns the argument for a bound of received_at, which has
// microseconds: the driver would cut the rest off.
func roundUp(t time.Time) *time.Time {
	up := t.Truncate(time.Microsecond)
	if up.Before(t) {
		up = up.Add(time.Microsecond)
	}
	return &up
}

// Events implements [driver.Store].
func (s *Store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = driver.DefaultLimit
	}
	limit = min(limit, driver.MaxLimit)
	where, possible := s.where(f)
	if !possible {
		return &driver.EventPage{}, nil
	}
	// One more than asked for tells whether there is a next page.
	sql := "SELECT " + eventColumns + " FROM " + s.schema + ".event_overview WHERE " + strings.Join(where.terms, " AND ") +
		fmt.Sprintf(" ORDER BY received_at DESC, key DESC LIMIT $%d::int", len(where.args)+1)
	page := &driver.EventPage{}
	err := read(ctx, s.pools.Admin, "listing events", func(r Rows) error {
		var row eventRow
		if err := r.Scan(row.targets()...); err != nil {
			return err
		}
		page.Events = append(page.Events, row.finish())
		return nil
	}, sql, append(where.args, int32(limit+1))...)
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
