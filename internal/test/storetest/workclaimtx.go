package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func claimTxCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Commit", claimTxCommit[T]},
		{"Rollback", claimTxRollback[T]},
		{"Duplicates", claimTxDuplicates[T]},
		{"Reopen", claimTxReopen[T]},
		{"InsideARun", claimTxInsideARun[T]},
		{"OneKey", claimTxRace[T]},
		{"WaitsForAnother", claimTxWaits[T]},
		{"Nothing", claimTxNothing[T]},
	}
}

// claimTx claims in a transaction of the user's own, and compares the results, in the order of the
// arguments.
func (w *bench[T]) claimTx(tx T, p *driver.ClaimParams, want ...driver.ClaimResult) {
	w.Helper()
	got, err := w.d.ClaimTx(w.Context(), tx, p)
	if err != nil {
		w.Fatalf("ClaimTx: %v", err)
	}
	same(w, "claim results", want, got)
}

func (w *bench[T]) ok(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

func claimTxCommit[T any](w *bench[T]) {
	a, b := newInline("evt_a", "billing"), newClaim("stripe", "evt_b", "{}", "audit")
	tx, commit, rollback := w.h.Begin(w.T, w.d)
	first := driver.ClaimResult{Claimed: true}
	w.claimTx(tx, claimParams(t0, false, a, b), first, first)
	w.ok("effect", w.h.Effect(w.Context(), tx, "both"))
	w.absent("stripe", "evt_a")
	w.absent("stripe", "evt_b")
	w.claimTx(tx, claimParams(t0, false, a), driver.ClaimResult{Duplicate: true}) // sees its own claim
	w.ok("commit", commit())
	w.ok("rollback", rollback())
	w.effects("both")
	got := w.event("stripe", "evt_a")
	if got.State != driver.StateDone || !got.ProcessedAt.Equal(t0) || got.Note != "" {
		w.Errorf("the event is %+v, want it done without a note", got.Event)
	}
	w.sameEvent(claimed(&b, t0))
	for _, c := range []driver.Claim{a, b} {
		m := w.leaseOne(t0, c.Messages[0].Destination)
		same(w, "message", leased(&c, 0, t0, m.Token, 1), m)
	}
	w.sweptNothing("after a claim", t0.Add(day))
	w.takeNone("after a claim", w.takeParams(t0.Add(day), 10, false))
}

func claimTxRollback[T any](w *bench[T]) {
	a, b := newInline("evt_a", "billing"), newInline("evt_b")
	first := driver.ClaimResult{Claimed: true}
	for range 2 {
		tx, _, rollback := w.h.Begin(w.T, w.d)
		w.claimTx(tx, claimParams(t0, false, a, b), first, first)
		w.ok("effect", w.h.Effect(w.Context(), tx, "both"))
		w.ok("rollback", rollback())
		w.absent("stripe", "evt_a")
		w.noneDue(t0.Add(day), "to-billing", "after the rollback")
	}
	w.effects()
	same(w, "claims after it", []driver.ClaimResult{first, first}, w.claim(t0, queuedAs(a), queuedAs(b)))
}

func claimTxDuplicates[T any](w *bench[T]) {
	all := sorted(newInline("evt_done"), newInline("evt_new"), newInline("evt_pending"), newInline("evt_dead"))
	want := duplicates(len(all))
	for i, c := range all {
		switch c.EventID {
		case "evt_done":
			w.succeed(t0, w.takeFirst(t0, c))
		case "evt_pending":
			w.claimNew(t0.Add(time.Hour), queuedAs(c))
		case "evt_dead":
			w.claimNew(t0, queuedAs(c))
			run := w.take(t0, "evt_dead")
			w.finish(t0, run, failed(&run.Events()[0]))
			want[i].Dead = true
		case "evt_new":
			want[i] = driver.ClaimResult{Claimed: true}
		}
	}
	before := w.event("stripe", "evt_dead")
	tx, commit, _ := w.h.Begin(w.T, w.d)
	w.claimTx(tx, claimParams(t0, false, all...), want...)
	w.ok("commit", commit())
	w.sameEvent(before)
	tx, commit, _ = w.h.Begin(w.T, w.d)
	other := newInline("evt_done")
	setBody(&other, []byte("another"))
	w.claimTx(tx, claimParams(t0, false, other), driver.ClaimResult{Duplicate: true, OtherBody: true})
	w.ok("commit", commit())
	w.succeed(t0, w.take(t0.Add(day), "evt_pending"))
}

// claimTxReopen reopens a dead event. Its work is in the transaction, so the commit makes it done.
func claimTxReopen[T any](w *bench[T]) {
	c := newInline("evt_1")
	w.claimNew(t0, queuedAs(c))
	run := w.take(t0, "evt_1")
	w.finish(t0, run, failed(&run.Events()[0]))
	before := w.event("stripe", "evt_1")
	at := t0.Add(time.Hour)
	reopened := driver.ClaimResult{Duplicate: true, Dead: true, Reopened: true, Generation: 1}
	for _, commits := range []bool{false, true} {
		w.sameEvent(before)
		tx, commit, rollback := w.h.Begin(w.T, w.d)
		w.claimTx(tx, claimParams(at, true, c), reopened)
		if !commits {
			w.ok("rollback", rollback())
			continue
		}
		w.ok("commit", commit())
	}
	got := w.event("stripe", "evt_1")
	if got.State != driver.StateDone || got.Generation != 1 || !got.ProcessedAt.Equal(at) || !got.FailedAt.IsZero() {
		w.Errorf("the event is %+v, want it done in generation 1", got.Event)
	}
	same(w, "history", []driver.HistoryEntry{{At: at, Action: driver.ActionReopened, Generation: 1}}, got.History)
	w.takeNone("after it was reopened as done", w.takeParams(at.Add(day), 10, false))
}

// claimTxInsideARun claims in a handler's transaction, which counts as the user's own.
func claimTxInsideARun[T any](w *bench[T]) {
	for i, end := range []func(driver.Run[T]){w.abandon, func(run driver.Run[T]) { w.succeed(t0, run) }} {
		outer, inner := newQueued(fmt.Sprint("outer_", i)), newInline(fmt.Sprint("inner_", i))
		w.claimNew(t0, outer)
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{outer.Key}
		run := w.takeThese(p, outer.EventID)
		w.claimTx(run.Tx(), claimParams(t0, false, inner), driver.ClaimResult{Claimed: true})
		end(run)
	}
	w.absent("stripe", "inner_0")
	for _, id := range []string{"outer_1", "inner_1"} {
		if state := w.state(id); state != driver.StateDone {
			w.Errorf("event %s is %s, want it done", id, state)
		}
	}
}

// claimTxRace claims one key in many transactions at once, from two drivers.
func claimTxRace[T any](w *bench[T]) {
	const callers, rounds = 6, 5
	other := w.second()
	for round := range rounds {
		c := newInline(fmt.Sprint("evt_", round))
		var mu sync.Mutex
		found := map[bool]int{}
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				d := []driver.Driver[T]{w.d, other.d}[i%2]
				claimed, err := w.claimInTx(d, c)
				if err != nil {
					w.Errorf("caller %d: %v", i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				found[claimed]++
			})
		}
		group.Wait()
		same(w, "claims that were first, and that were not", map[bool]int{true: 1, false: callers - 1}, found)
		if got := w.h.Effects(w.T, w.d)[c.EventID]; got != 1 {
			w.Errorf("the event has %d effects, want 1", got)
		}
	}
}

