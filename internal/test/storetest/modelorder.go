package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

const (
	orderSteps    = 250
	orderAttempts = 3 // then a lease buries the message
)

// orderThings must all happen in a long run, so that a run cannot pass by doing little.
var orderThings = []string{
	"admitted", "parked", "stale", "sent", "retried", "dead", "killed", "buried", "not woken", "replayed", "replay refused", "discarded",
	"undone", "reopened", "paused", "outcome late",
}

// orderWorld takes random steps with ordered messages, and sees them as the destination does. The object o0 holds at its dead
// letters, o1 passes them, and o2 has no versions.
type orderWorld struct {
	*fixture
	rand    *rand.Rand
	now     time.Time
	claimed [3]int                  // the number of events of each object
	flights map[string]*modelFlight // by the message's id: admitted, and the outcome is not recorded
	arrived map[string]bool         // by event id: answered 2xx, or it may have been
	sent    map[string]bool         // by event id: that outcome was recorded
	dead    map[string]driver.Key   // dead letters that were seen
	undo    []string                // operations
	late    []*modelFlight          // whose message was let go again
	// doubtful are the messages, by id, with an attempt that may have arrived, and asleep the objects whose next message no one
	// has woken.
	doubtful, asleep map[string]bool
	seen             map[string]bool
}

// modelFlight is a send.
type modelFlight struct {
	ordered
	until  time.Time // the end of its lease
	killed bool      // no one records its outcome
}

func (w *orderWorld) object(m *modelFlight) string { return m.EventID[:2] }

// modelRandomOrder takes random steps. No send of an object begins while another one may be on its way, and no version arrives
// first after a higher one. In the end every message is sent or skipped: no line is stuck for ever.
func modelRandomOrder(f *fixture) {
	seed := f.seed(3)
	w := &orderWorld{
		fixture: f, rand: rand.New(rand.NewPCG(seed, 1)), now: f.clock(), flights: map[string]*modelFlight{},
		arrived: map[string]bool{}, sent: map[string]bool{}, dead: map[string]driver.Key{}, seen: map[string]bool{},
		doubtful: map[string]bool{}, asleep: map[string]bool{},
	}
	steps := []func(){
		w.stepClaim, w.stepClaim, w.stepLease, w.stepLease, w.stepLease, w.stepComplete, w.stepComplete, w.stepComplete, w.stepTime,
		w.stepDead, w.stepReplay, w.stepReopen, w.stepPause, w.stepSweep,
	}
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(orderThings), func(thing string) bool { return w.seen[thing] })
	}
	for i := 0; i < group.Rounds(orderSteps/3, orderSteps) || group.Long() && len(missing()) > 0; i++ {
		steps[w.rand.IntN(len(steps))]()
		w.mustMove()
		if w.Failed() {
			w.Fatalf("order is lost at step %d of seed %d", i, seed)
		}
		if i == maxModelSteps {
			w.Fatalf("seed %d: after %d steps these never happened: %q", seed, i, missing())
		}
	}
	w.drain()
}

func (w *orderWorld) stepTime() {
	w.now = w.now.Add(time.Duration(1+w.rand.IntN(int(leaseFor/time.Millisecond))) * time.Millisecond)
}

// stepClaim claims a new version, mostly near those before it.
func (w *orderWorld) stepClaim() {
	o := w.rand.IntN(3)
	w.claimed[o]++
	version := 0
	if o < 2 {
		version = min(1+w.claimed[o]/2+w.rand.IntN(6), 250)
	}
	c := newClaim("stripe", fmt.Sprintf("o%d_%d_%d", o, version, w.claimed[o]), "{}", "a")
	c.Messages[0].Order = placed(fmt.Sprint("o", o), version, o != 1)
	w.claimNew(w.now, c)
}

// stepLease leases and admits, as a gateway does. It may be killed before it asks, or before it lets lines go on behind buried
// messages.
func (w *orderWorld) stepLease() {
	got, err := w.s.Lease(w.Context(), &driver.LeaseParams{
		Destination: "to-a", Limit: 1 + w.rand.IntN(5), For: leaseFor, MaxAttempts: orderAttempts, Now: w.now,
	})
	if err != nil {
		w.Fatal(err)
	}
	var buried []string
	for i := range got.Buried {
		m := &got.Buried[i]
		buried = append(buried, m.ID)
		w.died(m.ID, m.Key, m.EventID)
		w.doubtful[m.ID], w.seen["buried"] = true, true
	}
	if w.rand.IntN(2) == 0 {
		w.settle(buried)
	} else if len(buried) > 0 {
		w.seen["not woken"] = true
		for i := range got.Buried {
			w.asleep[got.Buried[i].EventID[:2]] = true
		}
	}
	if w.rand.IntN(10) > 0 {
		w.admitAll(got.Messages)
		return
	}
	for i := range got.Messages {
		w.doubtful[got.Messages[i].ID] = true // its lease runs out, which counts as an attempt without an answer
	}
}

