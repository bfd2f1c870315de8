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
	handle, began, release := held(l, "a-1")
	in := inbox(t, l, handling(handle), func(c *hookonce.Config) { stale(c); c.Workers = 2 })
	run(t, in)
	deliver(in, versioned("a", "1"))
	<-began
	for _, object := range []string{"a", "b", "c"} {
		deliver(in, versioned(object, "2"))
		deliver(in, versioned(object, "3"))
	}
	for _, id := range []string{"b-3", "c-3"} { // version 2 comes later or is stale
		wantOutcome(t, l, id, done)
	}
	for _, id := range []string{"b-2", "c-2"} {
		ended(t, l, id)
	}
	for _, effect := range l.read(t) {
		if effect[0] == 'a' {
			t.Errorf("%s ran while its object was busy", effect)
		}
	}
	close(release)
	wantOutcome(t, l, "a-1", done)
	wantOutcome(t, l, "a-3", done)
	if ev := ended(t, l, "a-2"); ev.Attempts > 1 || ev.State == driver.StateDead {
		t.Errorf("a-2 is %+v, want it done or stale at the first attempt", ev.Event)
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
	handle, began, release := held(l, "a-1")
	in := inbox(t, l, handling(handle), func(c *hookonce.Config) { stale(c); inline(c) })
	first, second := make(chan result, 1), make(chan result, 1)
	go func() { first <- deliver(in, versioned("a", "1")) }()
	<-began
	go func() { second <- deliver(in, versioned("a", "2")) }()
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
	for _, answers := range []chan result{first, second} {
		if got := <-answers; got != ok {
			t.Errorf("a delivery: %+v, want ok", got)
		}
	}
	wantEffects(t, l, "a-1", "a-2")
}
