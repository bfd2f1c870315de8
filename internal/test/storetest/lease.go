package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func leaseCases() []testCase {
	return []testCase{
		{"WhatItCarries", leaseCarries},
		{"OldestFirst", leaseOldestFirst},
		{"Untried", leaseUntried},
		{"OneDestination", leaseOneDestination},
		{"Queued", leaseQueued},
		{"RunsOut", leaseRunsOut},
		{"RunsOutForAll", leaseRunsOutForAll},
		{"RunsOutThenReleased", leaseRunsOutThenReleased},
		{"OfAnEarlierLife", leaseOfAnEarlierLife},
		{"Buried", leaseBuried},
		{"BuriedBesideLeased", leaseBuriedBesideLeased},
		{"ManyUsedUp", leaseManyUsedUp},
		{"DatabaseClock", leaseDatabaseClock},
		{"Release", leaseRelease},
		{"ReleaseOfALostLease", leaseReleaseLost},
		{"RefusedRow", leaseRefused},
	}
}

// leased returns the leased message of the claim c on its n-th route.
func leased(c *driver.Claim, n int, at time.Time, token int64, attempt int) driver.Message {
	m := c.Messages[n]
	return driver.Message{
		ID: m.ID, Key: c.Key, Token: token, Attempt: attempt,
		Source: c.Source, EventID: c.EventID, Type: c.Type, Route: m.Route, Destination: m.Destination,
		ReceivedAt: at, Headers: c.Headers, Body: c.Body,
	}
}

// sending changes the n-th message of a detail as if it had been leased at the given time.
func sending(want *driver.EventDetail, n int, at time.Time, attempt int) *driver.EventDetail {
	m := &want.Messages[n]
	m.State, m.Attempts = driver.StateSending, attempt
	m.DueAt, m.LeasedUntil = time.Time{}, at.Add(leaseFor)
	want.Attempts = max(want.Attempts, attempt)
	return want
}

func (f *fixture) noneDue(at time.Time, destination, when string) {
	f.Helper()
	if got := f.lease(at, destination, 10); len(got) > 0 {
		f.Errorf("%s: leased %+v, want nothing", when, got)
	}
}

func leaseCarries(f *fixture) {
	c := newClaim("stripe", "evt_1", "\x00\xff{}", "audit", "billing")
	c.OccurredAt = t0.Add(-time.Hour)
	f.claimNew(t0, c)
	at := t0.Add(time.Minute)
	got := f.leaseOne(at, "to-billing")
	if got.Token < 1 {
		f.Errorf("token is %d, want a positive one", got.Token)
	}
	same(f, "message", leased(&c, 1, t0, got.Token, 1), got)
	f.sameEvent(sending(claimed(&c, t0), 1, at, 1))
}

func leaseOldestFirst(f *fixture) {
	var want []string
	for i := range 7 {
		id := fmt.Sprint("evt_", i)
		f.claimNew(t0.Add(time.Duration(6-i)*time.Second), newClaim("stripe", id, "{}", "billing"))
		want = slices.Insert(want, 0, id)
	}
	now := t0.Add(time.Minute)
	for _, page := range [][]string{want[:3], want[3:6], want[6:], nil} {
		var got []string
		for _, m := range f.lease(now, "to-billing", 3) {
			got = append(got, m.EventID)
		}
		same(f, "leased", page, got)
	}
}

// leaseUntried leases with Untried: the most recently due message that was never tried. Retries,
// expired leases and messages that are not due are left out; released messages and those of a new
// generation count as untried.
func leaseUntried(f *fixture) {
	for i := range 4 {
		f.claimNew(t0.Add(time.Duration(i)*time.Second), newClaim("stripe", fmt.Sprint("evt_", i), "{}", "billing"))
	}
	next := func(at time.Time, limit int, want ...string) []driver.Message {
		f.Helper()
		got := f.leaseWith(&driver.LeaseParams{
			Destination: "to-billing", Limit: limit, For: leaseFor, MaxAttempts: maxAttempts, Now: at, Untried: true,
		})
		var ids []string
		for _, m := range got {
			ids = append(ids, m.EventID)
		}
		same(f, "leased", want, ids)
		return got
	}
	at, later := t0.Add(10*time.Second), t0.Add(time.Hour)
	m := next(at, 1, "evt_3")[0]
	f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry})
	m = next(at, 1, "evt_2")[0] // its lease expires
	m = next(at, 1, "evt_1")[0]
	f.release(at, driver.MessageLease{ID: m.ID, Token: m.Token})
	f.claimNew(later.Add(time.Second), newClaim("stripe", "evt_4", "{}", "billing"))
	next(later, 9, "evt_1", "evt_0")
	next(later, 9)
	m = next(later.Add(time.Second), 9, "evt_4")[0]
	f.mustComplete(later, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "410"})
	f.reopen(later, m.Key)
	next(later, 9, "evt_4")
}

