package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func figureCases() []testCase {
	return []testCase{
		{"AddUp", figuresAddUp},
		{"Select", figuresSelect},
		{"ByName", figuresByName},
		{"Backlog", figuresOfBacklog},
		{"HostileTexts", figuresHostile},
		{"Types", figuresOfTypes},
		{"PruneByResolution", figuresPruned},
	}
}

func (f *fixture) addFigures(figures ...driver.Figure) {
	f.Helper()
	if err := f.s.AddFigures(f.Context(), &driver.AddFiguresParams{Figures: figures}); err != nil {
		f.Fatalf("AddFigures: %v", err)
	}
}

// allTime selects all figures of a kind.
func allTime(of driver.FigureKind, by driver.Resolution) driver.SeriesFilter {
	return driver.SeriesFilter{Of: of, Resolution: by, Since: t0.AddDate(-10, 0, 0), Until: t0.AddDate(10, 0, 0), Limit: 10_000}
}

func (f *fixture) wantSeries(what string, filter driver.SeriesFilter, want ...driver.Point) {
	f.Helper()
	got, err := f.s.Series(f.Context(), &filter)
	if err != nil {
		f.Fatalf("Series(%+v): %v", filter, err)
	}
	same(f, what, want, got)
}

// inBuckets returns buckets with the given counts, from the first one on.
func inBuckets(n ...int64) (buckets [driver.FigureBuckets]int64) {
	copy(buckets[:], n)
	return buckets
}

// figuresAddUp adds figures in one call and in several, in spans that share an hour and a day.
func figuresAddUp(f *fixture) {
	f.addFigures()
	one := driver.Figure{Of: driver.FigureDeliveries, At: t0, Name: "stripe", Label: "ok", N: 2, Buckets: inBuckets(1, 0, 1)}
	last := one
	last.Buckets = [driver.FigureBuckets]int64{driver.FigureBuckets - 1: 2}
	sameHour, sameDay, nextDay := one, one, one
	sameHour.At, sameDay.At, nextDay.At = t0.Add(time.Minute), t0.Add(time.Hour), t0.Add(24*time.Hour)
	nextDay.N = math.MaxInt32 * 1000
	f.addFigures(one, sameHour, last)
	f.addFigures(sameDay, one, nextDay)
	point := func(at time.Time, n int64, buckets [driver.FigureBuckets]int64) driver.Point {
		return driver.Point{At: at, Label: "ok", N: n, Buckets: buckets}
	}
	minute, hour, day := t0.Truncate(time.Minute), t0.Truncate(time.Hour), t0.Truncate(24*time.Hour)
	sum := inBuckets(2, 0, 2)
	sum[driver.FigureBuckets-1] = 2
	f.wantSeries("minutes", allTime(driver.FigureDeliveries, driver.ByMinute),
		point(minute, 6, sum), point(minute.Add(time.Minute), 2, one.Buckets),
		point(minute.Add(time.Hour), 2, one.Buckets), point(minute.Add(24*time.Hour), nextDay.N, one.Buckets))
	sum[0], sum[2] = 3, 3
	f.wantSeries("hours", allTime(driver.FigureDeliveries, driver.ByHour), point(hour, 8, sum),
		point(hour.Add(time.Hour), 2, one.Buckets), point(hour.Add(24*time.Hour), nextDay.N, one.Buckets))
	sum[0], sum[2] = 4, 4
	f.wantSeries("days", allTime(driver.FigureDeliveries, driver.ByDay), point(day, 10, sum), point(day.AddDate(0, 0, 1), nextDay.N, one.Buckets))
	f.wantSeries("another kind", allTime(driver.FigureAttempts, driver.ByDay))
}

