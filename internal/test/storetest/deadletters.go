package storetest

import (
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

func deadLetterCases() []testCase {
	return []testCase{
		{"ReplayMessages", lettersReplay},
		{"ReplayBesideOpen", lettersReplayBesideOpen},
		{"Queued", lettersQueued},
		{"NotDead", lettersNotDead},
		{"NamedTwice", lettersNamedTwice},
		{"Many", lettersMany},
		{"DiscardMessages", lettersDiscard},
		{"DiscardThenRedelivery", lettersDiscardRedelivery},
		{"DiscardThenReplay", lettersDiscardReplay},
		{"DiscardThenPrune", lettersDiscardPrune},
		{"DeadStays", lettersStay},
	}
}

// entry is a history entry of one message.
func entry(action, id string, generation int) driver.HistoryEntry {
	return driver.HistoryEntry{At: t0, Action: action, Generation: generation, MessageID: id}
}

func lettersReplay(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b", "c")
	f.claimNew(t0, c)
	lost := f.leaseOne(t0, "to-a")
	f.mustComplete(t0, driver.Completion{ID: lost.ID, Token: lost.Token, Outcome: driver.MessageRetry})
	for _, destination := range []string{"to-a", "to-b", "to-c"} {
		f.kill(t0, destination)
	}
	want := f.event("stripe", "evt_1")
	same(f, "replayed", []bool{true}, f.replayDead(t0, letter(&c, 1)))
	due(&want.Messages[1], 1, t0)
	want.History = append(want.History, entry(driver.ActionReplayed, c.Messages[1].ID, 1))
	derive(want)
	f.shown(want)
	m := f.leaseOne(t0, "to-b")
	message := leased(&c, 1, t0, m.Token, 1)
	message.Generation, message.Replayed = 1, true
	same(f, "message", message, m)
	f.noneDue(t0, "to-a", "after another letter was replayed")
	stale := driver.Completion{ID: lost.ID, Token: lost.Token, Outcome: driver.MessageSent}

	// Both others in one call get generations above any other of the event.
	sending(want, 1, t0, 1)
	same(f, "replayed", []bool{true, true}, f.replayDead(t0, letter(&c, 2), letter(&c, 0)))
	got := f.event("stripe", "evt_1")
	for _, n := range []int{0, 2} {
		if got.Messages[n].Generation < 2 {
			f.Errorf("message %d is in generation %d, want one above 1, which its event had", n, got.Messages[n].Generation)
		}
		due(&want.Messages[n], got.Messages[n].Generation, t0)
	}
	derive(want)
	want.History = append(want.History,
		entry(driver.ActionReplayed, c.Messages[0].ID, want.Messages[0].Generation),
		entry(driver.ActionReplayed, c.Messages[2].ID, want.Messages[2].Generation))
	// The contract leaves the order of two letters of one call open.
	byMessage := func(a, b driver.HistoryEntry) int {
		return slices.Compare([]string{fmt.Sprint(a.Generation > 1), a.MessageID}, []string{fmt.Sprint(b.Generation > 1), b.MessageID})
	}
	slices.SortFunc(want.History, byMessage)
	slices.SortFunc(got.History, byMessage)
	same(f, "event", want, got, lastAnswer())
	same(f, "completion by a token from before", []bool{false}, f.complete(t0, stale))
	for _, destination := range []string{"to-a", "to-c"} {
		if m := f.leaseOne(t0, destination); m.Attempt != 1 || m.Destination == "to-a" && m.Token <= lost.Token {
			f.Errorf("leased %+v, want attempt 1 under a token above any before", m)
		}
	}
}

// lettersReplayBesideOpen replays one dead letter of an event while another of its messages is
// being sent. That lease is not affected.
func lettersReplayBesideOpen(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	open := f.leaseOne(t0, "to-b")
	want := f.event("stripe", "evt_1")
	same(f, "replayed", []bool{true}, f.replayDead(t0, letter(&c, 0)))
	due(&want.Messages[0], 1, t0)
	derive(want)
	want.History = []driver.HistoryEntry{entry(driver.ActionReplayed, c.Messages[0].ID, 1)}
	f.shown(want)
	d := driver.Completion{ID: open.ID, Token: open.Token, Outcome: driver.MessageDead, StatusCode: 410}
	f.mustComplete(t0, d)
	ended(want, 1, t0, d)
	derive(want)
	f.shown(want)

	same(f, "discarded", []bool{true}, f.discard(t0, letter(&c, 1)))
	skip(&want.Messages[1], driver.NoteDiscarded)
	derive(want)
	want.History = append(want.History, entry(driver.ActionDiscarded, c.Messages[1].ID, 0))
	f.shown(want)
	m := f.leaseOne(t0, "to-a")
	d = driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200}
	f.mustComplete(t0, d)
	ended(sending(want, 0, t0, 1), 0, t0, d)
	derive(want)
	f.shown(want)
}

