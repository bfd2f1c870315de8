package hookpgx_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
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

	plans.bound(t, "lease, admit and complete", func() error {
		leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 100, For: time.Hour, MaxAttempts: 3})
		if err != nil {
			return err
		}
		p := &driver.AdmitParams{}
		for _, m := range leased.Messages {
			p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.MessageLease{ID: m.ID, Token: m.Token}})
		}
		admitted, err := w.Admit(t.Context(), p)
		if err != nil {
			return err
		}
		c := &driver.CompleteParams{}
		for i := range admitted {
			if admitted[i].Verdict == driver.Admitted {
				line := admitted[i].Line
				line.Source = "stripe"
				m := leased.Messages[i]
				c.Completions = append(c.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, Line: &line})
			}
		}
		if len(leased.Messages) > 0 && len(c.Completions) == 0 {
			t.Errorf("leased %d messages, and admitted none", len(leased.Messages))
		}
		_, err = w.Complete(t.Context(), c)
		return err
	})
	plans.bound(t, "sweep", func() error { _, _, err := w.SweepLines(t.Context(), driver.Key{}, 100); return err })
	plans.bound(t, "waiting behind", func() error { _, err := w.WaitingBehind(t.Context(), "msg_40"); return err })
	plans.bound(t, "pull back", func() error {
		_, _, err := w.PullBack(t.Context(), &driver.PullBackParams{Destinations: []string{"to-billing"}, Limit: 100})
		return err
	})
}

// TestPlansWithoutOrder claims, leases, completes and releases messages without order. No statement looks at a place or a line.
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
	var leased []driver.Message
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"claim", claim(false, "one", "two", "three")},
		{"claim of known ones", claim(true, "one", "two", "four")},
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
			if read["ordered_message"] || read["object_version"] {
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
