package pruning_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pruning"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func windows(lengths map[string]time.Duration) driver.Windows {
	w := driver.Windows{}
	for source, length := range lengths {
		w[source] = driver.Kept{SourceWindows: driver.SourceWindows{DedupeWindow: length}}
	}
	return w
}

func dedupe(k driver.Kept) time.Duration { return k.DedupeWindow }

func TestWalks(t *testing.T) {
	t.Parallel()
	known := windows(map[string]time.Duration{"": 2 * day, "a": day, "b": day, "c": 2 * day})
	type walk = pruning.Walk
	for name, tt := range map[string]struct {
		marks pruning.Marks
		want  []walk
	}{
		"nothing looked at": {nil, []walk{
			{Sources: []string{"a", "b"}, Others: true, Before: noon.Add(-2 * day)},
			{Sources: []string{"a", "b"}, Before: noon.Add(-day)},
		}},
		"from the earliest mark": {pruning.Marks{"": noon.Add(-3 * day), "a": noon.Add(-4 * day), "b": noon.Add(-5 * day), "c": noon.Add(-6 * day)}, []walk{
			{Sources: []string{"a", "b"}, Others: true, From: noon.Add(-6 * day), Before: noon.Add(-2 * day)},
			{Sources: []string{"a", "b"}, From: noon.Add(-5 * day), Before: noon.Add(-day)},
		}},
		"new sources were some of the others": {pruning.Marks{"": noon.Add(-3 * day)}, []walk{
			{Sources: []string{"a", "b"}, Others: true, From: noon.Add(-3 * day), Before: noon.Add(-2 * day)},
			{Sources: []string{"a", "b"}, From: noon.Add(-3 * day), Before: noon.Add(-day)},
		}},
		"sources that went are some of the others": {
			pruning.Marks{"": noon.Add(-3 * day), "a": noon.Add(-day), "b": noon.Add(-day), "c": noon.Add(-2 * day), "gone": noon.Add(-7 * day)},
			[]walk{
				{Sources: []string{"a", "b"}, Others: true, From: noon.Add(-7 * day), Before: noon.Add(-2 * day)},
				{Sources: []string{"a", "b"}, From: noon.Add(-day), Before: noon.Add(-day)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.marks.Walks(known, dedupe, noon)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(walk{})); diff != "" {
				t.Errorf("walks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLooksAtEverything checks when a pass in the background looks at everything.
func TestLooksAtEverything(t *testing.T) {
	t.Parallel()
	took := func(d time.Duration) string { // of a complete look
		s := pruning.Begin("", noon, false)
		s.Events = pruning.Marks{"": noon}
		s.Complete(noon.Add(d))
		return s.Text()
	}
	cut := pruning.Begin("", noon, false)
	cut.Events = pruning.Marks{"": noon}
	for name, tt := range map[string]struct {
		text       string
		at         time.Time
		everything bool
		want       bool
	}{
		"nothing known":              {"", noon, false, true},
		"a text of another version":  {`{"events":7}`, noon, false, true},
		"soon after a cheap look":    {took(time.Second), noon.Add(50 * time.Second), false, false},
		"later":                      {took(time.Second), noon.Add(51 * time.Second), false, true},
		"an hour after a dear look":  {took(time.Hour), noon.Add(119 * time.Minute), false, false},
		"later than an hour":         {took(time.Hour), noon.Add(2 * time.Hour), false, true},
		"demanded":                   {took(time.Second), noon, true, true},
		"an incomplete look":         {cut.Text(), noon.Add(3 * time.Hour), false, false},
		"begun in the future":        {cut.Text(), noon.Add(-time.Second), false, true},
		"a clock that was set back":  {took(time.Second), noon.Add(-2 * time.Hour), false, true},
		"a clock set back a little":  {took(time.Second), noon.Add(-time.Minute), false, false},
		"an incomplete look, demand": {cut.Text(), noon.Add(time.Hour), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := pruning.Begin(tt.text, tt.at, tt.everything).Events == nil; got != tt.want {
				t.Errorf("it looks at everything: %v, want %v", got, tt.want)
			}
		})
	}
}

type event struct {
	source     string
	at         time.Time
	unfinished bool
	stayed     bool // it was unfinished when a pass came by
}

// TestMarksMissNothing runs passes that often end early, while windows, sources and the clock change.
// After a complete pass no event is left that is past its window and was always finished, though no
// pass but the first looks at everything.
func TestMarksMissNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			now := noon
			var marks pruning.Marks
			var events []event
			sources := []string{"", "a", "b", "c"}
			lengths := map[string]time.Duration{"": 3 * day}
			for range 200 {
				switch r.IntN(6) {
				case 0:
					now = now.Add(time.Duration(r.Int64N(int64(2 * day))))
				case 1:
					if source := sources[r.IntN(4)]; source == "" || r.IntN(3) > 0 {
						lengths[source] = time.Duration(1+r.IntN(5)) * day
					} else {
						delete(lengths, source)
					}
				case 2, 3:
					for range 5 {
						events = append(events, event{source: append(sources, "stranger")[1+r.IntN(4)], at: now, unfinished: r.IntN(4) == 0})
					}
				case 4:
					for i := range events {
						events[i].unfinished = events[i].unfinished && r.IntN(4) > 0
					}
				case 5:
					events = pass(t, r, &marks, events, windows(lengths), now)
				}
			}
		})
	}
}

// pass prunes as a store does, and checks the remaining events after a complete pass.
func pass(t *testing.T, r *rand.Rand, marks *pruning.Marks, events []event, known driver.Windows, now time.Time) []event {
	t.Helper()
	walks := marks.Walks(known, dedupe, now)
	for i := range walks {
		w := &walks[i]
		to := w.Before
		if r.IntN(4) == 0 { // it ends early
			if to = w.From.Add(time.Duration(r.Int64N(int64(2 * day)))); w.From.IsZero() {
				to = w.From
			}
		}
		var left []event
		for _, e := range events {
			if w.Holds(e.source) && !e.at.Before(w.From) && e.at.Before(to) && e.at.Before(w.Before) {
				if !e.unfinished {
					continue
				}
				e.stayed = true
			}
			left = append(left, e)
		}
		events = left
		marks.Move(w, to, now)
		if to.Before(w.Before) {
			return events
		}
	}
	for _, e := range events {
		if past := e.at.Before(now.Add(-known.Of(e.source).DedupeWindow)); past && !e.stayed && !e.unfinished {
			t.Fatalf("at %v: %+v is left; windows %v, marks %v", now, e, known, *marks)
		}
	}
	return events
}

// TestClockThatWasAhead lets a pass run while the clock is years ahead. Events that are received afterwards
// are not taken for ones that were looked at.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	known := windows(map[string]time.Duration{"": 30 * day})
	var marks pruning.Marks
	for _, at := range []time.Time{noon.Add(1000 * day), noon} {
		for _, w := range marks.Walks(known, dedupe, at) {
			marks.Move(&w, w.Before, at)
		}
	}
	if w := marks.Walks(known, dedupe, noon.Add(31*day))[0]; w.From.After(noon) {
		t.Errorf("the walk begins at %v, after an event received at %v", w.From, noon)
	}
}

