package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// The protocol of sending, as an explicit-state model. The tests try every interleaving of a small
// world, and check every rule of model_rules_test.go after each step.
//
// The model contains:
//
//   - the sender's copies of an event, their claims, duplicates and reopenings, each with a commit
//     that is confirmed, unknown or not made;
//   - the acknowledgement, as a step of its own;
//   - relays that lease, send, complete and release, are killed and restarted, and stop for any
//     length of time (a step that never comes);
//   - leases that expire at any moment;
//   - a destination that accepts a message, refuses it, refuses it for good, or accepts it while
//     the answer is lost;
//   - the operator's replays in every mode, with a double click, retries, and dead letters that are
//     replayed or discarded;
//   - the removal of bodies and of identities.
//
// lifecycle.Replay itself plans the replays, and driver.MessageID names the messages.
//
// A step is one atomic action of the database: a statement, or a transaction under the event's
// lock. Pruning bodies is two steps, because a statement that skips locks decides by a snapshot
// that is older than its lock.
//
// The model leaves out:
//
//   - backoff, rates and circuits: every pending message may be leased at any time;
//   - batches: a statement on many rows is one statement on each, and its rows are locked in one
//     order;
//   - a lease with an unknown commit: it is like one whose relay was killed at once;
//   - events with a state row of their own;
//   - the database's own faults: a commit is durable.
//
// It assumes that no request of an operator takes as long as the retention.
type world struct {
	name                                       string
	events, routes                             int
	later                                      bool // no route matches when an event is claimed
	relays                                     int
	copies, releases, replays, clicks, letters uint8 // maximum number of each
	attempts                                   uint8 // maximum for a message; 0 means 2
	oldest                                     age
	bug                                        bug

	slots   []slot
	byID    map[string]int
	keys    []driver.Key
	present []driver.NewMessage // the routes' messages for Replay
	plans   map[question]plan   // earlier answers of lifecycle.Replay
}

const (
	maxEvents   = 2
	maxRows     = 6
	maxRelays   = 2
	maxRequests = 2
)

// slot is the message of a row.
type slot struct {
	event, route int
	generation   uint8 // of the id
	id           string
}

// setUp creates the slots for all messages that the world can contain.
func (w *world) setUp(t *testing.T) {
	t.Helper()
	w.events, w.routes, w.relays = max(w.events, 1), max(w.routes, 1), max(w.relays, 1)
	if w.attempts == 0 {
		w.attempts = 2
	}
	w.byID, w.plans = make(map[string]int), make(map[question]plan)
	generations := uint8(0)
	if w.replays+w.clicks > 0 || w.bug == reopenNewID { // otherwise no step makes an id of a later generation
		generations = w.replays + w.letters + min(w.clicks, 1) + w.copies - 1
	}
	for r := range w.routes {
		w.present = append(w.present, driver.NewMessage{Route: routeName(r), Destination: "there"})
	}
	for e := range w.events {
		w.keys = append(w.keys, driver.EventKey("stripe", fmt.Sprintf("evt_%d", e)))
		for r := range w.routes {
			for g := range generations + 1 {
				id := driver.MessageID(w.keys[e], int(g), routeName(r))
				if _, ok := w.byID[id]; ok {
					t.Fatalf("two messages have the id %s", id)
				}
				w.byID[id] = len(w.slots)
				w.slots = append(w.slots, slot{e, r, g, id})
			}
		}
	}
	if len(w.slots) > maxRows {
		t.Fatalf("world %q needs %d rows", w.name, len(w.slots))
	}
}

func routeName(r int) string { return string(rune('a' + r)) }

// moment is the state of the whole world: the content of the database, the beliefs of every
// process, and ghosts, the facts that only the model knows.
type moment struct {
	events   [maxEvents]identity
	rows     [maxRows]row
	relays   [maxRelays]relay     // sorted, because they are all alike
	requests [maxRequests]request // sorted
	emptying uint8                // events whose bodies pruning is about to remove
	swept    uint8                // rows that a sweep is about to write; only with blindSweep
	planned  [2]plan              // replays about to be written; only with replayUnlocked

	copies, releases, replays, clicks, letters uint8 // remaining number of each
}

