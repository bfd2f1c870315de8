package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// groupsSQL walks the groups behind ($1, $2) with one look-up in an index each, until it has found $3
// groups that match or has visited $4. {table} holds the dead letters, and {name} is the column that
// names their group besides the signature. {here} are conditions on that name, {matching} those on the
// counted letters l.
//
// It counts at most $5 letters of a group, and at most $6 of each further one once it has counted $7.
const groupsSQL = `
WITH RECURSIVE walk AS (
	SELECT $1::text COLLATE "C" AS name, $2::text COLLATE "C" AS signature, 0::bigint AS n, 0 AS cap,
		$7::bigint AS budget, 0 AS visited, 0 AS found
	UNION ALL
	SELECT g.name, g.signature, c.n, g.cap, walk.budget - c.n, walk.visited + 1, walk.found + CASE WHEN c.n > 0 THEN 1 ELSE 0 END
	FROM walk
	CROSS JOIN LATERAL (
		SELECT l.{name} COLLATE "C" AS name, l.signature COLLATE "C" AS signature,
			CASE WHEN walk.budget > 0 THEN $5::int ELSE $6::int END AS cap
		FROM {schema}.{table} l
		WHERE l.state = 3 AND (l.{name} COLLATE "C", l.signature COLLATE "C") > (walk.name, walk.signature){here}
		ORDER BY l.{name} COLLATE "C", l.signature COLLATE "C"
		LIMIT 1
	) g
	CROSS JOIN LATERAL (
		SELECT count(*) AS n
		FROM (
			SELECT FROM {schema}.{table} l
			WHERE l.state = 3 AND l.{name} COLLATE "C" = g.name AND l.signature COLLATE "C" = g.signature{matching}
			LIMIT g.cap + 1
		) l
	) c
	WHERE walk.found < $3::int AND walk.visited < $4::int
)
SELECT walk.name, walk.signature, least(walk.n, walk.cap), walk.n > walk.cap, first.at, last.at, coalesce(last.error, ''),
	walk.visited = $4::int
FROM walk
LEFT JOIN LATERAL (
	SELECT {first} AS at
	FROM {schema}.{table} l
	WHERE l.state = 3 AND l.{name} COLLATE "C" = walk.name AND l.signature COLLATE "C" = walk.signature AND walk.n > 0{matching}
	ORDER BY l.failed_at
	LIMIT 1
) first ON true
LEFT JOIN LATERAL (
	SELECT {first} AS at, l.last_error AS error
	FROM {schema}.{table} l
	WHERE l.state = 3 AND l.{name} COLLATE "C" = walk.name AND l.signature COLLATE "C" = walk.signature AND walk.n > 0{matching}
	ORDER BY l.failed_at DESC
	LIMIT 1
) last ON true
WHERE walk.n > 0 OR walk.visited = $4::int
ORDER BY walk.visited`

// groupsQuery returns the query for the groups of one kind behind a place, and false if none can match.
func (s *Store) groupsQuery(f *driver.GroupFilter, events bool, place driver.GroupCursor, limit int) (sql string, args []any, possible bool) {
	table, name, only := "message", "destination", f.Destination
	if events {
		table, name, only = "event_state", "source", f.Source
	}
	here, matching := &condition{}, &condition{}
	args = []any{place.Name, place.Signature, int32(limit + 1), int32(driver.MaxGroupsVisited), int32(driver.MaxGroupCount), int32(driver.LaterGroupCount), int64(driver.GroupBudget)}
	add := func(c *condition, term string, arg any) {
		args = append(args, arg)
		c.terms = append(c.terms, fmt.Sprintf(term, len(args)))
	}
	if only != "" {
		add(here, "l."+name+` COLLATE "C" = $%d::text`, only)
	}
	if f.Signature != "" {
		add(matching, `l.signature COLLATE "C" = $%d::text`, f.Signature)
	}
	if !f.Since.IsZero() {
		add(matching, "l.failed_at >= $%d::timestamptz", roundUp(f.Since))
	}
	if !f.Until.IsZero() {
		add(matching, "l.failed_at < $%d::timestamptz", roundUp(f.Until))
	}
	and := func(c *condition) string {
		if len(c.terms) == 0 {
			return ""
		}
		return " AND " + strings.Join(c.terms, " AND ")
	}
	sql = strings.NewReplacer("{schema}", s.schema, "{table}", table, "{name}", name, "{here}", and(here), "{matching}", and(matching),
		"{first}", boundedOrNull("l.failed_at")).Replace(groupsSQL)
	return sql, args, driver.IsText(only) && driver.IsText(f.Signature) && driver.IsText(place.Name) && driver.IsText(place.Signature)
}

// ErrorGroups implements [driver.Store].
func (s *Store) ErrorGroups(ctx context.Context, f *driver.GroupFilter) (*driver.GroupPage, error) {
	page := &driver.GroupPage{}
	for _, events := range []bool{false, true} {
		place := f.After
		switch {
		case !events && (place.Events || f.Source != ""), events && f.Destination != "":
			continue // none of this kind can match
		case events && !place.Events:
			place = driver.GroupCursor{Events: true}
		}
		ended, err := s.groups(ctx, page, f, place)
		if err != nil {
			return nil, err
		}
		if !ended {
			return page, nil
		}
	}
	return page, nil
}

// groups adds the groups of a kind behind place to page, and sets page.Next. It reports whether there
// are no more groups of the kind.
func (s *Store) groups(ctx context.Context, page *driver.GroupPage, f *driver.GroupFilter, place driver.GroupCursor) (ended bool, err error) {
	limit := driver.PageSize(f.Limit)
	sql, args, possible := s.groupsQuery(f, place.Events, place, limit-len(page.Groups))
	if !possible {
		return true, nil
	}
	stopped := false
	err = read(ctx, s.pools.Admin, "listing error groups", func(r Rows) error {
		var g driver.ErrorGroup
		var count int64
		var firstAt, lastAt *time.Time
		if err := r.Scan(&place.Name, &place.Signature, &count, &g.More, &firstAt, &lastAt, &g.Sample, &stopped); err != nil {
			return err
		}
		if count == 0 {
			return nil
		}
		if g.Destination = place.Name; place.Events {
			g.Source, g.Destination = place.Name, ""
		}
		g.Signature, g.Count, g.FirstAt, g.LastAt = place.Signature, int(count), timeOf(firstAt), timeOf(lastAt)
		page.Groups = append(page.Groups, g)
		return nil
	}, sql, args...)
	switch {
	case err != nil:
		return false, err
	case len(page.Groups) > limit:
		page.Groups = page.Groups[:limit]
		page.Next = page.Groups[limit-1].Cursor()
	case stopped:
		page.Next = place
	}
	return page.Next.IsZero(), nil
}
