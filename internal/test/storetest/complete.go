package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func completeCases() []testCase {
	return []testCase{
		{"Sent", completeSent},
		{"RetryThenSent", completeRetry},
		{"Dead", completeDead},
		{"EventStateOfItsMessages", completeEventState},
		{"ManyMixed", completeManyMixed},
		{"Twice", completeTwice},
		{"StaleToken", completeStale},
		{"ExpiredButNotTaken", completeExpired},
		{"Nothing", completeNothing},
	}
}

// ended changes the n-th message of a detail as if its latest attempt had ended at the given time
// with d, and adds that attempt to the history.
func ended(want *driver.EventDetail, n int, at time.Time, d driver.Completion) *driver.EventDetail {
	m := &want.Messages[n]
	m.DueAt, m.LeasedUntil = time.Time{}, time.Time{}
	m.StatusCode, m.LastError = d.StatusCode, d.Error
	outcome := ""
	switch d.Outcome {
	case driver.MessageSent:
		m.State, m.SentAt, outcome = driver.StateSent, at, "sent"
	case driver.MessageRetry:
		m.State, m.DueAt, outcome = driver.StatePending, at.Add(d.RetryIn), "retry"
	case driver.MessageDead:
		m.State, m.FailedAt, outcome = driver.StateDead, at, "dead"
	}
	want.Tries = append(want.Tries, driver.Attempt{
		MessageID: m.ID, Generation: m.Generation, Number: m.Attempts, Outcome: outcome,
		StatusCode: d.StatusCode, Error: d.Error, At: at, Took: d.Took,
	})
	return want
}

func completeSent(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	m := f.leaseOne(t0.Add(time.Second), "to-billing")
	at := t0.Add(2 * time.Second)
	d := driver.Completion{
		ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 204, Took: 123456 * time.Microsecond,
	}
	same(f, "answers", []bool{true}, f.complete(at, d))
	want := ended(sending(claimed(&c, t0), 0, t0, 1), 0, at, d)
	want.State, want.ProcessedAt = driver.StateDone, at
	f.sameEvent(want)
	f.noneDue(at.Add(24*time.Hour), "to-billing", "after it was sent")
}

func completeRetry(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	want, now := claimed(&c, t0), t0
	for attempt, retryIn := range []time.Duration{10 * time.Second, 0, 12 * time.Hour, 1500 * time.Microsecond} {
		m := f.leaseOne(now, "to-billing")
		same(f, "message", leased(&c, 0, t0, m.Token, attempt+1), m)
		now = now.Add(time.Second)
		d := driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: retryIn,
			StatusCode: 500 + attempt, Error: fmt.Sprint("it's the ", attempt, "th\n\"failure\" ", strings.Repeat("x", 4000)),
			Took: time.Duration(attempt) * time.Second,
		}
		f.mustComplete(now, d)
		want = ended(sending(want, 0, now, attempt+1), 0, now, d)
		want.LastError = d.Error
		f.sameEvent(want)
		now = now.Add(retryIn)
		if retryIn > 0 {
			f.noneDue(now.Add(-time.Microsecond), "to-billing", "before the retry is due")
		}
	}
	m := f.leaseOne(now, "to-billing")
	d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200}
	f.mustComplete(now, d)
	want = ended(sending(want, 0, now, 5), 0, now, d)
	want.State, want.ProcessedAt = driver.StateDone, now
	f.sameEvent(want, lastAnswer())
	if got := f.event("stripe", "evt_1").Messages[0].StatusCode; got != 200 {
		f.Errorf("the last answer's status is %d, want 200", got)
	}
}

func completeDead(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-billing")
	at := t0.Add(time.Second)
	d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "no such host", Took: time.Millisecond}
	f.mustComplete(at, d)
	want := ended(sending(claimed(&c, t0), 0, t0, 1), 0, at, d)
	want.State, want.FailedAt, want.LastError = driver.StateDead, at, d.Error
	f.sameEvent(want)
	f.noneDue(at.Add(24*time.Hour), "to-billing", "after it was made dead")
}

// completeEventState ends the three messages of an event one by one. The event is running while one
// is open, then done or dead.
func completeEventState(f *fixture) {
	for name, outcomes := range map[string][3]driver.MessageOutcome{
		"all sent":   {driver.MessageSent, driver.MessageSent, driver.MessageSent},
		"first dead": {driver.MessageDead, driver.MessageSent, driver.MessageSent},
		"last dead":  {driver.MessageSent, driver.MessageSent, driver.MessageDead},
		"all dead":   {driver.MessageDead, driver.MessageDead, driver.MessageDead},
	} {
		c := newClaim("stripe", name, "{}", "a", "b", "c")
		f.claimNew(t0, c)
		final := driver.StateDone
		for n, outcome := range outcomes {
			at := t0.Add(time.Duration(n+1) * time.Second)
			if got := f.event("stripe", name); got.State != driver.StateRunning || !got.Waiting || !got.ProcessedAt.IsZero() || !got.FailedAt.IsZero() {
				f.Errorf("%s: with %d messages open the event is %+v, want it running, and waiting", name, len(outcomes)-n, got.Event)
			}
			m := f.leaseOne(at, c.Messages[n].Destination)
			if got := f.event("stripe", name); got.State != driver.StateRunning {
				f.Errorf("%s: while a message is being sent the event is %s, want running", name, got.State)
			}
			if e := f.events(&driver.EventFilter{Source: "stripe", ID: name}).Events[0]; e.Waiting {
				f.Errorf("%s: while a message is being sent, the event waits", name)
			}
			f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome})
			if outcome == driver.MessageDead {
				final = driver.StateDead
			}
		}
		got := f.event("stripe", name)
		if got.State != final || got.ProcessedAt.IsZero() == (final == driver.StateDone) || got.FailedAt.IsZero() == (final == driver.StateDead) {
			f.Errorf("%s: the event is %+v, want it %s, with only that time set", name, got.Event, final)
		}
	}
}

