// Package pruning says which events a pass of pruning looks at, and how many at a time. Both stores use it.
//
// One process prunes at a time. The row of prune_turn says whose turn it is, by a fence and a time, and each
// chunk locks that row with its fence. So a process that was stopped removes nothing after its turn, and a
// killed one holds the others up for a minute at most. hookonce prune and Engine.Prune wait for their turn,
// and take it over from a process that prunes in the background.
//
// A pass goes on where the passes of all processes before it ended: see [Marks]. A mark follows the end of
// its window in both directions, and stays ten minutes behind the present. So neither a window that changes
// nor a clock that was ahead leaves a gap. An event that was finished late, behind the mark, waits for a look
// at everything. One follows after fifty times as long as the last one took, and within an hour.
// hookonce prune always looks at everything.
//
// Events look old to a clock that is ahead. So nothing is pruned while this machine's clock and the
// database's differ by more than an hour. A process whose machine's clock is set by more than that prunes
// nothing for an hour; on SQLite this is the only sign. Events that arrive while the clock is far behind get
// old times, and are pruned early.
//
// Commits of pruning do not wait for the disk: events that a crash brings back are pruned again.
package pruning

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// Turn is how long a process that was killed keeps the others from pruning. A living one renews its
	// turn long before: no chunk takes longer than half of it.
	Turn = time.Minute
	// Renew is how often a turn is renewed while chunks are removed.
	Renew = Turn / 4
	// FarAhead is the distance beyond which a time in the future is one from before the clock was set back.
	FarAhead = time.Hour

	// settled is how long after its time of receipt an event is visible: the longest transaction of a
	// claim. A mark stays so far behind the present time.
	settled = 10 * time.Minute
	// wholeShare is how much longer than a look at everything pruning waits for the next one.
	wholeShare = 50
	maxWhole   = FarAhead
)

// Marks are times by source. Every event of the source that was received before the mark of its source
// is gone, or had to stay when a pass came to it. The source "" stands for those that are not in
// the map.
type Marks map[string]time.Time

// of returns the mark of a source. A source that is registered for the first time was one of the
// others before.
func (m Marks) of(source string) time.Time {
	if mark, ok := m[source]; ok {
		return mark
	}
	return m[""]
}

// State is what passes leave to the next ones. Stores keep its text.
//
// An event that stays because it is unfinished, or was finished late, lies behind the mark. It is looked at again when the next
// look at everything comes by: once a look at everything has been cheap, with every pass; otherwise
// within about an hour.
type State struct {
	Events Marks `json:"events,omitempty"`
	Bodies Marks `json:"bodies,omitempty"`
	// Since is when the look at everything began that is not complete; zero if there is none.
	Since time.Time `json:"since,omitzero"`
	// Next is when the next one begins.
	Next time.Time `json:"next,omitzero"`
}

// Text returns the form that Begin reads.
func (s *State) Text() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // a time after the year 9999: everything is looked at again
	}
	return string(text)
}

// Begin returns the state of a pass that begins at now. A text that it cannot read is that of no
// pass. everything demands a look at everything.
func Begin(text string, now time.Time, everything bool) *State {
	s := &State{}
	if json.Unmarshal([]byte(text), s) != nil {
		s = &State{}
	}
	running := !s.Since.IsZero() && !s.Since.After(now)
	due := !s.Next.After(now) || s.Next.After(now.Add(FarAhead))
	if everything || due && !running {
		s.Events, s.Bodies, s.Since = nil, nil, now
	}
	return s
}

// Complete says that a pass that ends at now has looked at everything that it began with.
func (s *State) Complete(now time.Time) {
	if s.Since.IsZero() {
		return
	}
	s.Next = now.Add(min(wholeShare*max(now.Sub(s.Since), 0), maxWhole))
	s.Since = time.Time{}
}

// Walk is one walk over events in the order of their receipt: those of Sources, or of all others.
type Walk struct {
	Sources      []string
	Others       bool
	From, Before time.Time // by the time of receipt; Before is not part of it

	moves []string // the sources of its marks
}

// Holds reports whether a source belongs to the walk.
func (w *Walk) Holds(source string) bool { return slices.Contains(w.Sources, source) != w.Others }

// Walks returns a walk for each length of a window, the longest first, so that the oldest events go
// first. It drops the marks of sources that have no windows any more: they are some of the others.
func (m *Marks) Walks(windows driver.Windows, of func(driver.Kept) time.Duration, now time.Time) []Walk {
	if *m == nil {
		*m = Marks{}
	}
	for source, mark := range *m {
		if _, ok := windows[source]; !ok {
			if mark.Before((*m)[""]) {
				(*m)[""] = mark
			}
			delete(*m, source)
		}
	}
	for source := range windows {
		(*m)[source] = m.of(source)
	}
	byLength := map[time.Duration]*Walk{}
	for source, kept := range windows {
		length := of(kept)
		w := byLength[length]
		if w == nil {
			w = &Walk{Sources: []string{}, Before: now.Add(-length), From: (*m)[source]}
			byLength[length] = w
		}
		if mark := (*m)[source]; mark.Before(w.From) {
			w.From = mark
		}
		w.moves = append(w.moves, source)
		w.Others = w.Others || source == ""
	}
	walks := make([]Walk, 0, len(byLength))
	for length, w := range byLength {
		for source, kept := range windows {
			if source != "" && (of(kept) == length) != w.Others {
				w.Sources = append(w.Sources, source)
			}
		}
		slices.Sort(w.Sources)
		walks = append(walks, *w)
	}
	slices.SortFunc(walks, func(a, b Walk) int { return a.Before.Compare(b.Before) })
	return walks
}

// Move records that a walk has looked at all events before a time.
//
// A mark never lies behind the end of its window, so that a clock that was ahead leaves none in the
// future.
func (m Marks) Move(w *Walk, to, now time.Time) {
	last := w.Before
	if visible := now.Add(-settled); visible.Before(last) {
		last = visible
	}
	for _, source := range w.moves {
		mark := m[source]
		if to.After(mark) {
			mark = to
		}
		if mark.After(last) {
			mark = last
		}
		m[source] = mark
	}
}