// lettersQueued mixes letters of messages and of events in one call.
func lettersQueued(f *fixture) {
	var queued []driver.Claim
	for i := range 4 {
		c := newClaim("stripe", fmt.Sprint("queued_", i), "{}", "a")
		c.Work = driver.WorkQueued
		queued = append(queued, c)
		f.claimNew(t0, c)
		f.kill(t0, "to-a")
	}
	routed := newClaim("stripe", "routed", "{}", "a")
	f.claimNew(t0, routed)
	f.kill(t0, "to-a")
	for i := range 3 {
		f.killQueued(queued[i].Key)
	}
	own := func(i int) driver.DeadLetterRef { return driver.DeadLetterRef{Key: queued[i].Key} }
	// Replays the row of the first event, the message of the second, and both of the third. The row
	// of the fourth is not dead, and a routed event has no row.
	got := f.replayDead(t0, own(0), letter(&queued[1], 0), own(2), letter(&queued[2], 0), own(3), driver.DeadLetterRef{Key: routed.Key})
	same(f, "replayed", []bool{true, true, true, true, false, false}, got)
	for i, want := range [][]string{
		{driver.StatePending, driver.StateDead},
		{driver.StateDead, driver.StatePending},
		{driver.StatePending, driver.StatePending},
		{driver.StatePending, driver.StateDead},
	} {
		e := f.event("stripe", queued[i].EventID)
		same(f, e.EventID, want, []string{e.State, e.Messages[0].State})
		if moved := i%2 == 0; moved && (!e.FailedAt.IsZero() || e.Attempts != 0) || (e.Generation == 0) != (i == 3) {
			f.Errorf("the event is %+v, want it without a failure: %v, and in a new generation: %v", e.Event, moved, i != 3)
		}
		if i < 3 && (len(e.History) != 1+i/2 || e.History[0].Action != driver.ActionReplayed) {
			f.Errorf("the history of %s is %+v, want one entry for each letter", e.EventID, e.History)
		}
	}
	entry := f.event("stripe", "queued_0").History[0]
	same(f, "history", driver.HistoryEntry{At: t0, Action: driver.ActionReplayed, Generation: 1}, entry)

	same(f, "discarded", []bool{true, true, false}, f.discard(t0, own(1), letter(&routed, 0), own(0)))
	e := f.event("stripe", "queued_1")
	same(f, "discarded event", []string{driver.StateSkipped, driver.NoteDiscarded, driver.StatePending}, []string{e.State, e.Note, e.Messages[0].State})
	if !e.FailedAt.IsZero() {
		f.Errorf("the discarded event is %+v, want it without a time of failure", e.Event)
	}
	same(f, "reopened", []driver.Key(nil), f.reopen(t0, queued[1].Key))
}

