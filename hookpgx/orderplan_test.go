package hookpgx_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// plansOfLines sends ordered messages while half of all open ones stand in one line, and the others in
// lines of ten. No statement reads a line whole, or those of others.
func plansOfLines(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	insertEvents(t, w, fewEvents)
	w.exec(t, "UPDATE {schema}.message SET state = 0, destination = 'to-billing', due_at = {schema}.parked()")
	w.exec(t, `
		INSERT INTO {schema}.ordered_message (message_id, line, source, destination, version, received_at, hold)
		SELECT 'msg_' || i, sha256(CASE WHEN i % 2 = 0 THEN 'long' ELSE (i / 20)::text END::bytea), 'stripe', 'to-billing',
			decode(lpad(to_hex(i), 8, '0'), 'hex'), now(), true
		FROM generate_series(1, $1::int) i`, fewEvents)
	w.exec(t, "UPDATE {schema}.message SET due_at = now() - interval '1 minute' WHERE id IN ('msg_1', 'msg_2', 'msg_21', 'msg_40', 'msg_41')")
	analyze(t, w)
	w.exec(t, "VACUUM ANALYZE {schema}.ordered_message")

	dbtest.Beliefs(t, w.exec, w.schema, []string{"message", "ordered_message", "object_version"}, func(believed string) {
		plans.bound(t, "lease, admit and complete: "+believed, func() error {
			if sendInOrder(t, w) == 0 {
				t.Error("no message was sent")
			}
			return nil
		})
		plans.bound(t, "sweep: "+believed, func() error { _, _, err := w.SweepLines(t.Context(), driver.Key{}, 100); return err })
	})
	plans.bound(t, "waiting behind", func() error { _, err := w.WaitingBehind(t.Context(), "msg_40"); return err })
	plans.bound(t, "pull back", func() error {
		_, _, err := w.PullBack(t.Context(), &driver.PullBackParams{Destinations: []string{"to-billing"}, Limit: 100})
		return err
	})
}

// TestPlansOfEventLines handles ordered events, with lines as in TestPlansOfLines.
func TestPlansOfEventLines(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	insertEvents(t, w, fewEvents)
	w.exec(t, "UPDATE {schema}.event_state SET state = 0, due_at = {schema}.parked(), failed_at = NULL, note = '', signature = NULL")
	w.exec(t, `
		INSERT INTO {schema}.ordered_message (message_id, line, source, destination, version, received_at, hold)
		SELECT {schema}.place_of(sha256(i::text::bytea)), sha256(CASE WHEN i % 20 = 0 THEN 'long' ELSE (i / 200)::text END::bytea), 'stripe',
			chr(10) || 'stripe', decode(lpad(to_hex(i), 8, '0'), 'hex'), now(), true
		FROM generate_series(10, $1::int, 10) i`, fewEvents)
	w.exec(t, `UPDATE {schema}.event_state SET due_at = now() - interval '1 minute'
		WHERE key IN (SELECT sha256(i::text::bytea) FROM unnest(ARRAY[10, 20, 210, 400, 410]) i)`)
	analyze(t, w)
	w.exec(t, "VACUUM ANALYZE {schema}.ordered_message")

	dbtest.Beliefs(t, w.exec, w.schema, []string{"event_state", "ordered_message", "object_version"}, func(believed string) {
		plans.bound(t, "reserve, admit, take and finish: "+believed, func() error {
			reserved, err := w.Reserve(t.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 100, For: time.Hour})
			if err != nil {
				return err
			}
			p := &driver.AdmitParams{}
			for i := range reserved {
				p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.Reserved(&reserved[i])})
			}
			admitted, err := w.Admit(t.Context(), p)
			if err != nil {
				return err
			}
			take := &driver.TakeParams{Source: "stripe", Limit: len(admitted), HandlerTimeout: time.Second}
			finish := &driver.FinishParams{}
			for i := range admitted {
				if admitted[i].Verdict == driver.Admitted {
					line := admitted[i].Line
					line.Source = "stripe"
					take.Keys, take.Lines = append(take.Keys, reserved[i].Key), append(take.Lines, line.Object)
					finish.Results = append(finish.Results, driver.WorkResult{Key: reserved[i].Key, Outcome: driver.WorkSucceeded, Line: &line})
				}
			}
			if len(finish.Results) == 0 {
				t.Errorf("reserved %d events, and admitted none", len(reserved))
			}
			run, err := w.Take(t.Context(), take)
			if err != nil {
				return err
			}
			return run.Finish(t.Context(), finish)
		})
		plans.bound(t, "sweep: "+believed, func() error { _, _, err := w.SweepLines(t.Context(), driver.Key{}, 100); return err })
	})
	plans.bound(t, "pull back", func() error {
		_, _, err := w.PullBack(t.Context(), &driver.PullBackParams{Sources: []string{"stripe"}, Limit: 100})
		return err
	})
}

