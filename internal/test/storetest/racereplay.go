package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// raceReplayTwice is the double click: of concurrent replays of a done event one wins, and the
// others find it open.
func raceReplayTwice(p *pair) {
	const callers = 4
	for round := range group.Rounds(5, 15) {
		c := newClaim("stripe", fmt.Sprint("evt_", round), "{}", "a", "b")
		p.claimNew(t0, c)
		p.finish(driver.MessageSent, &c)
		mode := []driver.ReplayMode{driver.ReplayAsNew, driver.ReplaySameID}[round%2]
		var wins atomic.Int32
		p.atOnce(callers, func(s driver.Store, _ int) error {
			got, err := s.Replay(p.Context(), &driver.ReplayParams{Key: c.Key, Mode: mode, Now: t0})
			switch {
			case errors.Is(err, driver.ErrOpen) || busy(err):
				return nil
			case err != nil:
				return err
			}
			wins.Add(1)
			if *got != (driver.Replayed{Generation: 1, Messages: 2}) {
				p.Errorf("the winning replay returned %+v", got)
			}
			return nil
		})
		e := p.event("stripe", c.EventID)
		if messages := []int{4, 2}[round%2]; wins.Load() != 1 || e.Generation != 1 || len(e.History) != 1 || len(e.Messages) != messages {
			p.Errorf("%d of %d replays won; the event is %+v with %d messages and the history %+v, want one step",
				wins.Load(), callers, e.Event, len(e.Messages), e.History)
		}
		for _, m := range c.Messages {
			if got := p.leaseOne(t0, m.Destination); got.Generation != 1 {
				p.Errorf("leased %+v, want generation 1", got)
			}
		}
	}
}

// finish completes every message of the claim with the outcome. All must be due.
func (p *pair) finish(outcome driver.MessageOutcome, c *driver.Claim) {
	p.Helper()
	for _, m := range c.Messages {
		got := p.leaseOne(t0, m.Destination)
		p.mustComplete(t0, driver.Completion{ID: got.ID, Token: got.Token, Outcome: outcome})
	}
}

// raceReplayRequest repeats one request at once. It is carried out once, and all callers that get
// an answer get the same one.
func raceReplayRequest(p *pair) {
	const callers = 6
	for round := range group.Rounds(4, 10) {
		c := newClaim("stripe", fmt.Sprint("evt_", round), "{}", "a")
		p.claimNew(t0, c)
		p.finish(driver.MessageDead, &c)
		var firsts, others atomic.Int32
		p.atOnce(callers, func(s driver.Store, i int) error {
			// The last two callers make another request: it wins, or finds the event open.
			request := []string{"r1", "r2"}[i/(callers-2)]
			for range 20 {
				got, err := s.Replay(p.Context(), &driver.ReplayParams{Key: c.Key, RequestID: request, Now: t0})
				switch {
				case busy(err):
					continue
				case errors.Is(err, driver.ErrOpen):
					return nil
				case err != nil:
					return err
				}
				if got.Generation != 1 || got.Messages != 1 {
					p.Errorf("request %s returned %+v", request, got)
				}
				if got.Repeated {
					others.Add(1)
				} else {
					firsts.Add(1)
				}
				return nil
			}
			return nil
		})
		e := p.event("stripe", c.EventID)
		if firsts.Load() != 1 || e.Generation != 1 || len(e.History) != 1 {
			p.Fatalf("%d callers carried the replay out, the event is %+v with the history %+v, want one", firsts.Load(), e.Event, e.History)
		}
		p.finish(driver.MessageSent, &c)
		if want := int32(callers - 3); e.History[0].RequestID == "r1" && others.Load() != want {
			p.Errorf("%d callers were told of the first replay, want %d", others.Load(), want)
		}
	}
}