// figuresSelect selects by kind, name, label and time.
func figuresSelect(f *fixture) {
	minute := t0.Truncate(time.Minute)
	var all []driver.Figure
	for i := range 4 {
		for _, name := range []string{"stripe", "github"} {
			for _, label := range []string{"ok", "duplicate"} {
				all = append(all, driver.Figure{
					Of: driver.FigureDeliveries, At: minute.Add(time.Duration(i) * time.Minute), Name: name, Label: label, N: int64(len(all) + 1),
				})
			}
		}
	}
	all = append(all, driver.Figure{Of: driver.FigureRefusals, At: minute, Name: "stripe", Label: "ok", N: 1000})
	f.addFigures(all...)
	point := func(i int, label string, n int64) driver.Point {
		return driver.Point{At: minute.Add(time.Duration(i) * time.Minute), Label: label, N: n}
	}
	by := allTime(driver.FigureDeliveries, driver.ByMinute)
	by.Since, by.Until = minute.Add(time.Minute), minute.Add(3*time.Minute)
	f.wantSeries("all names", by, point(1, "duplicate", 14), point(1, "ok", 12), point(2, "duplicate", 22), point(2, "ok", 20))
	named := by
	named.Name = "github"
	f.wantSeries("one name", named, point(1, "duplicate", 8), point(1, "ok", 7), point(2, "duplicate", 12), point(2, "ok", 11))
	named.Label = "ok"
	f.wantSeries("one name and label", named, point(1, "ok", 7), point(2, "ok", 11))
	by.Limit = 2
	f.wantSeries("one more than the limit", by, point(1, "duplicate", 14), point(1, "ok", 12), point(2, "duplicate", 22))
	by.Since = by.Since.Add(time.Microsecond)
	f.wantSeries("a span that began before", by, point(2, "duplicate", 22), point(2, "ok", 20))
	for _, text := range []string{"GITHUB", "git", "%", "a\x00", "\xff"} {
		unknown := allTime(driver.FigureDeliveries, driver.ByDay)
		unknown.Name = text
		f.wantSeries("the name "+text, unknown)
		unknown.Name, unknown.Label = "", text
		f.wantSeries("the label "+text, unknown)
	}
}

// figuresByName keeps names apart.
func figuresByName(f *fixture) {
	at := t0.Truncate(time.Hour)
	for _, of := range []driver.FigureKind{driver.FigureDuplicates, driver.FigureTypes} {
		f.addFigures(
			driver.Figure{Of: of, At: at, Name: "stripe", Label: "b", N: 1, Buckets: inBuckets(1)},
			driver.Figure{Of: of, At: at, Name: "github", Label: "c", N: 2},
			driver.Figure{Of: of, At: at, Name: "github", Label: "a", N: 4},
			driver.Figure{Of: of, At: at.Add(time.Hour), Name: "Stripe", Label: "a", N: 8},
		)
		buckets := inBuckets(1)
		if of == driver.FigureTypes {
			buckets = inBuckets()
		}
		by := allTime(of, driver.ByHour)
		by.ByName = true
		f.wantSeries("by name", by,
			driver.Point{At: at, Name: "github", Label: "a", N: 4}, driver.Point{At: at, Name: "github", Label: "c", N: 2},
			driver.Point{At: at, Name: "stripe", Label: "b", N: 1, Buckets: buckets},
			driver.Point{At: at.Add(time.Hour), Name: "Stripe", Label: "a", N: 8})
		by.Name = "github"
		f.wantSeries("one name", by,
			driver.Point{At: at, Name: "github", Label: "a", N: 4}, driver.Point{At: at, Name: "github", Label: "c", N: 2})
	}
}