type age uint8

const (
	unborn age = iota
	fresh
	pastRetention
	pastWindow
)

// identity is an event.
type identity struct {
	there     bool
	bodyGone  bool
	requested bool  // the history contains the operator's request
	age       age   // a ghost after the event is removed: then it is the age of its identity
	acked     bool  // ghost: the sender got a 2xx
	byRequest uint8 // ghost: generations that the operator's one request made
}

type rowState uint8

const (
	absent rowState = iota
	pending
	sending
	sent
	dead
	skipped
)

func (s rowState) open() bool     { return s == pending || s == sending }
func (s rowState) finished() bool { return s > sending }

// String returns package driver's name for s.
func (s rowState) String() string {
	return []string{
		"absent", driver.StatePending, driver.StateSending, driver.StateSent, driver.StateDead, driver.StateSkipped,
	}[s]
}

// row is a message.
type row struct {
	state      rowState
	attempts   uint8
	token      uint8
	generation uint8
	expired    bool // its lease expired
	delivered  bool // ghost: a destination got this id
	taken      bool // ghost: and accepted it, in this generation
}

// again makes a row due in a new generation.
func (r *row) again(generation uint8) {
	r.state, r.attempts, r.generation, r.expired, r.taken = pending, 0, generation, false, false
}

type phase uint8

const (
	idle    phase = iota
	looking       // only with blindLease
	leased
	hasSent   // the destination accepted it
	mustRetry // the destination refused it, or its answer was lost
	mustBury
)

// relay is a sending process with the lease that it believes to hold.
type relay struct {
	phase      phase
	row        uint8
	token      uint8
	attempt    uint8
	generation uint8
	stale      bool // ghost: the lease is not the row's latest, or the row was finished since
}

type requestPhase uint8

const (
	noRequest    requestPhase = iota
	mustAnswer                // with 2xx
	mustReopen                // the event was found dead
	ackedTooSoon              // only with ackEarly
)

// request is a delivery in progress at a gateway.
type request struct {
	phase requestPhase
	event uint8
}

// begin returns the first moment of w.
func (w *world) begin() moment {
	return moment{copies: w.copies, releases: w.releases, replays: w.replays, clicks: w.clicks, letters: w.letters}
}

// sorted orders interchangeable relays and requests, so that equivalent moments are equal.
func (s moment) sorted() moment {
	if s.relays[1].order() < s.relays[0].order() {
		s.relays[0], s.relays[1] = s.relays[1], s.relays[0]
	}
	if q := &s.requests; q[1].phase < q[0].phase || q[1].phase == q[0].phase && q[1].event < q[0].event {
		q[0], q[1] = q[1], q[0]
	}
	return s
}

func (r *relay) order() uint64 {
	n := uint64(r.phase)<<40 | uint64(r.row)<<32 | uint64(r.token)<<24 | uint64(r.attempt)<<16 | uint64(r.generation)<<8
	if r.stale {
		n |= 1
	}
	return n
}

// finished reports whether event e has neither open messages nor dead letters.
func (w *world) finished(s *moment, e int) bool {
	for i := range w.slots {
		if w.slots[i].event == e && (s.rows[i].state.open() || s.rows[i].state == dead) {
			return false
		}
	}
	return true
}

// isDead reports whether event e is dead: no message is open and at least one is dead.
func (w *world) isDead(s *moment, e int) bool {
	found := false
	for i := range w.slots {
		if w.slots[i].event == e {
			if s.rows[i].state.open() {
				return false
			}
			found = found || s.rows[i].state == dead
		}
	}
	return found
}

// generation returns the highest generation of event e.
func (w *world) generation(s *moment, e int) (highest uint8) {
	for i := range w.slots {
		if w.slots[i].event == e {
			highest = max(highest, s.rows[i].generation)
		}
	}
	return highest
}

// disown marks the leases of a row as lost.
func (s *moment) disown(i int) {
	for r := range s.relays {
		if s.relays[r].phase != idle && int(s.relays[r].row) == i {
			s.relays[r].stale = true
		}
	}
}
