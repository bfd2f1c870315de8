package hookpgx_test

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// TestPlansOfLines sends ordered messages while half of all open ones stand in one line, and the others in
// lines of ten. No statement reads a line whole, or those of others.
func TestPlansOfLines(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	insertMany(t, w)
	w.exec(t, "UPDATE {schema}.message SET state = 0, destination = 'to-billing', due_at = {schema}.parked()")
	w.exec(t, `
		INSERT INTO {schema}.ordered_message (message_id, line, source, destination, version, received_at, hold)
		SELECT 'msg_' || i, sha256(CASE WHEN i % 2 = 0 THEN 'long' ELSE (i / 20)::text END::bytea), 'stripe', 'to-billing',
			decode(lpad(to_hex(i), 8, '0'), 'hex'), now(), true
		FROM generate_series(1, $1::int) i`, planEvents)
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
