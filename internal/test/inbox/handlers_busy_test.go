package inbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// The handler of one event of an object is slow. The other events of the object wait for it, and
// neither these nor the workers hold up the events of other objects.
func TestBusyObjectHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	began, release := make(chan string, 10), make(chan struct{})
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if ev.ID == "slow" {
			began <- ev.ID
			<-release
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		stale(c)
		c.Workers = 2
	})
	run(t, in)
	if got := deliver(in, version("slow", "a", 1)); got != ok {
		t.Fatalf("delivery: %+v, want ok", got)
	}
	<-began
	for _, id := range []string{"a2", "b1", "a3", "c1", "a4", "d1"} {
		if got := deliver(in, version(id, id[:1], int(id[1]-'0'))); got != ok {
			t.Fatalf("delivery: %+v, want ok", got)
		}
	}
	for _, id := range []string{"b1", "c1", "d1"} {
		wantOutcome(t, l, id, done)
	}
	wantEffects(t, l, "b1", "c1", "d1")
	close(release)
	wantOutcome(t, l, "slow", done)
	for _, id := range []string{"a2", "a3", "a4"} { // in any order, so some may be stale
		if ev := ended(t, l, id); ev.Attempts > 1 || ev.State == "dead" {
			t.Errorf("%s is %+v, want it done or stale at the first attempt", id, ev.Event)
		}
	}
}

// The handlers of one source hang. A worker is kept free of them, so the events of other sources do not wait.
func TestSlowSourceHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	began, release := make(chan string, 10), make(chan struct{})
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "slow", "*", func(_ context.Context, _ pgx.Tx, ev *hookonce.Event) error {
		began <- ev.ID
		<-release
		return nil
	})
	hookonce.Handle(mux, "gh", "*", effectOf(l))
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Workers, c.Batch = 3, 1
		slow := c.Sources[0]
		slow.Name = "slow"
		c.Sources = append(c.Sources, slow)
	})
	run(t, in)
	t.Cleanup(func() { close(release) })
	for _, id := range []string{"s1", "s2", "s3", "s4"} {
		r := delivery(id, "{}")
		r.URL.Path = "/webhooks/slow"
		if got := deliver(in, r); got != ok {
			t.Fatalf("delivery: %+v, want ok", got)
		}
	}
	<-began
	<-began
	deliverAll(t, in, "quick")
	wantOutcome(t, l, "quick", done)
	if n := len(began); n != 0 {
		t.Errorf("%d handlers of the slow source run beyond its share", n)
	}
}

// looksAtBusy signals each time that an Inline run finds its object busy.
type looksAtBusy struct {
	driver.Driver[pgx.Tx]
	busy chan struct{}
}

func (l *looksAtBusy) TakeClaim(ctx context.Context, p *driver.ClaimParams) (driver.Run[pgx.Tx], driver.ClaimResult, error) {
	run, result, err := l.Driver.TakeClaim(ctx, p)
	if run != nil {
		run = &busyInline{run, l.busy}
	}
	return run, result, err
}

type busyInline struct {
	driver.Run[pgx.Tx]
	found chan struct{}
}

func (r *busyInline) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, []driver.Key, error) {
	applied, busy, err := r.Run.Versions(ctx, objects)
	if len(busy) > 0 {
		select {
		case r.found <- struct{}{}:
		default:
		}
	}
	return applied, busy, err
}

// Two Inline deliveries about one object arrive together. The second waits for the first.
func TestInlineWaitsForABusyObject(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	busy := make(chan struct{}, 1)
	l.db = &looksAtBusy{l.db, busy}
	began, release := make(chan struct{}), make(chan struct{})
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if ev.ID == "1" {
			close(began)
			<-release
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		stale(c)
		inline(c)
	})
	first, second := make(chan result, 1), make(chan result, 1)
	go func() { first <- deliver(in, version("1", "a", 1)) }()
	<-began
	go func() { second <- deliver(in, version("2", "a", 2)) }()
	for range 3 {
		select {
		case got := <-second:
			t.Errorf("the second delivery was answered %+v while the first ran", got)
			close(release)
			return
		case <-busy:
		}
	}
	close(release)
	if got := <-first; got != ok {
		t.Errorf("the first delivery: %+v, want ok", got)
	}
	if got := <-second; got != ok {
		t.Errorf("the second delivery: %+v, want ok", got)
	}
	wantEffects(t, l, "1", "2")
}