// TestShortWindows checks that a mark stays behind transactions that have not committed yet.
func TestShortWindows(t *testing.T) {
	t.Parallel()
	known := windows(map[string]time.Duration{"": time.Second})
	var marks pruning.Marks
	w := marks.Walks(known, dedupe, noon)[0]
	marks.Move(&w, w.Before, noon)
	if late := noon.Add(-9 * time.Minute); !marks[""].Before(late) {
		t.Errorf("the mark is %v: a transaction that began at %v and commits now would be passed over", marks[""], late)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	run := func(p *pruning.Pace, chunks int, perRow func(i int) time.Duration) int {
		for i := range chunks {
			p.Took(p.Size(), time.Duration(p.Size())*perRow(i))
		}
		return p.Size()
	}
	steady := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	stalls := func(i int) time.Duration {
		if i%4 == 0 {
			return 100 * time.Millisecond
		}
		return 10 * time.Microsecond
	}
	for name, tt := range map[string]struct {
		pace     *pruning.Pace
		perRow   func(int) time.Duration
		low, top int
	}{
		"40 µs a row":  {pruning.NewPace(0, 8*time.Millisecond), steady(40 * time.Microsecond), 160, 240},
		"very quick":   {pruning.NewPace(0, 8*time.Millisecond), steady(time.Nanosecond), 2000, 2000},
		"very slow":    {pruning.NewPace(0, 8*time.Millisecond), steady(time.Second), 25, 25},
		"with stalls":  {pruning.NewPace(0, 8*time.Millisecond), stalls, 600, 1000},
		"a given size": {pruning.NewPace(3, 8*time.Millisecond), steady(time.Second), 3, 3},
	} {
		if got := run(tt.pace, 200, tt.perRow); got < tt.low || got > tt.top {
			t.Errorf("%s: chunks of %d, want %d to %d", name, got, tt.low, tt.top)
		}
	}
	part := pruning.NewPace(0, 8*time.Millisecond)
	size := part.Size()
	part.Took(1, time.Microsecond)
	if got := part.Size(); got != size {
		t.Errorf("after a part of a chunk: chunks of %d, want %d", got, size)
	}
}
