package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// groupKind says where the dead letters of a kind of groups are.
type groupKind struct {
	from string // with the index of groups
	name string // the column that names a group, besides signature
}

var (
	messageGroups = groupKind{` FROM hookonce_message INDEXED BY hookonce_message_dead_group`, `destination`}
	eventGroups   = groupKind{` FROM hookonce_event_state INDEXED BY hookonce_event_state_dead_group`, `source`}
)

// ErrorGroups implements driver.Store. It reads for at most 5 s.
func (s *Store) ErrorGroups(ctx context.Context, f *driver.GroupFilter) (*driver.GroupPage, error) {
	page := &driver.GroupPage{}
	err := s.snapshot(ctx, "listing error groups", func(ctx context.Context, tx *sql.Tx) error {
		w := groupWalk{tx: tx, filter: f, limit: driver.PageSize(f.Limit), budget: driver.GroupBudget, page: page}
		if !f.After.Events && f.Source == "" {
			if ended, err := w.walk(ctx, messageGroups, f.Destination, f.After); err != nil || !ended {
				return err
			}
		}
		if f.Destination != "" {
			return nil
		}
		after := f.After
		if !after.Events {
			after = driver.GroupCursor{Events: true}
		}
		_, err := w.walk(ctx, eventGroups, f.Source, after)
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// groupWalk goes from group to group, with one look-up in an index for each.
type groupWalk struct {
	tx      *sql.Tx
	filter  *driver.GroupFilter
	limit   int
	budget  int // dead letters that may be counted before the limit for a group is lower
	visited int
	page    *driver.GroupPage
}

// walk adds the groups of a kind behind place to the page, and sets its Next. It reports whether there
// are no more groups of the kind.
func (w *groupWalk) walk(ctx context.Context, kind groupKind, only string, place driver.GroupCursor) (ended bool, err error) {
	for ; w.visited < driver.MaxGroupsVisited; w.visited++ {
		if place.Name, place.Signature, err = w.next(ctx, kind, only, place); errors.Is(err, sql.ErrNoRows) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		group, err := w.count(ctx, kind, place)
		if err != nil {
			return false, err
		}
		if group.Count == 0 {
			continue
		}
		if len(w.page.Groups) == w.limit {
			w.page.Next = w.page.Groups[w.limit-1].Cursor()
			return false, nil
		}
		w.page.Groups = append(w.page.Groups, group)
	}
	w.page.Next = place
	return false, nil
}

// next returns the group behind place, or sql.ErrNoRows.
func (w *groupWalk) next(ctx context.Context, kind groupKind, only string, place driver.GroupCursor) (name, signature string, err error) {
	var c clause
	c.add(`state = 3`)
	c.add(`(`+kind.name+`, signature) > (?, ?)`, place.Name, place.Signature)
	c.equal(kind.name, only)
	err = w.tx.QueryRowContext(ctx, `SELECT `+kind.name+`, signature`+kind.from+c.where()+
		` ORDER BY `+kind.name+`, signature LIMIT 1`, c.args...).Scan(&name, &signature)
	return name, signature, err
}

// count reads the group at place. Its Count is 0 if none of its letters match the filter.
func (w *groupWalk) count(ctx context.Context, kind groupKind, place driver.GroupCursor) (g driver.ErrorGroup, err error) {
	if w.filter.Signature != "" && w.filter.Signature != place.Signature {
		return g, nil
	}
	if g.Destination, g.Signature = place.Name, place.Signature; place.Events {
		g.Source, g.Destination = place.Name, ""
	}
	var c clause
	c.add(`state = 3 AND `+kind.name+` = ? AND signature = ?`, place.Name, place.Signature)
	c.received(`failed_at`, w.filter.Since, w.filter.Until)
	most := driver.MaxGroupCount
	if w.budget <= 0 {
		most = driver.LaterGroupCount
	}
	err = w.tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1`+kind.from+c.where()+` LIMIT ?)`,
		append(c.args, most+1)...).Scan(&g.Count)
	if err != nil || g.Count == 0 {
		return g, err
	}
	w.budget -= g.Count
	g.More, g.Count = g.Count > most, min(g.Count, most)
	var first, last sql.NullInt64
	if err := w.tx.QueryRowContext(ctx, `SELECT failed_at`+kind.from+c.where()+` ORDER BY failed_at LIMIT 1`, c.args...).Scan(&first); err != nil {
		return g, err
	}
	err = w.tx.QueryRowContext(ctx, `SELECT failed_at, last_error`+kind.from+c.where()+` ORDER BY failed_at DESC LIMIT 1`,
		c.args...).Scan(&last, &g.Sample)
	g.FirstAt, g.LastAt = fromNullMicros(first), fromNullMicros(last)
	return g, err
}
