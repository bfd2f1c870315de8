package claims_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// newQueue returns a queue, which the end of the test closes.
func newQueue(t *testing.T, store claims.Store, change func(*claims.Options)) *claims.Queue {
	t.Helper()
	o := claims.Options{
		MaxUnits: 1000, Log: slog.New(slog.DiscardHandler),
		Claimed: func([]*driver.Claim) {}, Reopened: func() {}, Observe: func(int, time.Duration, error) {},
	}
	if change != nil {
		change(&o)
	}
	q := claims.New(store, o)
	t.Cleanup(q.Close)
	return q
}

// event returns a claim of the source "lab".
func event(id, body string) driver.Claim {
	return driver.Claim{
		Key: driver.EventKey("lab", id), Source: "lab", EventID: id,
		Headers: []byte("{}"), Body: []byte(body), BodyHash: sha256.Sum256([]byte(body)),
	}
}

// unit returns one delivery of events that have the same body, with plenty of time.
func unit(ids ...string) *claims.Unit {
	var all []driver.Claim
	for _, id := range ids {
		all = append(all, event(id, "{}"))
	}
	return claims.NewUnit(all, false, time.Now().Add(time.Minute))
}

// outcomes of claims; others are the text of their error.
const (
	claimed   = "claimed"
	duplicate = "duplicate"
)

func outcome(r *claims.Result) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Claimed:
		return claimed
	default:
		return duplicate
	}
}

// claim claims a unit and returns the outcomes of its claims, or the error of the queue.
func claim(t *testing.T, q *claims.Queue, u *claims.Unit) []string {
	if err := q.Claim(t.Context(), u); err != nil {
		return []string{err.Error()}
	}
	var all []string
	for i := range u.Results {
		all = append(all, outcome(&u.Results[i]))
	}
	return all
}

// claimTogether claims units in one batch: g holds a first unit in the store until all others are
// queued, in their order. It returns their outcomes.
func claimTogether(t *testing.T, q *claims.Queue, g *rig.Gate, units ...*claims.Unit) [][]string {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived
	all := make([][]string, len(units))
	for i, u := range units {
		wg.Go(func() { all[i] = claim(t, q, u) })
		eventually.True(t, "the delivery waits", func() bool { return q.Waiting() == i+1 })
	}
	close(g.Open)
	wg.Wait()
	return all
}

// stored returns an event as the store has it, or nil.
func stored(t *testing.T, store driver.Store, id string) *driver.EventDetail {
	t.Helper()
	ev, err := store.Event(t.Context(), "lab", id)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}, func(o *claims.Options) { o.MaxUnits = 4 })
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived
	for i := range 4 {
		if q.Full("lab") {
			t.Errorf("full with %d units", i)
		}
		wg.Go(func() {
			if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
				t.Errorf("a unit that fits: %q", got)
			}
		})
		eventually.True(t, "the delivery waits", func() bool { return q.Waiting() == i+1 })
	}
	if !q.Full("lab") {
		t.Error("not full with 4 units")
	}
	if err := q.Claim(t.Context(), unit("too many")); !errors.Is(err, claims.ErrFull) {
		t.Errorf("the unit beyond the limit: %v, want %v", err, claims.ErrFull)
	}
	close(g.Open)
	wg.Wait()
}

func TestCloseAnswersQueuedUnits(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}, nil)
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived
	for i := range 7 {
		wg.Go(func() {
			if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
				t.Errorf("queued before Close: %q", got)
			}
		})
	}
	eventually.True(t, "seven deliveries wait", func() bool { return q.Waiting() == 7 })
	closed := make(chan struct{})
	go func() { q.Close(); close(closed) }()
	eventually.True(t, "Close has begun", func() bool { // once Close has begun
		u := unit("late")
		err := q.Claim(alreadyEnded(t), u)
		return errors.Is(err, claims.ErrClosed)
	})
	select {
	case <-closed:
		t.Error("Close returned while units were queued")
	default:
	}
	close(g.Open)
	wg.Wait()
	<-closed
}

