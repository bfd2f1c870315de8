package claims_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/claims"
)

// openStore opens a fresh SQLite store.
func openStore(t *testing.T) *hooksql.Store {
	t.Helper()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

// faultStore is a real store with faults: before runs ahead of each Claim, and may fail it, hold it
// or let it through.
type faultStore struct {
	driver.Store
	before     func(ctx context.Context, p *driver.ClaimParams) error
	concurrent int // claims at a time; 0 asks the store
	calls      atomic.Int64
}

func (s *faultStore) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.calls.Add(1)
	if err := s.before(ctx, p); err != nil {
		return nil, err
	}
	return s.Store.Claim(ctx, p)
}

func (s *faultStore) ClaimConcurrency() int {
	if s.concurrent > 0 {
		return s.concurrent
	}
	return s.Store.ClaimConcurrency()
}

func holds(p *driver.ClaimParams, id string) bool {
	return slices.ContainsFunc(p.Claims, func(c driver.Claim) bool { return c.EventID == id })
}

// failFor fails every statement with a claim of id, as a database does that refuses a statement for
// one of its rows.
func failFor(err error, id string) func(context.Context, *driver.ClaimParams) error {
	return func(_ context.Context, p *driver.ClaimParams) error {
		if holds(p, id) {
			return fmt.Errorf("%w: injected", err)
		}
		return nil
	}
}

// gate holds the claims of the event "held" until it is opened, and tells when the first one
// arrives.
type gate struct {
	open, arrived chan struct{}
	once          sync.Once
}

func newGate() *gate { return &gate{open: make(chan struct{}), arrived: make(chan struct{})} }

func (g *gate) hold(ctx context.Context, p *driver.ClaimParams) error {
	if !holds(p, "held") {
		return nil
	}
	g.once.Do(func() { close(g.arrived) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrCommitUnknown, ctx.Err())
	}
}

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
func claimTogether(t *testing.T, q *claims.Queue, g *gate, units ...*claims.Unit) [][]string {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.arrived
	all := make([][]string, len(units))
	for i, u := range units {
		wg.Go(func() { all[i] = claim(t, q, u) })
		waitFor(t, func() bool { return q.Waiting() == i+1 })
	}
	close(g.open)
	wg.Wait()
	return all
}

// waitFor polls until state reports true.
func waitFor(t *testing.T, state func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !state() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the state was not reached within a minute")
		}
	}
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

func TestOneBadClaimSpoilsNoOther(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{
		"bad row": driver.ErrBadRow, "stuck key": driver.ErrLockTimeout, "always deadlocks": driver.ErrSerialization,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t)
			for _, n := range []int{1, 2, 3, 8} {
				for bad := range n {
					id := func(i int) string { return fmt.Sprintf("%d of %d with %d", i, n, bad) }
					g, fail := newGate(), failFor(fault, id(bad))
					q := newQueue(t, &faultStore{Store: store, before: func(ctx context.Context, p *driver.ClaimParams) error {
						return errors.Join(g.hold(ctx, p), fail(ctx, p))
					}}, nil)
					units, want := make([]*claims.Unit, n), make([][]string, n)
					for i := range n {
						units[i], want[i] = unit(id(i)), []string{claimed}
					}
					want[bad] = []string{fault.Error() + ": injected"}
					if diff := cmp.Diff(want, claimTogether(t, q, g, units...)); diff != "" {
						t.Fatalf("%d in a batch, number %d is bad (-want +got):\n%s", n, bad, diff)
					}
					for i := range n {
						if got := stored(t, store, id(i)) != nil; got != (i != bad) {
							t.Errorf("%d in a batch, number %d is bad: number %d is stored: %t", n, bad, i, got)
						}
					}
				}
			}
		})
	}
}

