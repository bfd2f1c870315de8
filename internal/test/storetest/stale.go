package storetest

import (
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func staleCases() []testCase {
	return []testCase{
		{"Replayed", staleReplayed},
		{"Skipped", staleSkipped},
		{"SkippedBesideOthers", staleBesideOthers},
		{"SkippedThenReplayed", staleThenReplayed},
		{"SkippedByAnOldToken", staleOldToken},
		{"Applied", staleApplied},
		{"AppliedInOneCall", staleAppliedAtOnce},
	}
}

// staleReplayed makes a message due again in every possible way. An operator who replays it wants
// it sent, however old it is. A redelivery by the sender does not count as a replay.
func staleReplayed(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	id := c.Messages[0].ID
	for i, step := range []struct {
		replayed bool
		again    func()
	}{
		{false, func() {}},
		{true, func() { f.replayAt(t0, c.Key, driver.ReplayPlain) }},
		{false, func() { same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key)) }},
		{true, func() { same(f, "replayed", []bool{true}, f.replayDead(t0, letter(&c, 0))) }},
		{false, func() { same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key)) }},
		{true, func() { f.retry(t0, id) }},
		{false, func() { same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key)) }},
		{true, func() { f.replayAt(t0, c.Key, driver.ReplaySameID) }},
		{true, func() {
			f.replayAt(t0, c.Key, driver.ReplayAsNew)
			id = driver.MessageID(c.Key, 8, "a")
		}},
	} {
		step.again()
		for attempt := 1; attempt <= 2; attempt++ { // it stays replayed on each attempt
			m := f.leaseOne(t0, "to-a")
			if m.ID != id || m.Attempt != attempt || m.Replayed != step.replayed {
				f.Fatalf("step %d: leased %+v, want attempt %d of %s, replayed: %v", i, m, attempt, id, step.replayed)
			}
			d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry}
			if attempt == 2 {
				d.Outcome = driver.MessageDead
			}
			f.mustComplete(t0, d)
		}
	}
	first := newClaim("stripe", "evt_2", "{}")
	f.claimNew(t0, first)
	f.replay(&driver.ReplayParams{Key: first.Key, Mode: driver.ReplayAsNew, Routes: newClaim("stripe", "evt_2", "", "b").Messages, Now: t0})
	if m := f.leaseOne(t0, "to-b"); !m.Replayed {
		f.Errorf("leased %+v, want the first message of an event that was replayed marked as replayed", m)
	}
}

const staleReason = "it's older than \"5\": ö"

func staleOutcome(m *driver.Message) driver.Completion {
	return driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageStale, Error: staleReason, Took: time.Millisecond}
}