func completeManyMixed(f *fixture) {
	const n = 60
	all := newClaims(n, "billing")
	f.claimNew(t0, all...)
	held := map[driver.Key]driver.Message{}
	for _, m := range f.lease(t0, "to-billing", n) {
		held[m.Key] = m
	}
	at := t0.Add(time.Second)
	var completions []driver.Completion
	var want []bool
	details := map[string]*driver.EventDetail{}
	for i := range all {
		m := held[all[i].Key]
		d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageOutcome(i%3 + 1), StatusCode: i, RetryIn: time.Duration(i) * time.Second}
		detail := sending(claimed(&all[i], t0), 0, t0, 1)
		switch i % 5 {
		case 3:
			d.Token++
		case 4:
			d.ID += "x"
		default:
			ended(detail, 0, at, d)
			switch d.Outcome {
			case driver.MessageSent:
				detail.State, detail.ProcessedAt = driver.StateDone, at
			case driver.MessageDead:
				detail.State, detail.FailedAt = driver.StateDead, at
			}
		}
		completions, want = append(completions, d), append(want, i%5 < 3)
		details[all[i].EventID] = detail
	}
	same(f, "answers", want, f.complete(at, completions...))
	for _, detail := range details {
		f.sameEvent(detail)
	}
}

func completeTwice(f *fixture) {
	for _, first := range []driver.MessageOutcome{driver.MessageRetry, driver.MessageDead, driver.MessageSent} {
		c := newClaim("stripe", fmt.Sprint("evt_", first), "{}", "billing")
		f.claimNew(t0, c)
		m := f.leaseOne(t0, "to-billing")
		f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: first, RetryIn: time.Hour, Error: "first"})
		before := f.event("stripe", c.EventID)
		for _, second := range []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry, driver.MessageDead} {
			got := f.complete(t0.Add(time.Second), driver.Completion{ID: m.ID, Token: m.Token, Outcome: second, StatusCode: 299, Error: "second"})
			same(f, "answers", []bool{false}, got)
		}
		f.sameEvent(before)
	}
	// The first of two outcomes in one call ends the lease.
	c := newClaim("stripe", "both", "{}", "billing")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-billing")
	sent := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200}
	dead := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 500, Error: "second"}
	same(f, "answers", []bool{true, false}, f.complete(t0, sent, dead))
	want := ended(sending(claimed(&c, t0), 0, t0, 1), 0, t0, sent)
	want.State, want.ProcessedAt = driver.StateDone, t0
	f.sameEvent(want)
}

func completeStale(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	lost := f.leaseOne(t0, "to-billing")
	now := t0.Add(2 * leaseFor)
	held := f.leaseOne(now, "to-billing")
	before := f.event("stripe", "evt_1")
	for _, token := range []int64{lost.Token, 0, -1, held.Token + 1} {
		for _, outcome := range []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry, driver.MessageDead} {
			got := f.complete(now, driver.Completion{ID: lost.ID, Token: token, Outcome: outcome, StatusCode: 299, Error: "stale"})
			same(f, fmt.Sprint("answers for token ", token), []bool{false}, got)
		}
	}
	f.sameEvent(before)
	f.mustComplete(now, driver.Completion{ID: held.ID, Token: held.Token, Outcome: driver.MessageSent})
}

// completeExpired completes with the token of an expired lease that no other worker has taken over.
// The token decides, not the clock: the message was sent.
func completeExpired(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	m := f.leaseOne(t0, "to-billing")
	at := t0.Add(10 * leaseFor)
	d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200}
	same(f, "answers", []bool{true}, f.complete(at, d))
	want := ended(sending(claimed(&c, t0), 0, t0, 1), 0, at, d)
	want.State, want.ProcessedAt = driver.StateDone, at
	f.sameEvent(want)
	f.noneDue(at, "to-billing", "after it was sent")
}

func completeNothing(f *fixture) {
	same(f, "answers", []bool(nil), f.complete(t0))
	unknown := driver.Completion{ID: "msg_unknown", Token: 1, Outcome: driver.MessageSent}
	same(f, "answers", []bool{false}, f.complete(t0, unknown))
}