func (w *orderWorld) settle(ids []string) {
	if err := w.s.SettleLines(w.Context(), ids); err != nil {
		w.Fatal(err)
	}
}

// died forgets that a message may have arrived, if no answer is recorded: a lower version may go then.
func (w *orderWorld) died(id string, key driver.Key, eventID string) {
	w.dead[id], w.arrived[eventID] = key, w.sent[eventID]
	delete(w.flights, id)
}

func (w *orderWorld) admitAll(leased []driver.Message) {
	p := &driver.AdmitParams{}
	for i := range leased {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased[i])})
	}
	before := w.unfinished()
	admitted, passed := w.admit(w.now, p, leased)
	if len(admitted)+len(passed) < len(leased) {
		w.seen["parked"] = true
	}
	for i := range passed {
		w.seen["stale"] = true
		w.mustComplete(w.now, outcomeOf(&passed[i], driver.MessageStale))
	}
	for i := range admitted {
		m := &modelFlight{ordered: admitted[i], until: w.now.Add(leaseFor)}
		w.doubtful[m.ID] = w.doubtful[m.ID] || w.flights[m.ID] != nil
		w.mustBeLowest(&m.ordered, before[w.object(m)])
		for _, other := range w.flights {
			if w.object(other) == w.object(m) && other.ID != m.ID && other.until.After(w.now) {
				w.Errorf("%s is sent while %s is on its way", m.EventID, other.EventID)
			}
		}
		if lost := w.flights[m.ID]; lost != nil && !lost.killed {
			w.late = append(w.late, lost)
		}
		w.flights[m.ID] = m
		w.seen["admitted"] = true
	}
}

// arrives notes that the destination takes a message.
func (w *orderWorld) arrives(m *modelFlight) {
	if !w.arrived[m.EventID] && len(m.Line.Version) > 0 {
		for id, arrived := range w.arrived {
			if other := versionIn(id); arrived && id[:2] == w.object(m) && other > versionIn(m.EventID) {
				w.Errorf("%s arrives first after version %d", m.EventID, other)
			}
		}
	}
	w.arrived[m.EventID] = true
}

func versionIn(eventID string) (version int) {
	_, _ = fmt.Sscanf(eventID[3:], "%d_", &version)
	return version
}

// stepComplete ends a send, also after its lease, or kills its gateway before or after the message arrived.
func (w *orderWorld) stepComplete() {
	for _, m := range w.late {
		if w.complete(w.now, outcomeOf(&m.ordered, driver.MessageSent))[0] {
			w.Errorf("the outcome of a lost lease of %s is recorded", m.EventID)
		}
		w.seen["outcome late"] = true
	}
	w.late = nil
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(w.flights)), func(id string) bool { return w.flights[id].killed })
	if len(ids) == 0 {
		return
	}
	m := w.flights[ids[w.rand.IntN(len(ids))]]
	outcome := []driver.MessageOutcome{driver.MessageSent, driver.MessageSent, driver.MessageRetry, driver.MessageRetry, driver.MessageDead}[w.rand.IntN(5)]
	done := outcomeOf(&m.ordered, outcome)
	unanswered := outcome == driver.MessageRetry && w.rand.IntN(2) == 0
	if unanswered {
		done.StatusCode = 0
	}
	killed := w.rand.IntN(6) == 0
	if late := !m.until.After(w.now); !late && (outcome == driver.MessageSent || (unanswered || killed) && w.rand.IntN(2) == 0) {
		w.arrives(m) // a request after its lease is not part of the promise
	}
	if killed {
		w.seen["killed"], m.killed = true, true
		return
	}
	done.RetryIn = time.Duration(w.rand.IntN(10_000)) * time.Millisecond
	held := w.complete(w.now, done)[0]
	delete(w.flights, m.ID)
	switch {
	case !held:
		w.doubtful[m.ID] = true
	case outcome == driver.MessageSent:
		w.seen["sent"], w.sent[m.EventID] = true, true
		w.arrived[m.EventID] = true
		delete(w.doubtful, m.ID)
	case outcome == driver.MessageDead:
		w.seen["dead"] = true
		w.died(m.ID, m.Key, m.EventID)
		delete(w.doubtful, m.ID)
	default:
		w.seen["retried"] = true
		w.doubtful[m.ID] = w.doubtful[m.ID] || unanswered
	}
}

