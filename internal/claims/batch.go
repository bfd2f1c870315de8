package claims

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// enoughToLook is the smallest number of claims that is worth a look-up of known events.
const enoughToLook = 2

// maxRefused is how many refusals in a row end the search for those at fault, because they may concern all.
const maxRefused = 8

// batch holds the claims of the units of one flush, sorted by key, with copies of one event
// coalesced.
type batch struct {
	entries     []*entry
	deadline    time.Time // the latest of its units: until then a caller waits
	soonest     time.Time // the earliest
	anyReopened bool
	mostlyKnown bool // most entries are expected to be duplicates
	timedOut    int  // size of the smallest statement that timed out; 0 if none did
	failed      bool // a statement failed
	refused     int  // refusals in a row, for reasons that may concern all
	allowUnsafe []string
	reserved    []reserved
	observe     func(size int, took time.Duration, err error)
}

// entry is one key of a batch with every claim that waits for it. The claim of the first waiter is
// the one that the store gets.
type entry struct {
	claim   *driver.Claim
	waiters []waiter
	result  Result
}

type waiter struct {
	unit  *Unit
	index int // into the unit's claims
}

func newBatch(units []*Unit, observe func(size int, took time.Duration, err error)) *batch {
	b := &batch{observe: observe}
	byKey := make(map[driver.Key]*entry)
	for _, u := range units {
		if u.deadline.After(b.deadline) {
			b.deadline = u.deadline
		}
		if b.soonest.IsZero() || u.deadline.Before(b.soonest) {
			b.soonest = u.deadline
		}
		for i := range u.Claims {
			e := byKey[u.Claims[i].Key]
			if e == nil {
				e = &entry{claim: &u.Claims[i]}
				byKey[e.claim.Key] = e
				b.entries = append(b.entries, e)
			}
			e.waiters = append(e.waiters, waiter{u, i})
		}
	}
	// All batches use one order: unsorted batches that share keys deadlock.
	slices.SortFunc(b.entries, func(x, y *entry) int { return bytes.Compare(x.claim.Key[:], y.claim.Key[:]) })
	return b
}

// chunk returns how many of the entries fit one statement: a single delivery may hold more than that.
func chunk(entries []*entry, limit int) int {
	size := 0
	for i, e := range entries {
		size += claimBytes(e.claim)
		if i > 0 && (i == limit || size > MaxBytes) {
			return i
		}
	}
	return len(entries)
}

// firstLockWait leaves time for splitting, and for the delivery with the earliest deadline.
func (b *batch) firstLockWait() time.Duration {
	return max(min(time.Until(b.soonest)/3, MaxLockWait), time.Millisecond)
}

// nextLockWait is the lock wait while the batch is split to find the stuck keys: a small part of the
// time that is left, so that the other entries get their turn however many keys are stuck.
func (b *batch) nextLockWait() time.Duration {
	return max(min(time.Until(b.deadline)/64, MaxLockWait/10), time.Millisecond)
}

// claim claims entries in one commit. If single rows or keys are at fault, it splits the entries and
// tries the halves, so that only the faulty ones fail.
func (b *batch) claim(ctx context.Context, store Store, entries []*entry, lockTimeout time.Duration) {
	claims := make([]driver.Claim, len(entries))
	for i, e := range entries {
		claims[i] = *e.claim
	}
	params := &driver.ClaimParams{
		Claims: claims, LockTimeout: lockTimeout, MostlyKnown: b.mostlyKnown && len(claims) >= enoughToLook, AllowUnsafe: b.allowUnsafe,
	}
	results, err := b.try(ctx, store, params)
	if errors.Is(err, driver.ErrSerialization) {
		results, err = b.try(ctx, store, params)
	}
	if err == nil && len(results) != len(entries) {
		err = fmt.Errorf("%w: the store gave %d results for %d claims", driver.ErrCommitUnknown, len(results), len(entries))
	}
	switch {
	case err == nil:
		b.refused = 0
		for i, e := range entries {
			e.result = resultOf(&results[i])
		}
	case len(entries) > 1 && ctx.Err() == nil && b.inHalves(err):
		half := len(entries) / 2
		b.claim(ctx, store, entries[:half], b.nextLockWait())
		b.claim(ctx, store, entries[half:], b.nextLockWait())
	case len(entries) > 1 && errors.Is(err, driver.ErrTimedOut):
		// In halves, without the deliveries whose time is over.
		half := len(entries) / 2
		for _, entries := range [][]*entry{entries[:half], entries[half:]} {
			if rest := failOverdue(entries, err); len(rest) > 0 {
				b.claim(ctx, store, rest, b.nextLockWait())
			}
		}
	default:
		if errors.Is(err, driver.ErrRefused) {
			b.refused++
		}
		for _, e := range entries {
			e.result.Err = err
		}
	}
}