// figuresOfBacklog are samples: the highest of a span counts. Of several names, counts are added up,
// and ages are not.
func figuresOfBacklog(f *fixture) {
	at := t0.Truncate(time.Hour)
	sample := func(after time.Duration, name, label string, n int64) {
		f.addFigures(driver.Figure{Of: driver.FigureBacklog, At: at.Add(after), Name: name, Label: label, N: n})
	}
	for _, label := range []string{driver.BacklogEvents, driver.BacklogEventsAge, driver.BacklogMessages, driver.BacklogMessagesAge} {
		sample(0, "a", label, 5)
		sample(30*time.Second, "a", label, 3)
		sample(0, "b", label, 2)
		sample(time.Minute, "a", label, 7)
	}
	// Two samples of one call.
	f.addFigures(driver.Figure{Of: driver.FigureBacklog, At: at, Name: "", Label: "events", N: 0},
		driver.Figure{Of: driver.FigureBacklog, At: at.Add(time.Second), Name: "", Label: "events", N: 0})
	point := func(after time.Duration, label string, n int64) driver.Point {
		return driver.Point{At: at.Add(after), Label: label, N: n}
	}
	f.wantSeries("minutes", allTime(driver.FigureBacklog, driver.ByMinute),
		point(0, "events", 7), point(0, "events_age", 5), point(0, "messages", 7), point(0, "messages_age", 5),
		point(time.Minute, "events", 7), point(time.Minute, "events_age", 7), point(time.Minute, "messages", 7), point(time.Minute, "messages_age", 7))
	f.wantSeries("hours", allTime(driver.FigureBacklog, driver.ByHour),
		point(0, "events", 9), point(0, "events_age", 7), point(0, "messages", 9), point(0, "messages_age", 7))
	one := allTime(driver.FigureBacklog, driver.ByDay)
	one.Name, one.Label = "a", "messages"
	f.wantSeries("one name", one, driver.Point{At: at.Truncate(24 * time.Hour), Label: "messages", N: 7})
}