func TestCopiesInOneBatchAreCoalesced(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := &faultStore{Store: openStore(t), before: g.hold}
	q := newQueue(t, store, nil)
	var units []*claims.Unit
	want := map[string]int{claimed: 1, duplicate: 50}
	for range 49 {
		units = append(units, unit("same"))
	}
	units = append(units, unit("same", "same")) // two copies in one delivery
	got := make(map[string]int)
	for _, all := range claimTogether(t, q, g, units...) {
		for _, one := range all {
			got[one]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if n := store.calls.Load(); n != 2 {
		t.Errorf("%d calls of Claim, want 2: the held one, and one for all copies", n)
	}
}

// The store refuses a body that it knows under another id. That verdict must not answer for the
// genuine event of the same id, even if both wait in the queue at the same moment.
func TestRefusedBodyAnswersForNoOther(t *testing.T) {
	t.Parallel()
	guarded := func(id, body string) driver.Claim {
		c := event(id, body)
		c.BodyGuard = driver.BodyRefuse
		return c
	}
	one := func(all ...driver.Claim) *claims.Unit { return claims.NewUnit(all, false, time.Now().Add(time.Minute)) }

	t.Run("in two deliveries", func(t *testing.T) {
		t.Parallel()
		store, g := openStore(t), newGate()
		q := newQueue(t, &faultStore{Store: store, before: g.hold}, nil)
		claim(t, q, one(guarded("known", "replayed")))
		replay, genuine := one(guarded("x", "replayed")), one(guarded("x", "genuine"))
		got := claimTogether(t, q, g, replay, genuine)
		if diff := cmp.Diff([][]string{{duplicate}, {claimed}}, got); diff != "" {
			t.Errorf("the replay and the genuine event (-want +got):\n%s", diff)
		}
		if r := replay.Results[0]; r.RepeatOf != "known" {
			t.Errorf("the replay repeats %q, want known", r.RepeatOf)
		}
		if got := string(stored(t, store, "x").Body); got != "genuine" {
			t.Errorf("event x has the body %q", got)
		}
	})
	t.Run("in one delivery", func(t *testing.T) {
		t.Parallel()
		q := newQueue(t, openStore(t), nil)
		claim(t, q, one(guarded("known", "replayed")))
		both := one(guarded("x", "replayed"), guarded("x", "genuine"))
		got := claim(t, q, both)
		if got[0] != duplicate || !strings.Contains(got[1], "a body that was refused") {
			t.Errorf("outcomes %q, want a duplicate and an error", got)
		}
	})
}

func TestUnknownCommitIsSettledByTheRetry(t *testing.T) {
	t.Parallel()
	inner := openStore(t)
	var lost atomic.Bool
	q := newQueue(t, &faultStore{Store: inner, before: func(ctx context.Context, p *driver.ClaimParams) error {
		if lost.Swap(true) {
			return nil
		}
		if _, err := inner.Claim(ctx, p); err != nil {
			return err
		}
		return driver.ErrCommitUnknown // it is committed, and the answer is lost
	}}, nil)
	u := unit("1")
	if err := q.Claim(t.Context(), u); err != nil || !errors.Is(u.Results[0].Err, driver.ErrCommitUnknown) {
		t.Errorf("first: %v, result %+v, want %v", err, u.Results[0], driver.ErrCommitUnknown)
	}
	if got := claim(t, q, unit("1")); got[0] != duplicate {
		t.Errorf("retry: %q, want a duplicate", got)
	}
}

// A store that answers for other claims than it was given leaves the commit unknown.
func TestStoreWithTooFewResults(t *testing.T) {
	t.Parallel()
	q := newQueue(t, shortStore{openStore(t)}, nil)
	u := unit("1")
	if err := q.Claim(t.Context(), u); err != nil || !errors.Is(u.Results[0].Err, driver.ErrCommitUnknown) {
		t.Errorf("%v, result %+v, want %v", err, u.Results[0], driver.ErrCommitUnknown)
	}
}

type shortStore struct{ driver.Store }

func (shortStore) Claim(context.Context, *driver.ClaimParams) ([]driver.ClaimResult, error) {
	return nil, nil
}

func TestSerializationFailureIsRetriedAtOnce(t *testing.T) {
	t.Parallel()
	store := &faultStore{Store: openStore(t)}
	store.before = func(context.Context, *driver.ClaimParams) error {
		if store.calls.Load() == 1 {
			return driver.ErrSerialization
		}
		return nil
	}
	if got := claim(t, newQueue(t, store, nil), unit("1", "2")); !slices.Equal(got, []string{claimed, claimed}) {
		t.Errorf("outcomes %q", got)
	}
	if n := store.calls.Load(); n != 2 {
		t.Errorf("%d calls of Claim, want 2", n)
	}
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	g := newGate()
	q := newQueue(t, &faultStore{Store: openStore(t), before: g.hold}, func(o *claims.Options) { o.MaxUnits = 4 })
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.arrived
	for i := range 4 {
		if q.Full() {
			t.Errorf("full with %d units", i)
		}
		wg.Go(func() {
			if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
				t.Errorf("a unit that fits: %q", got)
			}
		})
		waitFor(t, func() bool { return q.Waiting() == i+1 })
	}
	if !q.Full() {
		t.Error("not full with 4 units")
	}
	if err := q.Claim(t.Context(), unit("too many")); !errors.Is(err, claims.ErrFull) {
		t.Errorf("the unit beyond the limit: %v, want %v", err, claims.ErrFull)
	}
	close(g.open)
	wg.Wait()
}

func TestCloseAnswersQueuedUnits(t *testing.T) {
	t.Parallel()
	g := newGate()
	q := newQueue(t, &faultStore{Store: openStore(t), before: g.hold}, nil)
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.arrived
	for i := range 7 {
		wg.Go(func() {
			if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
				t.Errorf("queued before Close: %q", got)
			}
		})
	}
	waitFor(t, func() bool { return q.Waiting() == 7 })
	closed := make(chan struct{})
	go func() { q.Close(); close(closed) }()
	waitFor(t, func() bool { // once Close has begun
		u := unit("late")
		err := q.Claim(alreadyEnded(t), u)
		return errors.Is(err, claims.ErrClosed)
	})
	select {
	case <-closed:
		t.Error("Close returned while units were queued")
	default:
	}
	close(g.open)
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
	g := newGate()
	q := newQueue(t, &faultStore{Store: openStore(t), before: g.hold, concurrent: 4}, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { claim(t, q, unit("held")) })
		<-g.arrived
	}
	waitFor(t, func() bool { return q.Waiting() == 3 })
	// A copy in a delivery of several events keeps that delivery back as well.
	wg.Go(func() { claim(t, q, unit("other", "held")) })
	waitFor(t, func() bool { return q.Waiting() == 4 })
	for i := range 20 {
		if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
			t.Errorf("another event: %q", got)
		}
	}
	close(g.open)
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
	g := newGate()
	store := openStore(t)
	q := newQueue(t, &faultStore{Store: store, before: g.hold, concurrent: 4}, nil)
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.arrived
	first := claims.NewUnit([]driver.Claim{event("held", "{}"), event("x", "first")}, false, time.Now().Add(time.Minute))
	second := claims.NewUnit([]driver.Claim{event("x", "second")}, false, time.Now().Add(time.Minute))
	for i, u := range []*claims.Unit{first, second} {
		wg.Go(func() { claim(t, q, u) })
		waitFor(t, func() bool { return q.Waiting() == i+1 })
	}
	if got := claim(t, q, unit("y")); got[0] != claimed {
		t.Errorf("another event: %q", got)
	}
	close(g.open)
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
	g := newGate()
	store := openStore(t)
	q := newQueue(t, &faultStore{Store: store, before: g.hold}, nil)
	var wg sync.WaitGroup
	wg.Go(func() { claim(t, q, unit("held")) })
	<-g.arrived
	ctx, giveUp := context.WithCancel(t.Context())
	abandoned := make(chan error, 1)
	go func() { abandoned <- q.Claim(ctx, unit("1")) }()
	waitFor(t, func() bool { return q.Waiting() == 1 })
	giveUp()
	if err := <-abandoned; !errors.Is(err, claims.ErrAbandoned) {
		t.Errorf("the abandoned unit: %v, want %v", err, claims.ErrAbandoned)
	}
	if n := q.Waiting(); n != 0 {
		t.Errorf("%d units wait, want none: the abandoned one still holds its place", n)
	}
	close(g.open)
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
	g := newGate() // never opened
	q := newQueue(t, &faultStore{Store: openStore(t), before: g.hold}, nil)
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