// lettersNotDead passes references that are not dead letters. Nothing must change.
func lettersNotDead(f *fixture) {
	pending, sending, sent := newClaim("stripe", "pending", "{}", "a"), newClaim("stripe", "sending", "{}", "b"), newClaim("stripe", "sent", "{}", "c")
	given, none, other := newClaim("stripe", "given", "{}", "d"), newClaim("stripe", "none", "{}"), newClaim("stripe", "other", "{}", "e")
	queued := newClaim("stripe", "queued", "{}")
	queued.Work = driver.WorkQueued
	all := []driver.Claim{pending, sending, sent, given, none, other, queued}
	f.claimNew(t0, all...)
	f.leaseOne(t0, "to-b")
	f.sendOne(t0, "to-c")
	f.kill(t0, "to-d")
	f.discard(t0, letter(&given, 0))
	f.kill(t0, "to-e")
	var before []*driver.EventDetail
	for i := range all {
		before = append(before, f.event("stripe", all[i].EventID))
	}
	letters := []driver.DeadLetterRef{
		letter(&pending, 0), letter(&sending, 0), letter(&sent, 0), letter(&given, 0),
		{Key: none.Key},
		{Key: queued.Key},
		{Key: sent.Key},
		{Key: driver.EventKey("stripe", "unknown")},
		{Key: other.Key, MessageID: "msg_unknown"},
		{Key: other.Key, MessageID: "it's\x00\xff"},
		// A dead message under the key of another event, or of no event, is ignored.
		{Key: sent.Key, MessageID: other.Messages[0].ID},
		{MessageID: other.Messages[0].ID},
		{Key: other.Key},
		{},
	}
	for name, work := range map[string]func(...driver.DeadLetterRef) []bool{
		"ReplayDead": func(all ...driver.DeadLetterRef) []bool { return f.replayDead(t0, all...) },
		"Discard":    func(all ...driver.DeadLetterRef) []bool { return f.discard(t0, all...) },
	} {
		same(f, name, make([]bool, len(letters)), work(letters...))
		same(f, name+" of nothing", []bool(nil), work())
		for _, e := range before {
			f.sameEvent(e)
		}
	}
	got := f.replayDead(t0, append(slices.Clone(letters), letter(&other, 0))...)
	same(f, "replayed beside them", append(make([]bool, len(letters)), true), got)
}

// lettersNamedTwice passes one letter twice. The contract leaves the answer for the second open.
func lettersNamedTwice(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	if got := f.replayDead(t0, letter(&c, 0), letter(&c, 0), letter(&c, 0)); len(got) != 3 || !slices.Contains(got, true) {
		f.Errorf("ReplayDead returned %v, want three answers and the letter replayed", got)
	}
	if got := f.event("stripe", "evt_1"); got.Generation != 1 || len(got.History) != 1 {
		f.Errorf("the event is in generation %d with the history %+v, want one replay", got.Generation, got.History)
	}
	same(f, "replayed again", []bool{false}, f.replayDead(t0, letter(&c, 0)))
	f.kill(t0, "to-a")
	if got := f.discard(t0, letter(&c, 0), letter(&c, 0)); len(got) != 2 || !slices.Contains(got, true) {
		f.Errorf("Discard returned %v, want two answers and the letter discarded", got)
	}
	if got := f.event("stripe", "evt_1"); got.Generation != 1 || len(got.History) != 2 {
		f.Errorf("the event is in generation %d with the history %+v, want one replay and one discard", got.Generation, got.History)
	}
	same(f, "discarded again", []bool{false}, f.discard(t0, letter(&c, 0)))
}

// lettersMany passes as many letters as a page of the listing has. Every third is not dead, and the
// order differs from the store's.
func lettersMany(f *fixture) {
	all := newClaims(driver.MaxLimit, "a")
	f.claimNew(t0, all...)
	var completions []driver.Completion
	for _, m := range f.lease(t0, "to-a", len(all)) {
		completions = append(completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead})
	}
	f.mustComplete(t0, completions...)
	var letters []driver.DeadLetterRef
	var want []bool
	var replayed int
	for i := range all {
		letters = append(letters, letter(&all[i], 0))
		if want = append(want, i%3 != 0); i%3 == 0 {
			same(f, "discarded", []bool{true}, f.discard(t0, letters[i]))
		} else {
			replayed++
		}
	}
	same(f, "replayed", want, f.replayDead(t0, letters...))
	if got := f.lease(t0, "to-a", len(all)); len(got) != replayed {
		f.Errorf("%d messages are due, want %d", len(got), replayed)
	}
}
