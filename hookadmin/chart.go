package hookadmin

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// chart is a figure over time, or over classes of durations. charts.js draws Data; the table says the
// same without JavaScript, and to those who cannot see the drawing.
type chart struct {
	ID, Title, About string
	Data             chartData
	Head             []string   // of the table; the first column names the row
	Rows             [][]string // newest first
	Empty            string     // says why there is nothing to draw; then the chart has no data
}

// chartData is the data of a drawing.
type chartData struct {
	Kind   string        `json:"kind"`             // stack, heat, lines or histogram
	Span   int64         `json:"span"`             // seconds between two times
	At     []int64       `json:"at,omitempty"`     // Unix times, in seconds
	Series []chartSeries `json:"series,omitempty"` // of a heat map: one for each class, from the lowest
	Marks  []plotMark    `json:"marks,omitempty"`
}

// chartSeries is a line, a part of stacked bars, or a class of a heat map or histogram.
type chartSeries struct {
	Name   string  `json:"name"`
	Tone   string  `json:"tone,omitempty"`  // a colour of style.css
	Below  bool    `json:"below,omitempty"` // drawn below the axis
	Right  bool    `json:"right,omitempty"` // in seconds, by the right axis
	Values []int64 `json:"values"`
}

// plotMark is a limit to draw across the classes of a chart.
type plotMark struct {
	Name string  `json:"name"`
	At   float64 `json:"at"` // 1.5 is in the middle of the second class
}

// JSON returns the data for an attribute.
func (c chart) JSON() string {
	raw, err := json.Marshal(c.Data)
	if err != nil {
		panic(err) // numbers and texts always encode
	}
	return string(shown.JSON(raw))
}

// grid returns the beginnings of the spans that f selects.
func grid(f *driver.SeriesFilter) []time.Time {
	var all []time.Time
	for at := f.Resolution.Start(f.Since); at.Before(f.Until); at = at.Add(f.Resolution.Span()) {
		all = append(all, at)
	}
	return all
}

// newChartData returns data with the times of f.
func newChartData(kind string, f *driver.SeriesFilter) chartData {
	data := chartData{Kind: kind, Span: int64(f.Resolution.Span() / time.Second)}
	for _, at := range grid(f) {
		data.At = append(data.At, at.Unix())
	}
	return data
}

// valuesOf returns the values of the points that keep selects, added up, on the times of f.
func valuesOf(f *driver.SeriesFilter, points []driver.Point, keep func(*driver.Point) int64) []int64 {
	first, span := f.Resolution.Start(f.Since), f.Resolution.Span()
	values := make([]int64, len(grid(f)))
	for i := range points {
		if at := int(points[i].At.Sub(first) / span); at >= 0 && at < len(values) {
			values[at] += keep(&points[i])
		}
	}
	return values
}

// deliveryTones are the parts of stacked deliveries, from the axis outwards.
var deliveryTones = []tonedPart{
	{"ok", "good", false},
	{"duplicate", "calm", false},
	{"reopened", "wait", false},
	{"handshake", "busy", false},
	{"malformed", "warn", false},
	{"failed", "bad", false},
	{"unavailable", "bad", false},
	{"refused", "warn", true},
}

// attemptTones are the parts of stacked attempts.
var attemptTones = []tonedPart{{"sent", "good", false}, {"skipped", "calm", false}, {"retry", "warn", true}, {"dead", "bad", true}}

// tonedPart is an outcome with its colour.
type tonedPart struct {
	outcome, tone string
	below         bool // drawn below the axis
}

// deliveriesChart stacks deliveries by outcome, with refusals below the axis.
func deliveriesChart(f *driver.SeriesFilter, points []driver.Point) chart {
	return stack(f, points, deliveryTones, chart{
		ID: "deliveries", Title: "Deliveries",
		About: "Answered deliveries per " + resolutionNames[f.Resolution] + ", by outcome. Refusals are below the axis.",
		Empty: "No deliveries in this time.",
	})
}

// attemptsChart stacks attempts by outcome, with failures below the axis.
func attemptsChart(f *driver.SeriesFilter, points []driver.Point) chart {
	return stack(f, points, attemptTones, chart{
		ID: "attempts", Title: "Attempts",
		About: "Attempts to send per " + resolutionNames[f.Resolution] + ", by outcome. Failures are below the axis.",
		Empty: "No attempts in this time.",
	})
}

