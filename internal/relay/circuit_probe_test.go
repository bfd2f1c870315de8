package relay

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

// staleStore gives one message, and knows a newer version of its object.
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

// A stale message is not sent, so it is no probe and takes no token of the rate. A message that a
// handler enqueued is never stale.
func TestStaleMessageIsNoProbe(t *testing.T) {
	t.Parallel()
	object := driver.ObjectKey("lab", "r", "1")
	newer := driver.ObjectVersion{Object: object, Source: "lab", Version: encoded("10"), Shown: "10"}
	older := driver.ObjectVersion{Object: object, Source: "lab", Version: encoded("9"), Shown: "9"}
	message := driver.Message{ID: "msg_1", Token: 7, Attempt: 1, Route: "r", Source: "lab", EventID: "e", Body: []byte("{}")}
	replayed, enqueued := message, message
	replayed.Replayed, enqueued.Route = true, ""

	for name, tt := range map[string]struct {
		message driver.Message
		want    driver.Completion
		probes  int // sends that the circuit allows afterwards
	}{
		"stale": {message, driver.Completion{
			ID: "msg_1", Token: 7, Outcome: driver.MessageStale, Error: "version 9 is older than 10, which was applied",
		}, 1},
		"replayed": {replayed, driver.Completion{
			ID: "msg_1", Token: 7, Outcome: driver.MessageSent, Applied: &older,
		}, 2},
		"enqueued": {enqueued, driver.Completion{ID: "msg_1", Token: 7, Outcome: driver.MessageSent}, 2},
	} {
		dest := destination(func(d *Destination) {
			d.Concurrency, d.Rate = 2, limit.New(1, time.Hour)
			d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error { return nil }
		})
		r := testRelay(&staleStore{message: tt.message, applied: newer}, dest)
		r.o.ObjectOf = func(m *driver.Message) (driver.ObjectVersion, bool) { return older, m.Route != "" }
		for range circuitThreshold {
			r.dest.Circuit.report(false, false, time.Time{})
		}
		if _, err := r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(r.leased)
		r.feed(t.Context(), t.Context())
		r.sending.Wait()
		got := <-r.finished
		got.Took = 0
		if diff := cmp.Diff(tt.want, got.Completion); diff != "" {
			t.Errorf("%s: outcome (-want +got):\n%s", name, diff)
		}
		if n, _, _ := r.dest.Circuit.allow(2, time.Now()); n != tt.probes {
			t.Errorf("%s: %d sends are allowed, want %d", name, n, tt.probes)
		}
		if n, _ := dest.Rate.TakeUpTo(1, time.Now()); n != 2-tt.probes {
			t.Errorf("%s: the rate allows %d more, want %d", name, n, 2-tt.probes)
		}
	}
}

// stoppingStore stops its relay with the lease that it gives.
type stoppingStore struct {
	releasingStore
	stop context.CancelFunc
}

func (s *stoppingStore) Lease(context.Context, *driver.LeaseParams) (*driver.Leased, error) {
	s.stop()
	return &driver.Leased{Messages: []driver.Message{{ID: "msg_1", Token: 7}}}, nil
}

// A reload hands the circuit on to the next relay, which must not wait for a probe that was never
// sent.
func TestReturnedProbe(t *testing.T) {
	t.Parallel()
	dest := destination(func(d *Destination) { d.Retry.First = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	store := &stoppingStore{stop: cancel}
	r := testRelay(store, dest)
	for range circuitThreshold {
		r.dest.Circuit.report(false, false, time.Time{})
	}
	if _, err := r.step(ctx); err != nil {
		t.Fatal(err)
	}
	if len(store.leases) != 1 {
		t.Fatalf("given back: %+v, want the one lease", store.leases)
	}
	if n, kind, _ := r.dest.Circuit.allow(1, time.Now()); n != 1 || kind != probeOldest {
		t.Errorf("%d sends of kind %d are allowed, want the probe again", n, kind)
	}
}
