package hookonce

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// staleStore gives one message, and knows of a newer one.
type staleStore struct {
	releasingStore
	message driver.Message
	applied driver.ObjectVersion
}

func (s *staleStore) Lease(context.Context, *driver.LeaseParams) (*driver.Leased, error) {
	return &driver.Leased{Messages: []driver.Message{s.message}}, nil
}

func (s *staleStore) Versions(context.Context, []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	return map[driver.Key]driver.ObjectVersion{s.applied.Object: s.applied}, nil
}

// What is not sent at all says nothing of the destination: neither is it a probe,
// nor does it go off the rate. What a handler enqueued is never stale.
func TestStaleMessageIsNoProbe(t *testing.T) {
	t.Parallel()
	src := staleSource(t, slog.New(slog.DiscardHandler), func(s *Source) {
		s.Stale = []StaleRule{{Key: "body:id", Version: "body:v"}}
	})
	newer, _ := src.stale.objectOf("r", &Event{Body: []byte(`{"id":1,"v":10}`)})
	message := driver.Message{ID: "msg_1", Token: 7, Attempt: 1, Route: "r", Source: "lab", EventID: "e", Body: []byte(`{"id":1,"v":9}`)}
	replayed, enqueued := message, message
	replayed.Replayed, enqueued.Route = true, ""

	for name, tt := range map[string]struct {
		message driver.Message
		want    driver.Completion
		probes  int // that the circuit allows afterwards
	}{
		"stale": {message, driver.Completion{
			ID: "msg_1", Token: 7, Outcome: driver.MessageStale, Error: "version 9 is older than 10, which was applied",
		}, 1},
		"replayed": {replayed, driver.Completion{
			ID: "msg_1", Token: 7, Outcome: driver.MessageSent, Applied: &driver.ObjectVersion{
				Object: newer.Object, Source: "lab", Version: encoded(t, "9"), Shown: "9",
			},
		}, 2},
		"enqueued": {enqueued, driver.Completion{ID: "msg_1", Token: 7, Outcome: driver.MessageSent}, 2},
	} {
		dest, err := newDestination(Destination{
			Name: "app", Sender: SenderFunc(func(context.Context, *Outgoing) error { return nil }), Concurrency: 2,
			Rate: Rate{Count: 1, Per: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		in := testEngine(&staleStore{message: tt.message, applied: newer})
		in.setup.Store(&setup{sources: map[string]*source{"lab": src}})
		r := newRelay(in, dest)
		for range circuitThreshold {
			r.circuit.report(false, false, time.Time{})
		}
		if _, err := r.step(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		r.sending.Wait()
		got := <-r.finished
		got.Took = 0
		if diff := cmp.Diff(tt.want, got.Completion); diff != "" {
			t.Errorf("%s: outcome (-want +got):\n%s", name, diff)
		}
		if n, _, _ := r.circuit.allow(2, time.Now()); n != tt.probes {
			t.Errorf("%s: %d sends are allowed, want %d", name, n, tt.probes)
		}
		if n, _ := dest.rate.takeUpTo(1, time.Now()); n != 2-tt.probes {
			t.Errorf("%s: %d more within the rate, want %d", name, n, 2-tt.probes)
		}
	}
}

// A Sender that our own stop cuts off is treated as HTTP is; what it refuses for
// good stays refused.
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
		"permanent": {Permanent(context.Canceled), 1, driver.MessageDead},
		"sent":      {nil, 3, driver.MessageSent},
	} {
		dest, err := newDestination(Destination{
			Name: "app", Retry: Retry{Attempts: 3, First: time.Hour},
			Sender: SenderFunc(func(context.Context, *Outgoing) error { return tt.err }),
		})
		if err != nil {
			t.Fatal(err)
		}
		store := &releasingStore{}
		done := newRelay(testEngine(store), dest).attemptSafely(ctx, &driver.Message{ID: "msg_1", Token: 7, Attempt: tt.attempt}, false)
		if done.Outcome != tt.want || done.RetryIn != 0 || len(store.leases) > 0 != (tt.want == 0) {
			t.Errorf("%s: outcome %d, again in %s, given back %v", name, done.Outcome, done.RetryIn, store.leases)
		}
	}
}
