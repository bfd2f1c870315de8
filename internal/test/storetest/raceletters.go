package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// raceDeadLetter works on one dead letter in every way at once, of a message or of a queued event. Exactly one caller gets it,
// and the history names that action.
func raceDeadLetter(p *pair, queued bool) {
	rounds := group.Rounds(8, 25)
	won := map[string]int{}
	for round := range rounds {
		c := newClaim("stripe", fmt.Sprint("evt_", round), "{}", "a")
		ref := letter(&c, 0)
		if queued {
			c.Messages, c.Work = nil, driver.WorkQueued
			ref.MessageID = ""
		}
		p.claimNew(t0, c)
		if queued {
			p.failQueued("stripe")
		} else {
			p.finish(driver.MessageDead, &c)
		}
		var mu sync.Mutex
		var winners []string
		win := func(action string, yes bool) {
			mu.Lock()
			defer mu.Unlock()
			if yes {
				winners = append(winners, action)
			}
		}
		letters := &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{ref}, Now: t0}
		works := []func(s driver.Store) error{
			func(s driver.Store) error {
				got, err := s.ReplayDead(p.Context(), letters)
				win("replayed "+ref.MessageID, err == nil && got[0])
				return err
			},
			func(s driver.Store) error {
				got, err := s.Discard(p.Context(), letters)
				win("discarded "+ref.MessageID, err == nil && got[0])
				return err
			},
			func(s driver.Store) error {
				got, _, err := s.Reopen(p.Context(), &driver.ReopenParams{Keys: []driver.Key{c.Key}, Now: t0})
				win("reopened ", err == nil && len(got) == 1)
				return err
			},
			func(s driver.Store) error {
				_, err := s.Replay(p.Context(), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplayAsNew, Now: t0})
				win("replayed_as_new ", err == nil)
				if errors.Is(err, driver.ErrOpen) || busy(err) {
					return nil
				}
				return err
			},
		}
		p.atOnce(len(works), func(s driver.Store, i int) error { return works[(i+round)%len(works)](s) })
		e := p.event("stripe", c.EventID)
		var told []string
		for _, h := range e.History {
			told = append(told, h.Action+" "+h.MessageID)
		}
		p.checkLetter(e, winners, told)
		won[e.History[0].Action]++
		if queued {
			p.failQueued("stripe") // a due one would come first in the next round
			continue
		}
		for _, m := range p.lease(t0, "to-a", 10) {
			p.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
		}
	}
	p.Logf("won: %v", won)
}

// checkLetter checks an event after many callers worked on its one dead letter. A replay may follow
// a discard, because discarded letters can be replayed.
func (p *pair) checkLetter(e *driver.EventDetail, winners, told []string) {
	p.Helper()
	slices.Sort(winners)
	if !slices.Equal(winners, slices.Sorted(slices.Values(told))) {
		p.Fatalf("these got the letter: %q; the history tells of %q", winners, told)
	}
	discarded := len(told) > 0 && strings.HasPrefix(told[0], driver.ActionDiscarded)
	working, due := driver.StateRunning, 1
	if len(e.Messages) == 0 {
		working, due = driver.StatePending, 0
	}
	switch generation, pending := e.Generation, countState(e, driver.StatePending); {
	case len(told) == 1 && discarded:
		if e.State != driver.StateSkipped || generation != 0 {
			p.Errorf("the discarded event is %+v", e.Event)
		}
	case len(told) == 1 || len(told) == 2 && discarded && told[1] == "replayed_as_new ":
		if e.State != working || generation != 1 || pending != due {
			p.Errorf("after %q the event is %+v with the messages %+v, want one due in generation 1", told, e.Event, e.Messages)
		}
	default:
		p.Errorf("the letter was worked on by %q, want one", told)
	}
}

// failQueued makes the due events of a source dead, as if their handlers had failed.
func (p *pair) failQueued(source string) {
	p.Helper()
	taken, err := p.s.Reserve(p.Context(), &driver.ReserveParams{Source: source, Types: []string{"*"}, Limit: 10, For: leaseFor, Now: t0})
	if err != nil {
		p.Fatalf("Reserve: %v", err)
	}
	done := &driver.FinishParams{Now: t0}
	for i := range taken {
		done.Results = append(done.Results, failed(&taken[i]))
	}
	if err := p.s.RecordReserved(p.Context(), done); err != nil {
		p.Fatalf("RecordReserved: %v", err)
	}
}

// raceUndiscardPrune undoes discards at the moment when their events are pruned. Each event is dead again and whole, or it is not
// undone and goes.
func raceUndiscardPrune(p *pair) {
	const events = 60
	all := newClaims(events, "a")
	p.claimNew(t0, all...)
	p.killAll(t0, "to-a", events)
	for n := range all {
		p.discardAs(fmt.Sprint("op_", n), t0, letter(&all[n], 0))
	}
	later := t0.Add(2 * day)
	undone := [events]bool{true} // one for sure
	same(p, "undone", driver.Undiscarded{Held: true, Undone: 1}, p.undiscard(&driver.UndiscardParams{Operation: "op_0", Limit: 10, Now: later}))
	p.atOnce(6, func(s driver.Store, i int) error {
		if i < 2 {
			prune := windows(day, later) // one pruner takes only bodies, the other everything
			prune.Chunk = 2
			if i == 0 {
				prune.DedupeWindow = 30 * day
			}
			_, err := s.Prune(p.Context(), prune)
			return err
		}
		for n := events - 1 - (i - 2); n > 0; n -= 4 {
			got, err := s.Undiscard(p.Context(), &driver.UndiscardParams{Operation: fmt.Sprint("op_", n), Limit: 10, Now: later})
			switch {
			case err == nil:
				undone[n] = got.Undone == 1
			case !busy(err):
				return err
			}
		}
		return nil
	})
	p.prune(windows(day, later))
	whole := 0
	for n := range all {
		if !undone[n] {
			p.absent("stripe", all[n].EventID)
			continue
		}
		whole++
		e := p.event("stripe", all[n].EventID)
		if e.State != driver.StateDead || e.BodyPruned || string(e.Body) != "{}" || len(e.Messages) != 1 {
			p.Errorf("the event is %+v after its discard was undone, want it dead and whole", e)
		}
		same(p, "reopened", []driver.Key{all[n].Key}, p.reopen(later, all[n].Key))
	}
	if due := p.lease(later, "to-a", 2*events); len(due) != whole {
		p.Errorf("%d messages are due, want one of each of the %d events", len(due), whole)
	}
	p.Logf("%d of %d were undone before they were pruned", whole, events)
}