// claimInTx claims one event, does its work if the claim was the first, and commits.
func (w *bench[T]) claimInTx(d driver.Driver[T], c driver.Claim) (bool, error) {
	tx, commit, rollback := w.h.Begin(w.T, d)
	got, err := d.ClaimTx(w.Context(), tx, claimParams(t0, false, c))
	if err == nil && got[0].Claimed {
		err = w.h.Effect(w.Context(), tx, c.EventID)
	}
	if err != nil {
		_ = rollback() // the caller returns the first error
		return false, err
	}
	return got[0].Claimed, commit()
}

// claimTxWaits claims a key while another transaction is claiming it.
func claimTxWaits[T any](w *bench[T]) {
	c := newInline("evt_1")
	tx, commit, _ := w.h.Begin(w.T, w.d)
	w.claimTx(tx, claimParams(t0, false, c), driver.ClaimResult{Claimed: true})
	brief := claimParams(t0, false, queuedAs(c))
	brief.LockTimeout = 50 * time.Millisecond
	w.behind("a claim of a key that a transaction has claimed", func(ctx context.Context) error {
		_, err := w.d.Claim(ctx, brief)
		return err
	})
	w.ok("commit", commit())
	same(w, "claim after it", []driver.ClaimResult{{Duplicate: true}}, w.claim(t0, queuedAs(c)))
}

func claimTxNothing[T any](w *bench[T]) {
	tx, commit, _ := w.h.Begin(w.T, w.d)
	w.claimTx(tx, claimParams(t0, false))
	w.ok("enqueueing nothing", w.d.EnqueueTx(w.Context(), tx, nil))
	w.ok("effect", w.h.Effect(w.Context(), tx, "mine"))
	w.ok("commit", commit())
	w.effects("mine")
}
