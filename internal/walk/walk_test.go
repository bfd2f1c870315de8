package walk_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

var t0 = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// row is a row of a listing, received some seconds before t0.
type row int

func (r row) place() driver.Cursor {
	return driver.Cursor{At: t0.Add(-time.Duration(r) * time.Second), Key: driver.Key{1}}
}

// before reports whether place a stands before b. Each time has one row, so the time decides; a place
// without a key stands after all rows of its time.
func before(a, b driver.Cursor) bool {
	at, bt := a.At, b.At
	return at.After(bt) || at.Equal(bt) && a.Key[0] > b.Key[0]
}

// listing is a listing of n rows, one per second. It matches the rows that are multiples of every.
type listing struct {
	n, every int
	looked   int // rows that Match may have looked at
}

func (l *listing) of(s walk.Step) (rows []row) {
	for i := range l.n {
		p := row(i).place()
		if (s.After.IsZero() || before(s.After, p)) && (s.End.IsZero() || !before(s.End, p)) && (s.Since.IsZero() || !p.At.Before(s.Since)) {
			rows = append(rows, row(i))
		}
	}
	return rows
}

func (l *listing) walk() *walk.Listing[row] {
	return &walk.Listing[row]{
		Edge: func(_ context.Context, s walk.Step, n int) (last driver.Cursor, count int, err error) {
			rows := l.of(s)
			rows = rows[:min(n, len(rows))]
			if len(rows) > 0 {
				last = rows[len(rows)-1].place()
			}
			return last, len(rows), nil
		},
		Match: func(_ context.Context, s walk.Step, n int) ([]row, error) {
			all := l.of(s)
			l.looked += len(all)
			all = slices.DeleteFunc(all, func(r row) bool { return int(r)%l.every != 0 })
			return all[:min(n, len(all))], nil
		},
		Place: func(r *row) driver.Cursor { return r.place() },
	}
}

// TestPagesOfAWalk reads listings page by page: together they have every matching row once, no page
// looks at more rows than its bound, and each page that is not full says how far it looked.
func TestPagesOfAWalk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, every, limit, rows, first, most int }{
		{0, 1, 3, 1000, 10, 100},
		{1, 1, 3, 1000, 10, 100},
		{3, 1, 3, 1000, 10, 100},
		{4, 1, 3, 1000, 10, 100},
		{1000, 1, 50, 300, 100, 200},
		{1000, 7, 5, 300, 10, 100},
		{1000, 400, 5, 300, 100, 100},
		{1000, 2000, 5, 150, 1, 1000},
		{700, 333, 1, 100, 100, 100},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			l := &listing{n: c.n, every: c.every}
			var got []row
			var after driver.Cursor
			for pages := 0; ; pages++ {
				l.looked = 0
				page, err := walk.Read(t.Context(), l.walk(), after, c.limit, walk.Bounds{Rows: c.rows, First: c.first, Most: c.most})
				if err != nil || pages > c.n {
					t.Fatalf("page %d: %v", pages, err)
				}
				if l.looked > c.rows+c.most {
					t.Errorf("page %d looked at %d rows", pages, l.looked)
				}
				isFull := len(page.Rows) == c.limit
				if !page.SearchedUntil.Equal(page.Next.At) && !page.SearchedUntil.IsZero() || !isFull && !page.Next.IsZero() && page.SearchedUntil.IsZero() {
					t.Errorf("page %d has %d rows, next %v, searched until %v", pages, len(page.Rows), page.Next.At, page.SearchedUntil)
				}
				got = append(got, page.Rows...)
				if after = page.Next; after.IsZero() {
					break
				}
			}
			var want []row
			for i := 0; i < c.n; i += c.every {
				want = append(want, row(i))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestSpansOfAWalk leaves out the times between the spans.
func TestSpansOfAWalk(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return t0.Add(-time.Duration(second) * time.Second) }
	l := &listing{n: 1000, every: 10}
	w := l.walk()
	w.Spans = func(context.Context) ([]walk.Span, error) {
		return []walk.Span{{From: at(60)}, {From: at(250), To: at(200)}, {From: at(705), To: at(699)}, {To: at(985)}}, nil
	}
	var got []row
	var after driver.Cursor
	for {
		page, err := walk.Read(t.Context(), w, after, 4, walk.Bounds{Rows: 10_000, First: 20, Most: 40})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Rows...)
		if after = page.Next; after.IsZero() {
			break
		}
	}
	// The first step of a page knows no spans yet, so a page that begins between them may have more.
	want := []row{0, 10, 20, 30, 40, 50, 60, 210, 220, 230, 240, 250, 260, 270, 700, 990}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBoundOnTime stops after the first step that ends too late, and makes the steps shorter.
func TestBoundOnTime(t *testing.T) {
	t.Parallel()
	l := &listing{n: 1000, every: 2000}
	page, err := walk.Read(t.Context(), l.walk(), driver.Cursor{}, 5, walk.Bounds{Rows: 1000, First: 100, Most: 100, Time: time.Nanosecond})
	if err != nil || !page.SearchedUntil.Equal(row(99).place().At) || page.Next != row(99).place() || len(page.Rows) != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestHours(t *testing.T) {
	t.Parallel()
	at := func(hour int, more time.Duration) time.Time { return t0.Add(time.Duration(hour)*time.Hour + more) }
	for _, c := range []struct {
		name           string
		hours          []time.Time
		oldest, newest time.Time
		want           []walk.Span
	}{
		{"no figures", nil, time.Time{}, time.Time{}, nil},
		{"none of the type", nil, at(-9, 0), at(0, 0), []walk.Span{{From: at(0, -time.Minute)}, {To: at(-9, time.Minute)}}},
		{"joined", []time.Time{at(-4, 0), at(0, 0), at(-3, 0), at(-3, 0)}, at(-9, 0), at(0, 0), []walk.Span{
			{From: at(0, -time.Minute)}, {From: at(-4, -time.Minute), To: at(-2, time.Minute)}, {To: at(-9, time.Minute)},
		}},
		{"all", []time.Time{at(0, 0), at(-1, 0)}, at(-1, 0), at(0, 0), []walk.Span{{}}},
	} {
		if got := walk.Hours(c.hours, c.oldest, c.newest); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
