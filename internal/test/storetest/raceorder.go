package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

const (
	orderObjects  = 3
	orderVersions = 60 // in a long run
	orderWorkers  = 8
	orderLease    = 2 * time.Second
)

// orderCheck sees all sends of a race, as the destination and the database together would.
type orderCheck struct {
	*pair
	mu      sync.Mutex
	flights map[string]*flight // by object: the last send
	highest map[string]int     // by object: the highest version that was sent
	sent    map[string]bool    // by event id
	settled map[string]bool    // by event id: sent or stale
}

// flight is a send.
type flight struct {
	version int
	ended   bool
	leased  time.Time // the lease lasts for orderLease from here, or longer
}

// raceOrder lets workers send the versions of some objects, in any order of their claims. Workers lose leases, as killed
// ones do, before and after they were admitted; sends fail, also for good, and an operator replays the dead letters.
// No send of an object begins before the last one has ended, and no lower version is sent first after a higher one. No worker
// sweeps, so every message must be made due by the end of another one.
func raceOrder(p *pair) {
	c := &orderCheck{pair: p, flights: map[string]*flight{}, highest: map[string]int{}, sent: map[string]bool{}, settled: map[string]bool{}}
	var claims []driver.Claim
	for o := range orderObjects {
		for v := 1; v <= group.Rounds(orderVersions/3, orderVersions); v++ {
			claims = append(claims, newOrdered(fmt.Sprint("o", o), v, true))
		}
	}
	rand.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	p.atOnce(orderWorkers+1, func(s driver.Store, i int) error {
		if i == orderWorkers {
			for n := 0; n < len(claims); n += 2 {
				if _, err := s.Claim(p.Context(), &driver.ClaimParams{Claims: sorted(claims[n : n+2]...)}); err != nil {
					return err
				}
				time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond) // lower versions come while higher ones are sent
			}
			return nil
		}
		for start := time.Now(); time.Since(start) < eventually.Bound; {
			if c.done(len(claims)) {
				return nil
			}
			if err := c.work(s, i%2 == 0); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d of %d messages were not sent", len(claims)-len(c.settled), len(claims))
	})
}

func (c *orderCheck) done(all int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.settled) == all
}

// work leases some messages and sends those that are admitted. A careful worker completes everything.
func (c *orderCheck) work(s driver.Store, careful bool) error {
	began := time.Now()
	leased, err := s.Lease(c.Context(), &driver.LeaseParams{Destination: "to-a", Limit: 5, For: orderLease, MaxAttempts: 1000})
	if err != nil {
		return err
	}
	if len(leased.Messages) == 0 {
		time.Sleep(time.Millisecond) // as a relay that found nothing due
		return nil
	}
	if !careful && rand.IntN(20) == 0 {
		return nil // killed before it asked
	}
	p := &driver.AdmitParams{}
	for i := range leased.Messages {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased.Messages[i])})
	}
	admitted, err := s.Admit(c.Context(), p)
	if err != nil {
		return err
	}
	complete := &driver.CompleteParams{}
	var dead []driver.DeadLetterRef
	for i := range admitted {
		m := &ordered{leased.Messages[i], admitted[i]}
		outcome := c.send(m, began, careful)
		if outcome == 0 {
			continue
		}
		done := outcomeOf(m, outcome)
		done.RetryIn = time.Duration(rand.IntN(20)) * time.Millisecond
		complete.Completions = append(complete.Completions, done)
		if outcome == driver.MessageDead {
			dead = append(dead, driver.DeadLetterRef{Key: m.Key, MessageID: m.ID})
		}
	}
	if _, err := s.Complete(c.Context(), complete); err != nil || len(dead) == 0 {
		return err
	}
	_, err = s.ReplayDead(c.Context(), &driver.DeadLetterParams{Letters: dead})
	return err
}

// send sends a message unless it may not be sent, and returns its outcome; 0 for none.
func (c *orderCheck) send(m *ordered, leased time.Time, careful bool) driver.MessageOutcome {
	if m.Verdict != driver.Passed && m.Verdict != driver.Admitted {
		return 0 // on a slow machine its lease may be lost, and then it has no line
	}
	object, version := m.EventID[:2], int(m.Line.Version[0])
	if m.Verdict == driver.Passed {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.sent[m.EventID] && version >= c.highest[object] {
			c.Errorf("%s is stale, and %d is the highest version that was sent", m.EventID, c.highest[object])
		}
		c.settled[m.EventID] = true
		return driver.MessageStale
	}
	own := &flight{version: version, leased: leased}
	c.mu.Lock()
	if last := c.flights[object]; last != nil && !last.ended && time.Since(last.leased) < orderLease {
		c.Errorf("%s is sent while version %d of its object is", m.EventID, last.version)
	}
	c.flights[object] = own
	c.mu.Unlock()
	time.Sleep(time.Duration(rand.IntN(25)) * time.Millisecond)

	c.mu.Lock()
	defer c.mu.Unlock()
	lost := !careful && rand.IntN(25) == 0 // killed while it sent: before or after it arrived
	outcome := driver.MessageSent
	if rand.IntN(8) == 0 {
		outcome = driver.MessageRetry
	} else if rand.IntN(20) == 0 {
		outcome = driver.MessageDead
	}
	if outcome == driver.MessageSent {
		if !c.sent[m.EventID] && version < c.highest[object] {
			c.Errorf("%s arrives first after version %d", m.EventID, c.highest[object])
		}
		c.sent[m.EventID] = true
		c.highest[object] = max(c.highest[object], version)
	}
	if lost {
		return 0
	}
	own.ended = true
	if outcome == driver.MessageSent {
		c.settled[m.EventID] = true
	}
	return outcome
}
