package storetest

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

// lastFailures lists the last failed attempt of each message that was not sent since, newest first.
func lastFailures(f *fixture) {
	for _, id := range []string{"never", "retried", "dead", "sent"} {
		f.claimNew(t0, newClaim("stripe", id, "{}", "a"))
	}
	f.claimNew(t0, newClaim("stripe", "elsewhere", "{}", "b"))
	at := t0
	fail := func(of string, outcome driver.MessageOutcome, status int, text string) driver.Failure {
		at = at.Add(time.Hour)
		var got driver.Failure
		for _, m := range append(f.lease(at, "to-a", 9), f.lease(at, "to-b", 9)...) {
			c := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: status, Error: text, RetryIn: time.Minute}
			if m.EventID != of {
				if err := f.s.Release(f.Context(), &driver.ReleaseParams{Leases: []driver.MessageLease{{ID: m.ID, Token: m.Token}}, Now: at}); err != nil {
					f.Fatal(err)
				}
				continue
			}
			f.mustComplete(at, c)
			got = driver.Failure{
				Destination: m.Destination, MessageID: m.ID, Source: "stripe", EventID: of, Type: m.Type,
				Attempt: m.Attempt, StatusCode: status, Error: text, At: at,
			}
		}
		return got
	}
	fail("dead", driver.MessageRetry, 503, "busy")
	fail("sent", driver.MessageRetry, 0, "timeout")
	elsewhere := fail("elsewhere", driver.MessageRetry, 0, "refused")
	fail("retried", driver.MessageRetry, 500, "answered 500")
	dead := fail("dead", driver.MessageDead, 410, "gone")
	fail("sent", driver.MessageSent, 200, "")
	retried := fail("retried", driver.MessageRetry, 502, "answered 502")
	for _, c := range []struct {
		limit int
		want  []driver.Failure
	}{{9, []driver.Failure{elsewhere, retried, dead}}, {1, []driver.Failure{elsewhere, retried}}, {0, nil}} {
		got, err := f.s.Failures(f.Context(), []string{"to-b", "to-a", "to-nobody", "\xff"}, c.limit)
		if err != nil {
			f.Fatal(err)
		}
		same(f, "failures", c.want, got)
	}
}