// alreadyEnded returns a context that has ended: a claim with it waits for no flusher.
func alreadyEnded(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A key that is stuck in the database delays its own batch only: its copies wait for that batch
// instead of spoiling the next ones.
func TestCopiesOfAStuckKeyDelayNoOtherEvent(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold, Concurrent: 4}, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { claim(t, q, unit("held")) })
		<-g.Arrived
	}
	eventually.True(t, "three deliveries wait", func() bool { return q.Waiting() == 3 })
	// A copy in a delivery of several events keeps that delivery back as well.
	wg.Go(func() { claim(t, q, unit("other", "held")) })
	eventually.True(t, "four deliveries wait", func() bool { return q.Waiting() == 4 })
	for i := range 20 {
		if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
			t.Errorf("another event: %q", got)
		}
	}
	close(g.Open)
	wg.Wait()
	if n := q.Waiting(); n != 0 {
		t.Errorf("%d units still wait after the stuck key was free", n)
	}
	if got := claim(t, q, unit("held", "other")); !slices.Equal(got, []string{duplicate, duplicate}) {
		t.Errorf("later copies: %q", got)
	}
}

// Later copies do not overtake a delivery that waits for a stuck key, so events of one id are
// claimed in the order of their arrival.
func TestCopiesDoNotOvertake(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	store := rig.OpenSQLite(t)
	q := newQueue(t, &rig.FaultStore{Store: store, Before: g.Hold, Concurrent: 4}, nil)
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived
	first := claims.NewUnit([]driver.Claim{event("held", "{}"), event("x", "first")}, false, time.Now().Add(time.Minute))
	second := claims.NewUnit([]driver.Claim{event("x", "second")}, false, time.Now().Add(time.Minute))
	for i, u := range []*claims.Unit{first, second} {
		wg.Go(func() { claim(t, q, u) })
		eventually.True(t, "the delivery waits", func() bool { return q.Waiting() == i+1 })
	}
	if got := claim(t, q, unit("y")); got[0] != claimed {
		t.Errorf("another event: %q", got)
	}
	close(g.Open)
	wg.Wait()
	if got := string(stored(t, store, "x").Body); got != "first" {
		t.Errorf("event x has the body of the %s delivery", got)
	}
	if !second.Results[0].OtherBody {
		t.Errorf("the second delivery: %+v, want a duplicate with another body", second.Results[0])
	}
}

// A delivery that gave up waiting leaves nothing behind that would delay the next copy of its event.
func TestAbandonedUnitBlocksNoCopy(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	store := rig.OpenSQLite(t)
	q := newQueue(t, &rig.FaultStore{Store: store, Before: g.Hold}, nil)
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.Arrived
	ctx, giveUp := context.WithCancel(t.Context())
	abandoned := make(chan error, 1)
	go func() { abandoned <- q.Claim(ctx, unit("1")) }()
	eventually.True(t, "the delivery waits", func() bool { return q.Waiting() == 1 })
	giveUp()
	if err := <-abandoned; !errors.Is(err, claims.ErrAbandoned) {
		t.Errorf("the abandoned unit: %v, want %v", err, claims.ErrAbandoned)
	}
	if n := q.Waiting(); n != 0 {
		t.Errorf("%d units wait, want none: the abandoned one still holds its place", n)
	}
	close(g.Open)
	wg.Wait()
	if stored(t, store, "1") != nil {
		t.Error("the abandoned unit was claimed")
	}
	if got := claim(t, q, unit("1")); got[0] != claimed {
		t.Errorf("retry: %q, want it claimed", got)
	}
}

// A caller whose time ends while its claim is in the database does not know the outcome, and the
// claim ends at the deadline of the unit.
func TestClaimInADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held") // never opened
	q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}, nil)
	deadline := time.Now().Add(50 * time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	u := claims.NewUnit([]driver.Claim{event("held", "{}")}, false, deadline)
	switch err := q.Claim(ctx, u); {
	case errors.Is(err, claims.ErrAbandoned): // the flusher was slower than the deadline
	case err == nil && errors.Is(u.Results[0].Err, driver.ErrCommitUnknown): // it was quicker than ctx
	case !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	q.Close() // returns, so the flusher has given up too
}
