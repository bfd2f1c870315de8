package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/tell"
)

// Letters is a change of dead letters.
type Letters struct {
	// Filters select the letters; their State and Limit are ignored.
	Filters   []driver.MessageFilter
	Named     bool       // each filter is for one event or message that the operator named
	Operation string     // the id of the request. Undo finds a discard by it; "" for none
	Rate      limit.Rate // the pace; zero for the default
}

// Worked is the result of work on dead letters. See hookonce.Worked.
type Worked struct {
	Done   int
	Passed int
	Next   driver.Cursor
}

func (w *Worked) add(more *Worked) {
	w.Done, w.Passed, w.Next = w.Done+more.Done, w.Passed+more.Passed, more.Next
}

// ReplayDead makes dead letters due again. See hookonce.Engine.ReplayDead.
func (o *Operator) ReplayDead(ctx context.Context, which *Letters) (Worked, error) {
	worked, err := o.workOn(ctx, which, defaults.ReplayRate, &letterWork{action: tell.Replayed, do: o.store.ReplayDead, again: o.replayUndecided})
	if worked.Done+worked.Passed > 0 {
		o.log.Info("dead letters replayed", slog.Int("replayed", worked.Done), slog.Int("passed", worked.Passed))
		o.opts.Wake()
	}
	if err != nil {
		return worked, fmt.Errorf("hookonce: replay dead letters: %w", err)
	}
	return worked, nil
}

// Discard gives dead letters up. See hookonce.Engine.Discard.
func (o *Operator) Discard(ctx context.Context, which *Letters) (Worked, error) {
	worked, err := o.workOn(ctx, which, limit.Unpaced, &letterWork{action: tell.Discarded, do: o.store.Discard})
	if worked.Done+worked.Passed > 0 {
		o.log.Info("dead letters discarded", slog.Int("discarded", worked.Done), slog.Int("passed", worked.Passed))
	}
	if err != nil {
		return worked, fmt.Errorf("hookonce: discard dead letters: %w", err)
	}
	return worked, nil
}

// letterWork is the work on dead letters.
type letterWork struct {
	action    string // for the observer
	operation string
	do        func(context.Context, *driver.DeadLetterParams) ([]bool, error)
	// again works on a letter that do skipped, tells the observer, and reports whether it did. nil
	// leaves such letters alone.
	again func(context.Context, *driver.DeadLetter) (bool, error)
}

// replayUndecided replays a letter that needs its routes matched again.
func (o *Operator) replayUndecided(ctx context.Context, l *driver.DeadLetter) (bool, error) {
	if l.MessageID != "" || !strings.HasPrefix(l.LastError, driver.NoteUndecided) {
		return false, nil
	}
	_, err := o.Replay(ctx, &ReplayRequest{Source: l.Source, EventID: l.EventID})
	for _, refused := range []error{driver.ErrUndecided, driver.ErrNoRoute, driver.ErrOpen, driver.ErrModeNeeded, driver.ErrNotFound, driver.ErrBodyPruned, driver.ErrLockTimeout} {
		if errors.Is(err, refused) {
			return false, nil
		}
	}
	return err == nil, err
}

func (o *Operator) workOn(ctx context.Context, which *Letters, rate limit.Rate, work *letterWork) (Worked, error) {
	if err := errors.Join(which.Rate.Check(), CheckRequestID(which.Operation)); err != nil {
		return Worked{}, err
	}
	work.operation = which.Operation
	if which.Rate.Count > 0 {
		rate = which.Rate
	}
	pace := limit.NewPace(rate.Count, rate.Per)
	var all Worked
	for _, filter := range which.Filters {
		worked, err := o.workOnFiltered(ctx, filter, pace, work)
		if which.Named {
			if err == nil && worked == (Worked{}) {
				worked.Passed = 1
			}
			worked.Next = driver.Cursor{}
		}
		all.add(&worked)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// workOnFiltered goes through the listing once, starting at filter.After. A letter that died again
// after its replay stands before that place.
func (o *Operator) workOnFiltered(ctx context.Context, filter driver.MessageFilter, pace *limit.Bucket, work *letterWork) (Worked, error) {
	worked := Worked{Next: filter.After}
	for {
		chunk, err := o.workOnChunk(ctx, &filter, pace, work)
		if err != nil {
			return worked, err
		}
		worked.add(&chunk)
		if filter.After = worked.Next; filter.After.IsZero() {
			return worked, nil
		}
	}
}

// workOnChunk works on the first letters after filter.After: as many as the pace allows, and at
// most a page.
func (o *Operator) workOnChunk(ctx context.Context, filter *driver.MessageFilter, pace *limit.Bucket, work *letterWork) (Worked, error) {
	var err error
	if filter.Limit, err = pace.Await(ctx, driver.MaxLimit); err != nil {
		return Worked{}, err
	}
	page, err := o.store.DeadLetters(ctx, filter)
	if err != nil {
		return Worked{}, err
	}
	pace.GiveBack(filter.Limit - len(page.DeadLetters))
	if len(page.DeadLetters) == 0 {
		return Worked{Next: page.Next}, nil // a page may end at a bound without letters
	}
	letters := make([]driver.DeadLetterRef, len(page.DeadLetters))
	for i := range letters {
		letters[i] = driver.DeadLetterRef{Key: page.DeadLetters[i].Key, MessageID: page.DeadLetters[i].MessageID}
	}
	done, err := work.do(ctx, &driver.DeadLetterParams{Letters: letters, Operation: work.operation})
	if err != nil {
		return Worked{}, err
	}
	o.observeWorked(work.action, page.DeadLetters, done)
	worked := Worked{Next: page.Next}
	for i, ok := range done {
		if !ok && work.again != nil {
			if ok, err = work.again(ctx, &page.DeadLetters[i]); err != nil {
				return worked, err
			}
		}
		if ok {
			worked.Done++
		} else {
			worked.Passed++
		}
	}
	return worked, nil
}

// observeWorked tells the observer how many letters of each source are done.
func (o *Operator) observeWorked(action string, letters []driver.DeadLetter, done []bool) {
	counts := map[string]int{}
	for i, ok := range done {
		if ok {
			l := &letters[i]
			counts[l.Source]++
			o.opts.Tell.Changed(action, l.Source, l.EventID, l.Type, l.Destination, l.MessageID)
		}
	}
	for source, n := range counts {
		o.opts.Tell.Operated(action, source, n)
	}
}