// figuresHostile stores names and labels of any text, and refuses those that no database stores.
func figuresHostile(f *fixture) {
	texts := []string{"", "it's", `"{},\`, "a,b", "NULL", "\u2028", strings.Repeat("é", driver.MaxFigureText/2)}
	for _, of := range []driver.FigureKind{driver.FigureAttempts, driver.FigureTypes} {
		var figures []driver.Figure
		for i, text := range texts {
			figures = append(figures, driver.Figure{Of: of, At: t0, Name: text, Label: text, N: int64(i + 1)})
		}
		f.addFigures(figures...)
		for i, text := range texts[1:] {
			by := allTime(of, driver.ByHour)
			by.Name, by.Label = text, text
			f.wantSeries(text, by, driver.Point{At: t0.Truncate(time.Hour), Label: text, N: int64(i + 2)})
		}
		for _, text := range []string{"a\x00", "\xff", strings.Repeat("a", driver.MaxFigureText+1)} {
			for _, bad := range []driver.Figure{{Of: of, At: t0, Name: text, N: 1}, {Of: of, At: t0, Label: text, N: 1}} {
				err := f.s.AddFigures(f.Context(), &driver.AddFiguresParams{Figures: []driver.Figure{figures[1], bad}})
				if !errors.Is(err, driver.ErrBadRow) {
					f.Errorf("%.10q: the error is %v, want %v", text, err, driver.ErrBadRow)
				}
			}
		}
		by := allTime(of, driver.ByHour)
		by.Label = texts[1]
		f.wantSeries("after refused calls", by, driver.Point{At: t0.Truncate(time.Hour), Label: texts[1], N: 2})
	}
}

// figuresOfTypes adds more types than an hour of a source may have, in one call and in several.
func figuresOfTypes(f *fixture) {
	hour := t0.Truncate(time.Hour)
	typed := func(source string, at time.Time, from, to int) (all []driver.Figure) {
		for i := from; i < to; i++ {
			all = append(all, driver.Figure{Of: driver.FigureTypes, At: at, Name: source, Label: fmt.Sprintf("t%04d", i), N: 1})
		}
		return all
	}
	// OtherType is not one of the types.
	f.addFigures(append(typed("stripe", t0, 0, driver.MaxTypes-1),
		driver.Figure{Of: driver.FigureTypes, At: t0, Name: "stripe", Label: driver.OtherType, N: 10})...)
	f.addFigures(typed("github", t0, 0, 3)...)
	f.addFigures(typed("stripe", t0, driver.MaxTypes-3, driver.MaxTypes+5)...) // two are known, one is free
	f.addFigures(typed("stripe", t0, driver.MaxTypes, driver.MaxTypes+1)...)
	f.addFigures(typed("stripe", t0.Add(time.Hour), driver.MaxTypes, driver.MaxTypes+1)...)
	by := allTime(driver.FigureTypes, driver.ByHour)
	by.Name = "stripe"
	points, err := f.s.Series(f.Context(), &by)
	if err != nil || len(points) != driver.MaxTypes+2 {
		f.Fatalf("%d points with the error %v, want %d", len(points), err, driver.MaxTypes+2)
	}
	for label, want := range map[string][]driver.Point{
		driver.OtherType: {{At: hour, N: 16}},
		"t0000":          {{At: hour, N: 1}},
		"t0498":          {{At: hour, N: 2}},
		"t0499":          {{At: hour, N: 1}},
		"t0500":          {{At: hour.Add(time.Hour), N: 1}},
	} {
		by.Label = label
		for i := range want {
			want[i].Label = label
		}
		f.wantSeries(label, by, want...)
	}
	all := allTime(driver.FigureTypes, driver.ByHour)
	all.Label = "t0001"
	f.wantSeries("a type of all sources", all, driver.Point{At: hour, Label: "t0001", N: 2})
}

// figuresPruned keeps the figures of each resolution for its own time.
func figuresPruned(f *fixture) {
	at := t0.Truncate(24 * time.Hour)
	for _, of := range []driver.FigureKind{
		driver.FigureDeliveries, driver.FigureRefusals, driver.FigureAttempts, driver.FigureDuplicates, driver.FigureBacklog, driver.FigureTypes,
	} {
		for i := range 3 {
			f.addFigures(driver.Figure{Of: of, At: at, Name: "a", Label: fmt.Sprint(i), N: 1})
		}
	}
	wantPoints := func(when time.Time, want [4]int) {
		f.Helper()
		// Chunks of one row: no row of a chunk may keep the others.
		got := f.prune(&driver.PruneParams{DedupeWindow: time.Hour, Retention: time.Hour, Chunk: 1, Now: when})
		same(f, "result of pruning", driver.PruneResult{}, got)
		var counts [4]int
		for of := driver.FigureDeliveries; of <= driver.FigureTypes; of++ {
			for _, by := range driver.Resolutions() {
				filter := allTime(of, by)
				if of == driver.FigureTypes && by != driver.ByHour {
					continue
				}
				points, err := f.s.Series(f.Context(), &filter)
				if err != nil {
					f.Fatal(err)
				}
				place := int(by)
				if of == driver.FigureTypes {
					place = 3
				}
				counts[place] += len(points)
			}
		}
		if counts != want {
			f.Errorf("at %v: %v points of minutes, hours, days and types, want %v", when, counts, want)
		}
	}
	const day = 24 * time.Hour
	wantPoints(at.Add(48*time.Hour), [4]int{15, 15, 15, 3})
	wantPoints(at.Add(48*time.Hour+time.Microsecond), [4]int{0, 15, 15, 3})
	wantPoints(at.Add(90*day), [4]int{0, 15, 15, 3})
	wantPoints(at.Add(90*day+time.Microsecond), [4]int{0, 0, 15, 0})
	wantPoints(at.Add(730*day), [4]int{0, 0, 15, 0})
	wantPoints(at.Add(730*day+time.Microsecond), [4]int{0, 0, 0, 0})
}

// raceFigures adds to the same rows in two processes, in other orders.
func raceFigures(p *pair) {
	const calls = 40
	p.atOnce(calls, func(s driver.Store, i int) error {
		var figures []driver.Figure
		for j := range 20 {
			n := j
			if i%2 == 1 {
				n = 19 - j
			}
			for _, of := range []driver.FigureKind{driver.FigureDeliveries, driver.FigureTypes} {
				figures = append(figures, driver.Figure{Of: of, At: t0, Name: fmt.Sprint("s", n%4), Label: fmt.Sprint(n), N: 1, Buckets: inBuckets(1)})
			}
		}
		return s.AddFigures(p.Context(), &driver.AddFiguresParams{Figures: figures})
	})
	for _, of := range []driver.FigureKind{driver.FigureDeliveries, driver.FigureTypes} {
		by := allTime(of, driver.ByHour)
		points, err := p.s.Series(p.Context(), &by)
		if err != nil || len(points) != 20 {
			p.Fatalf("%d points with the error %v, want 20", len(points), err)
		}
		for _, point := range points {
			if point.N != calls {
				p.Errorf("label %s: %d, want %d", point.Label, point.N, calls)
			}
		}
	}
}
