package hookpgx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
)

// keptPlansOfMessages looks for messages, leases and completes them in a session that planned all this
// on nearly empty tables. It keeps the plans, and they must be good for large tables too.
func keptPlansOfMessages(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprint("analyzed: ", analyzed), func(t *testing.T) {
			t.Parallel()
			w, plans := openExplained(t, &hookpgx.Options{ReceiveConns: 1})
			for i := range 8 {
				w.mustClaim(t, true, newClaim(fmt.Sprint("first ", i), "billing"))
			}
			if analyzed {
				analyze(t, w) // the server sees tables of one page
			}
			look := func() error {
				_, err := w.DueDestinations(t.Context(), []string{"to-audit", "none"})
				return err
			}
			if err := look(); err != nil {
				t.Fatal(err)
			}
			for _, untried := range []bool{false, true} {
				for _, outcome := range []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry} {
					if err := leaseAndComplete(t, w, "to-billing", 2, untried, outcome); err != nil {
						t.Fatal(err)
					}
				}
			}
			insertMany(t, w)
			w.exec(t, "UPDATE {schema}.message SET state = 0 WHERE state = 2")
			w.exec(t, `INSERT INTO {schema}.attempt (message_id, generation, number, outcome, at, took)
				SELECT 'other_' || i, 0, 1, 2, now(), 1 FROM generate_series(1, $1::int) i`, planEvents)
			plans.bound(t, "due destinations", look)
			for _, untried := range []bool{false, true} {
				for _, outcome := range []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry, driver.MessageDead, driver.MessageStale} {
					plans.bound(t, fmt.Sprintf("lease and complete, untried: %t, outcome %d", untried, outcome), func() error {
						return leaseAndComplete(t, w, "to-audit", 100, untried, outcome)
					})
				}
			}
			w.exec(t, "UPDATE {schema}.message SET state = 1, attempts = 1, due_at = now() WHERE destination = 'to-audit' AND state = 0")
			plans.bound(t, "lease of expired ones", func() error {
				return leaseAndComplete(t, w, "to-audit", 100, false, driver.MessageSent)
			})
		})
	}
}

// leaseAndComplete leases n messages, and gives all of them one outcome.
func leaseAndComplete(t *testing.T, w *world, destination string, n int, untried bool, outcome driver.MessageOutcome) error {
	t.Helper()
	leased, err := w.Lease(t.Context(), &driver.LeaseParams{
		Destination: destination, Limit: n, For: time.Hour, MaxAttempts: 3, Untried: untried,
	})
	if err != nil {
		return err
	}
	if len(leased.Messages) != n {
		t.Errorf("leased %d messages, want %d", len(leased.Messages), n)
	}
	p := &driver.CompleteParams{}
	for i, m := range leased.Messages {
		c := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, RetryIn: time.Hour}
		if outcome == driver.MessageRetry || outcome == driver.MessageDead {
			c.StatusCode, c.Error, c.ResponseType, c.Response = 500, "it refused", "text/plain", []byte("no")
		}
		if outcome == driver.MessageSent && i == 0 {
			c.Applied = &driver.ObjectVersion{Object: driver.EventKey("stripe", m.EventID), Source: "stripe", Version: []byte("1"), Shown: "1"}
		}
		p.Completions = append(p.Completions, c)
	}
	held, err := w.Complete(t.Context(), p)
	for i := range held {
		if !held[i] {
			t.Errorf("the lease of message %d was not held", i)
		}
	}
	return err
}
