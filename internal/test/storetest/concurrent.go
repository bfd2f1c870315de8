package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// ExerciseConcurrent runs two stores on one database against each other. Each case calls open for
// two stores on a fresh, migrated, empty database, as in two processes. Pass at most one Features; only its
// Transport counts.
func ExerciseConcurrent(t *testing.T, open func(t *testing.T) (a, b driver.Store), features ...Features) {
	t.Helper()
	only := over(oneFeatures(t, features).Transport, concurrentTransport)
	for _, c := range choose(t, only, "Concurrent", []pairCase{
		{"OneKey", func(p *pair) { raceOneKey(p, "billing") }},
		{"OneKeyQueued", func(p *pair) { raceOneKey(p) }},
		{"TwoBatches", func(p *pair) { raceTwoBatches(p, "billing") }},
		{"TwoBatchesQueued", func(p *pair) { raceTwoBatches(p) }},
		{"OneBody", raceOneBody},
		{"Lease", raceLease},
		{"Order", raceOrder},
		{"CompleteAgainstExpiry", raceCompleteExpiry},
		{"CompleteTwice", raceCompleteTwice},
		{"Reopen", raceReopen},
		{"Counts", raceCounts},
		{"Figures", raceFigures},
		{"Refused", raceRefused},
		{"Feed", raceFeed},
		{"ClaimAgainstPrune", raceClaimPrune},
		{"PruneTwice", racePruneTwice},
		{"Quarantine", raceQuarantine},
		{"ReplayTwice", raceReplayTwice},
		{"ReplayByOneRequest", raceReplayRequest},
		{"ReplayAgainstPrune", raceReplayPrune},
		{"ReplayAgainstComplete", raceReplayComplete},
		{"OneDeadLetter", func(p *pair) { raceDeadLetter(p, false) }},
		{"OneDeadLetterQueued", func(p *pair) { raceDeadLetter(p, true) }},
		{"UndiscardAgainstPrune", raceUndiscardPrune},
		{"ReplayDeadAgainstLease", raceReplayDeadLease},
		{"RetryAgainstLease", raceRetryLease},
		{"PauseAgainstLease", racePause},
		{"Enqueue", raceEnqueue},
		{"LearnSecret", raceLearn},
		{"Everything", raceEverything},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			c.run(&pair{fixture: &fixture{T: t, s: a}, stores: [2]driver.Store{a, b}})
		})
	}
}

// pairCase is one case of ExerciseConcurrent.
type pairCase struct {
	name string
	run  func(p *pair)
}

func (c pairCase) title() string { return c.name }

// pair is two stores on one database. The first one is the fixture's.
type pair struct {
	*fixture
	stores [2]driver.Store
}

// atOnce runs n calls at the same moment, half on each store, and fails the test if one fails. A
// call that the database aborted in favour of another, or that waited for too long on a slow machine,
// is repeated, as the contract allows.
func (p *pair) atOnce(n int, call func(s driver.Store, i int) error) {
	p.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			for began := time.Now(); ; {
				if errs[i] = call(p.stores[i%2], i); !again(errs[i]) || time.Since(began) > eventually.Bound {
					return
				}
			}
		})
	}
	close(start)
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		p.Fatal(err)
	}
}

// busy reports whether err only says that another session held a lock.
func busy(err error) bool { return errors.Is(err, driver.ErrLockTimeout) }

// claimAll claims on one store. Unlike claim it returns errors, so that goroutines can call it.
func (p *pair) claimAll(s driver.Store, at time.Time, claims ...driver.Claim) ([]driver.ClaimResult, error) {
	results, err := s.Claim(p.Context(), &driver.ClaimParams{
		Claims: claims, LockTimeout: eventually.Bound, Now: at,
		MostlyKnown: len(claims) > 0 && claims[0].Key[0]%2 == 0, // this hint must not change results
	})
	if err == nil && len(results) != len(claims) {
		err = fmt.Errorf("got %d results for %d claims", len(results), len(claims))
	}
	return results, err
}

func raceOneKey(p *pair, routes ...string) {
	for round := range group.Rounds(2, 5) {
		const callers = 64
		c := newEither("stripe", fmt.Sprint("evt_", round), "{}", routes...)
		var results [callers]driver.ClaimResult
		p.atOnce(callers, func(s driver.Store, i int) error {
			got, err := p.claimAll(s, t0, c)
			if err == nil {
				results[i] = got[0]
			}
			return err
		})
		if i := slices.IndexFunc(results[:], func(r driver.ClaimResult) bool { return r.Claimed }); i > 0 {
			results[0], results[i] = results[i], results[0]
		}
		same(p, "results", append([]driver.ClaimResult{{Claimed: true}}, duplicates(callers-1)...), results[:])
		p.sameEvent(claimed(&c, t0))
		for _, m := range c.Messages {
			p.leaseOne(t0, m.Destination)
		}
	}
}