// stepDead replays or discards dead letters, or undoes a discard.
func (w *orderWorld) stepDead() {
	p := &driver.DeadLetterParams{Now: w.now}
	for _, id := range slices.Sorted(maps.Keys(w.dead)) {
		if w.rand.IntN(2) == 0 {
			p.Letters = append(p.Letters, driver.DeadLetterRef{Key: w.dead[id], MessageID: id})
		}
	}
	var err error
	switch w.rand.IntN(3) {
	case 0:
		w.seen["replayed"] = w.seen["replayed"] || len(p.Letters) > 0
		_, err = w.s.ReplayDead(w.Context(), p)
	case 1:
		p.Operation = fmt.Sprint("op", len(w.undo))
		w.undo = append(w.undo, p.Operation)
		w.seen["discarded"] = w.seen["discarded"] || len(p.Letters) > 0
		_, err = w.s.Discard(w.Context(), p)
	default:
		if len(w.undo) == 0 {
			return
		}
		var got *driver.Undiscarded
		got, err = w.s.Undiscard(w.Context(), &driver.UndiscardParams{Operation: w.undo[w.rand.IntN(len(w.undo))], Limit: 10, Now: w.now})
		w.seen["undone"] = w.seen["undone"] || err == nil && got.Undone > 0
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *orderWorld) someEvent() string {
	ids := slices.Sorted(maps.Keys(w.arrived))
	if len(ids) == 0 {
		return "none"
	}
	return ids[w.rand.IntN(len(ids))]
}

func (w *orderWorld) stepReplay() {
	id := w.someEvent()
	_, err := w.s.Replay(w.Context(), &driver.ReplayParams{
		Key: driver.EventKey("stripe", id), Mode: []driver.ReplayMode{driver.ReplayPlain, driver.ReplaySameID, driver.ReplayAsNew}[w.rand.IntN(3)], Now: w.now,
	})
	switch {
	case errors.Is(err, driver.ErrPassed):
		w.seen["replay refused"] = true
	case err != nil && !errors.Is(err, driver.ErrOpen) && !errors.Is(err, driver.ErrModeNeeded) && !errors.Is(err, driver.ErrNotFound):
		w.Fatal(err)
	}
}

func (w *orderWorld) stepReopen() {
	if key := driver.EventKey("stripe", w.someEvent()); len(w.reopen(w.now, key)) > 0 {
		w.seen["reopened"] = true
	}
}

func (w *orderWorld) stepPause() {
	w.pause(w.now, "to-a")
	w.stepComplete()
	w.stepDead()
	w.resume("to-a", true)
	w.seen["paused"] = true
}

func (w *orderWorld) stepSweep() {
	if _, _, err := w.s.SweepLines(w.Context(), driver.Key{}, 100); err != nil {
		w.Fatal(err)
	}
	clear(w.asleep)
}

// drain ends everything: the gateways live, dead letters are replayed, and each send succeeds.
func (w *orderWorld) drain() {
	for range 50 + w.claimed[0] + w.claimed[1] + w.claimed[2] {
		w.now = w.now.Add(leaseFor)
		w.stepSweep()
		leased := w.leaseAndBury(&driver.LeaseParams{Destination: "to-a", Limit: 100, For: leaseFor, MaxAttempts: 1000, Now: w.now})
		w.admitAll(leased.Messages)
		for _, id := range slices.Sorted(maps.Keys(w.flights)) {
			m := w.flights[id]
			delete(w.flights, id)
			if !m.until.After(w.now) {
				continue
			}
			w.arrives(m)
			w.mustComplete(w.now, outcomeOf(&m.ordered, driver.MessageSent))
			w.sent[m.EventID] = true
		}
		letters := w.deadLetters(&driver.MessageFilter{Limit: driver.MaxLimit}).DeadLetters
		for i := range letters {
			w.replayDead(w.now, driver.DeadLetterRef{Key: letters[i].Key, MessageID: letters[i].MessageID})
		}
		if stats := w.stats(); len(stats.Destinations) == 0 {
			return
		}
	}
	w.Errorf("messages never end: %+v", w.stats())
}
