package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// The protocol of sending, as an explicit-state model: every interleaving of a
// small world is tried, and every rule of model_rules_test.go is checked on
// each of its steps.
//
// Modelled are: the sender's copies of an event and their claims, duplicates
// and reopenings, each with a commit that is confirmed, unknown or not made;
// the acknowledgement, as a step of its own; relays that lease, send, complete
// and release, are killed and started again, and stand still for as long as
// they like (a step that never comes); leases that run out at any moment; a
// destination that takes a message, refuses it, refuses it for good, or takes
// it while the answer is lost; the operator's replays in every mode, with a
// double click, retries, and dead letters replayed or discarded; the removal of
// bodies and of identities. What a replay does is planned by lifecycle.Replay
// itself, and a message is known by what driver.MessageID says.
//
// A step is what the database does at once: a statement, or a transaction under
// the event's lock. Pruning bodies is two steps, because a statement that skips
// locks decides by a snapshot that is older than the lock it gets.
//
// Left out are: backoff, rates and circuits (what is pending may be leased at any
// time); batches (a statement on many rows is one on each, and its rows are
// locked in one order); a lease whose commit is unknown (as one whose relay was
// killed at once); events with a state row of their own; the database's own
// faults, for which a commit is durable. It is assumed that no request of an
// operator takes as long as the retention.
type world struct {
	name                                       string
	events, routes                             int
	later                                      bool // no route matches when an event is claimed
	relays                                     int
	copies, releases, replays, clicks, letters uint8 // how often each may happen
	attempts                                   uint8 // the limit; 0 means 2
	oldest                                     age
	bug                                        bug

	slots []slot
	byID  map[string]int
	keys  []driver.Key
	owed  []driver.NewMessage // what Replay is told of the present routes
	plans map[question]plan   // what lifecycle.Replay answered
}

const (
	maxEvents   = 2
	maxRows     = 6
	maxRelays   = 2
	maxRequests = 2
)

// slot says which message a row stands for.
type slot struct {
	event, route int
	generation   uint8 // of the id
	id           string
}

// setUp names the messages that the world may come to hold.
func (w *world) setUp(t *testing.T) {
	t.Helper()
	w.events, w.routes, w.relays = max(w.events, 1), max(w.routes, 1), max(w.relays, 1)
	if w.attempts == 0 {
		w.attempts = 2
	}
	w.byID, w.plans = make(map[string]int), make(map[question]plan)
	generations := uint8(0)
	if w.replays+w.clicks > 0 || w.bug == reopenNewID { // else nothing has the id of a later one
		generations = w.replays + w.letters + min(w.clicks, 1) + w.copies - 1
	}
	for r := range w.routes {
		w.owed = append(w.owed, driver.NewMessage{Route: routeName(r), Destination: "there"})
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

// moment is the whole world at one time: what the database holds, what every
// process believes, and, marked as ghosts, what only the model knows.
type moment struct {
	events   [maxEvents]identity
	rows     [maxRows]row
	relays   [maxRelays]relay     // sorted: they are all alike
	requests [maxRequests]request // sorted
	emptying uint8                // events whose bodies a pruner is about to remove
	swept    uint8                // rows that a sweep is about to write; only with blindSweep
	planned  [2]plan              // replays about to be written; only with replayUnlocked

	copies, releases, replays, clicks, letters uint8 // how often each may still happen
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
	requested bool  // the history knows the operator's request
	age       age   // a ghost once the event is gone: then it is that of its identity
	acked     bool  // ghost: the sender has had a 2xx
	byRequest uint8 // ghost: generations that the one request has made
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

// String returns the name that driver has for s.
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
	expired    bool // its lease ran out
	delivered  bool // ghost: a destination has had this id
	taken      bool // ghost: and took it, in this generation
}

// again makes a row due again, as all that begins a new generation does.
func (r *row) again(generation uint8) {
	r.state, r.attempts, r.generation, r.expired, r.taken = pending, 0, generation, false, false
}

type phase uint8

const (
	idle    phase = iota
	looking       // only with blindLease
	leased
	hasSent   // and the destination took it
	mustRetry // and it did not, or did not say so
	mustBury
)

// relay is a process that sends, and the lease that it believes to hold.
type relay struct {
	phase      phase
	row        uint8
	token      uint8
	attempt    uint8
	generation uint8
	stale      bool // ghost: the lease is not the row's last one, or the row was finished since
}

type requestPhase uint8

const (
	noRequest    requestPhase = iota
	mustAnswer                // 2xx
	mustReopen                // the event was found dead
	ackedTooSoon              // only with ackEarly
)

// request is a delivery under way at a gateway.
type request struct {
	phase requestPhase
	event uint8
}

// begin returns the first moment of w.
func (w *world) begin() moment {
	return moment{copies: w.copies, releases: w.releases, replays: w.replays, clicks: w.clicks, letters: w.letters}
}

// sorted puts what is alike into one order, so that it is the same moment
// whichever of two relays does a thing.
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

// finished reports whether nothing of event e is owed; its dead letters are.
func (w *world) finished(s *moment, e int) bool {
	for i := range w.slots {
		if w.slots[i].event == e && (s.rows[i].state.open() || s.rows[i].state == dead) {
			return false
		}
	}
	return true
}

// isDead reports whether event e is dead: none of its messages is open and one
// is dead.
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
