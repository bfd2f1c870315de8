package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
)

func reopenCases() []testCase {
	return []testCase{
		{"DeadFlag", reopenDeadFlag},
		{"OnlyDeadMessages", reopenOnlyDeadMessages},
		{"OnlyDeadEvents", reopenOnlyDeadEvents},
		{"Queued", reopenQueued},
		{"Again", reopenAgain},
		{"OldTokenIsFenced", reopenOldToken},
		{"RefusedRow", reopenRefused},
	}
}

// kill makes the due message of the destination dead.
func (f *fixture) kill(at time.Time, destination string) {
	f.Helper()
	m := f.leaseOne(at, destination)
	f.mustComplete(at, driver.Completion{
		ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 410, Error: "gone for good",
	})
}

// sendOne leases the only due message of a destination, and completes it as sent.
func (f *fixture) sendOne(at time.Time, destination string) {
	f.Helper()
	m := f.leaseOne(at, destination)
	f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
}

// lastAnswer ignores a reopened message's data of earlier attempts, which the contract leaves open.
func lastAnswer() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreFields(driver.MessageDetail{}, "StatusCode", "LastError"),
		cmpopts.IgnoreFields(driver.Event{}, "LastError"),
	}
}

// reopenRefused has a trigger that refuses to change the message of an event. That event alone is at fault, so the others can
// be reopened without it.
func reopenRefused(f *fixture) {
	refused, other := newClaim("stripe", "refused", "{}", "billing"), newClaim("stripe", "other", "{}", "billing")
	for _, c := range []driver.Claim{refused, other} {
		f.claimNew(t0, c)
		f.kill(t0, "to-billing")
	}
	f.with.Refuse(f.T, f.s, "message", refused.Key)
	for _, keys := range [][]driver.Key{{refused.Key, other.Key}, {refused.Key}} {
		if got, _, err := f.s.Reopen(f.Context(), &driver.ReopenParams{Keys: keys, Now: t0}); !driver.FaultOfRows(err) {
			f.Errorf("Reopen of %d events while a trigger refuses one: %v and the error %v, want the fault of a row", len(keys), got, err)
		}
	}
	same(f, "reopened alone", []driver.Key{other.Key}, f.reopen(t0, other.Key))
	same(f, "refused", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(t0, refused))
}

func reopenDeadFlag(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing", "audit")
	f.claimNew(t0, c)
	f.kill(t0, "to-billing")
	same(f, "duplicate while a message is open", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
	f.kill(t0, "to-audit")
	same(f, "duplicate of a dead event", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(t0, c))
	other := c
	setBody(&other, []byte("other"))
	same(f, "duplicate of a dead event with another body", []driver.ClaimResult{{Duplicate: true, Dead: true, OtherBody: true}}, f.claim(t0, other))
	same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key))
	same(f, "duplicate of a reopened event", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
}

func reopenOnlyDeadMessages(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "audit", "billing")
	f.claimNew(t0, c)
	sentAt, deadAt, reopenedAt := t0.Add(time.Second), t0.Add(2*time.Second), t0.Add(time.Hour)
	audit := f.leaseOne(sentAt, "to-audit")
	f.mustComplete(sentAt, driver.Completion{ID: audit.ID, Token: audit.Token, Outcome: driver.MessageSent, StatusCode: 204})
	first := f.leaseOne(t0, "to-billing")
	f.mustComplete(t0, driver.Completion{ID: first.ID, Token: first.Token, Outcome: driver.MessageRetry, StatusCode: 500, Error: "no"})
	f.kill(deadAt, "to-billing")
	before := f.event("stripe", "evt_1")

	same(f, "reopened", []driver.Key{c.Key}, f.reopen(reopenedAt, c.Key))
	want := claimed(&c, t0)
	want.Generation, want.Attempts = 1, 1
	want.Messages[0] = driver.MessageDetail{
		ID: audit.ID, Route: "audit", Destination: "to-audit", State: driver.StateSent,
		Attempts: 1, StatusCode: 204, CreatedAt: t0, SentAt: sentAt,
	}
	want.Messages[1].Generation, want.Messages[1].DueAt = 1, reopenedAt
	want.Tries = before.Tries
	want.History = []driver.HistoryEntry{{At: reopenedAt, Action: driver.ActionReopened, Generation: 1}}
	f.sameEvent(want, lastAnswer())

	if early := f.lease(reopenedAt.Add(-time.Second), "to-billing", 10); len(early) > 0 {
		f.Errorf("leased before it was reopened: %+v", early)
	}
	got := f.leaseOne(reopenedAt, "to-billing")
	message := leased(&c, 1, t0, got.Token, 1)
	message.Generation = 1
	same(f, "message after reopening", message, got)
	if got.Token <= first.Token {
		f.Errorf("token after reopening is %d, want more than %d", got.Token, first.Token)
	}
	doneAt := reopenedAt.Add(time.Second)
	f.mustComplete(doneAt, driver.Completion{ID: got.ID, Token: got.Token, Outcome: driver.MessageSent, StatusCode: 200})
	after := f.event("stripe", "evt_1")
	if after.State != driver.StateDone || !after.ProcessedAt.Equal(doneAt) || after.Generation != 1 {
		f.Errorf("after the reopened message was sent the event is %+v, want done at %v in generation 1", after.Event, doneAt)
	}
	wantTry := driver.Attempt{MessageID: got.ID, Generation: 1, Number: 1, Outcome: "sent", StatusCode: 200, At: doneAt}
	same(f, "attempts", append(before.Tries, wantTry), after.Tries)
}

