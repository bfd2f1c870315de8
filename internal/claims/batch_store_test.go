package claims_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestOneBadClaimSpoilsNoOther(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{
		"bad row": driver.ErrBadRow, "stuck key": driver.ErrLockTimeout, "always deadlocks": driver.ErrSerialization,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			for _, n := range []int{1, 2, 3, 8} {
				for bad := range n {
					id := func(i int) string { return fmt.Sprintf("%d of %d with %d", i, n, bad) }
					g, fail := rig.NewGate("held"), rig.FailFor(fault, id(bad))
					q := newQueue(t, &rig.FaultStore{Store: store, Before: func(ctx context.Context, p *driver.ClaimParams) error {
						return errors.Join(g.Hold(ctx, p), fail(ctx, p))
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

// The database refuses the first ten claims of a batch for a reason that may concern all, and one other as a bad row. Only
// that one is blamed, so that no other goes to the quarantine.
func TestOneBadClaimBehindManyRefusals(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	if _, err := store.Writer().ExecContext(t.Context(), `
		CREATE TRIGGER bad BEFORE INSERT ON hookonce_event WHEN NEW.type = 'bad' BEGIN SELECT RAISE(ABORT, 'bad'); END;
		CREATE TRIGGER refused BEFORE INSERT ON hookonce_event WHEN NEW.type = 'refused' BEGIN SELECT json_extract('no JSON', '$.x'); END`); err != nil {
		t.Fatal(err)
	}
	var all []driver.Claim
	for i := range 64 {
		all = append(all, event(fmt.Sprint("evt_", i), "{}"))
	}
	slices.SortFunc(all, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) }) // as a batch has them
	for i := range 10 {
		all[i].Type = "refused"
	}
	all[50].Type = "bad"
	u := claims.NewUnit(all, false, time.Now().Add(time.Minute))
	claim(t, newQueue(t, store, nil), u)
	for i := range u.Results {
		err := u.Results[i].Err
		switch {
		case errors.Is(err, driver.ErrBadRow) != (i == 50), i < 10 && !errors.Is(err, driver.ErrRefused):
			t.Errorf("claim %d of type %q: error %v", i, all[i].Type, err)
		case i >= 32 && i != 50 && !u.Results[i].Claimed: // the half without the refused ones
			t.Errorf("claim %d was not made: %v", i, err)
		}
	}
}

func TestCopiesInOneBatchAreCoalesced(t *testing.T) {
	t.Parallel()
	g := rig.NewGate("held")
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}
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
	if n := store.Calls.Load(); n != 2 {
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
		store, g := rig.OpenSQLite(t), rig.NewGate("held")
		q := newQueue(t, &rig.FaultStore{Store: store, Before: g.Hold}, nil)
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
		q := newQueue(t, rig.OpenSQLite(t), nil)
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
	inner := rig.OpenSQLite(t)
	var lost atomic.Bool
	q := newQueue(t, &rig.FaultStore{Store: inner, Before: func(ctx context.Context, p *driver.ClaimParams) error {
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
	q := newQueue(t, shortStore{rig.OpenSQLite(t)}, nil)
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
	store := &rig.FaultStore{Store: rig.OpenSQLite(t)}
	store.Before = func(context.Context, *driver.ClaimParams) error {
		if store.Calls.Load() == 1 {
			return driver.ErrSerialization
		}
		return nil
	}
	if got := claim(t, newQueue(t, store, nil), unit("1", "2")); !slices.Equal(got, []string{claimed, claimed}) {
		t.Errorf("outcomes %q", got)
	}
	if n := store.Calls.Load(); n != 2 {
		t.Errorf("%d calls of Claim, want 2", n)
	}
}

func TestLockWaitLeavesTimeToAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		g := rig.NewGate("held")
		q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(ctx context.Context, p *driver.ClaimParams) error {
			if err := g.Hold(ctx, p); err != nil || rig.Holds(p, "held") {
				return err
			}
			waits = append(waits, p.LockTimeout)
			return rig.FailFor(driver.ErrLockTimeout, "stuck")(ctx, p)
		}}, nil)
		stuck := func(in time.Duration, ids ...string) *claims.Unit {
			return claims.NewUnit(unit(ids...).Claims, false, time.Now().Add(in))
		}
		claim(t, q, stuck(time.Minute, "stuck"))
		claim(t, q, stuck(2400*time.Millisecond, "stuck"))
		// The earliest deadline of a batch decides on the first wait, and the halves wait for less.
		claimTogether(t, q, g, stuck(2400*time.Millisecond, "1"), stuck(time.Minute, "stuck"))
		want := []time.Duration{claims.MaxLockWait, 800 * time.Millisecond, 800 * time.Millisecond, claims.MaxLockWait / 10, claims.MaxLockWait / 10}
		for i := range waits { // polling takes some of the bubble's time
			waits[i] = (waits[i] + 50*time.Millisecond).Truncate(100 * time.Millisecond)
		}
		if diff := cmp.Diff(want, waits); diff != "" {
			t.Errorf("lock waits (-want +got):\n%s", diff)
		}
	})
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
			q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(_ context.Context, p *driver.ClaimParams) error {
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
	g := rig.NewGate("held")
	var mended atomic.Bool
	q := newQueue(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(ctx context.Context, p *driver.ClaimParams) error {
		if err := g.Hold(ctx, p); err != nil || rig.Holds(p, "held") || mended.Load() {
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
	g := rig.NewGate("held")
	store := rig.OpenSQLite(t)
	var told []string
	q := newQueue(t, &rig.FaultStore{Store: store, Before: func(ctx context.Context, p *driver.ClaimParams) error {
		return errors.Join(g.Hold(ctx, p), rig.FailFor(driver.ErrBadRow, "bad")(ctx, p))
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
	store := rig.OpenSQLite(t)
	buried(t, store, "dead", "acknowledged")
	g := rig.NewGate("held")
	reopened := make(chan struct{}, 10)
	q := newQueue(t, &rig.FaultStore{Store: store, Before: g.Hold}, func(o *claims.Options) { o.Reopened = func() { reopened <- struct{}{} } })
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
		"first": {Duplicate: true, Dead: true, Reopened: true}, "second": {Duplicate: true, Dead: true, Reopened: true},
		"acknowledged": {Duplicate: true, Dead: true}, "fresh": {Claimed: true},
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

func (reopenStore) Reopen(context.Context, *driver.ReopenParams) (reopened, held []driver.Key, err error) {
	return nil, nil, driver.ErrUnavailable
}

// refusingStore reopens no batch with one of its events.
type refusingStore struct {
	driver.Store
	refused driver.Key
}

func (s refusingStore) Reopen(ctx context.Context, p *driver.ReopenParams) (reopened, held []driver.Key, err error) {
	if slices.Contains(p.Keys, s.refused) {
		return nil, nil, driver.ErrBadRow
	}
	return s.Store.Reopen(ctx, p)
}

// A dead event whose row the database refuses to change does not stop the reopening of its batch.
func TestRefusedReopeningFailsAlone(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	buried(t, store, "first", "refused", "last")
	q := newQueue(t, refusingStore{store, event("refused", "{}").Key}, nil)
	u := claims.NewUnit([]driver.Claim{event("first", "{}"), event("refused", "{}"), event("last", "{}")}, true, time.Now().Add(time.Minute))
	claim(t, q, u)
	for i, want := range []bool{true, false, true} {
		if r := u.Results[i]; r.Reopened != want || errors.Is(r.Err, driver.ErrBadRow) == want {
			t.Errorf("event %d: %+v, want reopened: %v, or refused", i, r, want)
		}
	}
}

// A delivery of a dead event fails if the event cannot be reopened: a sender that hears of success
// does not deliver it again.
func TestFailedReopeningFailsTheDelivery(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	buried(t, store, "dead")
	q := newQueue(t, reopenStore{store}, nil)
	u := claims.NewUnit([]driver.Claim{event("dead", "{}"), event("fresh", "{}")}, true, time.Now().Add(time.Minute))
	if diff := cmp.Diff([]string{driver.ErrUnavailable.Error(), claimed}, claim(t, q, u)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
