package storetest

import (
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func undiscardCases() []testCase {
	return []testCase{
		{"AsBefore", undiscardAsBefore},
		{"OnlyUnchanged", undiscardOnlyUnchanged},
		{"InSteps", undiscardInSteps},
		{"UnderALease", undiscardUnderALease},
		{"Discards", discardsTold},
		{"OldLetters", undiscardOld},
	}
}

func (f *fixture) discardAs(operation string, at time.Time, letters ...driver.DeadLetterRef) {
	f.Helper()
	done, err := f.s.Discard(f.Context(), &driver.DeadLetterParams{Letters: letters, Operation: operation, Now: at})
	if err != nil {
		f.Fatalf("Discard: %v", err)
	}
	for i, ok := range done {
		if !ok {
			f.Fatalf("letter %d was not discarded", i)
		}
	}
}

func (f *fixture) undiscard(p *driver.UndiscardParams) driver.Undiscarded {
	f.Helper()
	got, err := f.s.Undiscard(f.Context(), p)
	if err != nil {
		f.Fatalf("Undiscard(%+v): %v", p, err)
	}
	return *got
}

// killAll makes n messages of a destination dead.
func (f *fixture) killAll(at time.Time, destination string, n int) {
	f.Helper()
	var completions []driver.Completion
	for _, m := range f.lease(at, destination, n) {
		completions = append(completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "gone 410"})
	}
	f.mustComplete(at, completions...)
}

// undiscardAsBefore compares letters from before a discard with those from after it was undone: of
// messages, of an event that is dead itself, and of an undecided one.
func undiscardAsBefore(f *fixture) {
	c, queued := newClaim("stripe", "evt_1", "{}", "a", "b"), newClaim("stripe", "evt_2", "{}")
	queued.Work = driver.WorkQueued
	f.claimNew(t0, c, queued)
	f.kill(t0, "to-a")
	f.replayDead(t0, letter(&c, 0)) // its next death is of another generation
	f.kill(t0.Add(time.Second), "to-a")
	f.kill(t0.Add(2*time.Second), "to-b")
	f.killQueued(queued.Key)
	undecided := f.dieUndecided(t0, "stripe", "evt_3", "slow")
	before := f.deadLetters(&driver.MessageFilter{})
	events := []*driver.EventDetail{f.event("stripe", "evt_1"), f.event("stripe", "evt_2"), f.event("stripe", "evt_3")}

	at := t0.Add(time.Minute)
	f.discardAs("req", at, letter(&c, 0), letter(&c, 1), driver.DeadLetterRef{Key: queued.Key}, driver.DeadLetterRef{Key: undecided.Key})
	same(f, "dead letters after the discard", driver.DeadLetterPage{}, *f.deadLetters(&driver.MessageFilter{}))
	at = at.Add(time.Minute)
	same(f, "undone", driver.Undiscarded{Held: true, Undone: 4}, f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 200, Now: at}))
	same(f, "dead letters", before, f.deadLetters(&driver.MessageFilter{}))
	for _, want := range events {
		got := f.event(want.Source, want.EventID)
		added := got.History[len(want.History):]
		for i, h := range added {
			action, when := driver.ActionDiscarded, at.Add(-time.Minute)
			if i >= len(added)/2 {
				action, when = driver.ActionUndone, at
			}
			if h.Action != action || h.RequestID != "req" || !h.At.Equal(when) || h.Generation != want.Generation && h.MessageID == "" {
				f.Errorf("entry %d of the history of %s is %+v, want %s", i, want.EventID, h, action)
			}
		}
		got.History = want.History
		same(f, "event "+want.EventID, want, got)
	}
	same(f, "undone again", driver.Undiscarded{Held: true, Skipped: 4}, f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 200, Now: at}))
	same(f, "dead letters after that", before, f.deadLetters(&driver.MessageFilter{}))
	// An undecided event is undecided again: only Replay decides it.
	same(f, "replayed", []bool{true, true, true, false},
		f.replayDead(at, letter(&c, 0), letter(&c, 1), driver.DeadLetterRef{Key: queued.Key}, driver.DeadLetterRef{Key: undecided.Key}))
}

