package hookadmin

import (
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// strip shows how a destination did over time, as status pages do, or how many there were. The server
// draws it, so it needs no JavaScript.
type strip struct {
	Label string // for those who cannot see it
	Width int    // of the drawing: 4 for each span
	Cells []stripCell
}

// stripCell is a bar of a drawing that is 24 high.
type stripCell struct {
	X, Y, Height int
	Tone         string // good, warn, bad or none
	About        string // when and how many; "" in small drawings
}

const stripHeight = 24

// maxCells bounds the cells of a strip.
const maxCells = 60

// attemptsStrip returns the strip of the attempts of one destination. The higher a bar, the worse.
func attemptsStrip(f *driver.SeriesFilter, points []driver.Point) strip {
	sent := valuesOf(f, points, func(p *driver.Point) int64 { return labelled(p, "sent") })
	failed := valuesOf(f, points, func(p *driver.Point) int64 { return labelled(p, "retry") + labelled(p, "dead") })
	times := grid(f)
	each := (len(times) + maxCells - 1) / maxCells
	var s strip
	var allSent, allFailed int64
	for first := 0; first < len(times); first += max(each, 1) {
		var good, bad int64
		for i := first; i < min(first+each, len(times)); i++ {
			good, bad = good+sent[i], bad+failed[i]
		}
		allSent, allFailed = allSent+good, allFailed+bad
		cell := stripCell{X: 4 * len(s.Cells), Tone: "none", Height: 2}
		switch {
		case bad == 0 && good > 0:
			cell.Tone, cell.Height = "good", 10
		case bad > 0 && bad <= good:
			cell.Tone, cell.Height = "warn", 17
		case bad > 0:
			cell.Tone, cell.Height = "bad", stripHeight
		}
		cell.Y = stripHeight - cell.Height
		cell.About = fmt.Sprintf("%s: %s sent, %s failed", times[first].Format("2006-01-02 15:04 UTC"), say.Number(good), say.Number(bad))
		s.Cells = append(s.Cells, cell)
	}
	s.Width = 4 * len(s.Cells)
	s.Label = fmt.Sprintf("%s sent, %s failed", say.Count(allSent, "attempt"), say.Number(allFailed))
	return s
}

// sparkline returns the strip of numbers. The higher a bar, the more there were.
func sparkline(f *driver.SeriesFilter, points []driver.Point, one, many string) strip {
	values := valuesOf(f, points, func(p *driver.Point) int64 { return p.N })
	var most, all int64
	for _, n := range values {
		most, all = max(most, n), all+n
	}
	s := strip{Width: 4 * len(values), Label: countWord(all, one, many) + " in 24 hours"}
	for i, n := range values {
		if n > 0 {
			height := 2 + int(float64(n)/float64(most)*(stripHeight-2))
			s.Cells = append(s.Cells, stripCell{X: 4 * i, Y: stripHeight - height, Height: height, Tone: "rate"})
		}
	}
	return s
}

// byName groups points by their name.
func byName(points []driver.Point) map[string][]driver.Point {
	all := make(map[string][]driver.Point)
	for _, p := range points {
		all[p.Name] = append(all[p.Name], p)
	}
	return all
}

// sumOf adds up the points with one of the labels; without labels, all.
func sumOf(points []driver.Point, labels ...string) (n int64) {
	for i := range points {
		if len(labels) == 0 {
			n += points[i].N
		}
		for _, label := range labels {
			n += labelled(&points[i], label)
		}
	}
	return n
}

// bucketsOf adds up the durations of points.
func bucketsOf(points []driver.Point) *[driver.FigureBuckets]int64 {
	sum := new([driver.FigureBuckets]int64)
	for i := range points {
		for b, n := range points[i].Buckets {
			sum[b] += n
		}
	}
	return sum
}

// lastOf returns the end of the last span of points, at most now; the zero time if there is none.
func lastOf(points []driver.Point, span time.Duration, now time.Time) (last time.Time) {
	for i := range points {
		if points[i].N > 0 && points[i].At.Add(span).After(last) {
			last = points[i].At.Add(span)
		}
	}
	if last.After(now) {
		return now
	}
	return last
}

// percent words a share: "0.4%".
func percent(part, all int64) string {
	switch {
	case all == 0:
		return "–"
	case part == 0:
		return "0%"
	case part == all:
		return "100%"
	}
	share := 100 * float64(part) / float64(all)
	switch {
	case share < .1:
		return "under 0.1%"
	case share > 99.9:
		return "over 99.9%"
	}
	return fmt.Sprintf("%.1f%%", share)
}
