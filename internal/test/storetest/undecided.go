package storetest

import (
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// An undecided event is dead until a replay decides which messages it has.
func undecidedCases() []testCase {
	return []testCase{
		{"Claim", undecidedClaim},
		{"OnlyReplayMakesItDue", undecidedStays},
		{"ReplayWithRoutes", undecidedRoutes},
		{"ReplayWithWork", undecidedWork},
		{"ReplayWithWorkAfterDiscard", undecidedWorkDiscarded},
		{"WorkOfTheClaim", undecidedDone},
		{"ReplayAfterDiscard", undecidedDiscarded},
		{"ReplayRefused", undecidedRefused},
		{"ReplayDroppedRow", replayDropped},
	}
}

const undecidedNote = driver.NoteUndecided + "billing"

func newUndecided(id string) driver.Claim {
	c := newClaim("stripe", id, "{}")
	c.Undecided = undecidedNote
	return c
}

// claimUndecidedQueued claims an undecided event that has work besides its messages.
func claimUndecidedQueued(f *fixture) driver.Claim {
	f.Helper()
	c := newUndecided("undecided")
	c.Work = driver.WorkQueued
	f.claimNew(t0, c)
	wantUndecided(f)
	return c
}

// claimUndecided claims an undecided event beside others of each kind.
func claimUndecided(f *fixture) driver.Claim {
	f.Helper()
	c := newUndecided("undecided")
	f.claimNew(t0, c, newClaim("stripe", "routed", "{}", "audit"), newQueued("queued"), newClaim("stripe", "plain", "{}"))
	return c
}

func wantUndecided(f *fixture) {
	f.Helper()
	ev := f.event("stripe", "undecided")
	if ev.State != driver.StateDead || ev.Note != undecidedNote || ev.LastError != undecidedNote || !ev.FailedAt.Equal(t0) || ev.Attempts != 0 || len(ev.Messages) != 0 {
		f.Errorf("the event is %+v, want a dead one with the note %q", ev.Event, undecidedNote)
	}
}

func undecidedClaim(f *fixture) {
	c := claimUndecided(f)
	wantUndecided(f)
	page, err := f.s.DeadLetters(f.Context(), &driver.MessageFilter{})
	if err != nil || len(page.DeadLetters) != 1 || page.DeadLetters[0].EventID != "undecided" || page.DeadLetters[0].LastError != undecidedNote {
		f.Errorf("dead letters: %+v, error %v, want the undecided event", page, err)
	}
	same(f, "duplicate", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(t0, c))
	// A delivery under other settings changes nothing.
	decided := newClaim("stripe", "undecided", "{}", "audit")
	same(f, "duplicate with routes", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(t0, decided))
	wantUndecided(f)
	for id, state := range map[string]string{"routed": driver.StateRunning, "queued": driver.StatePending, "plain": driver.StateDone} {
		if ev := f.event("stripe", id); ev.State != state || ev.FailedAt != f.event("stripe", "plain").FailedAt {
			f.Errorf("event %s is %s, failed at %v, want %s", id, ev.State, ev.FailedAt, state)
		}
	}
}

func undecidedStays(f *fixture) {
	c := claimUndecided(f)
	same(f, "reopened", []driver.Key(nil), f.reopen(t0, c.Key))
	done, err := f.s.ReplayDead(f.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: c.Key}}, Now: t0})
	if err != nil || len(done) != 1 || done[0] {
		f.Errorf("ReplayDead: %v, error %v, want [false]", done, err)
	}
	wantUndecided(f)
}

func undecidedReplay(f *fixture, p *driver.ReplayParams) *driver.Replayed {
	f.Helper()
	p.Key, p.Now = driver.EventKey("stripe", "undecided"), t0
	got, err := f.s.Replay(f.Context(), p)
	if err != nil {
		f.Fatalf("Replay: %v", err)
	}
	return got
}

var undecidedMessages = []driver.NewMessage{{Route: "billing", Destination: "to-billing"}, {Route: "audit", Destination: "to-audit"}}

