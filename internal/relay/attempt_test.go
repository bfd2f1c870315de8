package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/send"
)

// destination returns a destination with the defaults of the library.
func destination(change func(*Destination)) *Destination {
	d := &Destination{
		Name: "app", Timeout: 15 * time.Second, Concurrency: 16, Rate: limit.New(0, 0),
		Retry: driver.Retry{Attempts: 20, First: 10 * time.Second, Max: 12 * time.Hour},
		HTTP:  send.Target{URL: "http://localhost/", Timeout: 15 * time.Second},
	}
	if change != nil {
		change(d)
	}
	d.Circuit = NewCircuit(d.Retry)
	return d
}

// testRelay returns a relay that sends to d. No stale rule matches its messages.
func testRelay(store Store, d *Destination) *relay {
	return newRelay(store, &Options{
		HTTP: send.New(nil), Log: slog.New(slog.DiscardHandler), Observe: func(*Observed) {},
		ObjectOf: func(*driver.Message) (driver.ObjectVersion, bool) { return driver.ObjectVersion{}, false },
	}, &turns{}, d)
}

// releasingStore notes the leases that are given back.
type releasingStore struct {
	Store
	refused string // a message whose lease cannot be released
	leases  []driver.MessageLease
}

func (s *releasingStore) Release(_ context.Context, p *driver.ReleaseParams) error {
	if slices.ContainsFunc(p.Leases, func(l driver.MessageLease) bool { return l.ID == s.refused }) {
		return driver.ErrBadRow
	}
	s.leases = append(s.leases, p.Leases...)
	return nil
}

// The database refuses the release of one lease. The others are released.
func TestRefusedRelease(t *testing.T) {
	t.Parallel()
	store := &releasingStore{refused: "msg_1"}
	messages := make([]driver.Message, 5)
	var want []string
	for i := range messages {
		if messages[i].ID = fmt.Sprint("msg_", i); i != 1 {
			want = append(want, messages[i].ID)
		}
	}
	if err := testRelay(store, destination(nil)).giveBack(t.Context(), messages); !errors.Is(err, driver.ErrBadRow) {
		t.Errorf("the error is %v, want %v", err, driver.ErrBadRow)
	}
	var got []string
	for _, l := range store.leases {
		got = append(got, l.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
}

// dispatched sends m and returns its outcome, or none if its lease was given back.
func dispatched(ctx context.Context, r *relay, m *driver.Message) driver.Completion {
	r.dispatch(ctx, ctx, &sending{Message: m})
	select {
	case done := <-r.finished:
		return done.Completion
	default:
		return driver.Completion{}
	}
}

// An attempt that the stop of this process cuts off counts, because the message may have arrived.
// Only the last attempt is taken back: otherwise stopping would make messages dead.
func TestInterruptedAttempts(t *testing.T) {
	t.Parallel()
	dest := destination(func(d *Destination) { d.Retry.Attempts = 3 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for attempt, want := range map[int]driver.MessageOutcome{1: driver.MessageRetry, 2: driver.MessageRetry, 3: 0} {
		store := &releasingStore{}
		r := testRelay(store, dest)
		if got := dispatched(ctx, r, &driver.Message{ID: "msg_1", Token: 7, Attempt: attempt}); got.Outcome != want {
			t.Errorf("attempt %d: outcome %d, want %d", attempt, got.Outcome, want)
		}
		var leases []driver.MessageLease
		if want == 0 {
			leases = []driver.MessageLease{{ID: "msg_1", Token: 7}}
		}
		if diff := cmp.Diff(leases, store.leases); diff != "" {
			t.Errorf("attempt %d: given back (-want +got):\n%s", attempt, diff)
		}
	}
}

// The stop of this process cuts off a Sender as it does HTTP. A message that the Sender refuses for
// good is dead all the same.
func TestInterruptedSenders(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		err     error
		attempt int
		want    driver.MessageOutcome
	}{
		"first":     {context.Canceled, 1, driver.MessageRetry},
		"last":      {context.Canceled, 3, 0},
		"permanent": {guard.Permanent(context.Canceled), 1, driver.MessageDead},
		"sent":      {nil, 3, driver.MessageSent},
	} {
		dest := destination(func(d *Destination) {
			d.Retry = driver.Retry{Attempts: 3, First: time.Hour}
			d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error { return tt.err }
		})
		store := &releasingStore{}
		done := dispatched(ctx, testRelay(store, dest), &driver.Message{ID: "msg_1", Token: 7, Attempt: tt.attempt})
		if done.Outcome != tt.want || done.RetryIn != 0 || len(store.leases) > 0 != (tt.want == 0) {
			t.Errorf("%s: outcome %d, retry in %s, given back %v", name, done.Outcome, done.RetryIn, store.leases)
		}
	}
}
