package storetest

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// Parameters of the model of handlers.
const (
	workModelSteps    = 150
	workModelMaxSteps = 5000
	workModelAttempts = 3
)

// workThings must all happen in a long run of the model, so that a run cannot pass by doing little.
var workThings = []string{
	"batch", "alone", "nothing", "by key", "done", "retry", "failed", "stale", "released", "abandoned", "settled", "interrupted",
	"interrupted batch", "swept", "swept alone", "swept dead", "late settle", "reserved", "recorded", "replayed", "letter replayed",
	"reopened", "discarded", "duplicate", "failed in a batch", "done refused",
}

func workModelCases[T any]() []workCase[T] {
	return []workCase[T]{{"RandomSteps", workModelRandomSteps[T]}}
}

// queuedModel is the contract for one event that waits for handlers, in memory.
type queuedModel struct {
	claim    driver.Claim
	touched  bool // by the latest step
	at       time.Time
	state    string // StateRunning: in an interrupted run
	note     string
	alone    bool // it was the only event of that run
	dueAt    time.Time
	vague    bool // due now, but the exact due time is unknown
	attempts int
	crashes  int
	gen      int
	keyGen   int // the generation of the last replay as new
	replayed bool
	doneAt   time.Time
	failedAt time.Time
	error    string
	tries    []driver.Attempt
	history  []driver.HistoryEntry
}

func (e *queuedModel) detail() *driver.EventDetail {
	want := claimed(&e.claim, e.at)
	want.State, want.Note, want.Attempts, want.Generation = e.state, e.note, e.attempts, e.gen
	want.ProcessedAt, want.FailedAt, want.LastError = e.doneAt, e.failedAt, e.error
	want.Tries, want.History = e.tries, e.history
	return want
}

func (e *queuedModel) taken() driver.TakenEvent {
	want := taken(&e.claim, e.at)
	want.Generation, want.KeyGeneration, want.Replayed = e.gen, e.keyGen, e.replayed
	want.Attempts, want.Crashes = e.attempts, e.crashes
	return want
}

func (e *queuedModel) tried() bool { return e.attempts > 0 || e.crashes > 0 }

// owe makes the event pending in a new generation.
func (e *queuedModel) owe(now time.Time, replayed bool, action string) {
	e.state, e.note, e.dueAt, e.attempts, e.crashes, e.replayed = driver.StatePending, "", now, 0, 0, replayed
	e.doneAt, e.failedAt, e.vague = time.Time{}, time.Time{}, false
	e.gen++
	if action == driver.ActionReplayedAsNew {
		e.keyGen = e.gen
	}
	e.history = append(e.history, driver.HistoryEntry{At: now, Action: action, Generation: e.gen})
}

// giveBack handles an event without an outcome in a run. If the event was taken before it was due,
// the driver may keep its due time or make it due at once, so the model's time moves on to that
// time.
func (w *workWorld[T]) giveBack(e *queuedModel) {
	if e.dueAt.After(w.now) {
		w.now, e.vague = e.dueAt, true
	}
}

// record applies an outcome to the event.
func (e *queuedModel) record(r driver.WorkResult, now time.Time) {
	switch r.Outcome {
	case driver.WorkSucceeded:
		e.attempts++
		e.state, e.doneAt = driver.StateDone, now
	case driver.WorkStale:
		e.state, e.note, e.error = driver.StateSkipped, driver.NoteStale, r.Error
	case driver.WorkRetry:
		e.fail(r, now)
		e.state, e.dueAt, e.vague = driver.StatePending, now.Add(r.RetryIn), false
	case driver.WorkFailed:
		e.fail(r, now)
		e.state, e.failedAt = driver.StateDead, now
	}
}

func (e *queuedModel) fail(r driver.WorkResult, now time.Time) {
	e.attempts++
	e.error = r.Error
	e.tries = append(e.tries, attemptOf(r, now, e.gen, e.attempts))
}

// workWorld drives a driver and the model through the same steps.
type workWorld[T any] struct {
	*bench[T]
	drivers [2]driver.Driver[T]
	events  []*queuedModel
	effects map[string]int
	lost    []driver.Run[T] // the interrupted run, if there is one
	rand    *rand.Rand
	now     time.Time
	seen    map[string]bool
}