// TestPlansWithoutOrder claims, leases, completes and releases messages without order, and takes and finishes events. No
// statement looks at a place or a line.
func TestPlansWithoutOrder(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	claim := func(known bool, ids ...string) func() error {
		return func() error {
			var claims []driver.Claim
			for _, id := range ids {
				claims = append(claims, newClaim(id, "a"))
			}
			slices.SortFunc(claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
			_, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: claims, MostlyKnown: known})
			return err
		}
	}
	take := func(tried bool, outcome driver.WorkOutcome) func() error {
		return func() error {
			run, err := w.Take(t.Context(), &driver.TakeParams{
				Source: "stripe", Types: []string{"*"}, Limit: 1, Tried: tried, HandlerTimeout: time.Second, Retry: driver.Retry{Attempts: 9},
			})
			if err != nil {
				return err
			}
			return run.Finish(t.Context(), &driver.FinishParams{Results: []driver.WorkResult{{Key: run.Events()[0].Key, Outcome: outcome}}})
		}
	}
	var leased []driver.Message
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"claim", claim(false, "one", "two", "three")},
		{"claim of known ones", claim(true, "one", "two", "four")},
		{"claim for a handler", func() error {
			c := newClaim("handled")
			c.Work = driver.WorkQueued
			_, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}})
			return err
		}},
		{"take, and retry", take(false, driver.WorkRetry)},
		{"take again, and finish", take(true, driver.WorkSucceeded)},
		{"lease", func() error {
			got, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-a", Limit: 100, For: time.Hour, MaxAttempts: 3})
			if err == nil {
				leased = got.Messages
			}
			return err
		}},
		{"release", func() error {
			return w.Release(t.Context(), &driver.ReleaseParams{Leases: []driver.MessageLease{{ID: leased[0].ID, Token: leased[0].Token}}})
		}},
		{"complete", func() error {
			c := &driver.CompleteParams{}
			for i, m := range leased[1:] {
				outcome := []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry, driver.MessageDead}[i]
				c.Completions = append(c.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 500})
			}
			_, err := w.Complete(t.Context(), c)
			return err
		}},
	} {
		all := plans.of(t, step.run)
		if len(all) == 0 {
			t.Errorf("%s: the server logged no plan", step.name)
		}
		for i := range all {
			read := map[string]bool{}
			all[i].Plan.touch(read)
			// The end of a run writes the versions of stale rules, none here.
			if read["ordered_message"] || read["object_version"] && !strings.HasPrefix(step.name, "take") {
				t.Errorf("%s: a plan without order touches lines: %+v", step.name, all[i].Plan)
			}
		}
	}
}

// touch adds the tables of the node and its children, also those that it only writes.
func (n *planNode) touch(tables map[string]bool) {
	tables[n.Relation] = true
	for i := range n.Plans {
		n.Plans[i].touch(tables)
	}
}