func TestLockWaitLeavesTimeToAnswer(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	g := newGate()
	q := newQueue(t, &faultStore{Store: openStore(t), before: func(ctx context.Context, p *driver.ClaimParams) error {
		if err := g.hold(ctx, p); err != nil || holds(p, "held") {
			return err
		}
		waits = append(waits, p.LockTimeout)
		return failFor(driver.ErrLockTimeout, "stuck")(ctx, p)
	}}, nil)
	stuck := func(in time.Duration, ids ...string) *claims.Unit {
		u := unit(ids...)
		return claims.NewUnit(u.Claims, false, time.Now().Add(in))
	}
	claim(t, q, stuck(time.Minute, "stuck"))
	claim(t, q, stuck(2400*time.Millisecond, "stuck"))
	// The earliest deadline of a batch decides on the first wait, and the halves wait for less.
	claimTogether(t, q, g, stuck(2400*time.Millisecond, "1"), stuck(time.Minute, "stuck"))
	most := []time.Duration{claims.MaxLockWait, 800 * time.Millisecond, 800 * time.Millisecond, claims.MaxLockWait / 10, claims.MaxLockWait / 10}
	if len(waits) != len(most) {
		t.Fatalf("lock waits %v, want %d of them", waits, len(most))
	}
	for i := range most {
		if waits[i] <= 0 || waits[i] > most[i] {
			t.Errorf("lock wait %d is %s, want at most %s", i, waits[i], most[i])
		}
	}
}

