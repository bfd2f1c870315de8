package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// lost returns the recorded attempt of an expired lease, as of the lease that finds it at the given
// time.
func lost(id string, generation, number int, outcome string, at time.Time) driver.Attempt {
	reason := driver.ErrorLeaseRanOut
	if outcome == "dead" {
		reason = driver.ErrorLastLeaseRanOut
	}
	return driver.Attempt{MessageID: id, Generation: generation, Number: number, Outcome: outcome, Error: reason, At: at}
}

// buried returns the n-th message of c as reported by a lease that finds it without attempts left.
func buried(c *driver.Claim, n int, at time.Time, attempts int, expired bool) driver.Message {
	m := leased(c, n, at, 0, attempts)
	m.Headers, m.Body, m.Expired = nil, nil, expired
	return m
}

func byEventID(a, b driver.Message) int { return strings.Compare(a.EventID, b.EventID) }

// leaseOfAnEarlierLife completes a lease of an event that was pruned, delivered again and leased
// again. The message has the same id, but another token.
func leaseOfAnEarlierLife(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	first := f.leaseOne(t0, "to-billing")
	sent := driver.Completion{ID: first.ID, Token: first.Token, Outcome: driver.MessageSent, StatusCode: 200}
	f.mustComplete(t0, sent)
	later := t0.Add(2 * time.Hour)
	f.prune(&driver.PruneParams{DedupeWindow: time.Hour, Retention: time.Hour, Now: later})
	f.claimNew(later, c)
	second := f.leaseOne(later, "to-billing")
	if second.ID != first.ID || second.Token <= first.Token {
		f.Errorf("the second life has message %s under token %d, after %s under %d", second.ID, second.Token, first.ID, first.Token)
	}
	same(f, "completing the lease of the first life", []bool{false}, f.complete(later, sent))
}

// leaseRunsOutThenReleased releases a lease that followed an expired one. The expired lease stays
// recorded as an attempt, the released one is not, and attempt numbers have no gap.
func leaseRunsOutThenReleased(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	f.leaseOne(t0, "to-billing")
	at := t0.Add(2 * leaseFor)
	second := f.leaseOne(at, "to-billing")
	f.release(at, driver.MessageLease{ID: second.ID, Token: second.Token})
	want := claimed(&c, t0)
	want.Messages[0].Attempts, want.Messages[0].DueAt, want.Attempts = 1, at, 1
	want.Tries = []driver.Attempt{lost(second.ID, 0, 1, "retry", at)}
	f.sameEvent(want, lastAnswer())

	third := f.leaseOne(at, "to-billing")
	same(f, "message after the release", leased(&c, 0, t0, third.Token, 2), third)
	d := driver.Completion{ID: third.ID, Token: third.Token, Outcome: driver.MessageSent, StatusCode: 200}
	f.mustComplete(at, d)
	ended(sending(want, 0, at, 2), 0, at, d)
	want.State, want.ProcessedAt = driver.StateDone, at
	f.sameEvent(want, lastAnswer())

	// The outcome of a late completion replaces the expired lease.
	late := newClaim("stripe", "evt_2", "{}", "billing")
	f.claimNew(t0, late)
	m := f.leaseOne(t0, "to-billing")
	d = driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, StatusCode: 500, Error: "no"}
	f.mustComplete(at, d)
	want = ended(sending(claimed(&late, t0), 0, t0, 1), 0, at, d)
	f.sameEvent(want, lastAnswer())
	after := f.leaseOne(at, "to-billing")
	if after.Expired || after.Attempt != 2 {
		f.Errorf("leased %+v, want attempt 2 after a lease that was completed", after)
	}
}

