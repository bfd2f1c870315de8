package hookadmin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/say"
)

// maxMoments bounds the moments of a timeline: the oldest and the newest of a longer one are shown.
const maxMoments = 200

// timeline is the way of an event from the socket to its effect: chart 5 and its table.
type timeline struct {
	Moments []happening // oldest first
	Left    int         // moments in the middle that are not shown
	Chart   *timelineChart
}

// happening is one moment of a timeline.
type happening struct {
	At    Time
	After string // time since the first: "+12 ms"
	Lane  string // deliveries, event, or a destination
	Kind  string // class and shape of its mark: see marks
	What  string // a few words, ours
	Text  text   // an error or a note, from outside
}

// marks are the shapes of the kinds of happenings, in a square of 16 around 0,0. Each kind has a
// shape of its own, so that colour is never needed.
var marks = map[string]string{
	"delivery":  "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
	"duplicate": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
	"event":     "M0,-6L6,0L0,6L-6,0z",
	"good":      "M-5,-5H5V5H-5z",
	"retry":     "M0,-6L6,5H-6z",
	"bad":       "M-6,-4L-4,-6L0,-2L4,-6L6,-4L2,0L6,4L4,6L0,2L-4,6L-6,4L-2,0z",
	"due":       "M0,-5L4,0L0,5L-4,0z",
}

// newTimeline returns the timeline of d at now; nil if nothing is known about its times.
func newTimeline(d *EventDetail, now time.Time) *timeline {
	t := &timeline{}
	t.addDeliveries(&d.Deliveries)
	t.addEvent(d)
	for i := range d.Attempts {
		t.addAttempt(d, &d.Attempts[i])
	}
	for i := range d.Messages {
		if m := &d.Messages[i]; !time.Time(m.DueAt).IsZero() {
			t.add(m.DueAt, laneOf(m), "due", "next attempt due", "")
		}
	}
	if len(t.Moments) == 0 {
		return nil
	}
	slices.SortStableFunc(t.Moments, func(a, b happening) int { return time.Time(a.At).Compare(time.Time(b.At)) })
	if n := len(t.Moments); n > maxMoments {
		t.Left = n - maxMoments
		t.Moments = slices.Delete(t.Moments, maxMoments/2, n-maxMoments/2)
	}
	first := time.Time(t.Moments[0].At)
	for i := range t.Moments {
		m := &t.Moments[i]
		m.After = "+" + say.Brief(time.Time(m.At).Sub(first))
	}
	t.Chart = newTimelineChart(t.Moments, now)
	return t
}

func (t *timeline) add(at Time, lane, kind, what, outside string) {
	if time.Time(at).IsZero() {
		return
	}
	t.Moments = append(t.Moments, happening{At: at, Lane: lane, Kind: kind, What: what, Text: newText(outside, 200)})
}

const (
	laneDeliveries = "deliveries"
	laneEvent      = "event"
)

func (t *timeline) addDeliveries(d *Deliveries) {
	t.add(d.FirstAt, laneDeliveries, "delivery", "first delivery", "")
	for i := range d.Recent {
		r := &d.Recent[i]
		if time.Time(r.At).Equal(time.Time(d.FirstAt)) {
			continue
		}
		what := "duplicate"
		if !r.SameBody {
			what = "duplicate with another body"
		}
		t.add(r.At, laneDeliveries, "duplicate", what, "")
	}
	// The newest ones are counted before they are kept one by one. LastAt may be the time of the count.
	if n := len(d.Recent); d.Count > max(1, int64(n)) && (n == 0 || time.Time(d.Recent[0].At).Before(time.Time(d.LastAt))) {
		t.add(d.LastAt, laneDeliveries, "duplicate", "last of "+say.Number(d.Count)+" deliveries", "")
	}
}

func (t *timeline) addEvent(d *EventDetail) {
	t.add(d.ReceivedAt, laneEvent, "event", "claimed", "")
	for _, h := range d.History {
		lane, what := laneEvent, strings.ReplaceAll(h.Action, "_", " ")
		for i := range d.Messages {
			if h.MessageID != "" && d.Messages[i].ID == h.MessageID {
				lane = laneOf(&d.Messages[i])
			}
		}
		t.add(h.At, lane, "event", what, "")
	}
	t.add(d.ProcessedAt, laneEvent, "good", "done", d.Note)
	if len(d.Messages) == 0 {
		t.add(d.FailedAt, laneEvent, "bad", "dead", d.LastError)
	}
}