func countState(e *driver.EventDetail, state string) (n int) {
	for _, m := range e.Messages {
		if m.State == state {
			n++
		}
	}
	return n
}

// raceReplayDeadLease replays dead letters while both stores lease. Each letter is replayed once
// and leased once.
func raceReplayDeadLease(p *pair) {
	const events, callers = 60, 6
	all := newClaims(events, "a")
	p.claimNew(t0, all...)
	var completions []driver.Completion
	old := map[string]int64{}
	for _, m := range p.lease(t0, "to-a", events) {
		completions = append(completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead})
		old[m.ID] = m.Token
	}
	p.mustComplete(t0, completions...)
	var mu sync.Mutex
	replayed, leases := map[driver.Key]int{}, map[string][]driver.Message{}
	p.atOnce(callers, func(s driver.Store, i int) error {
		for start := 0; start < events; start += 5 {
			if i < 3 {
				letters := &driver.DeadLetterParams{Now: t0}
				for n := start; n < start+5; n++ {
					letters.Letters = append(letters.Letters, letter(&all[(n+i*7)%events], 0))
				}
				got, err := s.ReplayDead(p.Context(), letters)
				if err != nil {
					return err
				}
				mu.Lock()
				for n, ok := range got {
					if ok {
						replayed[letters.Letters[n].Key]++
					}
				}
				mu.Unlock()
				continue
			}
			got, err := s.Lease(p.Context(), &driver.LeaseParams{Destination: "to-a", Limit: 9, For: leaseFor, MaxAttempts: maxAttempts, Now: t0})
			if err != nil {
				return err
			}
			mu.Lock()
			for _, m := range got.Messages {
				leases[m.ID] = append(leases[m.ID], m)
			}
			mu.Unlock()
		}
		return nil
	})
	for _, m := range p.lease(t0, "to-a", events) {
		leases[m.ID] = append(leases[m.ID], m)
	}
	for i := range all {
		id := all[i].Messages[0].ID
		// A letter that every caller found locked is still dead.
		if e := p.event("stripe", all[i].EventID); replayed[all[i].Key] == 0 && e.State == driver.StateDead && len(leases[id]) == 0 {
			continue
		}
		if got := leases[id]; replayed[all[i].Key] != 1 || len(got) != 1 || got[0].Attempt != 1 || got[0].Generation != 1 || got[0].Token <= old[id] {
			p.Errorf("message %d was replayed %d times and leased as %+v, want once each", i, replayed[all[i].Key], got)
		}
	}
}

// raceRetryLease retries a waiting message while it is leased. Either side may win, and the other
// one is told.
func raceRetryLease(p *pair) {
	for round := range group.Rounds(10, 30) {
		c := newClaim("stripe", fmt.Sprint("evt_", round), "{}", "a")
		p.claimNew(t0, c)
		m := p.leaseOne(t0, "to-a")
		retry := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry}
		if round%2 == 0 {
			retry.Outcome = driver.MessageDead // then a lease can only follow the retry
		}
		p.mustComplete(t0, retry)
		var mu sync.Mutex
		var held []driver.Message
		retried, refused := 0, 0
		p.atOnce(4, func(s driver.Store, i int) error {
			if (i/2+round)%2 == 0 {
				got, err := s.Lease(p.Context(), &driver.LeaseParams{Destination: "to-a", Limit: 2, For: leaseFor, MaxAttempts: maxAttempts, Now: t0})
				if err == nil {
					mu.Lock()
					held = append(held, got.Messages...)
					mu.Unlock()
				}
				return err
			}
			err := s.RetryMessage(p.Context(), &driver.RetryMessageParams{ID: m.ID, Now: t0})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				retried++
			case errors.Is(err, driver.ErrOpen) || busy(err):
				refused++
			default:
				return err
			}
			return nil
		})
		if len(held) == 0 {
			held = p.lease(t0, "to-a", 2)
		}
		e := p.event("stripe", c.EventID)
		if len(held) != 1 || held[0].Token <= m.Token || len(e.History) != retried || retried+refused != 2 || e.Messages[0].State != driver.StateSending {
			p.Fatalf("round %d: %d retried and %d were refused; leased %+v; the event is %+v", round, retried, refused, held, e)
		}
		if generation := 1 - round%2; e.Generation != generation {
			p.Errorf("round %d: the generation is %d, want %d", round, e.Generation, generation)
		}
		p.mustComplete(t0, driver.Completion{ID: m.ID, Token: held[0].Token, Outcome: driver.MessageSent})
	}
}
