package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Figures are sums over time: how many deliveries, attempts and events there were, and how long they
// took. They are added up beforehand, so no reader counts rows. They are for people: a killed process
// loses the figures that it did not add yet.
type Figures interface {
	// AddFigures adds to the sums of every resolution, in one commit. An hour of a source has at
	// most MaxTypes types; events of further ones are added to OtherType. Calls at the same moment
	// may exceed that by the types of one call.
	AddFigures(ctx context.Context, p *AddFiguresParams) error

	// Series returns the sums that f selects, by time, name and label. Spans without a figure have no
	// point. If there are more than f.Limit points, it returns f.Limit + 1 of them.
	Series(ctx context.Context, f *SeriesFilter) ([]Point, error)
}

// FigureKind is the kind of a figure. Its number is the one in the tables.
type FigureKind int

const (
	// FigureDeliveries are answered deliveries: by source, labelled with their outcome, with the
	// time to the answer.
	FigureDeliveries FigureKind = iota
	// FigureRefusals are refused deliveries: by source, labelled with the reason.
	FigureRefusals
	// FigureAttempts are attempts to send messages: by destination, labelled with their outcome, with
	// the duration of the attempt.
	FigureAttempts
	// FigureDuplicates are deliveries of claimed events: by source, with the age of the event, which
	// shows whether the dedupe window is long enough. They have no label.
	FigureDuplicates
	// FigureBacklog is the work that waits, sampled from time to time: by source or destination, with
	// one of the labels below. A span holds the most that any process saw in it, not a sum.
	FigureBacklog
	// FigureTypes are claimed events: by source, labelled with their type. They exist by the hour.
	FigureTypes
)

// The labels of FigureBacklog. The ages are in seconds, from the due time of the oldest.
const (
	BacklogEvents      = "events" // by source
	BacklogEventsAge   = "events_age"
	BacklogMessages    = "messages" // by destination
	BacklogMessagesAge = "messages_age"
)

// Gauge reports whether figures of this kind are samples, so that a span holds the highest one.
func (k FigureKind) Gauge() bool { return k == FigureBacklog }

// FigureBuckets is how many buckets the durations of a figure fall into.
const FigureBuckets = 15

// Bounds returns the upper bounds of the buckets of a kind, each included. The last bucket has no
// bound. It returns nil for a kind without durations.
func (k FigureKind) Bounds() []time.Duration {
	switch k {
	case FigureDeliveries:
		return ackBounds[:]
	case FigureAttempts:
		return attemptBounds[:]
	case FigureDuplicates:
		return ageBounds[:]
	}
	return nil
}

var (
	ackBounds = [FigureBuckets - 1]time.Duration{
		1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, 1 * time.Second, 2 * time.Second,
		3 * time.Second, 5 * time.Second, 10 * time.Second,
	}
	attemptBounds = [FigureBuckets - 1]time.Duration{
		5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
		250 * time.Millisecond, 500 * time.Millisecond, 1 * time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
		15 * time.Second, 30 * time.Second, 60 * time.Second,
	}
	ageBounds = [FigureBuckets - 1]time.Duration{
		1 * time.Second, 10 * time.Second, 1 * time.Minute, 5 * time.Minute, 15 * time.Minute, 1 * time.Hour, 3 * time.Hour, 6 * time.Hour,
		12 * time.Hour, 1 * day, 2 * day, 3 * day, 7 * day, 30 * day,
	}
)

const (
	// MaxTypes is how many types of a source have figures of their own in one hour.
	MaxTypes = 500
	// OtherType is the type of the events beyond MaxTypes.
	OtherType = "other"
	// MaxFigureText bounds the names and labels of figures, in bytes.
	MaxFigureText = 255
)

// Figure is a sum over a span of time.
type Figure struct {
	Of FigureKind
	// At is in the span, by the clock of the process.
	At      time.Time
	Name    string // of the source or destination; "" for an unknown source; at most MaxFigureText bytes
	Label   string // see FigureKind; at most MaxFigureText bytes
	N       int64
	Buckets [FigureBuckets]int64 // how many of N had which duration; those of unknown duration are in none
}

