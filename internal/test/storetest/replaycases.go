package storetest

import (
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func replayUnknown(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}"))
	for _, m := range replayModes {
		got, err := f.s.Replay(f.Context(), &driver.ReplayParams{
			Key: driver.EventKey("stripe", "unknown"), Mode: m.mode, RequestID: "r", Now: t0,
			Routes: newClaim("stripe", "unknown", "", "a").Messages,
		})
		f.refused(fmt.Sprintf("Replay returned %+v", got), driver.ErrNotFound, err)
	}
	f.absent("stripe", "unknown")
	f.noneDue(t0, "to-a", "after a replay of an unknown event")
}

// replayBodyPruned replays events past retention, in every state they can have; all are finished.
// The replay is refused with driver.ErrBodyPruned before any other check.
func replayBodyPruned(f *fixture) {
	sent, given, none := newClaim("stripe", "sent", "{}", "a"), newClaim("stripe", "given", "{}", "a"), newClaim("stripe", "none", "{}")
	consumed := newClaim("stripe", "consumed", "{}")
	consumed.Work = driver.WorkQueued
	all := []driver.Claim{sent, given, none, consumed}
	f.claimNew(t0, sent)
	m := f.leaseOne(t0, "to-a")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	f.claimNew(t0, given, none, consumed)
	f.kill(t0, "to-a")
	f.discard(t0, letter(&given, 0))
	f.moveQueued(consumed.Key, driver.StateDone)
	now := t0.Add(2 * day)
	same(f, "pruned", driver.PruneResult{Bodies: 4}, f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: now}))
	for i := range all {
		before := f.event("stripe", all[i].EventID)
		if !before.BodyPruned {
			f.Fatalf("the body of %s is still there", all[i].EventID)
		}
		for _, m := range replayModes {
			got, err := f.s.Replay(f.Context(), &driver.ReplayParams{
				Key: all[i].Key, Mode: m.mode, Now: now, Routes: newClaim("stripe", all[i].EventID, "", "a").Messages,
			})
			f.refused(fmt.Sprintf("%s: Replay returned %+v", all[i].EventID, got), driver.ErrBodyPruned, err)
		}
		f.sameEvent(before)
	}
	f.noneDue(now, "to-a", "after refused replays")
}

// replayFullAttempts uses up the attempts of a replayed message again.
func replayFullAttempts(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	now := t0
	for generation := range 3 {
		var number int
		for range maxAttempts {
			m := f.leaseOne(now, "to-billing")
			number = m.Attempt
			now = now.Add(time.Hour)
			f.mustComplete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, StatusCode: 500 + generation})
		}
		if got := f.lease(now, "to-billing", 10); len(got) > 0 || number != maxAttempts {
			f.Errorf("generation %d: the last of its attempts was number %d, then %+v was leased, want %d and none", generation, number, got, maxAttempts)
		}
		if got := f.event("stripe", "evt_1"); got.State != driver.StateDead || len(got.Tries) != (generation+1)*maxAttempts {
			f.Errorf("generation %d ends as %s after %d attempts, want dead and those of all generations", generation, got.State, len(got.Tries))
		}
		f.replayAt(now, c.Key, driver.ReplayPlain)
	}
	for i, try := range f.event("stripe", "evt_1").Tries {
		same(f, "attempt", []int{i / maxAttempts, i%maxAttempts + 1, 500 + i/maxAttempts}, []int{try.Generation, try.Number, try.StatusCode})
	}
}

func replayDatabaseClock(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(time.Time{}, c)
	f.kill(time.Time{}, "to-billing")
	before := f.clock().Truncate(time.Microsecond)
	f.replayAt(time.Time{}, c.Key, driver.ReplayAsNew)
	after := f.clock()
	got := f.event("stripe", "evt_1")
	for _, at := range []time.Time{got.Messages[0].DueAt, got.Messages[1].DueAt, got.History[0].At} {
		if !at.IsZero() && (at.Before(before) || at.After(after)) {
			f.Errorf("the replay happened at %v, want a time from %v to %v", at, before, after)
		}
	}
	f.leaseOne(time.Time{}, "to-billing")
}

// replayQueuedGenerations alternates between replaying an event's own row and its message. No
// generation is used twice for either.
func replayQueuedGenerations(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	c.Work = driver.WorkQueued
	f.claimNew(t0, c)
	event, message := 0, 0
	step := func(what string) {
		f.Helper()
		got := f.event("stripe", "evt_1")
		if got.Generation < event || got.Messages[0].Generation < message || got.Generation+got.Messages[0].Generation == event+message {
			f.Errorf("after %s the event is in generation %d and its message in %d, want more than %d or %d",
				what, got.Generation, got.Messages[0].Generation, event, message)
		}
		event, message = got.Generation, got.Messages[0].Generation
	}
	for range 3 {
		f.kill(t0, "to-billing")
		same(f, "replayed", []bool{true}, f.replayDead(t0, letter(&c, 0)))
		step("the replay of its message")
		f.killQueued(c.Key)
		same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key))
		step("the reopening")
		f.kill(t0, "to-billing")
		f.moveQueued(c.Key, driver.StateDone)
		if got := f.replayAt(t0, c.Key, driver.ReplayPlain); got.Generation <= max(event, message) || got.Messages != 1 {
			f.Errorf("Replay returned %+v, want one message and a generation above %d and %d", got, event, message)
		}
		step("the replay of its dead parts")
		f.moveQueued(c.Key, driver.StateRunning)
	}
}

// replayDuplicates claims a replayed event again. It is a duplicate in each state, and Reopen
// leaves it alone unless it is dead.
func replayDuplicates(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	f.kill(t0, "to-billing")
	f.replayAt(t0, c.Key, driver.ReplayAsNew)
	same(f, "duplicate of a replayed event", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
	same(f, "reopened", []driver.Key(nil), f.reopen(t0, c.Key))
	f.kill(t0, "to-billing")
	same(f, "duplicate of an event that is dead again", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(t0, c))
	same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key))
	got := f.leaseOne(t0, "to-billing")
	if want := driver.MessageID(c.Key, 1, "billing"); got.ID != want || got.Generation != 2 {
		f.Errorf("leased %s in generation %d, want %s, which took the place of the first, in generation 2", got.ID, got.Generation, want)
	}
	f.mustComplete(t0, driver.Completion{ID: got.ID, Token: got.Token, Outcome: driver.MessageSent})
	same(f, "duplicate of a done event", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
}
