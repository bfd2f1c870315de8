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
		{"ReplayAfterDiscard", undecidedDiscarded},
		{"ReplayRefused", undecidedRefused},
	}
}

const undecidedNote = driver.NoteUndecided + "billing"

func newUndecided(id string) driver.Claim {
	c := newClaim("stripe", id, "{}")
	c.Work, c.Undecided = driver.WorkUndecided, undecidedNote
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

func undecidedWork(f *fixture) {
	claimUndecided(f)
	same(f, "replayed", &driver.Replayed{Generation: 1, Messages: 1},
		undecidedReplay(f, &driver.ReplayParams{Mode: driver.ReplayAsNew, Routes: undecidedMessages[:1], Queued: true}))
	if ev := f.event("stripe", "undecided"); ev.State != driver.StatePending || ev.Note != "" || len(ev.Messages) != 1 {
		f.Errorf("the event is %+v with %d messages, want a pending one with 1", ev.Event, len(ev.Messages))
	}
	// From now on it is like any other: a second replay adds no messages.
	_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: driver.EventKey("stripe", "undecided"), Routes: undecidedMessages, Now: t0})
	if !errors.Is(err, driver.ErrOpen) {
		f.Errorf("a second replay: got the error %v, want %v", err, driver.ErrOpen)
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
	for want, p := range map[error]*driver.ReplayParams{
		driver.ErrUndecided: {Key: c.Key, Undecided: true, Queued: true, Now: t0},
		driver.ErrNoRoute:   {Key: c.Key, Now: t0},
	} {
		if _, err := f.s.Replay(f.Context(), p); !errors.Is(err, want) {
			f.Errorf("Replay: got the error %v, want %v", err, want)
		}
	}
	wantUndecided(f)
	// Events of other kinds do not depend on it.
	plain := &driver.ReplayParams{Key: driver.EventKey("stripe", "plain"), Mode: driver.ReplaySameID, Undecided: true, Now: t0}
	if _, err := f.s.Replay(f.Context(), plain); !errors.Is(err, driver.ErrUndecided) {
		f.Errorf("Replay of an event that matched no route: got the error %v, want %v", err, driver.ErrUndecided)
	}
}