// undiscardOnlyUnchanged passes over letters that changed since they were discarded.
func undiscardOnlyUnchanged(f *fixture) {
	replayed, died, again, pruned, kept := newClaim("stripe", "replayed", "{}", "a"), newClaim("stripe", "died", "{}", "b"),
		newClaim("stripe", "again", "{}", "c"), newClaim("stripe", "pruned", "{}", "d"), newClaim("stripe", "kept", "{}", "e")
	all := []driver.Claim{replayed, died, again, pruned, kept}
	f.claimNew(t0, replayed, died, again, kept)
	f.claimNew(t0.Add(-60*day), pruned)
	for i, at := range []time.Time{t0, t0, t0, t0.Add(-60 * day), t0} {
		f.kill(at, all[i].Messages[0].Destination)
		f.discardAs("req", at, letter(&all[i], 0))
	}
	f.replayAt(t0, replayed.Key, driver.ReplayPlain)
	f.replayAt(t0, died.Key, driver.ReplayPlain)
	f.kill(t0, "to-b")
	f.discardAs("other", t0, letter(&died, 0))
	same(f, "undone", driver.Undiscarded{Held: true, Undone: 0}, f.undiscard(&driver.UndiscardParams{Operation: "unknown", Limit: 200, Now: t0}))
	f.prune(windows(30*day, t0.Add(driver.UndoTime+time.Second)))
	f.absent("stripe", "pruned")
	// Undone and discarded by another request: the first request has no say any more.
	same(f, "undone", driver.Undiscarded{Held: true, Undone: 2, Skipped: 2}, f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 200, Now: t0}))
	f.discardAs("other", t0, letter(&again, 0))
	want := f.event("stripe", "again")
	same(f, "undone again", driver.Undiscarded{Held: true, Skipped: 4}, f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 200, Now: t0}))
	f.sameEvent(want)
	for id, state := range map[string]string{
		"replayed": driver.StateRunning, "died": driver.StateSkipped, "again": driver.StateSkipped, "kept": driver.StateDead,
	} {
		if got := f.event("stripe", id).State; got != state {
			f.Errorf("%s is %s, want %s", id, got, state)
		}
	}
	same(f, "undone by the other", driver.Undiscarded{Held: true, Undone: 2}, f.undiscard(&driver.UndiscardParams{Operation: "other", Limit: 200, Now: t0}))
}

func undiscardInSteps(f *fixture) {
	all := newClaims(5, "a")
	f.claimNew(t0, all...)
	f.killAll(t0, "to-a", len(all))
	for i := range all {
		f.discardAs("req", t0, letter(&all[i], 0))
	}
	var undone []int
	p := &driver.UndiscardParams{Operation: "req", Limit: 2, Now: t0}
	for {
		got := f.undiscard(p)
		undone = append(undone, got.Undone)
		if p.After = got.Next; p.After == "" {
			break
		}
	}
	same(f, "undone in steps", []int{2, 2, 1}, undone)
	if got := f.deadLetters(&driver.MessageFilter{}).DeadLetters; len(got) != len(all) {
		f.Errorf("%d letters are dead, want %d", len(got), len(all))
	}
}

// undiscardUnderALease undoes in the steps of a job.
func undiscardUnderALease(f *fixture) {
	all := newClaims(3, "a")
	f.claimNew(t0, all...)
	f.killAll(t0, "to-a", len(all))
	for i := range all {
		f.discardAs("req", t0, letter(&all[i], 0))
	}
	f.addJob(&driver.AddJobParams{ID: "job_1", Start: true, Now: t0})
	step := &driver.JobStep{ID: "job_1", Fence: f.takeJob("a", t0).Fence, For: jobLease, Now: t0}
	lost := *step
	lost.Fence--
	same(f, "under a lost lease", driver.Undiscarded{}, f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 2, Step: &lost, Now: t0}))
	first := f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 2, Step: step, Now: t0})
	job := f.job("job_1")
	if first.Undone != 2 || first.Next == "" || job.Done != 2 || job.State != driver.JobRunning || job.Cursor == "" {
		f.Errorf("undid %+v, and the job is %+v", first, job)
	}
	f.replayDead(t0, letter(&all[0], 0), letter(&all[1], 0), letter(&all[2], 0))
	f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 2, After: first.Next, Step: step, Now: t0})
	if job = f.job("job_1"); job.Done != 3 || job.State != driver.JobDone || !job.FinishedAt.Equal(t0) {
		f.Errorf("the job is %+v, want it done", job)
	}
}