// leaseBuried has more messages without attempts left than one lease may take, for both reasons.
// Each is reported once, and none is leased.
func leaseBuried(f *fixture) {
	const each = 7
	var want []driver.Message
	var all []driver.Claim
	for i := range each {
		expired := newClaim("stripe", fmt.Sprint("expired_", i), "{}", "billing")
		lowered := newClaim("stripe", fmt.Sprint("lowered_", i), "{}", "billing")
		want = append(want, buried(&expired, 0, t0, 2, true), buried(&lowered, 0, t0, 2, false))
		all = append(all, expired, lowered)
	}
	f.claimNew(t0, all...)
	terms := driver.LeaseParams{Destination: "to-billing", Limit: 10 * each, For: leaseFor, MaxAttempts: maxAttempts}
	for attempt := range 2 {
		terms.Now = t0.Add(time.Duration(attempt) * time.Second)
		for _, m := range f.leaseWith(&terms) {
			if attempt == 1 && strings.HasPrefix(m.EventID, "expired") {
				continue
			}
			f.mustComplete(terms.Now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, Error: "no answer"})
		}
	}
	terms.Now, terms.Limit, terms.MaxAttempts = t0.Add(time.Hour), 3, 2
	var got []driver.Message
	for range 2 * each { // enough calls for a store that buries a few messages per call
		found := f.leaseAndBury(&terms)
		if len(found.Messages) > 0 {
			f.Fatalf("leased %+v past the last attempt", found.Messages)
		}
		if len(found.Buried) == 0 {
			break
		}
		got = append(got, found.Buried...)
	}
	slices.SortFunc(got, byEventID)
	slices.SortFunc(want, byEventID)
	same(f, "buried", want, got)
	for i := range all {
		e := f.event("stripe", all[i].EventID)
		last := e.Tries[len(e.Tries)-1]
		switch outcome, expired := last.Outcome, strings.HasPrefix(e.EventID, "expired"); {
		case e.State != driver.StateDead || e.Attempts != 2 || len(e.Tries) != 2 || !e.FailedAt.Equal(terms.Now):
			f.Errorf("%s is %+v with the attempts %+v, want it dead after two of them", e.EventID, e.Event, e.Tries)
		case expired && (outcome != "dead" || !last.At.Equal(terms.Now) || last.Number != 2):
			f.Errorf("%s has %+v as its last attempt, want the lease that ran out", e.EventID, last)
		case !expired && (outcome != "retry" || e.LastError != "no answer"):
			f.Errorf("%s has %+v as its last attempt and the error %q, want those from before the limit was lowered", e.EventID, last, e.LastError)
		}
	}
}

// leaseBuriedBesideLeased calls Lease once for messages to lease and messages to bury. It reports
// both.
func leaseBuriedBesideLeased(f *fixture) {
	terms := driver.LeaseParams{Destination: "to-billing", Limit: 10, For: leaseFor, MaxAttempts: 1, Now: t0}
	used, due := newClaim("stripe", "used", "{}", "billing"), newClaim("stripe", "due", "{}", "billing")
	f.claimNew(t0, used)
	f.leaseWith(&terms)
	f.claimNew(t0, due)
	terms.Now = t0.Add(2 * leaseFor)
	got := f.leaseAndBury(&terms)
	if len(got.Messages) != 1 || len(got.Buried) != 1 {
		f.Fatalf("leased %+v, want one leased message and one buried", got)
	}
	same(f, "message", leased(&due, 0, t0, got.Messages[0].Token, 1), got.Messages[0])
	same(f, "buried", buried(&used, 0, t0, 1, true), got.Buried[0])
	if none := f.leaseAndBury(&terms); len(none.Messages)+len(none.Buried) > 0 {
		f.Errorf("the next lease found %+v, want nothing", none)
	}
	terms.Limit = 0
	terms.Now = terms.Now.Add(2 * leaseFor)
	if none := f.leaseAndBury(&terms); len(none.Messages)+len(none.Buried) > 0 {
		f.Errorf("a lease of no messages found %+v", none)
	}
}

// leaseManyUsedUp has more messages without attempts left than one call examines, and one due
// message after them. No call buries all, and repeating the call while it buries some reaches the
// due message.
func leaseManyUsedUp(f *fixture) {
	const rounds, limit = 3, 2
	const used = rounds * driver.MaxLeaseRounds * limit
	terms := driver.LeaseParams{Destination: "to-billing", Limit: used, For: leaseFor, MaxAttempts: 1, Now: t0}
	f.claimNew(t0, newClaims(used, "billing")...)
	if got := f.leaseWith(&terms); len(got) != used {
		f.Fatalf("leased %d messages, want %d", len(got), used)
	}
	terms.Now, terms.Limit = t0.Add(2*leaseFor), limit
	f.claimNew(terms.Now, newClaim("stripe", "due", "{}", "billing"))
	buried := map[string]bool{}
	for {
		got := f.leaseAndBury(&terms)
		if len(got.Buried) > driver.MaxLeaseRounds*limit {
			f.Errorf("one call buried %d messages, want %d at most", len(got.Buried), driver.MaxLeaseRounds*limit)
		}
		for _, m := range got.Buried {
			buried[m.ID] = true
		}
		if len(got.Messages) > 0 {
			same(f, "leased", []string{"due"}, []string{got.Messages[0].EventID})
			break
		}
		if len(got.Buried) == 0 {
			f.Fatal("the message after the buried ones was not found")
		}
	}
	if len(buried) != used {
		f.Errorf("%d messages were buried, want %d", len(buried), used)
	}
}
