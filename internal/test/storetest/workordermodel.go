package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

const eventOrderSteps = 150

// eventOrderThings must all happen in a long run, so that a run cannot pass by doing little.
var eventOrderThings = []string{
	"admitted", "parked", "stale", "overtaken", "succeeded", "retried", "dead", "abandoned", "interrupted", "swept", "replayed",
	"replay refused", "discarded", "undone", "reopened", "batch",
}

// eventOrderWorld takes random steps with ordered events. The object o0 holds at its dead letters, o1 passes them, and o2 has no versions.
type eventOrderWorld[T any] struct {
	*bench[T]
	rand     *rand.Rand
	now      time.Time
	claims   []driver.Claim
	admitted map[string]inTurn      // by object: let go last, and not taken
	overdue  []inTurn               // let go before that
	lost     map[string]string      // by object: its event in an interrupted run
	applied  map[string]int         // by object: the highest version that succeeded
	dead     []driver.DeadLetterRef // that were seen
	undo     []string               // operations
	seen     map[string]bool
}

// modelEventOrder takes random steps. No event of an object is let go while another one runs, or before a lower one, and no version
// succeeds first after a higher one. In the end every event is done or skipped, and no sweep of the lines helped.
func modelEventOrder[T any](b *bench[T]) {
	seed := b.seed(5)
	w := &eventOrderWorld[T]{
		bench: b, rand: rand.New(rand.NewPCG(seed, 0)), now: t0, admitted: map[string]inTurn{}, lost: map[string]string{},
		applied: map[string]int{}, seen: map[string]bool{},
	}
	steps := []func(){
		w.stepClaim, w.stepClaim, w.stepAdmit, w.stepAdmit, w.stepAdmit, w.stepRun, w.stepRun, w.stepRun, w.stepTime, w.stepSweep,
		w.stepLetters, w.stepReplay, w.mustMove,
	}
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(eventOrderThings), func(thing string) bool { return w.seen[thing] })
	}
	for i := 0; i < group.Rounds(eventOrderSteps/3, eventOrderSteps) || group.Long() && len(missing()) > 0; i++ {
		steps[w.rand.IntN(len(steps))]()
		if w.Failed() {
			w.Fatalf("order is lost at step %d of seed %d", i, seed)
		}
		if i == workModelMaxSteps {
			w.Fatalf("seed %d: after %d steps these never happened: %q", seed, i, missing())
		}
	}
	w.drain()
}

func (w *eventOrderWorld[T]) stepTime() {
	w.now = w.now.Add(time.Duration(1+w.rand.IntN(10_000)) * time.Millisecond)
}

func (w *eventOrderWorld[T]) stepClaim() {
	o, n := w.rand.IntN(3), len(w.claims)
	version := 0
	if o < 2 {
		version = min(1+n/4+w.rand.IntN(6), 250)
	}
	c := newQueued(fmt.Sprintf("o%d_%d_%d", o, version, n))
	c.Order = placedEvent(fmt.Sprint("o", o), version, o != 1)
	w.claimNew(w.now, c)
	w.claims = append(w.claims, c)
}

// unfinished returns the pending, running and dead events by object.
func (w *eventOrderWorld[T]) unfinished() map[string][]driver.Event {
	found := map[string][]driver.Event{}
	for _, state := range []string{driver.StatePending, driver.StateRunning, driver.StateDead} {
		filter := driver.EventFilter{State: state, Limit: driver.MaxLimit}
		for {
			page := w.events(&filter)
			for _, e := range page.Events {
				found[e.EventID[:2]] = append(found[e.EventID[:2]], e)
			}
			if filter.After = page.Next; filter.After.IsZero() {
				break
			}
		}
	}
	return found
}

// holds reports whether e keeps later events of its object waiting.
func (w *eventOrderWorld[T]) holds(e *driver.Event) bool {
	object := e.EventID[:2]
	return (object == "o2" || versionIn(e.EventID) >= w.applied[object]) && (e.State != driver.StateDead || object != "o1")
}

