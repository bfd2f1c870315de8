package storetest

import (
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func retryCases() []testCase {
	return []testCase{
		{"Unknown", retryUnknown},
		{"Waiting", retryWaiting},
		{"Dead", func(f *fixture) { retryEnded(f, false) }},
		{"Skipped", func(f *fixture) { retryEnded(f, true) }},
		{"SendingOrSent", retryRefused},
		{"BodyPruned", retryBodyPruned},
		{"OfAQueuedEvent", retryQueued},
	}
}

func (f *fixture) retryRefused(at time.Time, id string, want error) {
	f.Helper()
	err := f.s.RetryMessage(f.Context(), &driver.RetryMessageParams{ID: id, Now: at})
	f.refused(fmt.Sprintf("RetryMessage(%q)", id), want, err)
}

func retryUnknown(f *fixture) {
	f.retryRefused(t0, "msg_unknown", driver.ErrNotFound)
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	for _, id := range []string{"", "msg_", c.Messages[0].ID + " ", "%", "it's", "a\x00", "\xff"} {
		f.retryRefused(t0, id, driver.ErrNotFound)
	}
	f.sameEvent(claimed(&c, t0))
}

func retryWaiting(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-a")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: time.Hour, Error: "no"})
	want := f.event("stripe", "evt_1")
	now := t0.Add(time.Minute)
	f.noneDue(now, "to-a", "before the retry")
	f.retry(now, m.ID)
	want.Messages[0].DueAt = now
	want.History = []driver.HistoryEntry{{At: now, Action: driver.ActionRetried, MessageID: m.ID}}
	f.sameEvent(want)
	got := f.leaseOne(now, "to-a")
	same(f, "message", leased(&c, 0, t0, got.Token, 2), got)
	// A retry does not renew the attempts: the last one is the last.
	now = now.Add(time.Hour)
	f.mustComplete(now, driver.Completion{ID: got.ID, Token: got.Token, Outcome: driver.MessageRetry, RetryIn: time.Hour})
	f.retry(now, m.ID)
	last := driver.LeaseParams{Destination: "to-a", Limit: 1, For: leaseFor, MaxAttempts: 2, Now: now}
	if got := f.leaseAndBury(&last); len(got.Messages) != 0 || len(got.Buried) != 1 {
		f.Errorf("leased %+v, want the message buried after its last attempt", got)
	}
}

// retryEnded retries a dead or skipped message while other messages of its event are open.
func retryEnded(f *fixture, discarded bool) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	if discarded {
		f.discard(t0, letter(&c, 0))
	}
	want := f.event("stripe", "evt_1")
	now := t0.Add(time.Minute)
	f.retry(now, c.Messages[0].ID)
	due(&want.Messages[0], 1, now)
	derive(want)
	want.History = append(want.History, driver.HistoryEntry{At: now, Action: driver.ActionReplayed, Generation: 1, MessageID: c.Messages[0].ID})
	f.shown(want)
	got := f.leaseOne(now, "to-a")
	message := leased(&c, 0, t0, got.Token, 1)
	message.Generation, message.Replayed = 1, true
	same(f, "message", message, got)
	f.retryRefused(now, c.Messages[0].ID, driver.ErrOpen)
}

func retryRefused(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-a")
	before := f.event("stripe", "evt_1")
	f.retryRefused(t0, m.ID, driver.ErrOpen)
	f.retryRefused(t0.Add(leaseFor/2), m.ID, driver.ErrOpen)
	f.sameEvent(before)
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	before = f.event("stripe", "evt_1")
	f.retryRefused(t0, m.ID, driver.ErrSent)
	f.sameEvent(before)
}

// retryBodyPruned retries messages past retention. A sent one is refused as sent, a discarded one
// because its body is gone.
func retryBodyPruned(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	f.sendOne(t0, "to-a")
	f.kill(t0, "to-b")
	f.discard(t0, letter(&c, 1))
	now := t0.Add(2 * day)
	same(f, "pruned", driver.PruneResult{Bodies: 1}, f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: now}))
	before := f.event("stripe", "evt_1")
	f.retryRefused(now, c.Messages[0].ID, driver.ErrSent)
	f.retryRefused(now, c.Messages[1].ID, driver.ErrBodyPruned)
	f.sameEvent(before)
	f.prune(windows(day, now))
	f.retryRefused(now, c.Messages[1].ID, driver.ErrNotFound)
}

// retryQueued retries the message of an event with a row of its own. The row does not change.
func retryQueued(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	c.Work = driver.WorkQueued
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	f.moveQueued(c.Key, driver.StateDone)
	f.retry(t0, c.Messages[0].ID)
	got := f.event("stripe", "evt_1")
	same(f, "states", []string{driver.StateDone, driver.StatePending}, []string{got.State, got.Messages[0].State})
	same(f, "generation of the message", 1, got.Messages[0].Generation)
	f.leaseOne(t0, "to-a")
}
