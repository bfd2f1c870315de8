package storetest

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

// orderHurry leaves messages alone that wait for their turn, and hurries those that wait for a retry.
func orderHurry(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true), newOrdered("x", 2, true))
	retry := outcomeOf(&f.goes(t0, "x_1")[0], driver.MessageRetry)
	retry.RetryIn = time.Hour
	f.mustComplete(t0, retry)
	f.hurry(t0, "to-a", 10, 1)
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	f.goes(t0, "x_2")
}

// orderFollowerRefused has the database refuse to make the next message of a line due. The message that was sent stays
// sent, and the sweep wakes the next one later.
func orderFollowerRefused(f *fixture) {
	second := newOrdered("x", 2, true)
	f.claimNew(t0, newOrdered("x", 1, true), second, newOrdered("y", 1, true))
	got := f.goes(t0, "x_1", "y_1")
	allow := f.with.Refuse(f.T, f.s, "message", second.Key)
	f.ends(t0, got, driver.MessageSent)
	for _, id := range []string{"x_1", "y_1"} {
		if m := f.event("stripe", id).Messages[0]; m.State != driver.StateSent {
			f.Errorf("%s is %s, want it sent", id, m.State)
		}
	}
	sweep := func() {
		f.Helper()
		if _, _, err := f.s.SweepLines(f.Context(), driver.Key{}, 10); err != nil {
			f.Errorf("SweepLines: %v", err)
		}
	}
	sweep()
	allow()
	f.noneDue(f.clock().Add(time.Second), "to-a", "while it was refused")
	sweep()
	f.goes(f.clock().Add(time.Second), "x_2")
}

// orderForcedOnce lets a passed version go because an operator said so. If it dies, also by its last lease, that no longer counts.
func orderForcedOnce(f *fixture) {
	for _, c := range []struct {
		object string
		die    func(got []ordered) time.Time
	}{
		{"answered", func(got []ordered) time.Time { f.ends(t0, got, driver.MessageDead); return t0 }},
		{"buried", func([]ordered) time.Time {
			now := t0.Add(leaseFor)
			buried := f.leaseAndBury(&driver.LeaseParams{Destination: "to-a", Limit: 10, For: leaseFor, MaxAttempts: 1, Now: now}).Buried
			if len(buried) != 1 {
				f.Fatalf("%d messages are buried, want 1", len(buried))
			}
			if err := f.s.SettleLines(f.Context(), []string{buried[0].ID}); err != nil {
				f.Fatal(err)
			}
			return now
		}},
	} {
		first := newOrdered(c.object, 1, true)
		f.claimNew(t0, first)
		f.ends(t0, f.goes(t0, c.object+"_1"), driver.MessageSent)
		f.claimNew(t0, newOrdered(c.object, 2, true))
		f.ends(t0, f.goes(t0, c.object+"_2"), driver.MessageSent)
		f.replay(&driver.ReplayParams{Key: first.Key, Mode: driver.ReplaySameID, Stale: true, Now: t0})
		now := c.die(f.goes(t0, c.object+"_1"))
		same(f, "replayed", []bool{true}, f.replayDead(now, letter(&first, 0)))
		admitted, passed := f.letGo(now)
		same(f, "stale after its death", []string{c.object + "_1"}, eventsOf(passed))
		same(f, "let go", []string(nil), eventsOf(admitted))
		f.ends(now, passed, driver.MessageStale)
	}
}
