package walk

import (
	"slices"
	"time"
)

const (
	// margin is the greatest assumed difference between the clocks of figures and of events.
	margin = time.Minute
	// inFull is the longest time that a listing reads in full, without regard to the figures.
	inFull = 24 * time.Hour
)

// Skips reports whether a listing of events may leave out the hours without a matching
// event in the figures. It may not if the caller asks for at most a day: a killed process loses figures, so
// that is how to look for an event that they do not know.
func Skips(source, eventType string, since, until time.Time) bool {
	if source == "" && eventType == "" {
		return false
	}
	if until.IsZero() {
		until = time.Now()
	}
	return since.IsZero() || until.Sub(since) > inFull
}

// Hours returns the spans of a listing, if figures with a matching event exist for the given hours.
// Figures of any event exist from the hour oldest to the hour newest; the times before and after are
// unknown. Without any figures Hours returns nil.
func Hours(hours []time.Time, oldest, newest time.Time) []Span {
	if oldest.IsZero() {
		return nil
	}
	hours = slices.SortedFunc(slices.Values(hours), func(a, b time.Time) int { return b.Compare(a) })
	spans := []Span{{From: newest.Add(-margin)}}
	for _, start := range hours {
		spans = join(spans, Span{From: start.Add(-margin), To: start.Add(time.Hour + margin)})
	}
	return join(spans, Span{To: oldest.Add(margin)})
}

// join appends a span that begins before the last one, or extends the last one.
func join(spans []Span, s Span) []Span {
	if last := &spans[len(spans)-1]; !s.To.Before(last.From) {
		last.From = s.From
		return spans
	}
	return append(spans, s)
}
