package relay

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/send"
)

// destination returns a destination, with the defaults of the library.
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

// pickyStore refuses every batch of outcomes that holds one of message "bad",
// until that is alone, and then takes it as lost.
type pickyStore struct {
	Store
	recorded []string
}

func (s *pickyStore) Complete(_ context.Context, p *driver.CompleteParams) ([]bool, error) {
	held := make([]bool, len(p.Completions))
	bad := slices.ContainsFunc(p.Completions, func(c driver.Completion) bool { return c.ID == "bad" })
	if bad && len(p.Completions) > 1 {
		return nil, driver.ErrBadRow
	}
	for i := range p.Completions {
		held[i] = !bad
		s.recorded = append(s.recorded, p.Completions[i].ID)
	}
	return held, nil
}

func TestOneBadOutcomeCostsNoOther(t *testing.T) {
	t.Parallel()
	ids := []string{"0", "1", "2", "3", "4", "5", "6"}
	for place := range len(ids) + 1 {
		want := slices.Insert(slices.Clone(ids), place, "bad")
		var batch []ending
		for _, id := range want {
			batch = append(batch, ending{Completion: driver.Completion{ID: id}, log: slog.New(slog.DiscardHandler)})
		}
		store := &pickyStore{}
		testRelay(store, destination(nil)).complete(t.Context(), batch)
		if diff := cmp.Diff(want, store.recorded); diff != "" {
			t.Errorf("bad one at %d: recorded (-want +got):\n%s", place, diff)
		}
	}
}

// stalledStore cannot record outcomes until a time.
type stalledStore struct {
	Store
	until    time.Time
	recorded int
}

func (s *stalledStore) Complete(_ context.Context, p *driver.CompleteParams) ([]bool, error) {
	if time.Now().Before(s.until) {
		return nil, driver.ErrUnavailable
	}
	s.recorded += len(p.Completions)
	return []bool{true}, nil
}

// An outcome is worth recording for as long as its lease may hold; a process
// that is to stop has less time.
func TestOutcomesAreRecordedAfterAStall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stall    time.Duration
		stopping bool
		want     int
	}{
		"shorter than the lease":                    {19 * time.Second, false, 1},
		"longer than the lease":                     {25 * time.Second, false, 0},
		"short, while stopping":                     {4 * time.Second, true, 1},
		"while stopping, longer than there is time": {19 * time.Second, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stopping {
					cancel()
				}
				store := &stalledStore{until: time.Now().Add(tt.stall)}
				r := testRelay(store, destination(nil))
				r.complete(ctx, []ending{{Completion: driver.Completion{ID: "1"}, log: r.log}})
				if store.recorded != tt.want {
					t.Errorf("%d outcomes recorded, want %d", store.recorded, tt.want)
				}
			})
		})
	}
}

// releasingStore notes what is given back.
type releasingStore struct {
	Store
	leases []driver.MessageLease
}

func (s *releasingStore) Release(_ context.Context, p *driver.ReleaseParams) error {
	s.leases = append(s.leases, p.Leases...)
	return nil
}

// dispatched sends m and returns its outcome; none if its lease was given back.
func dispatched(ctx context.Context, r *relay, m *driver.Message) driver.Completion {
	r.dispatch(ctx, ctx, &sending{Message: m})
	select {
	case done := <-r.finished:
		return done.Completion
	default:
		return driver.Completion{}
	}
}

// An attempt that our own stop cuts off counts, because it may have arrived; but
// the last one is taken back, or stopping would make messages dead.
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

// stoppingStore stops its relay with the lease that it gives.
type stoppingStore struct {
	releasingStore
	stop context.CancelFunc
}

func (s *stoppingStore) Lease(context.Context, *driver.LeaseParams) (*driver.Leased, error) {
	s.stop()
	return &driver.Leased{Messages: []driver.Message{{ID: "msg_1", Token: 7}}}, nil
}

// A reload hands a circuit on. A probe that its relay was too late to send must
// not be waited for.
func TestProbeThatWasGivenBack(t *testing.T) {
	t.Parallel()
	dest := destination(func(d *Destination) { d.Retry.First = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	store := &stoppingStore{stop: cancel}
	r := testRelay(store, dest)
	for range circuitThreshold {
		r.dest.Circuit.report(false, false, time.Time{})
	}
	if _, err := r.step(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	if len(store.leases) != 1 {
		t.Fatalf("given back: %+v, want the one lease", store.leases)
	}
	if n, kind, _ := r.dest.Circuit.allow(1, time.Now()); n != 1 || kind != probeOldest {
		t.Errorf("allowed %d of kind %d, want the probe again", n, kind)
	}
}
