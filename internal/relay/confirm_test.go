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
	p := newPlaces(2)
	sit := func() {
		t.Helper()
		if taken, free := p.take(1, true); taken != 1 || !p.sit(0) {
			t.Fatalf("no slot, with room for %d of %d messages", taken, free)
		}
	}
	for range confirmsPerSlot * 2 {
		sit()
		if !p.confirm() {
			t.Fatal("a message kept its slot")
		}
	}
	sit()
	if p.confirm() {
		t.Error("one message more left its slot")
	}
	sit()
	if taken, free := p.take(1, false); taken != 0 || free != 0 || p.sit(0) {
		t.Errorf("with two messages in two slots there is room for %d", free)
	}
	for range confirmsPerSlot * 2 {
		p.leave(true)
	}
	p.leave(false)
	p.leave(false)
	if taken, free := p.take(2, false); taken != 2 || free != 2 {
		t.Errorf("afterwards there is room for %d messages", free)
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
		r.places.take(1, true)
		r.places.sit(0)
		done := false
		r.sending.Go(func() {
			r.places.confirm()
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
