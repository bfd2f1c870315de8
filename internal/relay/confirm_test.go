package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/send"
)

// A message whose success is being confirmed holds no slot, unless very many are.
func TestConfirmingHoldsNoSlot(t *testing.T) {
	t.Parallel()
	r := testRelay(&releasingStore{}, destination(func(d *Destination) { d.Concurrency = 2 }))
	var all []*sending
	for range confirmsPerSlot*2 + 1 {
		s := &sending{Message: &driver.Message{}, holds: r.slots}
		s.holds <- struct{}{}
		r.leaveSlot(s)
		all = append(all, s)
	}
	if len(r.slots) != 1 || len(r.confirms) != confirmsPerSlot*2 {
		t.Errorf("%d slots and %d confirmations are in use", len(r.slots), len(r.confirms))
	}
	for _, s := range all {
		<-s.holds
	}
	if len(r.slots)+len(r.confirms) != 0 {
		t.Errorf("afterwards %d slots and %d confirmations are in use", len(r.slots), len(r.confirms))
	}
}

// A success in doubt costs an attempt, no time and no failure of the destination.
func TestDoubtIsSentAgainAtOnce(t *testing.T) {
	t.Parallel()
	r := testRelay(&releasingStore{}, destination(nil))
	got := attempted{status: 200, err: send.ErrDoubt, text: send.ErrDoubt.Error(), works: true, again: true}
	want := driver.Completion{ID: "1", Token: 3, Outcome: driver.MessageRetry, StatusCode: 200, Error: send.ErrDoubt.Error()}
	if diff := cmp.Diff(want, r.judge(&driver.Message{ID: "1", Token: 3, Attempt: 1}, &got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A stop waits for messages that are being confirmed, as it does for those that are being sent.
func TestStopWaitsForConfirmations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testRelay(&backlog{began: time.Now()}, destination(nil))
		s := &sending{Message: &driver.Message{}, holds: r.slots}
		s.holds <- struct{}{}
		done := false
		r.sending.Go(func() {
			r.leaveSlot(s)
			time.Sleep(time.Second)
			done = true
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.run(ctx, ctx)
		if !done {
			t.Error("the relay ended before the confirmation")
		}
	})
}