func (w *eventOrderWorld[T]) mustBeLowest(e *inTurn, before []driver.Event) {
	mine := versionIn(e.EventID)
	for i := range before {
		other := &before[i]
		theirs := versionIn(other.EventID)
		isLower := theirs < mine || theirs == mine && other.ReceivedAt.Before(e.ReceivedAt)
		if other.EventID != e.EventID && isLower && w.holds(other) {
			w.Errorf("%s is let go before %s, which is %s", e.EventID, other.EventID, other.State)
		}
	}
}

func (w *eventOrderWorld[T]) stepAdmit() {
	before := w.unfinished()
	admitted, passed := w.letEventsGo(w.now)
	w.skip(w.now, passed)
	w.seen["stale"] = w.seen["stale"] || len(passed) > 0
	for i := range admitted {
		e := admitted[i]
		object := e.EventID[:2]
		w.mustBeLowest(&e, before[object])
		if other := w.lost[object]; other != "" && other != e.EventID {
			w.Errorf("%s is let go while %s runs", e.EventID, other)
		}
		if old, ok := w.admitted[object]; ok && old.Key != e.Key {
			w.overdue = append(w.overdue, old)
		}
		w.admitted[object] = e
		w.seen["admitted"] = true
	}
	for _, all := range before {
		w.seen["parked"] = w.seen["parked"] || len(all) > 1
	}
}

// stepRun takes events that were let go, of several objects or of one, and ends the run in some way.
func (w *eventOrderWorld[T]) stepRun() {
	for _, late := range w.overdue {
		if run := w.inRun(w.now, []inTurn{late}); run != nil {
			w.Errorf("%s runs, and a lower one was let go since", late.EventID)
			w.abandon(run)
		}
		w.seen["overtaken"] = true
	}
	w.overdue = nil
	var all []inTurn
	for object, e := range w.admitted {
		if w.rand.IntN(2) == 0 {
			all = append(all, e)
			delete(w.admitted, object)
		}
	}
	if len(all) == 0 {
		return
	}
	run := w.inRun(w.now, all)
	if run == nil {
		return // they are in an interrupted run, or an operator has ended them
	}
	w.seen["batch"] = w.seen["batch"] || len(run.Events()) > 1
	lines := map[driver.Key]*driver.ObjectVersion{}
	for i := range all {
		lines[all[i].Key] = lineOf(&all[i])
	}
	results := allSucceeded(run)
	switch one := &run.Events()[0]; w.rand.IntN(6) {
	case 0:
		w.abandon(run)
		w.seen["abandoned"] = true
		return
	case 1:
		if len(w.gone) == maxGone {
			w.abandon(run)
			return
		}
		w.die(run)
		w.seen["interrupted"] = true
		for _, e := range run.Events() {
			w.lost[e.EventID[:2]] = e.EventID
		}
		return
	case 2:
		results = []driver.WorkResult{retried(one)}
		results[0].RetryIn = time.Duration(w.rand.IntN(10_000)) * time.Millisecond
		w.seen["retried"] = true
	case 3:
		results = []driver.WorkResult{failed(one)}
		w.dead = append(w.dead, driver.DeadLetterRef{Key: one.Key})
		w.seen["dead"] = true
	default:
		w.succeedAll(run.Events())
	}
	for i := range results {
		results[i].Line = lines[results[i].Key]
	}
	w.finish(w.now, run, results...)
}

func (w *eventOrderWorld[T]) succeedAll(events []driver.TakenEvent) {
	w.seen["succeeded"] = true
	for _, e := range events {
		object, version := e.EventID[:2], versionIn(e.EventID)
		if version < w.applied[object] {
			w.Errorf("%s succeeds after version %d", e.EventID, w.applied[object])
		}
		w.applied[object] = max(w.applied[object], version)
	}
}