// stack fills in a chart of stacked bars.
func stack(f *driver.SeriesFilter, points []driver.Point, parts []tonedPart, c chart) chart {
	c.Data, c.Head = newChartData("stack", f), []string{"Time"}
	for _, part := range parts {
		values := valuesOf(f, points, func(p *driver.Point) int64 { return labelled(p, part.outcome) })
		if !slices.ContainsFunc(values, func(n int64) bool { return n > 0 }) {
			continue
		}
		name := badgeOf(part.outcome).Word
		c.Head, c.Empty = append(c.Head, name), ""
		c.Data.Series = append(c.Data.Series, chartSeries{Name: name, Tone: part.tone, Below: part.below, Values: values})
	}
	c.Rows = tableOf(f, c.Data.Series)
	return c
}

func labelled(p *driver.Point, label string) int64 {
	if p.Label == label {
		return p.N
	}
	return 0
}

// tableOf returns the rows of a table of series, newest first. It leaves out spans with zeros alone.
func tableOf(f *driver.SeriesFilter, series []chartSeries) [][]string {
	var rows [][]string
	for i, at := range slices.Backward(grid(f)) {
		row, some := []string{at.Format("2006-01-02 15:04 UTC")}, false
		for _, s := range series {
			text := say.Number(s.Values[i])
			if s.Right && s.Values[i] > 0 {
				text = inWords(time.Duration(s.Values[i]) * time.Second)
			}
			row, some = append(row, text), some || s.Values[i] > 0
		}
		if some {
			rows = append(rows, row)
		}
	}
	return rows
}

// answersChart is a heat map of answer times. limit is when a provider gives up; 0 draws none.
func answersChart(f *driver.SeriesFilter, points []driver.Point, limit time.Duration) chart {
	c := heat(f, points, chart{
		ID: "answers", Title: "Answer times", About: "How long deliveries waited for their answer; a stronger colour is more.", Empty: "No answers in this time.",
	})
	if limit > 0 {
		whose := "the earliest time-out of a provider"
		if f.Name != "" {
			whose = "the time-out of the provider"
		}
		c.About += fmt.Sprintf(" The dashed line is %s, %s.", whose, inWords(limit))
		c.Data.Marks = []plotMark{{Name: "time-out " + say.Brief(limit), At: placeOf(limit, f.Of.Bounds())}}
	}
	return c
}

// answersOf is a heat map of the durations of attempts.
func answersOf(f *driver.SeriesFilter, points []driver.Point) chart {
	return heat(f, points, chart{
		ID: "answers", Title: "Durations", About: "How long attempts took; a stronger colour is more.", Empty: "No attempts with a duration in this time.",
	})
}

// heat fills in a heat map of durations.
func heat(f *driver.SeriesFilter, points []driver.Point, c chart) chart {
	c.Data, c.Head = newChartData("heat", f), []string{"Time", "Number", "Half within", "95% within", "99% within"}
	byTime := make(map[int64]*[driver.FigureBuckets]int64)
	for i := range points {
		sum := byTime[points[i].At.Unix()]
		if sum == nil {
			sum = new([driver.FigureBuckets]int64)
			byTime[points[i].At.Unix()] = sum
		}
		for b, n := range points[i].Buckets {
			sum[b] += n
		}
	}
	for b := range driver.FigureBuckets {
		s := chartSeries{Name: bucketName(f.Of.Bounds(), b), Values: make([]int64, len(c.Data.At))}
		for i, at := range c.Data.At {
			if sum := byTime[at]; sum != nil {
				s.Values[i] = sum[b]
			}
		}
		c.Data.Series = append(c.Data.Series, s)
	}
	for _, at := range slices.Backward(grid(f)) {
		sum := byTime[at.Unix()]
		if sum == nil || total(sum) == 0 {
			continue
		}
		c.Empty = ""
		c.Rows = append(c.Rows, []string{
			at.Format("2006-01-02 15:04 UTC"), say.Number(total(sum)), within(sum, f.Of.Bounds(), .5), within(sum, f.Of.Bounds(), .95), within(sum, f.Of.Bounds(), .99),
		})
	}
	return c
}