func TestLargeUnitIsClaimedInChunks(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", claims.MaxBytes/3)
	for name, tt := range map[string]struct {
		claims int
		body   string
		want   []int // claims by statement
	}{
		"by number": {2*claims.MaxBatch + 1, "{}", []int{claims.MaxBatch, claims.MaxBatch, 1}},
		"by size":   {5, large, []int{2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sizes []int
			q := newQueue(t, &faultStore{Store: openStore(t), before: func(_ context.Context, p *driver.ClaimParams) error {
				sizes = append(sizes, len(p.Claims))
				return nil
			}}, nil)
			for _, want := range []string{claimed, duplicate} {
				var all []driver.Claim
				for i := range tt.claims {
					all = append(all, event(fmt.Sprint(i), tt.body))
				}
				sizes = nil
				got := claim(t, q, claims.NewUnit(all, false, time.Now().Add(time.Minute)))
				if slices.ContainsFunc(got, func(one string) bool { return one != want }) {
					t.Errorf("outcomes %q, want all %s", got, want)
				}
				if diff := cmp.Diff(tt.want, sizes); diff != "" {
					t.Errorf("statements (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestPanicInTheStoreFailsTheWholeBatch(t *testing.T) {
	t.Parallel()
	g := newGate()
	var mended atomic.Bool
	q := newQueue(t, &faultStore{Store: openStore(t), before: func(ctx context.Context, p *driver.ClaimParams) error {
		if err := g.hold(ctx, p); err != nil || holds(p, "held") || mended.Load() {
			return err
		}
		panic("a defect of the store")
	}}, nil)
	for _, got := range claimTogether(t, q, g, unit("1"), unit("2", "3"), unit("1")) {
		for _, one := range got {
			if !strings.Contains(one, "a defect of the store") {
				t.Errorf("outcome %q, want the panic", one)
			}
		}
	}
	mended.Store(true)
	if got := claim(t, q, unit("1", "2", "3")); !slices.Equal(got, []string{claimed, claimed, claimed}) {
		t.Errorf("afterwards: %q, want all claimed", got)
	}
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	g := newGate()
	store := openStore(t)
	var told []string
	q := newQueue(t, &faultStore{Store: store, before: func(ctx context.Context, p *driver.ClaimParams) error {
		return errors.Join(g.hold(ctx, p), failFor(driver.ErrBadRow, "bad")(ctx, p))
	}}, func(o *claims.Options) {
		o.Claimed = func(all []*driver.Claim) {
			var ids []string
			for _, c := range all {
				if stored(t, store, c.EventID) == nil {
					t.Errorf("told of %s before it was committed", c.EventID)
				}
				ids = append(ids, c.EventID)
			}
			slices.Sort(ids)
			told = append(told, fmt.Sprintf("claimed %q", ids))
		}
		o.Observe = func(size int, _ time.Duration, err error) {
			told = append(told, fmt.Sprintf("%d claims: %t", size, err == nil))
		}
	})
	claim(t, q, unit("old"))
	claimTogether(t, q, g, unit("new", "old"), unit("new"), unit("bad"))
	want := []string{
		"1 claims: true", `claimed ["old"]`, "1 claims: true", `claimed ["held"]`,
		"3 claims: false", "1 claims: false", "2 claims: true", `claimed ["new"]`, // the key of "bad" is the lowest
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("callbacks (-want +got):\n%s", diff)
	}
}

// buried claims events with a message each, and makes the messages dead.
func buried(t *testing.T, store driver.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		c := event(id, "{}")
		c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "r"), Route: "r", Destination: "app"}}
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: len(ids), For: time.Minute, MaxAttempts: 1})
	if err != nil || len(leased.Messages) != len(ids) {
		t.Fatalf("leased %+v, error %v", leased, err)
	}
	p := &driver.CompleteParams{}
	for _, m := range leased.Messages {
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "gone"})
	}
	if _, err := store.Complete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestDeadEventsAreReopened(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	buried(t, store, "dead", "acknowledged")
	g := newGate()
	reopened := make(chan struct{}, 10)
	q := newQueue(t, &faultStore{Store: store, before: g.hold}, func(o *claims.Options) { o.Reopened = func() { reopened <- struct{}{} } })
	reopening := func(id string) *claims.Unit {
		return claims.NewUnit([]driver.Claim{event(id, "{}")}, true, time.Now().Add(time.Minute))
	}
	first, second, acknowledged, fresh := reopening("dead"), reopening("dead"), unit("acknowledged"), reopening("fresh")
	claimTogether(t, q, g, first, second, acknowledged, fresh)
	got := map[string]driver.ClaimResult{
		"first": first.Results[0].ClaimResult, "second": second.Results[0].ClaimResult,
		"acknowledged": acknowledged.Results[0].ClaimResult, "fresh": fresh.Results[0].ClaimResult,
	}
	want := map[string]driver.ClaimResult{
		"first": {Dead: true, Reopened: true}, "second": {Dead: true, Reopened: true}, "acknowledged": {Dead: true}, "fresh": {Claimed: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if n := len(reopened); n != 1 {
		t.Errorf("Reopened was called %d times, want once", n)
	}
	for id, want := range map[string]string{"dead": driver.StateRunning, "acknowledged": driver.StateDead} {
		if got := stored(t, store, id).State; got != want {
			t.Errorf("event %s is %s, want %s", id, got, want)
		}
	}
}

// reopenStore cannot reopen.
type reopenStore struct{ driver.Store }

func (reopenStore) Reopen(context.Context, *driver.ReopenParams) ([]driver.Key, error) {
	return nil, driver.ErrUnavailable
}

// A delivery of a dead event fails if the event cannot be reopened: a sender that hears of success
// does not deliver it again.
func TestFailedReopeningFailsTheDelivery(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	buried(t, store, "dead")
	q := newQueue(t, reopenStore{store}, nil)
	u := claims.NewUnit([]driver.Claim{event("dead", "{}"), event("fresh", "{}")}, true, time.Now().Add(time.Minute))
	if diff := cmp.Diff([]string{driver.ErrUnavailable.Error(), claimed}, claim(t, q, u)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