// raceReplayPrune replays events past their windows while they are pruned. Each is either replayed
// and whole, or gone before.
func raceReplayPrune(p *pair) {
	const events = 60
	all := newClaims(events, "a")
	p.claimNew(t0, all...)
	var completions []driver.Completion
	for _, m := range p.lease(t0, "to-a", events) {
		completions = append(completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	p.mustComplete(t0, completions...)
	later := t0.Add(2 * day)
	var replayed [events]bool
	p.atOnce(6, func(s driver.Store, i int) error {
		if i < 2 {
			// One pruner takes only bodies, the other everything.
			prune := windows(day, later)
			prune.Chunk = 2
			if i == 0 {
				prune.DedupeWindow = 30 * day
			}
			_, err := s.Prune(p.Context(), prune)
			return err
		}
		// From the other end and on both stores, each caller with events of its own.
		for n := events - 1 - (i - 2); n >= 0; n -= 4 {
			mode := []driver.ReplayMode{driver.ReplayAsNew, driver.ReplaySameID}[n%2]
			_, err := s.Replay(p.Context(), &driver.ReplayParams{Key: all[n].Key, Mode: mode, RequestID: "r", Now: later})
			switch {
			case err == nil:
				replayed[n] = true
			case !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrBodyPruned) && !busy(err):
				return err
			}
		}
		return nil
	})
	p.prune(windows(day, later))
	var whole []string
	for n := range all {
		if !replayed[n] {
			p.absent("stripe", all[n].EventID)
			continue
		}
		whole = append(whole, all[n].EventID)
		e := p.event("stripe", all[n].EventID)
		if e.State != driver.StateRunning || e.BodyPruned || string(e.Body) != "{}" || string(e.Headers) != string(all[n].Headers) ||
			e.Generation != 1 || len(e.History) != 1 || len(e.Tries) != 1 {
			p.Errorf("the replayed event is %+v, want it running and whole", e)
		}
	}
	due := map[string]bool{}
	for _, m := range p.lease(later, "to-a", 2*events) {
		due[m.EventID] = string(m.Body) == "{}" && m.Generation == 1
	}
	for _, id := range whole {
		if !due[id] {
			p.Errorf("the message of %s is not due with its body", id)
		}
	}
	p.Logf("%d of %d were replayed before they were pruned", len(whole), events)
	if len(due) != len(whole) {
		p.Errorf("%d messages are due, want one of each of the %d replayed events", len(due), len(whole))
	}
}

// raceReplayComplete replays an event while its last open message is completed. The replay finds it
// open, or comes after.
func raceReplayComplete(p *pair) {
	for round := range group.Rounds(10, 30) {
		c := newClaim("stripe", fmt.Sprint("evt_", round), "{}", "a", "b")
		p.claimNew(t0, c)
		first := p.leaseOne(t0, "to-a")
		p.mustComplete(t0, driver.Completion{ID: first.ID, Token: first.Token, Outcome: driver.MessageDead})
		last := p.leaseOne(t0, "to-b")
		outcome := []driver.MessageOutcome{driver.MessageSent, driver.MessageDead}[round%2]
		var replayed *driver.Replayed
		p.atOnce(2, func(s driver.Store, i int) (err error) {
			if (i+round/2)%2 == 0 {
				held, err := s.Complete(p.Context(), &driver.CompleteParams{
					Completions: []driver.Completion{{ID: last.ID, Token: last.Token, Outcome: outcome}}, Now: t0,
				})
				if err == nil && !held[0] {
					p.Error("the lease of the last message was lost to a replay")
				}
				return err
			}
			if replayed, err = s.Replay(p.Context(), &driver.ReplayParams{Key: c.Key, Now: t0}); errors.Is(err, driver.ErrOpen) || busy(err) {
				return nil
			}
			return err
		})
		e := p.event("stripe", c.EventID)
		// After the completion one message is dead, or both are. Before it, nothing may be due.
		want, n := []string{driver.StateDead, []string{driver.StateSent, driver.StateDead}[round%2]}, 0
		if replayed != nil {
			want[0], n = driver.StatePending, 1
			if outcome == driver.MessageDead {
				want[1], n = driver.StatePending, 2
			}
			same(p, "Replay", driver.Replayed{Generation: 1, Messages: n}, *replayed)
		}
		same(p, "states of the messages", want, []string{e.Messages[0].State, e.Messages[1].State})
		for _, m := range c.Messages {
			for _, got := range p.lease(t0, m.Destination, 10) {
				if n--; got.Generation != 1 || got.Attempt != 1 {
					p.Errorf("leased %+v, want attempt 1 of generation 1", got)
				}
				p.mustComplete(t0, driver.Completion{ID: got.ID, Token: got.Token, Outcome: driver.MessageSent})
			}
		}
		if n != 0 {
			p.Errorf("round %d: %d fewer messages were due than replayed", round, n)
		}
	}
}