// raceTwoBatches claims the same events in two batches at once, and half of them in further
// batches. Every event has one winner, and no batch fails.
func raceTwoBatches(p *pair, routes ...string) {
	const callers = 6
	events := group.Rounds(60, 200)
	var all []driver.Claim
	for i := range events {
		all = append(all, newEither("stripe", fmt.Sprint("evt_", i), fmt.Sprint(i), routes...))
	}
	all = sorted(all...)
	var results [callers][]driver.ClaimResult
	batch := func(i int) []driver.Claim { return all[:events/(1+i/2%2)] }
	p.atOnce(callers, func(s driver.Store, i int) (err error) {
		results[i], err = p.claimAll(s, t0, batch(i)...)
		return err
	})
	winners := make([]int, events)
	for i := range callers {
		for n, result := range results[i] {
			if result.Claimed {
				winners[n]++
			}
			if result.OtherBody || result.Dead || result.RepeatOf != "" {
				p.Errorf("batch %d, event %d: got %+v", i, n, result)
			}
		}
	}
	for n := range all {
		if winners[n] != 1 {
			p.Errorf("event %d was claimed by %d callers, want 1", n, winners[n])
		}
		p.sameEvent(claimed(&all[n], t0))
	}
	if got := p.lease(t0, "to-billing", 2*events); len(got) != events*len(routes) {
		p.Errorf("%d messages are due, want %d", len(got), events*len(routes))
	}
}

// raceOneBody delivers one body under many ids at once to a source that refuses repeats. Exactly
// one event is claimed.
func raceOneBody(p *pair) {
	for round := range group.Rounds(2, 5) {
		const callers = 32
		claims := make([]driver.Claim, callers)
		for i := range claims {
			claims[i] = guarded(driver.BodyRefuse, "github", fmt.Sprintf("%d-%d", round, i), fmt.Sprint("body ", round))
		}
		var results [callers]driver.ClaimResult
		p.atOnce(callers, func(s driver.Store, i int) error {
			got, err := p.claimAll(s, t0, claims[i])
			if err == nil {
				results[i] = got[0]
			}
			return err
		})
		first := -1
		for i, result := range results {
			if result.Claimed && first >= 0 {
				p.Errorf("both %d and %d were claimed", first, i)
			}
			if result.Claimed {
				first = i
			}
		}
		if first < 0 {
			p.Fatalf("no caller claimed: %+v", results)
		}
		for i, result := range results {
			want := driver.ClaimResult{Claimed: true}
			if i != first {
				want = repeatOf(&claims[first], false)
				p.absent("github", claims[i].EventID)
			}
			same(p, "result", want, result)
		}
	}
}

// raceReopen reopens dead events with several dead messages from many callers at once. Exactly one
// caller gets an event, with all of its messages.
func raceReopen(p *pair) {
	const events, callers = 20, 8
	routes := []string{"a", "b", "c", "d"}
	var keys []driver.Key
	for i := range events {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}", routes...)
		p.claimNew(t0, c)
		for _, route := range routes {
			p.kill(t0, "to-"+route)
		}
		keys = append(keys, c.Key)
	}
	var got [callers][]driver.Key
	p.atOnce(callers, func(s driver.Store, i int) (err error) {
		got[i], _, err = s.Reopen(p.Context(), &driver.ReopenParams{Keys: keys, Now: t0})
		return err
	})
	winners := map[driver.Key]int{}
	for _, reopened := range got {
		for _, key := range reopened {
			winners[key]++
		}
	}
	for i, key := range keys {
		e := p.event("stripe", fmt.Sprint("evt_", i))
		for _, m := range e.Messages {
			if m.State != driver.StatePending || m.Generation != 1 {
				p.Errorf("event %d has the message %+v after it was reopened", i, m)
			}
		}
		// A caller skips an event that another caller has locked and reopens.
		if winners[key] != 1 || e.Generation != 1 || e.State != driver.StateRunning {
			p.Errorf("event %d was reopened by %d callers and is %+v, want one caller and generation 1", i, winners[key], e.Event)
		}
	}
}

func raceCounts(p *pair) {
	const events, callers = 30, 12
	var counts []driver.DeliveryCount
	claims := sorted(newClaims(events)...)
	p.claimNew(t0, claims...)
	for i := range claims {
		counts = append(counts, driver.DeliveryCount{Key: claims[i].Key, Duplicates: 2, OtherBodies: 1, Repeats: 3})
	}
	at := t0.Add(time.Second)
	p.atOnce(callers, func(s driver.Store, i int) error {
		return s.CountDeliveries(p.Context(), &driver.CountDeliveriesParams{Counts: counts, Now: at})
	})
	for i := range claims {
		want := claimed(&claims[i], t0)
		want.Duplicates = 2 * callers
		d := &want.Deliveries
		d.Count, d.LastAt, d.OtherBodies, d.Repeats = 1+2*callers, at, callers, 3*callers
		p.sameEvent(want)
	}
}

func raceQuarantine(p *pair) {
	const requests, callers = 20, 8
	p.atOnce(callers, func(s driver.Store, _ int) error {
		var all []driver.Quarantined
		for i := range requests {
			body := fmt.Append(nil, i)
			c := newClaim("stripe", "", string(body))
			all = append(all, driver.Quarantined{Source: "stripe", BodyHash: c.BodyHash, Headers: c.Headers, Body: body, Reason: "no id"})
		}
		return s.Quarantine(p.Context(), &driver.QuarantineParams{Requests: all, Now: t0})
	})
	same(p, "pruned", driver.PruneResult{Quarantined: requests}, p.prune(windows(day, t0.Add(2*day))))
}