// backlogChart shows waiting work and the age of its oldest part.
func backlogChart(f *driver.SeriesFilter, points []driver.Point) chart {
	running := f.Resolution.Start(f.Until)
	sampled := func(p driver.Point) bool { return !p.At.Before(running) }
	if f.Resolution == driver.ByMinute && !slices.ContainsFunc(points, sampled) {
		ended := *f
		ended.Until = running // no sample of the running minute is no empty backlog
		f = &ended
	}
	c := chart{
		ID: "backlog", Title: "Backlog", Data: newChartData("lines", f), Head: []string{"Time"},
		About: "Most events and messages that waited, and the age of the oldest one (dashed, right axis). Sampled each minute; counts stop at 10,000 for each name.",
		Empty: "No samples in this time. A gateway takes one each minute.",
	}
	for _, line := range []struct {
		label, name, tone string
		right             bool
	}{
		{driver.BacklogEvents, "events", "wait", false},
		{driver.BacklogMessages, "messages", "busy", false},
		{driver.BacklogEventsAge, "oldest event", "wait", true},
		{driver.BacklogMessagesAge, "oldest message", "busy", true},
	} {
		found := false
		values := valuesOf(f, points, func(p *driver.Point) int64 {
			found = found || p.Label == line.label
			return labelled(p, line.label)
		})
		if !found {
			continue
		}
		c.Empty, c.Head = "", append(c.Head, line.name)
		c.Data.Series = append(c.Data.Series, chartSeries{Name: line.name, Tone: line.tone, Right: line.right, Values: values})
	}
	c.Rows = tableOf(f, c.Data.Series)
	return c
}

// latenessChart is a histogram of the ages of events at their duplicates, against the dedupe window.
func latenessChart(points []driver.Point, window time.Duration) chart {
	bounds := driver.FigureDuplicates.Bounds()
	c := chart{
		ID: "lateness", Title: "How late duplicates come", Data: chartData{Kind: "histogram"},
		About: fmt.Sprintf("The age of an event when a duplicate came. One that comes after the dedupe window, %s, takes effect again.", inWords(window)),
		Head:  []string{"Age of the event", "Duplicates"},
		Empty: "No duplicates in this time.",
	}
	c.Data.Marks = []plotMark{{Name: "dedupe window " + say.Brief(window), At: placeOf(window, bounds)}}
	var sum [driver.FigureBuckets]int64
	for i := range points {
		for b, n := range points[i].Buckets {
			sum[b] += n
		}
	}
	for b, n := range sum {
		name := bucketName(bounds, b)
		c.Data.Series = append(c.Data.Series, chartSeries{Name: name, Values: []int64{n}})
		c.Rows = append(c.Rows, []string{name, say.Number(n)})
	}
	if total(&sum) > 0 {
		c.Empty = ""
	}
	return c
}

func total(buckets *[driver.FigureBuckets]int64) (n int64) {
	for _, m := range buckets {
		n += m
	}
	return n
}

// within returns the bound that a share of the durations keep, such as "10 ms".
func within(buckets *[driver.FigureBuckets]int64, bounds []time.Duration, share float64) string {
	b := bucketOf(buckets, share)
	switch {
	case b < 0:
		return "–"
	case b == len(bounds):
		return "more than " + say.Brief(bounds[b-1])
	}
	return say.Brief(bounds[b])
}

// bucketOf returns the first bucket that completes a share of the durations, or -1 if there are none.
func bucketOf(buckets *[driver.FigureBuckets]int64, share float64) int {
	all, sum := total(buckets), int64(0)
	for b, n := range buckets {
		if sum += n; all > 0 && float64(sum) >= share*float64(all) {
			return b
		}
	}
	return -1
}

// placeOf returns the place of a duration among the classes between bounds.
func placeOf(d time.Duration, bounds []time.Duration) float64 {
	var below time.Duration
	for i, bound := range bounds {
		if d <= bound {
			return float64(i) + float64(d-below)/float64(bound-below)
		}
		below = bound
	}
	return float64(len(bounds)) + .5
}

// bucketName names a class of durations by its bounds.
func bucketName(bounds []time.Duration, b int) string {
	switch b {
	case len(bounds):
		return "over " + say.Brief(bounds[b-1])
	default:
		return "to " + say.Brief(bounds[b])
	}
}
