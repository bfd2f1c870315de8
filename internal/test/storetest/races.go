package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// raceLease lets eight workers empty one destination. No message may be leased twice, and together
// they get all of them.
func raceLease(p *pair) {
	const events, workers = 200, 8
	all := newClaims(events, "billing")
	p.claimNew(t0, all...)
	var mu sync.Mutex
	owners := map[string][]int{}
	p.atOnce(workers, func(s driver.Store, i int) error {
		// An empty answer may only mean that others hold locks on the rest, so a worker repeats
		// until all are leased, but not forever.
		for range 20_000 {
			got, err := s.Lease(p.Context(), &driver.LeaseParams{
				Destination: "to-billing", Limit: 7, For: time.Hour, MaxAttempts: maxAttempts, Now: t0,
			})
			if err != nil {
				return err
			}
			mu.Lock()
			for _, m := range got.Messages {
				owners[m.ID] = append(owners[m.ID], i)
			}
			left := events - len(owners)
			mu.Unlock()
			if left == 0 {
				return nil
			}
		}
		return fmt.Errorf("worker %d saw messages that no worker could lease", i)
	})
	for id, workers := range owners {
		if len(workers) != 1 {
			p.Errorf("message %s was leased to the workers %v, want one", id, workers)
		}
	}
	p.noneDue(t0, "to-billing", "after all was leased")
}

// raceCompleteExpiry completes leases that have just expired while another worker takes them over.
// Either the completion finds its lease held and no other worker gets the message, or it changes
// nothing.
func raceCompleteExpiry(p *pair) {
	for round := range group.Rounds(10, 30) {
		c := newClaim("stripe", fmt.Sprint("evt_", round), "{}", "billing")
		p.claimNew(t0, c)
		first := p.leaseOne(t0, "to-billing")
		later := t0.Add(2 * leaseFor)
		var held []bool
		var taken []driver.Message
		p.atOnce(2, func(s driver.Store, i int) (err error) {
			// The sides alternate, so that each store plays both roles.
			if (i+round)%2 == 0 {
				held, err = s.Complete(p.Context(), &driver.CompleteParams{
					Completions: []driver.Completion{{ID: first.ID, Token: first.Token, Outcome: driver.MessageSent, StatusCode: 200}}, Now: later,
				})
				return err
			}
			leased, err := s.Lease(p.Context(), &driver.LeaseParams{
				Destination: "to-billing", Limit: 1, For: leaseFor, MaxAttempts: maxAttempts, Now: later,
			})
			if err == nil {
				taken = leased.Messages
			}
			return err
		})
		if len(held) != 1 {
			p.Fatalf("Complete returned %v, want one answer", held)
		}
		got := p.event("stripe", c.EventID)
		switch {
		case held[0] && (len(taken) != 0 || got.State != driver.StateDone):
			p.Errorf("the completion was recorded, but %+v was leased and the event is %s", taken, got.State)
		case !held[0] && (len(taken) != 1 || got.Messages[0].State != driver.StateSending || len(got.Tries) != 0 && got.Tries[0].Outcome == "sent"):
			p.Errorf("the completion was refused, but %+v was leased and the event is %+v", taken, got)
		}
		for _, m := range taken {
			p.mustComplete(later, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
		}
	}
}

// raceCompleteTwice records two outcomes of one lease at once.
func raceCompleteTwice(p *pair) {
	const events, callers = 40, 4
	all := newClaims(events, "billing")
	p.claimNew(t0, all...)
	messages := p.lease(t0, "to-billing", events)
	var held [callers][]bool
	p.atOnce(callers, func(s driver.Store, i int) (err error) {
		var completions []driver.Completion
		for n := range messages {
			m := messages[n]
			if i%2 == 1 { // in reverse order, so that the callers meet
				m = messages[len(messages)-1-n]
			}
			completions = append(completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200 + i})
		}
		held[i], err = s.Complete(p.Context(), &driver.CompleteParams{Completions: completions, Now: t0})
		return err
	})
	for n, m := range messages {
		var winners []int
		for i := range callers {
			place := n
			if i%2 == 1 {
				place = len(messages) - 1 - n
			}
			if held[i][place] {
				winners = append(winners, i)
			}
		}
		got := p.event("stripe", m.EventID)
		if len(winners) != 1 || len(got.Tries) != 1 || got.Tries[0].StatusCode != 200+winners[0] || got.Messages[0].StatusCode != 200+winners[0] {
			p.Errorf("message %s was completed by the callers %v and its attempts are %+v, want one of each", m.ID, winners, got.Tries)
		}
	}
}

// raceClaimPrune claims the ids of old events while they are pruned. A claim that finds the old
// event is a duplicate. Otherwise it makes a new event that no prune may take, whether it has an
// open message or is done but young.
func raceClaimPrune(p *pair) {
	const events = 200
	var old, again []driver.Claim
	for i := range events {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}")
		old = append(old, c)
		again = append(again, newClaim("stripe", c.EventID, "{}", []string{"billing"}[:i%2]...))
	}
	p.claimNew(t0, old...)
	later := t0.Add(2 * day)
	again = sorted(again...)
	claimedBy := make([]int, events)
	var mu sync.Mutex
	p.atOnce(8, func(s driver.Store, i int) error {
		if i < 4 {
			prune := windows(day, later)
			prune.Chunk = 3
			_, err := s.Prune(p.Context(), prune)
			return err
		}
		for start := 0; start < events; start += 5 {
			got, err := p.claimAll(s, later, again[start:start+5]...)
			if err != nil {
				return err
			}
			mu.Lock()
			for n, result := range got {
				if result.Claimed {
					claimedBy[start+n]++
				}
			}
			mu.Unlock()
		}
		return nil
	})
	p.prune(windows(day, later))
	for n := range again {
		switch claimedBy[n] {
		case 0:
			p.absent("stripe", again[n].EventID)
		case 1:
			p.sameEvent(claimed(&again[n], later))
		default:
			p.Errorf("event %s was claimed again by %d callers, want at most 1", again[n].EventID, claimedBy[n])
		}
	}
}

// racePruneTwice prunes from both stores at once. Together they count each row once.
func racePruneTwice(p *pair) {
	const events = 60
	all := newClaims(events)
	p.claimNew(t0, all...)
	var results [4]driver.PruneResult
	p.atOnce(len(results), func(s driver.Store, i int) error {
		prune := windows(day, t0.Add(2*day))
		prune.Chunk = 7
		got, err := s.Prune(p.Context(), prune)
		if err == nil {
			results[i] = *got
		}
		return err
	})
	// A row that one prune skipped as locked was pruned by the other.
	var total driver.PruneResult
	for _, result := range results {
		total.Events += result.Events
		total.Bodies += result.Bodies
	}
	same(p, "pruned by all", driver.PruneResult{Events: events}, total)
	same(p, "left", []string(nil), idsOf(p.events(&driver.EventFilter{})))
}