func leaseOneDestination(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}", "billing", "audit"))
	f.noneDue(t0, "to-nobody", "a destination without messages")
	for _, route := range []string{"audit", "billing"} {
		if got := f.leaseOne(t0, "to-"+route); got.Route != route {
			f.Errorf("leased the message of route %q, want %q", got.Route, route)
		}
	}
	// Two routes of one event may have one destination.
	c := newClaim("stripe", "evt_2", "{}", "a", "b")
	c.Messages[0].Destination, c.Messages[1].Destination = "shared", "shared"
	f.claimNew(t0, c)
	got := f.lease(t0, "shared", 10)
	slices.SortFunc(got, func(a, b driver.Message) int { return int(a.Route[0]) - int(b.Route[0]) })
	if len(got) != 2 {
		f.Fatalf("leased %+v, want two messages", got)
	}
	for n := range got {
		same(f, "message", leased(&c, n, t0, got[n].Token, 1), got[n])
	}
}

// leaseQueued claims an event with a row of its own and messages. The messages are sent regardless
// of the row's state.
func leaseQueued(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	c.Work = driver.WorkQueued
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-billing")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200})
	got := f.event("stripe", "evt_1")
	if got.State != driver.StatePending || got.Messages[0].State != driver.StateSent {
		f.Errorf("got the event %s and its message %s, want pending and sent", got.State, got.Messages[0].State)
	}
}

func leaseRunsOut(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	now, token := t0, int64(0)
	var tries []driver.Attempt
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		got := f.leaseOne(now, "to-billing")
		if got.Token <= token {
			f.Errorf("attempt %d has token %d, want more than %d", attempt, got.Token, token)
		}
		token = got.Token
		message := leased(&c, 0, t0, token, attempt)
		want := sending(claimed(&c, t0), 0, now, attempt)
		if message.Expired = attempt > 1; message.Expired {
			tries = append(tries, lost(message.ID, 0, attempt-1, "retry", now))
		}
		same(f, "message", message, got)
		want.Tries = tries
		f.sameEvent(want, lastAnswer())
		f.noneDue(now, "to-billing", "at the start of the lease")
		now = now.Add(leaseFor)
		f.noneDue(now.Add(-time.Millisecond), "to-billing", "at the end of the lease")
		now = now.Add(time.Millisecond)
	}
	f.noneDue(now, "to-billing", "after the last attempt")
	want := claimed(&c, t0)
	want.State, want.Attempts, want.FailedAt = driver.StateDead, maxAttempts, now
	m := &want.Messages[0]
	m.State, m.Attempts, m.FailedAt, m.DueAt = driver.StateDead, maxAttempts, now, time.Time{}
	want.Tries = append(tries, lost(m.ID, 0, maxAttempts, "dead", now))
	f.sameEvent(want, lastAnswer())
	same(f, "last error", driver.ErrorLastLeaseRanOut, f.event("stripe", "evt_1").LastError)
	f.noneDue(now.Add(time.Hour), "to-billing", "after it was made dead")
}

// leaseRunsOutForAll mixes messages without attempts left and due messages of one destination. The
// former must not hide the latter.
func leaseRunsOutForAll(f *fixture) {
	const n = 5
	terms := driver.LeaseParams{Destination: "to-billing", Limit: n, For: leaseFor, MaxAttempts: 1, Now: t0}
	for i := range n {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("used_", i), "{}", "billing"))
	}
	if got := f.leaseWith(&terms); len(got) != n {
		f.Fatalf("leased %d messages, want %d", len(got), n)
	}
	for i := range n {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("due_", i), "{}", "billing"))
	}
	terms.Now, terms.Limit = t0.Add(2*leaseFor), 2
	got := map[string]bool{}
	for range n + n { // enough calls for a store that buries two messages per call
		for _, m := range f.leaseWith(&terms) {
			got[m.EventID] = true
		}
	}
	same(f, "leased", map[string]bool{"due_0": true, "due_1": true, "due_2": true, "due_3": true, "due_4": true}, got)
	page := f.events(&driver.EventFilter{State: driver.StateDead})
	if len(page.Events) != n {
		f.Errorf("%d events are dead, want the %d whose attempts are used up", len(page.Events), n)
	}
}