func reopenOnlyDeadEvents(f *fixture) {
	dead := newClaim("stripe", "dead", "{}", "billing")
	f.claimNew(t0, dead)
	f.kill(t0, "to-billing")
	half := newClaim("stripe", "half", "{}", "billing", "audit")
	f.claimNew(t0, half)
	f.kill(t0, "to-billing")
	pending := newClaim("stripe", "pending", "{}")
	pending.Work = driver.WorkQueued
	running, done := newClaim("stripe", "running", "{}", "crm"), newClaim("stripe", "done", "{}")
	rest := []driver.Claim{pending, running, done}
	f.claimNew(t0, rest...)
	before := f.event("stripe", "half")

	got := f.reopen(t0, pending.Key, half.Key, dead.Key, driver.EventKey("stripe", "unknown"), running.Key, done.Key, dead.Key)
	same(f, "reopened", []driver.Key{dead.Key}, got)
	for i := range rest {
		f.sameEvent(claimed(&rest[i], t0))
	}
	f.sameEvent(before)
	if got := f.event("stripe", "dead"); got.Generation != 1 || got.State != driver.StateRunning {
		f.Errorf("the dead event is %+v, want it running in generation 1", got.Event)
	}
	same(f, "reopening nothing", []driver.Key(nil), f.reopen(t0))
}

func reopenQueued(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}")
	c.Work = driver.WorkQueued
	f.claimNew(t0, c)
	var history []driver.HistoryEntry
	for generation := 1; generation <= 2; generation++ {
		f.killQueued(c.Key)
		got := f.event("stripe", "evt_1")
		if got.State != driver.StateDead || got.LastError != "no such order" || got.FailedAt.IsZero() {
			f.Fatalf("after Features.KillQueued the event is %+v, want it dead, with its error and time", got.Event)
		}
		same(f, "duplicate of a dead event", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(t0, c))
		same(f, "pruned", driver.PruneResult{}, f.prune(windows(day, t0.Add(365*day))))
		same(f, "reopened", []driver.Key{c.Key}, f.reopen(t0, c.Key))
		want := claimed(&c, t0)
		history = append(history, driver.HistoryEntry{At: t0, Action: driver.ActionReopened, Generation: generation})
		want.Generation, want.History = generation, history
		f.sameEvent(want, lastAnswer())
		same(f, "reopened again", []driver.Key(nil), f.reopen(t0, c.Key))
		same(f, "duplicate of a reopened event", []driver.ClaimResult{{Duplicate: true}}, f.claim(t0, c))
	}
}

func reopenAgain(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	for generation := range 3 {
		now := t0.Add(time.Duration(generation) * time.Hour)
		m := f.leaseOne(now, "to-billing")
		if m.ID != c.Messages[0].ID || m.Generation != generation || m.Attempt != 1 {
			f.Errorf("leased %+v, want attempt 1 of %s in generation %d", m, c.Messages[0].ID, generation)
		}
		f.mustComplete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "no"})
		same(f, "reopened", []driver.Key{c.Key}, f.reopen(now, c.Key))
		same(f, "reopened twice", []driver.Key(nil), f.reopen(now, c.Key))
	}
	if got := f.event("stripe", "evt_1"); got.Generation != 3 {
		f.Errorf("generation is %d, want 3", got.Generation)
	}
}

// reopenOldToken kills a message through the end of its last lease and reopens it. The sender that
// still holds the old lease must change nothing.
func reopenOldToken(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	once := driver.LeaseParams{Destination: "to-billing", Limit: 10, For: leaseFor, MaxAttempts: 1, Now: t0}
	old := f.leaseWith(&once)[0]
	once.Now = t0.Add(2 * leaseFor)
	if got := f.leaseWith(&once); len(got) > 0 {
		f.Fatalf("leased past the last attempt: %+v", got)
	}
	same(f, "reopened", []driver.Key{c.Key}, f.reopen(once.Now, c.Key))
	before := f.event("stripe", "evt_1")
	stale := driver.Completion{ID: old.ID, Token: old.Token, Outcome: driver.MessageSent, StatusCode: 200}
	same(f, "completion by the old token", []bool{false}, f.complete(once.Now, stale))
	f.release(once.Now, driver.MessageLease{ID: old.ID, Token: old.Token})
	f.sameEvent(before)

	fresh := f.leaseWith(&once)[0]
	if fresh.Token <= old.Token {
		f.Errorf("token is %d, want more than %d", fresh.Token, old.Token)
	}
	before = f.event("stripe", "evt_1")
	same(f, "completion by the old token", []bool{false}, f.complete(once.Now, stale))
	f.release(once.Now, driver.MessageLease{ID: old.ID, Token: old.Token})
	f.sameEvent(before)
}
