package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func feedCases() []testCase {
	return []testCase{
		{"OnlyWhileWatched", feedWatch},
		{"Read", feedRead},
		{"NewestRows", feedNewest},
		{"PruneByAge", feedPruned},
		{"HostileTexts", feedHostile},
	}
}

func newFeedRow(id string) driver.FeedRow {
	return driver.FeedRow{At: t0, Kind: driver.FeedDelivery, Source: "stripe", EventID: id, Type: "invoice.paid", Outcome: "ok", Details: []byte(`{"took":1}`)}
}

func (f *fixture) watchFeed(at time.Time) int64 {
	f.Helper()
	last, err := f.s.WatchFeed(f.Context(), &driver.WatchFeedParams{For: time.Minute, Now: at})
	if err != nil || last <= 0 {
		f.Fatalf("WatchFeed = %d, %v", last, err)
	}
	return last
}

func (f *fixture) addFeed(at time.Time, rows ...driver.FeedRow) time.Duration {
	f.Helper()
	left, err := f.s.AddFeed(f.Context(), &driver.AddFeedParams{Rows: rows, Now: at})
	if err != nil {
		f.Fatalf("AddFeed: %v", err)
	}
	return left
}

func (f *fixture) readFeed(p *driver.ReadFeedParams) *driver.FeedPage {
	f.Helper()
	page, err := f.s.ReadFeed(f.Context(), p)
	if err != nil {
		f.Fatalf("ReadFeed(%+v): %v", p, err)
	}
	return page
}

// inFeed returns rows with the numbers after last.
func inFeed(last int64, rows ...driver.FeedRow) []driver.FeedRow {
	for i := range rows {
		rows[i].Seq = last + int64(i) + 1
	}
	return rows
}

// feedWatch writes before, during and after a watch.
func feedWatch(f *fixture) {
	same(f, "never watched", driver.FeedPage{}, *f.readFeed(&driver.ReadFeedParams{}))
	if left := f.addFeed(t0, newFeedRow("before")); left != 0 {
		f.Errorf("rows are wanted for %v without a watch", left)
	}
	first := f.watchFeed(t0)
	if left := f.addFeed(t0.Add(20*time.Second), newFeedRow("a")); left != 40*time.Second {
		f.Errorf("rows are wanted for %v, want 40s", left)
	}
	if left := f.addFeed(t0.Add(30 * time.Second)); left != 30*time.Second {
		f.Errorf("rows are wanted for %v, want 30s", left)
	}
	if again := f.watchFeed(t0.Add(59 * time.Second)); again != first+1 {
		f.Errorf("the watch that goes on is at %d, want %d", again, first+1)
	}
	f.addFeed(t0.Add(90*time.Second), newFeedRow("b"))
	want := driver.FeedPage{Watched: true, Floor: first, Last: first + 2, Rows: inFeed(first, newFeedRow("a"), newFeedRow("b"))}
	same(f, "while watched", want, *f.readFeed(&driver.ReadFeedParams{Now: t0.Add(90 * time.Second)}))

	ended := t0.Add(119 * time.Second)
	if left := f.addFeed(ended, newFeedRow("after")); left != 0 {
		f.Errorf("rows are wanted for %v after the watch", left)
	}
	want.Watched = false
	same(f, "after the watch", want, *f.readFeed(&driver.ReadFeedParams{Now: ended}))
	second := f.watchFeed(ended)
	if second <= first+2 {
		f.Errorf("the second watch begins at %d, want more than %d", second, first+2)
	}
	same(f, "another watch", driver.FeedPage{Watched: true, Floor: second, Last: second}, *f.readFeed(&driver.ReadFeedParams{Now: ended}))

	back := t0.Add(-time.Hour)
	if left := f.addFeed(back, newFeedRow("back")); left != 0 {
		f.Errorf("rows are wanted for %v after a step of the clock", left)
	}
	if third := f.watchFeed(back); third <= second {
		f.Errorf("the third watch begins at %d, want more than %d", third, second)
	}
	f.watchFeed(time.Time{})
	if left, err := f.s.FeedWatched(f.Context()); err != nil || left <= 30*time.Second || left > time.Minute {
		f.Errorf("FeedWatched = %v, %v", left, err)
	}
	for _, d := range []time.Duration{0, -1, driver.MaxFeedWatch + 1} {
		if _, err := f.s.WatchFeed(f.Context(), &driver.WatchFeedParams{For: d}); err == nil {
			f.Errorf("a watch for %v is accepted", d)
		}
	}
}

func feedRead(f *fixture) {
	first := f.watchFeed(t0)
	var rows []driver.FeedRow
	for i := range 5 {
		r := newFeedRow(fmt.Sprint(i))
		r.Kind, r.At = driver.FeedKind(i%4), t0.Add(-time.Duration(i)*time.Microsecond)
		rows = append(rows, r)
	}
	f.addFeed(t0, rows[:2]...)
	f.addFeed(t0, rows[2:]...)
	rows = inFeed(first, rows...)
	for _, tt := range []struct {
		after int64
		limit int
		want  []driver.FeedRow
	}{
		{0, 0, rows},
		{first, 3, rows[:3]},
		{first + 3, 3, rows[3:]},
		{first + 5, 3, nil},
		{first + 500, 0, nil},
		{-1, driver.MaxFeedRows + 1, rows},
	} {
		page := f.readFeed(&driver.ReadFeedParams{After: tt.after, Limit: tt.limit, Now: t0})
		want := driver.FeedPage{Watched: true, Floor: first, Last: first + 5, Rows: tt.want}
		same(f, fmt.Sprintf("%d rows after %d", tt.limit, tt.after-first), want, *page)
	}
}