func (w *eventOrderWorld[T]) stepSweep() {
	w.now = w.now.Add(time.Minute)
	for _, l := range w.sweep(w.now) {
		w.seen["swept"] = true
		if l.Dead {
			w.dead = append(w.dead, driver.DeadLetterRef{Key: l.Key})
		}
	}
	clear(w.lost)
}

// stepLetters replays or discards dead letters, or undoes a discard.
func (w *eventOrderWorld[T]) stepLetters() {
	var some []driver.DeadLetterRef
	for _, ref := range w.dead {
		if w.rand.IntN(2) == 0 {
			some = append(some, ref)
		}
	}
	switch w.rand.IntN(4) {
	case 0:
		w.seen["replayed"] = slices.Contains(w.replayDead(w.now, some...), true) || w.seen["replayed"]
	case 1:
		for _, ref := range some {
			w.seen["reopened"] = len(w.reopen(w.now, ref.Key)) > 0 || w.seen["reopened"]
		}
	case 2:
		op := fmt.Sprint("op", len(w.undo))
		got, err := w.d.Discard(w.Context(), &driver.DeadLetterParams{Letters: some, Operation: op, Now: w.now})
		if err != nil {
			w.Fatal(err)
		}
		w.undo = append(w.undo, op)
		w.seen["discarded"] = slices.Contains(got, true) || w.seen["discarded"]
	default:
		if len(w.undo) > 0 {
			got := w.undiscard(&driver.UndiscardParams{Operation: w.undo[w.rand.IntN(len(w.undo))], Limit: 10, Now: w.now})
			w.seen["undone"] = got.Undone > 0 || w.seen["undone"]
		}
	}
}

func (w *eventOrderWorld[T]) stepReplay() {
	if len(w.claims) == 0 {
		return
	}
	c := &w.claims[w.rand.IntN(len(w.claims))]
	mode := []driver.ReplayMode{driver.ReplayPlain, driver.ReplaySameID, driver.ReplayAsNew}[w.rand.IntN(3)]
	_, err := w.d.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Mode: mode, Now: w.now})
	switch {
	case errors.Is(err, driver.ErrPassed):
		w.seen["replay refused"] = true
	case err != nil && !errors.Is(err, driver.ErrOpen) && !errors.Is(err, driver.ErrModeNeeded):
		w.Fatal(err)
	}
}

// mustMove lets all reservations and waits end, and looks until nothing more is due. Then each object with open events has one that
// was let go or runs, or a dead one that it waits at.
func (w *eventOrderWorld[T]) mustMove() {
	w.now = w.now.Add(time.Hour)
	for range 3 {
		w.stepAdmit()
	}
	for object, all := range w.unfinished() {
		_, moves := w.admitted[object]
		waits := ""
		for i := range all {
			moves = moves || w.lost[object] != "" || all[i].State == driver.StateDead && w.holds(&all[i])
			if all[i].State == driver.StatePending {
				waits = all[i].EventID
			}
		}
		if waits != "" && !moves {
			w.Errorf("%s waits for its turn, and nothing comes before it", waits)
		}
	}
}

// drain lets everything succeed.
func (w *eventOrderWorld[T]) drain() {
	for range 20 + 2*len(w.claims) {
		w.stepSweep()
		w.now = w.now.Add(time.Hour)
		w.stepAdmit()
		w.overdue = nil
		for object, e := range w.admitted {
			delete(w.admitted, object)
			if run := w.inRun(w.now, []inTurn{e}); run != nil {
				w.succeedAll(run.Events())
				r := succeeded(&run.Events()[0])
				r.Line = lineOf(&e)
				w.finish(w.now, run, r)
			}
		}
		all := w.unfinished()
		for _, events := range all {
			for i := range events {
				if events[i].State == driver.StateDead {
					w.replayDead(w.now, driver.DeadLetterRef{Key: events[i].Key})
				}
			}
		}
		if len(all) == 0 {
			return
		}
	}
	w.Errorf("events never end: %+v", w.unfinished())
}
