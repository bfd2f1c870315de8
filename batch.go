package hookonce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// enoughToLook is for how many claims it pays to look first which events are known.
const enoughToLook = 2

// batch is what one flush works on: the claims of its units, sorted by key,
// copies of one event coalesced.
type batch struct {
	entries     []*entry
	deadline    time.Time // the last of its units': until then somebody waits
	soonest     time.Time // the first
	anyReopened bool
	mostlyKnown bool // is expected of the entries
	observed    *observers
}

// entry is one key of a batch with everyone who waits for it. The first waiter
// is the one whose claim is made.
type entry struct {
	claim   *driver.Claim
	waiters []waiter
	result  claimResult
}

type waiter struct {
	unit  *claimUnit
	index int // into the unit's claims
}

func newBatch(units []*claimUnit, observed *observers) *batch {
	b := &batch{observed: observed}
	byKey := make(map[driver.Key]*entry)
	for _, u := range units {
		if u.deadline.After(b.deadline) {
			b.deadline = u.deadline
		}
		if b.soonest.IsZero() || u.deadline.Before(b.soonest) {
			b.soonest = u.deadline
		}
		for i := range u.claims {
			e := byKey[u.claims[i].Key]
			if e == nil {
				e = &entry{claim: &u.claims[i]}
				byKey[e.claim.Key] = e
				b.entries = append(b.entries, e)
			}
			e.waiters = append(e.waiters, waiter{u, i})
		}
	}
	// One order for all: unsorted batches that share keys deadlock.
	slices.SortFunc(b.entries, func(x, y *entry) int { return bytes.Compare(x.claim.Key[:], y.claim.Key[:]) })
	return b
}

// chunks cuts the entries into what one statement carries: a single delivery may
// hold more than that.
func (b *batch) chunks() [][]*entry {
	var chunks [][]*entry
	start, size := 0, 0
	for i, e := range b.entries {
		n := claimBytes(e.claim)
		if i > start && (i-start == maxBatchClaims || size+n > maxBatchBytes) {
			chunks = append(chunks, b.entries[start:i])
			start, size = i, 0
		}
		size += n
	}
	return append(chunks, b.entries[start:])
}

// firstLockWait leaves time for splitting, and for whoever must answer first.
func (b *batch) firstLockWait() time.Duration {
	return max(min(time.Until(b.soonest)/3, maxLockWait), time.Millisecond)
}

// nextLockWait is for finding the stuck keys: a small part of the time that is
// left, so that however many there are, the others get their turn.
func (b *batch) nextLockWait() time.Duration {
	return max(min(time.Until(b.deadline)/64, maxLockWait/10), time.Millisecond)
}

// claim claims entries in one commit. Where a row or a key spoils that, it
// splits them and tries the halves, so that only the spoiler fails.
func (b *batch) claim(ctx context.Context, store driver.Store, entries []*entry, lockTimeout time.Duration) {
	claims := make([]driver.Claim, len(entries))
	for i, e := range entries {
		claims[i] = *e.claim
	}
	params := &driver.ClaimParams{Claims: claims, LockTimeout: lockTimeout, MostlyKnown: b.mostlyKnown && len(claims) >= enoughToLook}
	results, err := b.try(ctx, store, params)
	if errors.Is(err, driver.ErrSerialization) {
		results, err = b.try(ctx, store, params)
	}
	if err == nil && len(results) != len(entries) {
		err = fmt.Errorf("%w: the store gave %d results for %d claims", driver.ErrCommitUnknown, len(results), len(entries))
	}
	switch {
	case err == nil:
		for i, e := range entries {
			e.result.ClaimResult = results[i]
		}
	case len(entries) > 1 && ctx.Err() == nil && splits(err):
		half := len(entries) / 2
		b.claim(ctx, store, entries[:half], b.nextLockWait())
		b.claim(ctx, store, entries[half:], b.nextLockWait())
	default:
		for _, e := range entries {
			e.result.err = err
		}
	}
}

func (b *batch) try(ctx context.Context, store driver.Store, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	began := time.Now()
	results, err := store.Claim(ctx, p)
	b.observed.claim(ClaimObserved{Size: len(p.Claims), Took: time.Since(began), Err: err})
	return results, err
}

// splits reports whether err is the fault of single entries, and nothing was
// written.
func splits(err error) bool {
	return errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrLockTimeout) || errors.Is(err, driver.ErrSerialization)
}

// reopen gives dead events a new generation where their source wants that.
func (b *batch) reopen(ctx context.Context, store driver.Store) {
	dead := make(map[driver.Key]*entry)
	var keys []driver.Key
	for _, e := range b.entries {
		if e.result.err == nil && e.result.Dead && e.waiters[0].unit.source.Redelivery == RedeliveryReopen {
			dead[e.claim.Key] = e
			keys = append(keys, e.claim.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	reopened, err := store.Reopen(ctx, &driver.ReopenParams{Keys: keys})
	if err != nil {
		// The sender's word that it wants this event again must not be lost.
		for _, e := range dead {
			e.result.err = err
		}
		return
	}
	for _, key := range reopened {
		dead[key].result.reopened = true
		b.anyReopened = true
	}
}

// settle hands each waiter its result: the first one that of the database, the
// others that of a copy.
func (b *batch) settle(counts *deliveryCounts) {
	for _, e := range b.entries {
		for i, w := range e.waiters {
			result := e.result
			claim := &w.unit.claims[w.index]
			if i > 0 && result.err == nil {
				result = copyOf(result, claim.BodyHash != e.claim.BodyHash)
			}
			w.unit.results[w.index] = result
			if result.err == nil {
				counts.add(claim, &result)
			}
		}
	}
}

var errRefusedBody = errors.New("another item of this delivery has the same event id and a body that was refused")

// copyOf returns the result of a copy of an event whose result is given. Only
// items of one delivery may differ in their bodies here.
func copyOf(result claimResult, otherBody bool) claimResult {
	if otherBody && !result.Claimed && result.RepeatOf != "" {
		// The event was refused for a body that is not this one's: it is not
		// known to be durable.
		return claimResult{err: errRefusedBody}
	}
	result.Claimed = false
	result.OtherBody = result.OtherBody || otherBody
	return result
}

// mostlyDuplicates reports whether most of the entries were there already: senders that
// deliver everything again do not stop in the middle.
func (b *batch) mostlyDuplicates() bool {
	n := 0
	for _, e := range b.entries {
		if e.result.err == nil && !e.result.Claimed {
			n++
		}
	}
	return 2*n > len(b.entries)
}

// claimed returns the claims that were made.
func (b *batch) claimed() []*driver.Claim {
	var out []*driver.Claim
	for _, e := range b.entries {
		if e.result.err == nil && e.result.Claimed {
			out = append(out, e.claim)
		}
	}
	return out
}