// inHalves reports whether halves of a batch may succeed. Those of one that is refused do not, after many refusals in a row.
func (b *batch) inHalves(err error) bool {
	return driver.FaultOfRows(err) && (b.refused < maxRefused || !errors.Is(err, driver.ErrRefused))
}

// failOverdue fails the entries that no delivery waits for any more, and returns the others.
func failOverdue(entries []*entry, err error) []*entry {
	now := time.Now()
	var rest []*entry
	for _, e := range entries {
		if slices.ContainsFunc(e.waiters, func(w waiter) bool { return now.Before(w.unit.deadline) }) {
			rest = append(rest, e)
		} else {
			e.result.Err = err
		}
	}
	return rest
}

// resultOf returns the result of a claim. An unsettled one is an error: it must not be taken for a
// duplicate.
func resultOf(r *driver.ClaimResult) Result {
	if !r.Settled() {
		return Result{Err: driver.ErrNotStored}
	}
	return Result{ClaimResult: *r}
}

func (b *batch) try(ctx context.Context, store Store, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	began := time.Now()
	results, err := store.Claim(ctx, p)
	b.failed = b.failed || err != nil
	if n := len(p.Claims); timedOut(ctx, err) && (b.timedOut == 0 || n < b.timedOut) {
		b.timedOut = n
	}
	b.observe(len(p.Claims), time.Since(began), err)
	return results, err
}

// reopen gives dead events a new generation if their source asks for it. It returns those that other sessions have locked for
// wait.
func (b *batch) reopen(ctx context.Context, store Store, entries []*entry, wait time.Duration) (held []*entry) {
	var dead []*entry
	for _, e := range entries {
		if e.result.Err == nil && e.result.Dead && e.waiters[0].unit.reopen {
			dead = append(dead, e)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return b.reopenDead(ctx, store, dead, wait)
}

// reopenDead is reopen for dead events. If single rows are at fault, it tries halves, so that only the faulty ones fail.
func (b *batch) reopenDead(ctx context.Context, store Store, dead []*entry, wait time.Duration) (held []*entry) {
	keys, byKey := make([]driver.Key, len(dead)), make(map[driver.Key]*entry, len(dead))
	for i, e := range dead {
		keys[i], byKey[e.claim.Key] = e.claim.Key, e
	}
	reopened, locked, err := store.Reopen(ctx, &driver.ReopenParams{Keys: keys, Wait: wait})
	if half := len(dead) / 2; half > 0 && ctx.Err() == nil && b.inHalves(err) {
		return append(b.reopenDead(ctx, store, dead[:half], wait), b.reopenDead(ctx, store, dead[half:], wait)...)
	}
	if errors.Is(err, driver.ErrRefused) {
		b.refused++
	}
	if err != nil {
		// The answer must not be 2xx: the sender would not ask for this event again.
		for _, e := range dead {
			e.result.Err = err
		}
		return nil
	}
	for _, key := range reopened {
		byKey[key].result.Reopened = true
		b.anyReopened = true
	}
	for _, key := range locked {
		held = append(held, byKey[key])
	}
	return held
}

// settle hands each waiter its result: the first one gets the result of the database, the others
// that of a copy.
func settle(entries []*entry, counts *counts) {
	for _, e := range entries {
		for i, w := range e.waiters {
			result := e.result
			claim := &w.unit.Claims[w.index]
			if i > 0 && result.Err == nil {
				result = copyOf(result, claim.BodyHash != e.claim.BodyHash)
			}
			w.unit.Results[w.index] = result
			if result.Err == nil {
				counts.add(claim, &result)
			}
		}
	}
}

var errRefusedBody = errors.New("another item of this delivery has the same event id and a body that was refused")

// copyOf returns the result of a copy of an event whose result is given. otherBody says that the copy
// has another body, which only items of one delivery can have here.
func copyOf(result Result, otherBody bool) Result {
	if otherBody && result.Duplicate && result.RepeatOf != "" {
		// The store refused the event for a body that this copy does not have: whether this
		// copy is durable is unknown.
		return Result{Err: errRefusedBody}
	}
	result.Claimed, result.Duplicate = false, true
	result.OtherBody = result.OtherBody || otherBody
	return result
}

// mostlyDuplicates reports whether most of the entries were duplicates. The next batch probably
// holds duplicates too: a sender that repeats its events repeats many.
func (b *batch) mostlyDuplicates() bool {
	n := 0
	for _, e := range b.entries {
		if e.result.Err == nil && e.result.Duplicate {
			n++
		}
	}
	return 2*n > len(b.entries)
}

// claimed returns the claims of new events.
func (b *batch) claimed() []*driver.Claim {
	var out []*driver.Claim
	for _, e := range b.entries {
		if e.result.Err == nil && e.result.Claimed {
			out = append(out, e.claim)
		}
	}
	return out
}