// workModelRandomSteps takes random steps. After each it compares the touched events, now and then
// all, and all effects with the model's.
func workModelRandomSteps[T any](b *bench[T]) {
	seed := b.seed(4)
	w := &workWorld[T]{
		bench: b, drivers: b.sides(), effects: map[string]int{}, rand: rand.New(rand.NewPCG(seed, 0)), now: t0, seen: map[string]bool{},
	}
	steps := []func() string{
		w.stepClaim, w.stepClaim, w.stepTake, w.stepTake, w.stepTake, w.stepTake, w.stepTake, w.stepByKey, w.stepSweep,
		w.stepReplay, w.stepLetter, w.stepReopen, w.stepReserve, w.stepLateSettle, w.stepTime,
		w.stepDoneRefused,
	}
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(workThings), func(thing string) bool { return w.seen[thing] })
	}
	for i := 0; i < group.Rounds(workModelSteps/3, workModelSteps) || group.Long() && len(missing()) > 0; i++ {
		did := steps[w.rand.IntN(len(steps))]()
		w.compare(i%20 == 0)
		if w.Failed() {
			w.Fatalf("the driver left the model at step %d of seed %d: %s", i, seed, did)
		}
		if i == workModelMaxSteps {
			w.Fatalf("seed %d: after %d steps these never happened: %q", seed, i, missing())
		}
	}
}

// either returns one of the drivers.
func (w *workWorld[T]) either() driver.Driver[T] { return w.drivers[w.rand.IntN(2)] }

// compare compares the events that the latest step touched, or all, and the effects.
func (w *workWorld[T]) compare(all bool) {
	w.Helper()
	for _, e := range w.events {
		if !e.touched && !all {
			continue
		}
		e.touched = false
		got := w.event(e.claim.Source, e.claim.EventID)
		want := e.detail()
		sortTries(got.Tries)
		sortTries(want.Tries)
		same(w, "event "+e.claim.EventID, want, got, lastAnswer())
	}
	same(w, "effects", w.effects, w.h.Effects(w.T, w.d))
}

// pick returns a random event that keep accepts, or nil.
func (w *workWorld[T]) pick(keep func(e *queuedModel) bool) *queuedModel {
	all := slices.DeleteFunc(slices.Clone(w.events), func(e *queuedModel) bool { return !keep(e) })
	if len(all) == 0 {
		return nil
	}
	e := all[w.rand.IntN(len(all))]
	e.touched = true
	return e
}

func (w *workWorld[T]) find(key driver.Key) *queuedModel {
	for _, e := range w.events {
		if e.claim.Key == key {
			e.touched = true
			return e
		}
	}
	w.Fatalf("the driver returned an event that was never claimed")
	return nil
}

// workModelTypes lists the types of events. path.Match matches their patterns: its '*' means the
// same if there is no '/'.
var workModelTypes = []string{"a.x", "a.y", "b", "a_x", ""}

func matchesAny(patterns []string, eventType string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, eventType)
		return matched && err == nil
	})
}

func (w *workWorld[T]) stepClaim() string {
	n := w.rand.IntN(14)
	c := newClaim([]string{"stripe", "github"}[n%2], fmt.Sprint("evt_", n), "{}")
	c.Work, c.Type = driver.WorkQueued, workModelTypes[n%len(workModelTypes)]
	e := w.pick(func(e *queuedModel) bool { return e.claim.Key == c.Key })
	if e != nil {
		same(w, "duplicate", []driver.ClaimResult{{Duplicate: true, Dead: e.state == driver.StateDead}}, w.claim(w.now, c))
		w.seen["duplicate"] = true
		return "duplicate of " + c.EventID
	}
	w.claimNew(w.now, c)
	w.events = append(w.events, &queuedModel{claim: c, at: w.now, state: driver.StatePending, dueAt: w.now})
	return "claim of " + c.EventID
}

func (w *workWorld[T]) stepTime() string {
	d := time.Duration(1+w.rand.IntN(15_000)) * time.Millisecond
	w.now = w.now.Add(d)
	return fmt.Sprintf("%v passed", d)
}