func undecidedRoutes(f *fixture) {
	c := claimUndecided(f)
	same(f, "replayed", &driver.Replayed{Generation: 1, Messages: 2}, undecidedReplay(f, &driver.ReplayParams{Routes: undecidedMessages}))
	ev := f.event("stripe", "undecided")
	if ev.State != driver.StateDone || ev.Note != "" || ev.LastError != "" || !ev.FailedAt.IsZero() || len(ev.Messages) != 2 {
		f.Errorf("the event is %+v with %d messages, want a done one with 2", ev.Event, len(ev.Messages))
	}
	// The id is that of a claim, so an earlier decision that was sent is not sent twice.
	if m := f.leaseOne(t0, "to-billing"); m.ID != driver.MessageID(c.Key, 0, "billing") {
		f.Errorf("the message has the id %s", m.ID)
	}
	same(f, "duplicate", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
}

// undecidedWork replays an event with queued work. The claim decides about that work, because the
// process that replays may have no handler.
func undecidedWork(f *fixture) {
	c := claimUndecidedQueued(f)
	same(f, "reopened", []driver.Key(nil), f.reopen(t0, c.Key))
	same(f, "replayed", &driver.Replayed{Generation: 1, Messages: 1},
		undecidedReplay(f, &driver.ReplayParams{Mode: driver.ReplayAsNew, Routes: undecidedMessages[:1]}))
	if ev := f.event("stripe", "undecided"); ev.State != driver.StatePending || ev.Note != "" || len(ev.Messages) != 1 {
		f.Errorf("the event is %+v with %d messages, want a pending one with 1", ev.Event, len(ev.Messages))
	}
	// From now on it is like any other: a second replay adds no messages.
	_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: driver.EventKey("stripe", "undecided"), Routes: undecidedMessages, Now: t0})
	if !errors.Is(err, driver.ErrOpen) {
		f.Errorf("a second replay: got the error %v, want %v", err, driver.ErrOpen)
	}
}

// undecidedWorkDiscarded has no message, so its work alone makes it due.
func undecidedWorkDiscarded(f *fixture) {
	c := claimUndecidedQueued(f)
	done, err := f.s.Discard(f.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: c.Key}}, Now: t0})
	if err != nil || len(done) != 1 || !done[0] {
		f.Fatalf("Discard: %v, error %v, want [true]", done, err)
	}
	same(f, "replayed", &driver.Replayed{Generation: 1}, undecidedReplay(f, &driver.ReplayParams{}))
	if ev := f.event("stripe", "undecided"); ev.State != driver.StatePending || len(ev.Messages) != 0 {
		f.Errorf("the event is %+v with %d messages, want a pending one with none", ev.Event, len(ev.Messages))
	}
}

// undecidedDone has work that the transaction of its claim did: a replay sends its messages only.
func undecidedDone(f *fixture) {
	c := newUndecided("undecided")
	c.Work = driver.WorkDone
	f.claimNew(t0, c)
	wantUndecided(f)
	same(f, "replayed", &driver.Replayed{Generation: 1, Messages: 2}, undecidedReplay(f, &driver.ReplayParams{Routes: undecidedMessages}))
	if ev := f.event("stripe", "undecided"); ev.State != driver.StateDone || len(ev.Messages) != 2 {
		f.Errorf("the event is %+v with %d messages, want a done one with 2", ev.Event, len(ev.Messages))
	}
}

func undecidedDiscarded(f *fixture) {
	c := claimUndecided(f)
	done, err := f.s.Discard(f.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: c.Key}}, Now: t0})
	if err != nil || len(done) != 1 || !done[0] {
		f.Fatalf("Discard: %v, error %v, want [true]", done, err)
	}
	same(f, "replayed", &driver.Replayed{Generation: 1, Messages: 2}, undecidedReplay(f, &driver.ReplayParams{Routes: undecidedMessages}))
	if ev := f.event("stripe", "undecided"); ev.State != driver.StateDone || len(ev.Messages) != 2 {
		f.Errorf("the event is %+v with %d messages, want a done one with 2", ev.Event, len(ev.Messages))
	}
}

func undecidedRefused(f *fixture) {
	c := claimUndecided(f)
	queued := newUndecided("queued, undecided")
	queued.Work = driver.WorkQueued
	f.claimNew(t0, queued)
	for _, refused := range []struct {
		p    driver.ReplayParams
		want error
	}{
		{driver.ReplayParams{Key: c.Key, Undecided: true}, driver.ErrUndecided},
		{driver.ReplayParams{Key: c.Key}, driver.ErrNoRoute},
		{driver.ReplayParams{Key: c.Key, Unknown: true}, driver.ErrNoRoute},
		{driver.ReplayParams{Key: queued.Key, Undecided: true}, driver.ErrUndecided},
		{driver.ReplayParams{Key: queued.Key, Unknown: true}, driver.ErrNoRoute},
	} {
		refused.p.Now = t0
		if _, err := f.s.Replay(f.Context(), &refused.p); !errors.Is(err, refused.want) {
			f.Errorf("Replay with %+v: got the error %v, want %v", refused.p, err, refused.want)
		}
	}
	wantUndecided(f)
	if ev := f.event("stripe", queued.EventID); ev.State != driver.StateDead {
		f.Errorf("the queued event is %s after refused replays, want dead", ev.State)
	}
	// Events of other kinds do not depend on it.
	plain := &driver.ReplayParams{Key: driver.EventKey("stripe", "plain"), Mode: driver.ReplaySameID, Undecided: true, Now: t0}
	if _, err := f.s.Replay(f.Context(), plain); !errors.Is(err, driver.ErrUndecided) {
		f.Errorf("Replay of an event that matched no route: got the error %v, want %v", err, driver.ErrUndecided)
	}
}