func (t *timeline) addAttempt(d *EventDetail, a *Attempt) {
	kind, what := "retry", fmt.Sprintf("attempt %d failed", a.Number)
	switch a.Outcome {
	case "sent":
		kind, what = "good", fmt.Sprintf("attempt %d succeeded", a.Number)
	case "dead":
		kind, what = "bad", fmt.Sprintf("attempt %d failed for good", a.Number)
	}
	if a.StatusCode != nil {
		what += fmt.Sprintf(": %d", *a.StatusCode)
	}
	if a.TookSeconds > 0 {
		what += " after " + say.BriefSeconds(a.TookSeconds)
	}
	lane := "handler"
	if a.MessageID != "" {
		lane = "a message that is gone"
	}
	for i := range d.Messages {
		if d.Messages[i].ID == a.MessageID {
			lane = laneOf(&d.Messages[i])
		}
	}
	t.add(a.At, lane, kind, what, a.Error)
}

func laneOf(m *Message) string { return "→ " + visible(m.Destination) }

// timelineChart is the drawing: one lane for deliveries, for the event and for each destination,
// with the time since the first moment on a logarithmic axis. X is in percent of the axis and Y in pixels,
// so a narrow screen has a shorter axis, and marks and texts of the same size.
type timelineChart struct {
	Height      float64
	Bottom      float64 // of the lanes
	Lanes       []chartLane
	Ticks       []chartTick
	Marks       []chartMark
	Now         *chartTick // nil if now is beyond the axis
	Description string
}

type chartLane struct {
	Name text
	Y    float64
}

type chartTick struct {
	X, Y  float64
	Name  string
	Spare bool // a narrow screen has no room for it
}

type chartMark struct {
	X, Y        float64
	Kind, Shape string
	Title       string
}

const (
	laneHeight = 44 // room for a name above the lane
	maxLanes   = 24 // further destinations share the last one
	markWidth  = 2  // percent of the axis
)

func newTimelineChart(moments []happening, now time.Time) *timelineChart {
	c := &timelineChart{}
	first, last := time.Time(moments[0].At), time.Time(moments[len(moments)-1].At)
	span := float64(max(last.Sub(first), 100*time.Millisecond).Milliseconds())
	x := func(at time.Time) float64 {
		after := max(0, float64(at.Sub(first).Milliseconds()))
		return math.Round(100*math.Log10(1+after)/math.Log10(1+span)*100) / 100
	}
	lanes := lanesOf(moments)
	for i, name := range lanes {
		c.Lanes = append(c.Lanes, chartLane{newText(name, 18), 26 + float64(i)*laneHeight})
	}
	c.Bottom = float64(len(lanes)) * laneHeight
	c.Height = c.Bottom + 24
	lastX, crowd := make(map[int]float64), make(map[int]int)
	for i := range moments {
		m := &moments[i]
		lane := min(max(slices.Index(lanes, m.Lane), 0), maxLanes-1)
		title := m.After + " " + m.What
		if m.Text.Full != "" {
			title += ": " + m.Text.Short
		}
		at := x(time.Time(m.At))
		// Marks that would cover each other are moved up and down.
		if before, ok := lastX[lane]; ok && at-before < markWidth {
			crowd[lane]++
		} else {
			crowd[lane] = 0
		}
		lastX[lane] = at
		y := c.Lanes[lane].Y + []float64{0, 9, -9}[crowd[lane]%3]
		c.Marks = append(c.Marks, chartMark{at, y, m.Kind, marks[m.Kind], title})
	}
	for _, d := range []time.Duration{
		0, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
		10 * time.Minute, time.Hour, 10 * time.Hour, 48 * time.Hour, 10 * 24 * time.Hour, 100 * 24 * time.Hour,
	} {
		if float64(d.Milliseconds()) <= span {
			c.Ticks = append(c.Ticks, chartTick{x(first.Add(d)), c.Bottom, "+" + say.Brief(d), len(c.Ticks)%2 == 1})
		}
	}
	if now.Before(last) {
		c.Now = &chartTick{X: x(now), Y: c.Bottom, Name: "now"}
	}
	c.Description = fmt.Sprintf("%s within %s, in %s. The table below has the same.",
		say.Count(len(moments), "moment"), say.Brief(last.Sub(first)), say.Count(len(lanes), "lane"))
	return c
}

// lanesOf returns the lanes: deliveries, the event, then destinations by name.
func lanesOf(moments []happening) []string {
	var lanes []string
	for i := range moments {
		if !slices.Contains(lanes, moments[i].Lane) {
			lanes = append(lanes, moments[i].Lane)
		}
	}
	rank := func(lane string) int { return slices.Index([]string{laneEvent, laneDeliveries}, lane) }
	slices.SortFunc(lanes, func(a, b string) int { return cmp.Or(rank(b)-rank(a), cmp.Compare(a, b)) })
	if len(lanes) > maxLanes {
		lanes = append(lanes[:maxLanes-1], "other destinations")
	}
	return lanes
}
