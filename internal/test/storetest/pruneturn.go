package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func pruneTurnCases() []testCase {
	return []testCase{
		{"OneAtATime", pruneOneAtATime},
		{"GoesOn", pruneGoesOn},
		{"GoesOnForBodies", pruneGoesOnForBodies},
		{"ShorterWindow", pruneShorterWindow},
		{"InTurn", pruneInTurn},
	}
}

// background returns p for pruning in the background.
func background(p *driver.PruneParams) *driver.PruneParams {
	p.Background = true
	return p
}

// pruneOneAtATime has a call in the background that rests forever in its turn. Others in the background
// leave the turn to it. A call that is not in the background takes the turn over.
func pruneOneAtATime(f *fixture) {
	const all, step = 10, 3
	for i := range all {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("evt_", i), "{}"))
	}
	params := func() *driver.PruneParams {
		p := windows(day, t0.Add(2*day))
		p.Chunk = step
		return p
	}
	resting := background(params())
	resting.Rest = 1e6
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := f.s.Prune(ctx, resting)
		ended <- err
	}()
	left := func() int { return len(idsOf(f.events(&driver.EventFilter{}))) }
	for left() == all && len(ended) == 0 { // until the first step is done
	}
	same(f, "pruned beside another", driver.PruneResult{}, f.prune(background(params())))
	same(f, "left", all-step, left())
	same(f, "pruned in its place", driver.PruneResult{Events: all - step}, f.prune(params()))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.Errorf("Prune returned %v after its context had ended, want context.Canceled", err)
	}
	f.claimNew(t0, newClaim("stripe", "evt_0", "{}"))
	same(f, "pruned in the background afterwards", driver.PruneResult{Events: 1}, f.prune(background(windows(day, t0.Add(4*day)))))
}

// pruneInTurn prunes by many calls at once that all wait for their turn.
func pruneInTurn(f *fixture) {
	const all, calls = 40, 8
	for i := range all {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("evt_", i), "{}"))
	}
	results, errs := make(chan driver.PruneResult, calls), make(chan error, calls)
	for range calls {
		go func() {
			p := windows(day, t0.Add(2*day))
			p.Chunk = 7
			result, err := f.s.Prune(f.Context(), p)
			results <- *result
			errs <- err
		}()
	}
	var removed int64
	for range calls {
		if err := <-errs; err != nil {
			f.Errorf("Prune: %v", err)
		}
		removed += (<-results).Events
	}
	same(f, "pruned by all", int64(all), removed)
}

// pruneGoesOn prunes in the background. An event that was unfinished when a pass came by stays until a pass
// looks at everything again.
func pruneGoesOn(f *fixture) {
	late := newClaim("stripe", "late", "late", "late")
	f.claimNew(t0, late, newClaim("stripe", "early", "early"))
	now := t0.Add(11 * day)
	p := func(at time.Time) *driver.PruneParams { return background(windows(10*day, at)) }
	same(f, "pruned", driver.PruneResult{Events: 1}, f.prune(p(now)))

	f.sendOne(t0, "to-late")
	f.claimNew(t0.Add(time.Hour), newClaim("stripe", "next", "next"))
	same(f, "pruned from the mark on", driver.PruneResult{}, f.prune(p(now)))
	f.claimNew(now.Add(-time.Second-10*day), newClaim("stripe", "newer", "newer"))
	same(f, "pruned when it is past its window", driver.PruneResult{Events: 3}, f.prune(p(now.Add(3*time.Hour))))
	f.absent("stripe", "late")
}

// pruneGoesOnForBodies does the same with bodies. An event whose message was sent late has its body until a
// pass that looks at everything.
func pruneGoesOnForBodies(f *fixture) {
	late := newClaim("stripe", "late", "late", "late")
	f.claimNew(t0, late, newClaim("stripe", "early", "early"))
	now := t0.Add(11 * day)
	prune := func(at time.Time) driver.PruneResult {
		f.Helper()
		return f.prune(background(&driver.PruneParams{DedupeWindow: 1000 * day, Retention: 10 * day, Now: at}))
	}
	same(f, "pruned", driver.PruneResult{Bodies: 1}, prune(now))
	f.sendOne(t0, "to-late")
	same(f, "pruned from the mark on", driver.PruneResult{}, prune(now))
	same(f, "pruned by a look at everything", driver.PruneResult{Bodies: 1}, prune(now.Add(2*time.Hour)))
}

// pruneShorterWindow makes a window shorter, and registers the source of one. The next pass in the
// background prunes the events that are past the windows now.
func pruneShorterWindow(f *fixture) {
	now := t0.Add(31 * day)
	for i, source := range []string{"stripe", "other", "new"} {
		f.claimNew(t0, newClaim(source, "old", fmt.Sprint("old ", i)))
		f.claimNew(t0.Add(20*day), newClaim(source, "young", fmt.Sprint("young ", i)))
	}
	p := background(windows(30*day, now))
	same(f, "pruned", driver.PruneResult{Events: 3}, f.prune(p))
	p.Sources = map[string]driver.SourceWindows{"stripe": {DedupeWindow: 10 * day}, "new": {DedupeWindow: 5 * day}}
	same(f, "pruned with shorter windows", driver.PruneResult{Events: 2}, f.prune(p))
	f.event("other", "young")
	p.Sources = nil
	p.DedupeWindow, p.Retention = 10*day, 10*day
	same(f, "pruned without the sources", driver.PruneResult{Events: 1}, f.prune(p))
}