// AddFiguresParams are the parameters of Figures.AddFigures.
type AddFiguresParams struct {
	Figures []Figure
}

// Check returns an error if a figure has a name or a label that a store cannot store.
func (p *AddFiguresParams) Check() error {
	for i := range p.Figures {
		for _, text := range [...]string{p.Figures[i].Name, p.Figures[i].Label} {
			if !IsText(text) || len(text) > MaxFigureText {
				return fmt.Errorf("%w: the figure of %.40q and %.40q: a name or label must be valid UTF-8 without NUL, of at most %d bytes",
					ErrBadRow, p.Figures[i].Name, p.Figures[i].Label, MaxFigureText)
			}
		}
	}
	return nil
}

// Resolution is the length of the spans of figures, which begin and end in UTC. Its number is the
// one in the tables.
type Resolution int

const (
	ByMinute Resolution = iota
	ByHour
	ByDay
)

// Resolutions lists the resolutions, finest first.
func Resolutions() []Resolution { return []Resolution{ByMinute, ByHour, ByDay} }

const day = 24 * time.Hour

// Span returns the length of a span.
func (r Resolution) Span() time.Duration {
	return [...]time.Duration{time.Minute, time.Hour, day}[r]
}

// Kept returns how long Prune keeps the figures of a resolution.
func (r Resolution) Kept() time.Duration {
	return [...]time.Duration{48 * time.Hour, 90 * day, 730 * day}[r]
}

// Start returns the beginning of the span that holds t.
func (r Resolution) Start(t time.Time) time.Time {
	return t.UTC().Truncate(r.Span())
}

// SeriesFilter selects figures.
type SeriesFilter struct {
	Of         FigureKind
	Resolution Resolution // FigureTypes exist ByHour alone
	Name       string     // "" adds up all sources, or all destinations
	Label      string     // "" selects all labels
	// ByName keeps sources or destinations apart, as Point.Name. Otherwise they are added up; of the
	// ages of FigureBacklog, the highest counts.
	ByName bool
	Since  time.Time // the first span begins at or after
	Until  time.Time // the last span begins before
	Limit  int       // at least 1
}

// Point is a sum over the span that begins at At.
type Point struct {
	At      time.Time
	Name    string // "" unless SeriesFilter.ByName
	Label   string
	N       int64
	Buckets [FigureBuckets]int64
}

// Rollup is a Figure as a table holds it. Its At is the beginning of a span.
type Rollup struct {
	Resolution Resolution
	Figure
}

// Rollups returns figures as the tables hold them: one for each resolution, each kind, span, name and
// label at most once, sorted by these. The order keeps concurrent writers from deadlocking. Figures
// of types are apart, in types, with the resolution ByHour.
func Rollups(figures []Figure) (sums, types []Rollup) {
	for i := range figures {
		f := figures[i]
		if f.Of == FigureTypes {
			f.At = ByHour.Start(f.At)
			types = append(types, Rollup{ByHour, f})
			continue
		}
		for _, r := range Resolutions() {
			f.At = r.Start(figures[i].At)
			sums = append(sums, Rollup{r, f})
		}
	}
	return addUp(sums), addUp(types)
}

func addUp(all []Rollup) []Rollup {
	slices.SortStableFunc(all, compareRollups)
	sums := all[:0]
	for i := range all {
		if n := len(sums); n > 0 && compareRollups(sums[n-1], all[i]) == 0 {
			sums[n-1].add(&all[i].Figure)
		} else {
			sums = append(sums, all[i])
		}
	}
	return sums
}

func compareRollups(a, b Rollup) int {
	return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Resolution, b.Resolution), a.At.Compare(b.At),
		strings.Compare(a.Name, b.Name), strings.Compare(a.Label, b.Label))
}

func (f *Figure) add(more *Figure) {
	if f.Of.Gauge() {
		f.N = max(f.N, more.N)
		return
	}
	f.N += more.N
	for i, n := range more.Buckets {
		f.Buckets[i] += n
	}
}