// feedNewest keeps the newest rows.
func feedNewest(f *fixture) {
	first := f.watchFeed(t0)
	rows := make([]driver.FeedRow, driver.MaxFeedRows-1)
	for i := range rows {
		rows[i] = newFeedRow("old")
	}
	f.addFeed(t0, rows...)
	if floor := f.readFeed(&driver.ReadFeedParams{Limit: 1, Now: t0}).Floor; floor != first {
		f.Errorf("the floor is %d, want %d", floor-first, 0)
	}
	f.addFeed(t0, newFeedRow("a"), newFeedRow("b"), newFeedRow("c"))
	page := f.readFeed(&driver.ReadFeedParams{Now: t0})
	if n := len(page.Rows); n != driver.MaxFeedRows || page.Floor != first+2 || page.Rows[0].Seq != first+3 || page.Rows[n-1].EventID != "c" {
		f.Errorf("%d rows after %d, want %d after 2", n, page.Floor-first, driver.MaxFeedRows)
	}
	all := make([]driver.FeedRow, driver.MaxFeedRows+1)
	if _, err := f.s.AddFeed(f.Context(), &driver.AddFeedParams{Rows: all, Now: t0}); !errors.Is(err, driver.ErrBadRow) {
		f.Errorf("the error of too many rows is %v, want %v", err, driver.ErrBadRow)
	}
}

// feedPruned removes rows by their age, also those of a watch that has ended.
func feedPruned(f *fixture) {
	first := f.watchFeed(t0)
	f.addFeed(t0, newFeedRow("a"), newFeedRow("b"), newFeedRow("c"))
	f.watchFeed(t0.Add(50 * time.Second))
	f.addFeed(t0.Add(100*time.Second), newFeedRow("d"))
	p := &driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Chunk: 2}
	for _, tt := range []struct {
		at   time.Duration
		gone int64
	}{{0, 0}, {time.Microsecond, 3}, {99 * time.Second, 3}, {101 * time.Second, 4}} {
		at := t0.Add(driver.FeedKept + tt.at)
		same(f, "result of pruning", driver.PruneResult{}, f.pruneAt(at, p))
		page := f.readFeed(&driver.ReadFeedParams{Now: at})
		if page.Floor != first+tt.gone || page.Last != first+4 || int64(len(page.Rows)) != 4-tt.gone {
			f.Errorf("after %v: %d rows after %d, want %d after %d", tt.at, len(page.Rows), page.Floor-first, 4-tt.gone, tt.gone)
		}
	}
}

func feedHostile(f *fixture) {
	last := f.watchFeed(t0)
	for _, text := range []string{"it's", `"{},\`, "NULL", "\u2028", "", strings.Repeat("é", driver.MaxFeedText/2)} {
		r := driver.FeedRow{At: t0, Kind: driver.FeedRefused, Source: text, EventID: text, Type: text, Outcome: text, Details: []byte("{\xff\x00}")}
		f.addFeed(t0, r)
		same(f, text, inFeed(last, r), f.readFeed(&driver.ReadFeedParams{After: last, Now: t0}).Rows)
		last++
	}
	for name, change := range map[string]func(*driver.FeedRow){
		"source":   func(r *driver.FeedRow) { r.Source = "a\x00" },
		"event id": func(r *driver.FeedRow) { r.EventID = strings.Repeat("a", driver.MaxFeedText+1) },
		"type":     func(r *driver.FeedRow) { r.Type = "\xff" },
		"details":  func(r *driver.FeedRow) { r.Details = make([]byte, driver.MaxFeedDetails+1) },
	} {
		good, bad := newFeedRow("good"), newFeedRow("bad")
		change(&bad)
		if _, err := f.s.AddFeed(f.Context(), &driver.AddFeedParams{Rows: []driver.FeedRow{good, bad}, Now: t0}); !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("%s: the error is %v, want %v", name, err, driver.ErrBadRow)
		}
	}
	if page := f.readFeed(&driver.ReadFeedParams{After: last, Now: t0}); page.Last != last || page.Rows != nil {
		f.Errorf("refused calls left %+v", page)
	}
}

// raceFeed writes in two processes while a reader goes on from the last row that it saw.
func raceFeed(p *pair) {
	const calls, each = 60, 7
	first := p.watchFeed(time.Time{})
	written := make(chan struct{})
	var all []driver.FeedRow
	var reading sync.WaitGroup
	reading.Go(func() {
		for last, end := first, false; ; {
			select {
			case <-written:
				end = true
			default:
			}
			page, err := p.s.ReadFeed(p.Context(), &driver.ReadFeedParams{After: last, Limit: 50})
			if err != nil {
				p.Errorf("ReadFeed: %v", err)
				return
			}
			if all = append(all, page.Rows...); len(page.Rows) > 0 {
				last = page.Rows[len(page.Rows)-1].Seq
			} else if end {
				return
			}
		}
	})
	p.atOnce(calls, func(s driver.Store, i int) error {
		rows := make([]driver.FeedRow, each)
		for j := range rows {
			rows[j] = newFeedRow(fmt.Sprint(i*each + j))
		}
		_, err := s.AddFeed(p.Context(), &driver.AddFeedParams{Rows: rows})
		return err
	})
	close(written)
	reading.Wait()
	seen := map[string]bool{}
	for i := range all {
		if r := &all[i]; r.Seq != first+1+int64(i) || seen[r.EventID] {
			p.Fatalf("row %d has the number %d and the id %s", i, r.Seq-first, r.EventID)
		}
		seen[all[i].EventID] = true
	}
	if len(all) != calls*each {
		p.Errorf("%d rows, want %d", len(all), calls*each)
	}
}
