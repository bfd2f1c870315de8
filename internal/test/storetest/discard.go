package storetest

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

func lettersDiscard(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	f.kill(t0, "to-b")
	want := f.event("stripe", "evt_1")
	for n := range c.Messages {
		same(f, "discarded", []bool{true}, f.discard(t0, letter(&c, n)))
		skip(&want.Messages[n], driver.NoteDiscarded)
		derive(want)
		want.History = append(want.History, entry(driver.ActionDiscarded, c.Messages[n].ID, 0))
		f.shown(want)
	}
	if want.State != driver.StateSkipped || want.Note != driver.NoteDiscarded {
		f.Errorf("the event is %s with the note %q, want skipped and %q", want.State, want.Note, driver.NoteDiscarded)
	}
	same(f, "listing by note", []string{"evt_1"}, idsOf(f.events(&driver.EventFilter{Note: driver.NoteDiscarded})))
	f.noneDue(t0.Add(day), "to-a", "after it was discarded")
	same(f, "discarded again", []bool{false, false}, f.discard(t0, letter(&c, 0), letter(&c, 1)))
	same(f, "replayed after that", []bool{false}, f.replayDead(t0, letter(&c, 0)))
	f.shown(want)
}

// lettersDiscardRedelivery delivers a discarded event again. It is a duplicate but not dead, so
// nothing reopens it.
func lettersDiscardRedelivery(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	queued := newClaim("stripe", "evt_2", "{}")
	queued.Work = driver.WorkQueued
	f.claimNew(t0, c, queued)
	f.kill(t0, "to-a")
	f.killQueued(queued.Key)
	same(f, "duplicates of dead events", []driver.ClaimResult{{Duplicate: true, Dead: true}, {Duplicate: true, Dead: true}}, f.claim(t0, c, queued))
	same(f, "discarded", []bool{true, true}, f.discard(t0, letter(&c, 0), driver.DeadLetterRef{Key: queued.Key}))
	before := []*driver.EventDetail{f.event("stripe", "evt_1"), f.event("stripe", "evt_2")}
	for range 2 {
		same(f, "duplicates of discarded events", []driver.ClaimResult{{Duplicate: true}, {Duplicate: true}}, f.claim(t0.Add(day), c, queued))
		same(f, "reopened", []driver.Key(nil), f.reopen(t0.Add(day), c.Key, queued.Key))
	}
	f.sameEvent(before[0])
	f.sameEvent(before[1])
}

func lettersDiscardReplay(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	f.discard(t0, letter(&c, 0))
	want := f.event("stripe", "evt_1")
	same(f, "replayed", driver.Replayed{Generation: 1, Messages: 1}, f.replayAt(t0, c.Key, driver.ReplayPlain))
	due(&want.Messages[0], 1, t0)
	derive(want)
	want.History = append(want.History, driver.HistoryEntry{At: t0, Action: driver.ActionReplayed, Generation: 1})
	f.shown(want)
	m := f.leaseOne(t0, "to-a")
	message := leased(&c, 0, t0, m.Token, 1)
	message.Generation, message.Replayed = 1, true
	same(f, "message", message, m)
}

// lettersDiscardPrune prunes discarded events, which are finished, and keeps dead ones, which are
// not.
func lettersDiscardPrune(f *fixture) {
	dead, half, given := newClaim("stripe", "dead", "{}", "a"), newClaim("stripe", "half", "{}", "a", "b"), newClaim("stripe", "given", "{}", "a")
	queued, deadToo := newClaim("stripe", "queued", "{}"), newClaim("stripe", "queued too", "{}", "a")
	queued.Work, deadToo.Work = driver.WorkQueued, driver.WorkQueued
	for _, c := range []driver.Claim{dead, half, given, queued, deadToo} {
		f.claimNew(t0, c)
		for _, m := range c.Messages {
			f.kill(t0, m.Destination)
		}
	}
	f.killQueued(queued.Key)
	f.moveQueued(deadToo.Key, driver.StateDone) // its message stays dead
	f.discard(t0, letter(&half, 0), letter(&given, 0), driver.DeadLetterRef{Key: queued.Key})
	dueBefore := []*driver.EventDetail{f.event("stripe", "dead"), f.event("stripe", "half"), f.event("stripe", "queued too")}

	now := t0.Add(60 * day)
	same(f, "pruned", driver.PruneResult{Bodies: 2}, f.prune(&driver.PruneParams{DedupeWindow: 90 * day, Retention: day, Now: now}))
	if got := f.event("stripe", "given"); !got.BodyPruned || got.State != driver.StateSkipped || len(got.History) != 1 {
		f.Errorf("the discarded event is %+v, want it without a body, skipped, with its history", got)
	}
	same(f, "pruned", driver.PruneResult{Events: 2}, f.prune(windows(day, now)))
	f.absent("stripe", "given")
	f.absent("stripe", "queued")
	for _, e := range dueBefore {
		f.sameEvent(e)
	}
	// A later claim makes a new event without the old history.
	f.claimNew(now, given)
	f.sameEvent(claimed(&given, now))
}

// lettersStay replays an event that is past every window, and prunes at each step. The event stays,
// with body and history, until it is done again for as long as the window.
func lettersStay(f *fixture) {
	for i, m := range replayModes {
		c := newClaim("stripe", []string{"plain", "as new", "same id"}[i], "{}", "a")
		f.claimNew(t0, c)
		f.kill(t0, "to-a")
		now := t0.Add(1000 * day)
		nothing := func() {
			f.Helper()
			before := f.event("stripe", c.EventID)
			same(f, "pruned while "+before.State, driver.PruneResult{}, f.prune(windows(day, now)))
			f.sameEvent(before)
		}
		nothing()
		f.replayAt(now, c.Key, m.mode)
		nothing()
		got := f.leaseOne(now, "to-a")
		nothing()
		if got.EventID != c.EventID || string(got.Body) != "{}" {
			f.Errorf("leased %+v, want it whole", got)
		}
		f.mustComplete(now, driver.Completion{ID: got.ID, Token: got.Token, Outcome: driver.MessageSent})
		same(f, "pruned when done", driver.PruneResult{Bodies: 1}, f.prune(windows(day, now)))
		same(f, "pruned a window after it was done", driver.PruneResult{Events: 1}, f.prune(windows(day, now.Add(day+time.Second))))
		f.absent("stripe", c.EventID)
	}
}
