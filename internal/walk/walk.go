// Package walk reads one page of a listing in steps, so that no page reads more than a bounded number
// of rows, however few of them match.
package walk

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Step is a part of a listing, in its order: from the newest event to the oldest.
type Step struct {
	After driver.Cursor // excluded; zero: from the beginning
	End   driver.Cursor // included; zero: no end
	Since time.Time     // received at or after; zero: no bound
}

// Listing reads a listing.
type Listing[Row any] struct {
	// Edge returns the place of the n-th candidate of a step without End, and n; or, if it has fewer,
	// the place of its last one, and their number. Candidates are all rows that Match has to look at.
	Edge func(ctx context.Context, s Step, n int) (last driver.Cursor, count int, err error)
	// Match returns the first rows of a step that match, at most n.
	Match func(ctx context.Context, s Step, n int) ([]Row, error)
	Place func(*Row) driver.Cursor
	// Spans returns the times that may hold matching rows, newest first. They do not overlap. nil means
	// that nothing is known. Read calls it once, if the first step does not fill the page.
	Spans func(ctx context.Context) ([]Span, error)
}

// Span is a time from From, included, to To, excluded. A zero time is no bound.
type Span struct{ From, To time.Time }

// Bounds bound the work for one page.
type Bounds struct {
	Rows        int // candidates; at least 1
	First, Most int // candidates of the first step, and of any step; at least 1
	// Time is when to stop even before Rows; 0 means never. It also makes the steps short: a search
	// reads bodies, and they may be long.
	Time time.Duration
}

// Page is a page of a listing.
type Page[Row any] struct {
	Rows []Row
	Next driver.Cursor // zero on the last page
	// SearchedUntil is zero, unless the page ended at a bound. Next has the same time then.
	SearchedUntil time.Time
}

const (
	// stepCost is the least number of candidates that a step counts for: each takes two statements.
	stepCost = 100
	growth   = 4
	// The steps of a search with a bound on its time take about so long.
	shortStep, longStep = 50 * time.Millisecond, 200 * time.Millisecond
)

// All reads a page of a listing that matches nearly all of its candidates, or that has few.
func All[Row any](ctx context.Context, l *Listing[Row], after driver.Cursor, limit int) (*Page[Row], error) {
	rows, err := l.Match(ctx, Step{After: after}, limit+1)
	if err != nil {
		return nil, err
	}
	return fill(l, &Page[Row]{}, rows, limit), nil
}

// Read reads a page in steps.
func Read[Row any](ctx context.Context, l *Listing[Row], after driver.Cursor, limit int, b Bounds) (*Page[Row], error) {
	page := &Page[Row]{}
	var spans []Span
	isFirst := true
	size, left := b.First, b.Rows
	begun := time.Now()
	for {
		var since time.Time
		if spans != nil {
			var ok bool
			if after, since, ok = enter(spans, after); !ok {
				return page, nil
			}
		}
		n, started := min(size, left), time.Now()
		step := Step{After: after, Since: since}
		last, count, err := l.Edge(ctx, step, n)
		if err != nil {
			return nil, err
		}
		if count == n {
			step.End = last
		}
		if count > 0 {
			rows, err := l.Match(ctx, step, limit+1-len(page.Rows))
			if err != nil {
				return nil, err
			}
			if fill(l, page, rows, limit); !page.Next.IsZero() {
				return page, nil
			}
		}
		switch {
		case count == n:
			after = last
		case since.IsZero():
			return page, nil
		default:
			after = placeAt(since)
		}
		if left -= max(count, stepCost); left <= 0 || b.Time > 0 && time.Since(begun) >= b.Time {
			page.Next, page.SearchedUntil = after, after.At
			return page, nil
		}
		if isFirst && l.Spans != nil {
			if spans, err = l.Spans(ctx); err != nil {
				return nil, err
			}
		}
		isFirst = false
		size = b.next(size, time.Since(started))
	}
}

// next returns the size of the step after one that took so long.
func (b *Bounds) next(size int, took time.Duration) int {
	switch {
	case b.Time == 0 || took < shortStep:
		return min(size*growth, b.Most)
	case took > longStep:
		return max(size/growth, 1)
	}
	return size
}

// fill appends rows, and ends the page if there is one more than limit.
func fill[Row any](l *Listing[Row], page *Page[Row], rows []Row, limit int) *Page[Row] {
	page.Rows, page.Next = cut(append(page.Rows, rows...), limit, l.Place)
	return page
}

// cut returns the page that rows begin with, and the place where the next one goes on: rows has one more
// than limit if there is a next one.
func cut[Row any](rows []Row, limit int, place func(*Row) driver.Cursor) (page []Row, next driver.Cursor) {
	if len(rows) <= limit {
		return rows, next
	}
	return rows[:limit:limit], place(&rows[limit-1])
}

// placeAt is the place after all rows that were received at t or later.
func placeAt(t time.Time) driver.Cursor {
	return driver.Cursor{At: t}
}

// enter moves a place forward into a span, and returns the beginning of that span. It returns false
// if there is no further one.
func enter(spans []Span, after driver.Cursor) (driver.Cursor, time.Time, bool) {
	for _, s := range spans {
		at := after.At
		if !after.IsZero() && !s.From.IsZero() && (at.Before(s.From) || at.Equal(s.From) && after.Key == driver.Key{}) {
			continue
		}
		if !s.To.IsZero() && (after.IsZero() || at.After(s.To)) {
			after = placeAt(s.To)
		}
		return after, s.From, true
	}
	return after, time.Time{}, false
}
