package relay_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// leaseStore is a real store whose leases can fail or be observed.
type leaseStore struct {
	driver.Store
	fails  atomic.Int64
	change func(*driver.LeaseParams) // nil changes nothing
	leased func()                    // after each lease of messages; nil does nothing

	mu    sync.Mutex
	calls map[string]int // by destination
}

// count returns the number of leases that a relay asked for.
func (s *leaseStore) count(destination string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[destination]
}

func (s *leaseStore) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls == nil {
			s.calls = make(map[string]int)
		}
		s.calls[p.Destination]++
	}()
	if s.fails.Add(-1) >= 0 {
		return nil, driver.ErrUnavailable
	}
	if s.change != nil {
		s.change(p)
	}
	leased, err := s.Store.Lease(ctx, p)
	if err == nil && len(leased.Messages) > 0 && s.leased != nil {
		s.leased()
	}
	return leased, err
}

func TestLeaseOutlivesItsSend(t *testing.T) {
	t.Parallel()
	var leasedFor atomic.Int64
	store := &leaseStore{Store: rig.OpenSQLite(t), change: func(p *driver.LeaseParams) { leasedFor.Store(int64(p.For)) }}
	run(t, newGroup(store, nil, destination(nil, func(d *relay.Destination) { d.Timeout = 40 * time.Second })))
	eventually.True(t, "a message is leased", func() bool { return leasedFor.Load() != 0 })
	if got := time.Duration(leasedFor.Load()); got != 45*time.Second {
		t.Errorf("messages are leased for %s, want the timeout and 5 s", got)
	}
}

// A store that cannot lease delays messages, and loses none.
func TestLeasingAfterAnOutage(t *testing.T) {
	t.Parallel()
	store, log := &leaseStore{Store: rig.OpenSQLite(t)}, &rig.Log{}
	store.fails.Store(2)
	claim(t, store, "1", "{}")
	g := newGroup(store, logTo(log), destination(func(context.Context, *driver.Message) error { return nil }, func(d *relay.Destination) {
		d.Rate = limit.New(1, time.Hour) // a failed lease keeps no token
	}))
	run(t, g)
	eventually.True(t, "the lease succeeds", func() bool { g.Wake("app"); return store.fails.Load() <= 0 })
	if ev := settled(t, store, "1", driver.StateSent); ev.Attempts != 1 {
		t.Errorf("%d attempts, want 1", ev.Attempts)
	}
	log.WantOne(t, "leasing messages failed; retrying every second") // once for both failures
}

// lose leases up to n messages, as another process does that ends at once: the leases have expired.
func lose(t *testing.T, store driver.Store, n int) []driver.Message {
	t.Helper()
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: n, For: -time.Second, MaxAttempts: 9})
	if err != nil || len(leased.Messages) != n {
		t.Fatalf("leased %+v, error %v, want %d messages", leased, err, n)
	}
	return leased.Messages
}

// Another relay sends messages whose leases expired, and reports messages without further attempts.
func TestExpiredLeases(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	claim(t, store, "a", "{}")
	claim(t, store, "b", "{}")
	lost := lose(t, store, 2)
	twice := lose(t, store, 1)[0] // its second lease, and its last
	buried := make(chan string, 9)
	options := func(o *relay.Options) {
		logTo(log)(o)
		o.Observe = func(seen *relay.Observed) {
			if seen.Outcome == "dead" {
				buried <- seen.Message.EventID
			}
		}
	}
	stop := run(t, newGroup(store, options, destination(func(context.Context, *driver.Message) error { return nil },
		func(d *relay.Destination) { d.Retry.Attempts = 2 })))
	once := "a"
	if twice.EventID == once {
		once = "b"
	}
	ev := settled(t, store, once, driver.StateSent)
	settled(t, store, twice.EventID, driver.StateDead)
	stop()
	if got, want := triesOf(ev), "1 retry: "+driver.ErrorLeaseRanOut+"; 2 sent"; got != want {
		t.Errorf("attempts %q, want %q", got, want)
	}
	log.WantOne(t, `"leases expired; sending their messages again" destination=app messages=1`)
	log.WantOne(t, `"dead: its attempts are used up" destination=app source=lab event_id=`+twice.EventID)
	close(buried) // the relays have ended
	var dead []string
	for id := range buried {
		dead = append(dead, id)
	}
	if diff := cmp.Diff([]string{twice.EventID}, dead); diff != "" {
		t.Errorf("deaths that were observed (-want +got):\n%s", diff)
	}

	// The outcomes of the lost leases are fenced: they change nothing.
	p := &driver.CompleteParams{}
	for _, m := range lost {
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, Error: "too late"})
	}
	held, err := store.Complete(t.Context(), p)
	if err != nil || slices.Contains(held, true) {
		t.Errorf("leases held %v, error %v; want none", held, err)
	}
	if a, b := messageOf(t, store, once).State, messageOf(t, store, twice.EventID).State; a != driver.StateSent || b != driver.StateDead {
		t.Errorf("the messages are %s and %s, want them sent and dead", a, b)
	}
}

// A relay whose lease was taken over drops its outcome.
func TestFencedOutcome(t *testing.T) {
	t.Parallel()
	inner, log := rig.OpenSQLite(t), &rig.Log{}
	store := &leaseStore{Store: inner, change: func(p *driver.LeaseParams) { p.For = -time.Second }}
	claim(t, store, "1", "{}")
	began, release := make(chan struct{}), make(chan struct{})
	stop := run(t, newGroup(store, logTo(log), destination(func(context.Context, *driver.Message) error {
		close(began)
		<-release
		return guard.Permanent(errors.New("refused"))
	}, func(d *relay.Destination) { d.Concurrency = 1 }))) // so that it does not lease the message again
	<-began
	leased, err := inner.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: 1, For: time.Minute, MaxAttempts: 9})
	if err != nil || len(leased.Messages) != 1 || !leased.Messages[0].Expired {
		t.Fatalf("leased %+v, error %v, want the expired message", leased, err)
	}
	close(release)
	stop()
	log.WantOne(t, "outcome dropped: the lease was lost before")
	if m := messageOf(t, store, "1"); m.State != driver.StateSending || m.Attempts != 2 {
		t.Errorf("the message is %s after %d attempts, want it sending under the second lease", m.State, m.Attempts)
	}
	done := driver.Completion{ID: leased.Messages[0].ID, Token: leased.Messages[0].Token, Outcome: driver.MessageSent}
	if held, err := inner.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{done}}); err != nil || !held[0] {
		t.Errorf("the second lease is held: %v, error %v", held, err)
	}
	if got := messageOf(t, store, "1").State; got != driver.StateSent {
		t.Errorf("the message is %s, want sent", got)
	}
}
