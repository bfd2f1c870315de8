package driver

import (
	"context"
	"errors"
	"math"
	"time"
)

// WindowsHold is how long registered windows hold after they were registered last. Until then they
// also hold for sources that their process no longer has.
const WindowsHold = 7 * 24 * time.Hour

// PruneParams are the windows of one process. They are the parameters of Store.Prune and
// Store.RegisterWindows.
//
// A window that is not positive is an error, so that an unset one does not mean "keep nothing". In
// Sources it stands for the window of all other sources.
type PruneParams struct {
	// DedupeWindow is how long an identity is kept after the last thing that can make its sender send again: it was received,
	// delivered again, processed, sent, given up, or changed by an operator.
	DedupeWindow time.Duration
	Retention    time.Duration // how long bodies and headers are kept after the event was received, if it is finished
	// Sources are all sources that the process knows. The windows above hold for the others.
	Sources map[string]SourceWindows
	// QuarantineRows is the number of quarantined requests kept for each source, the latest first;
	// 0 keeps all within Retention.
	QuarantineRows int
	// Background prunes beside other work. Prune then does nothing while another call prunes, and
	// gives way to one that is not in the background. It goes on where the passes before it ended, and
	// looks at the events that they left only now and then.
	Background bool
	Chunk      int // number of rows of one step at most; 0 means as many as take a few milliseconds
	// Rest is the rest after each step, in multiples of the step's duration, for 15 s at most; 0 means no rest.
	Rest float64
	Now  time.Time // tests only; zero means the database's clock
}

// longestRest is shorter than the turn of a process that prunes.
const longestRest = 15 * time.Second

// Pause rests after a step that started at began, as p.Rest says, for 15 s at most. Stores call it between two
// steps, outside any transaction. If ctx ends first, Pause returns its error.
func (p *PruneParams) Pause(ctx context.Context, began time.Time) error {
	rest := min(p.Rest*float64(time.Since(began)), float64(longestRest))
	timer := time.NewTimer(time.Duration(rest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SourceWindows are the windows of one source.
type SourceWindows struct {
	DedupeWindow time.Duration
	Retention    time.Duration
}

// PruneResult counts the rows that Prune removed.
type PruneResult struct {
	Events      int64 // identities, with all their rows
	Bodies      int64 // bodies and headers of events whose identity is kept
	Quarantined int64
	// Further says that a call that failed has left a mark for the next one, which goes on from there.
	Further bool
}

// Total returns the number of all removed rows.
func (r *PruneResult) Total() int64 { return r.Events + r.Bodies + r.Quarantined }

// Windows hold how long the rows of each source are kept. The source "" stands for all sources that
// are not in the map: those that no process registered.
type Windows map[string]Kept

// Kept is how long, and how many, rows of a source are kept.
type Kept struct {
	SourceWindows
	QuarantineRows int64 // at least 1
}

// Windows returns the windows of p alone.
func (p *PruneParams) Windows() (Windows, error) {
	if p.DedupeWindow <= 0 || p.Retention <= 0 {
		return nil, errors.New("pruning: the dedupe window and the retention must be positive")
	}
	rows := int64(p.QuarantineRows)
	if rows <= 0 {
		rows = math.MaxInt64
	}
	w := Windows{"": {SourceWindows{p.DedupeWindow, p.Retention}, rows}}
	for source, own := range p.Sources {
		if own.DedupeWindow <= 0 {
			own.DedupeWindow = p.DedupeWindow
		}
		if own.Retention <= 0 {
			own.Retention = p.Retention
		}
		if source != "" && IsText(source) {
			w[source] = Kept{own, rows}
		}
	}
	return w, nil
}

// Extend makes the windows of a source as long as k, if they are shorter.
func (w Windows) Extend(source string, k Kept) {
	has := w[source]
	w[source] = Kept{
		SourceWindows{max(has.DedupeWindow, k.DedupeWindow), max(has.Retention, k.Retention)},
		max(has.QuarantineRows, k.QuarantineRows),
	}
}

// Of returns the windows that hold for a source.
func (w Windows) Of(source string) Kept {
	if k, ok := w[source]; ok {
		return k
	}
	return w[""]
}