func leaseDatabaseClock(f *fixture) {
	f.claimNew(time.Time{}, newClaim("stripe", "evt_1", "{}", "billing"))
	before := f.clock().Truncate(time.Microsecond)
	m := f.leaseOne(time.Time{}, "to-billing")
	after := f.clock()
	until := f.event("stripe", "evt_1").Messages[0].LeasedUntil
	if until.Before(before.Add(leaseFor)) || until.After(after.Add(leaseFor)) {
		f.Errorf("leased until %v, want %v past a time from %v to %v", until, leaseFor, before, after)
	}
	f.noneDue(time.Time{}, "to-billing", "while the lease holds")
	f.mustComplete(time.Time{}, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: time.Hour})
	due := f.event("stripe", "evt_1").Messages[0].DueAt
	if after = f.clock(); due.Before(before.Add(time.Hour)) || due.After(after.Add(time.Hour)) {
		f.Errorf("due at %v, want an hour past a time from %v to %v", due, before, after)
	}
	f.noneDue(time.Time{}, "to-billing", "before the retry is due")
}

func leaseRelease(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	token := int64(0)
	for i := range 2 * maxAttempts {
		now := t0.Add(time.Duration(i) * time.Second)
		m := f.leaseOne(now, "to-billing")
		if m.Attempt != 1 || m.Token <= token {
			f.Errorf("leased attempt %d with token %d, want attempt 1 and more than %d", m.Attempt, m.Token, token)
		}
		token = m.Token
		released := now.Add(time.Millisecond)
		f.release(released, driver.MessageLease{ID: m.ID, Token: m.Token})
		want := claimed(&c, t0)
		want.Messages[0].DueAt = released
		f.sameEvent(want)
	}
}

func leaseReleaseLost(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "audit", "billing")
	f.claimNew(t0, c)
	first := f.leaseOne(t0, "to-billing")
	now := t0.Add(2 * leaseFor)
	held := f.leaseOne(now, "to-billing")
	other := f.leaseOne(now, "to-audit")
	f.release(now,
		driver.MessageLease{ID: first.ID, Token: first.Token},
		driver.MessageLease{ID: "msg_unknown", Token: 1},
		driver.MessageLease{ID: other.ID, Token: other.Token},
		driver.MessageLease{ID: held.ID, Token: held.Token + 1},
	)
	want := sending(claimed(&c, t0), 1, now, 2)
	want.Messages[0].DueAt = now // the one held lease was released
	want.Tries = []driver.Attempt{lost(first.ID, 0, 1, "retry", now)}
	f.sameEvent(want, lastAnswer())
	f.mustComplete(now, driver.Completion{ID: held.ID, Token: held.Token, Outcome: driver.MessageSent, StatusCode: 200})
	before := f.event("stripe", "evt_1")
	f.release(now, driver.MessageLease{ID: held.ID, Token: held.Token})
	f.sameEvent(before)
	f.release(now)
}

// leaseRefused has a trigger that refuses to change one message. The others are leased and recorded, and that one is
// named, so that the caller can step over it.
func leaseRefused(f *fixture) {
	p := &driver.LeaseParams{Destination: "to-billing", Limit: 10, For: leaseFor, MaxAttempts: maxAttempts, Now: t0.Add(time.Hour)}
	var refused string
	for i := range 7 {
		c := newClaim("stripe", fmt.Sprint(i), "{}", "billing")
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
		if i == 3 {
			refused = c.Messages[0].ID
			f.with.Refuse(f.T, f.s, "message", c.Key)
		}
	}
	var ids, named []string
	for range 10 {
		leased := f.leaseAndBury(p)
		for _, m := range leased.Messages {
			ids = append(ids, m.EventID)
			f.mustComplete(p.Now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200})
		}
		for _, m := range leased.Refused {
			named, p.Skip = append(named, m.ID), append(p.Skip, m.ID)
			if !errors.Is(m.Err, driver.ErrBadRow) {
				f.Errorf("the row was refused with %v, want %v", m.Err, driver.ErrBadRow)
			}
		}
	}
	slices.Sort(ids)
	same(f, "leased", []string{"0", "1", "2", "4", "5", "6"}, ids)
	same(f, "refused", []string{refused}, named)
}