func discardsTold(f *fixture) {
	for _, unknown := range []string{"", "req", "a\x00", "\xff"} {
		if got, err := f.s.Discards(f.Context(), unknown); !errors.Is(err, driver.ErrNotFound) {
			f.Errorf("Discards(%q): %+v, %v", unknown, got, err)
		}
	}
	c := newClaim("stripe", "evt_1", "{}", "a", "b", "c")
	f.claimNew(t0, c)
	for _, destination := range []string{"to-a", "to-b", "to-c"} {
		f.kill(t0, destination)
	}
	tell := func(what string, want driver.Discarded) {
		f.Helper()
		got, err := f.s.Discards(f.Context(), "req")
		if err != nil {
			f.Fatal(err)
		}
		same(f, what, want, *got)
	}
	// Recent is by the database's clock.
	f.discardAs("req", time.Now().Add(-driver.UndoTime-time.Hour), letter(&c, 0))
	tell("an old discard", driver.Discarded{Count: 1})
	f.discardAs("req", time.Time{}, letter(&c, 1))
	f.discard(t0, letter(&c, 2)) // of no operation
	tell("a discard in several calls", driver.Discarded{Count: 2, Recent: true})
}

// undiscardOld discards letters that are older than every window. They keep their bodies as long as the last discard of
// their operation can be undone.
func undiscardOld(f *fixture) {
	first, second := newClaim("stripe", "first", "{}", "a"), newClaim("stripe", "second", "{}", "b")
	f.claimNew(t0, first, second)
	f.kill(t0, "to-a")
	f.kill(t0, "to-b")
	now, short := t0.Add(100*day), time.Minute
	f.discardAs("req", now, letter(&first, 0))
	now = now.Add(driver.UndoTime - time.Second)
	f.discardAs("req", now, letter(&second, 0))
	now = now.Add(driver.UndoTime - time.Second)
	same(f, "pruned while the discards can be undone", driver.PruneResult{}, f.prune(windows(short, now)))
	same(f, "undone", driver.Undiscarded{Held: true, Undone: 2}, f.undiscard(&driver.UndiscardParams{Operation: "req", Limit: 200, Now: now}))
	for _, c := range []driver.Claim{first, second} {
		if got := f.event("stripe", c.EventID); got.State != driver.StateDead || string(got.Body) != "{}" {
			f.Errorf("the event is %+v, want it dead, with its body", got)
		}
	}
	f.discardAs("again", now, letter(&first, 0))
	now = now.Add(driver.UndoTime + time.Second)
	// A job that undoes the discard may have to wait for its turn, and take long.
	f.addJob(&driver.AddJobParams{ID: "undo", JobSpec: driver.JobSpec{
		Of: driver.JobOfDeadLetters, Action: driver.JobUndo, Filter: `{"request_id":"again"}`,
	}, Start: true, Now: now})
	same(f, "pruned while a job undoes the discard", driver.PruneResult{}, f.prune(windows(short, now)))
	f.cancelJob("undo", now)
	// A letter without its body could neither be sent nor reopened.
	same(f, "only the body is pruned", driver.PruneResult{Bodies: 1},
		f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: short, Now: now}))
	same(f, "undone without a body", driver.Undiscarded{Held: true, Skipped: 1},
		f.undiscard(&driver.UndiscardParams{Operation: "again", Limit: 200, Now: now}))
	now = now.Add(driver.UndoTime)
	same(f, "pruned later", driver.PruneResult{Events: 1}, f.prune(windows(short, now)))
	f.absent("stripe", "first")
}