func staleSkipped(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-a")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, StatusCode: 500, Error: "no"})
	before := f.event("stripe", "evt_1")
	m = f.leaseOne(t0, "to-a")
	f.mustComplete(t0.Add(time.Second), staleOutcome(&m))
	got := f.event("stripe", "evt_1")
	message := got.Messages[0]
	if message.State != driver.StateSkipped || message.Note != driver.NoteStale || message.LastError != staleReason || message.Attempts != 1 {
		f.Errorf("the message is %+v, want it skipped as stale after one attempt", message)
	}
	if got.State != driver.StateSkipped || got.Note != driver.NoteStale || !got.FailedAt.IsZero() || !got.ProcessedAt.IsZero() {
		f.Errorf("the event is %+v, want it skipped as stale", got.Event)
	}
	same(f, "attempts", before.Tries, got.Tries)
	same(f, "events with the note stale", []string{"evt_1"}, idsOf(f.events(&driver.EventFilter{Note: driver.NoteStale})))
	if page := f.listMessages(&driver.MessageFilter{Note: driver.NoteStale}); len(page.Messages) != 1 {
		f.Errorf("the messages with the note stale are %+v, want one", page.Messages)
	}
	f.noneDue(t0.Add(day), "to-a", "after it was skipped")
	same(f, "stats", driver.Stats{}, f.stats())
	same(f, "duplicate", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
	same(f, "pruned", driver.PruneResult{Events: 1}, f.prune(windows(day, t0.Add(2*day))))
}

// staleBesideOthers skips one message of an event. The others decide the event's state.
func staleBesideOthers(f *fixture) {
	for other, want := range map[driver.MessageOutcome]string{
		driver.MessageSent: driver.StateDone, driver.MessageDead: driver.StateDead, driver.MessageStale: driver.StateSkipped,
	} {
		c := newClaim("stripe", fmt.Sprint("evt_", other), "{}", "a", "b")
		f.claimNew(t0, c)
		a := f.leaseOne(t0, "to-a")
		f.mustComplete(t0, staleOutcome(&a))
		if got := f.event("stripe", c.EventID); got.State != driver.StateRunning {
			f.Errorf("with one message open the event is %s, want running", got.State)
		}
		b := f.leaseOne(t0, "to-b")
		f.mustComplete(t0, driver.Completion{ID: b.ID, Token: b.Token, Outcome: other})
		if got := f.event("stripe", c.EventID); got.State != want {
			f.Errorf("with one message stale and the other %d the event is %s, want %s", other, got.State, want)
		}
	}
}

func staleThenReplayed(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-a")
	f.mustComplete(t0, staleOutcome(&m))
	f.replayAt(t0, c.Key, driver.ReplayPlain)
	got := f.leaseOne(t0, "to-a")
	if got.ID != m.ID || !got.Replayed || got.Attempt != 1 || got.Generation != 1 || got.Token <= m.Token {
		f.Errorf("leased %+v, want it replayed in generation 1, under a higher token than %d", got, m.Token)
	}
	f.mustComplete(t0, driver.Completion{ID: got.ID, Token: got.Token, Outcome: driver.MessageSent})
	if e := f.event("stripe", "evt_1"); e.State != driver.StateDone || e.Note != "" || e.Messages[0].Note != "" {
		f.Errorf("the event is %+v with the messages %+v, want it done without a note", e.Event, e.Messages)
	}
}

func staleOldToken(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	lost := f.leaseOne(t0, "to-a")
	later := t0.Add(2 * leaseFor)
	held := f.leaseOne(later, "to-a")
	before := f.event("stripe", "evt_1")
	same(f, "answers", []bool{false}, f.complete(later, staleOutcome(&lost)))
	applied := sentVersion("x", "9")
	same(f, "answers", []bool{false}, f.complete(later, driver.Completion{
		ID: lost.ID, Token: lost.Token, Outcome: driver.MessageSent, Applied: &applied,
	}))
	f.sameEvent(before)
	if got := f.versions(applied.Object)[applied.Object]; got.Version != nil {
		f.Errorf("a lease that was lost applied %+v", got)
	}
	f.mustComplete(later, staleOutcome(&held))
}

// sentVersion is an object's version at the destination of a route.
func sentVersion(object, version string) driver.ObjectVersion {
	return driver.ObjectVersion{
		Object: driver.ObjectKey("stripe", "a", object), Source: "stripe", Version: []byte(version), Shown: "v" + version,
	}
}

func staleApplied(f *fixture) {
	for i, step := range []struct{ version, want string }{{"5", "5"}, {"4", "5"}, {"6", "6"}, {"", "6"}, {"5", "6"}} {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}", "a")
		f.claimNew(t0, c)
		m := f.leaseOne(t0, "to-a")
		d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent}
		v := sentVersion("x", step.version)
		if step.version != "" {
			d.Applied = &v
		}
		f.mustComplete(t0, d)
		same(f, "version after "+step.version, sentVersion("x", step.want), f.versions(v.Object)[v.Object])
	}
}

// staleAppliedAtOnce completes many messages of a few objects in one call.
func staleAppliedAtOnce(f *fixture) {
	const n = 12
	f.claimNew(t0, newClaims(n, "a")...)
	var completions []driver.Completion
	for i, m := range f.lease(t0, "to-a", n) {
		v := sentVersion(fmt.Sprint(i%3), fmt.Sprintf("%02d", (i*7)%n))
		d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, Applied: &v}
		if i%4 == 3 {
			d.Token++ // a lost lease applies nothing
		}
		completions = append(completions, d)
	}
	want := map[driver.Key]driver.ObjectVersion{}
	var keys []driver.Key
	for i := range completions {
		v := *completions[i].Applied
		keys = append(keys, v.Object)
		if i%4 != 3 && string(v.Version) > string(want[v.Object].Version) {
			want[v.Object] = v
		}
	}
	f.complete(t0, completions...)
	same(f, "versions", want, f.versions(keys...))
}
