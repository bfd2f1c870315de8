package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func eventOrderCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"LowestFirst", eventsLowestFirst[T]},
		{"OthersNeverWait", eventsOthersNeverWait[T]},
		{"OneAtATime", eventsOneAtATime[T]},
		{"WhileItRuns", eventsWhileItRuns[T]},
		{"RetryHolds", eventsRetryHolds[T]},
		{"Hold", eventsHold[T]},
		{"Pass", eventsPass[T]},
		{"Passed", eventsPassed[T]},
		{"AdmitThenLate", eventsAdmitThenLate[T]},
		{"LateInABatch", eventsLateInABatch[T]},
		{"InterruptedDead", eventsInterruptedDead[T]},
		{"Ended", eventsEnded[T]},
		{"Released", eventsReleased[T]},
		{"EndWithout", eventsEndWithout[T]},
		{"TwoForced", eventsTwoForced[T]},
		{"ReplayPassed", eventsReplayPassed[T]},
		{"BackInLine", eventsBackInLine[T]},
		{"DiscardAndUndo", eventsDiscardAndUndo[T]},
		{"Sweep", eventsSweep[T]},
		{"SettledByAdmit", eventsSettledByAdmit[T]},
		{"JoinsLate", eventsJoinLate[T]},
		{"PullBack", eventsPullBack[T]},
		{"Pruned", eventsPruned[T]},
		{"Unordered", eventsUnordered[T]},
		{"RandomSteps", modelEventOrder[T]},
	}
}

// reservedFor is how long the cases reserve events.
const reservedFor = 10 * time.Second

// placedEvent returns the order of a version of an object for handlers; version 0 stands for the order of the claims.
func placedEvent(object string, version int, hold bool) *driver.Order {
	o := placed(object, version, hold)
	o.Line.Object = driver.ObjectKey("stripe", "\n", object)
	return o
}

// newInLine returns a claim of an object's version that waits for a handler.
func newInLine(object string, version int, hold bool) driver.Claim {
	c := newQueued(fmt.Sprintf("%s_%d", object, version))
	c.Order = placedEvent(object, version, hold)
	return c
}

// inTurn is a reserved event with its admission.
type inTurn struct {
	driver.TakenEvent
	driver.Admission
}

// letEventsGo reserves all that is due, and returns the events that were admitted and those that are stale.
func (w *bench[T]) letEventsGo(at time.Time) (admitted, passed []inTurn) {
	w.Helper()
	reserved := w.reserve(at, reservedFor)
	p := &driver.AdmitParams{Now: at}
	for i := range reserved {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.Reserved(&reserved[i])})
	}
	got, err := w.d.Admit(w.Context(), p)
	if err != nil || len(got) != len(reserved) {
		w.Fatalf("Admit returned %d results and the error %v, want %d", len(got), err, len(reserved))
	}
	for i := range got {
		switch got[i].Verdict {
		case driver.Admitted:
			admitted = append(admitted, inTurn{reserved[i], got[i]})
		case driver.Passed:
			passed = append(passed, inTurn{reserved[i], got[i]})
		case driver.Unordered:
			w.Errorf("%s is in no line", reserved[i].EventID)
		}
	}
	byID := func(a, b inTurn) int { return slices.Compare([]string{a.EventID}, []string{b.EventID}) }
	slices.SortFunc(admitted, byID)
	slices.SortFunc(passed, byID)
	return admitted, passed
}

func turnIDs(all []inTurn) (ids []string) {
	for i := range all {
		ids = append(ids, all[i].EventID)
	}
	return ids
}

// turn fails unless exactly these events are let go, and returns them.
func (w *bench[T]) turn(at time.Time, ids ...string) []inTurn {
	w.Helper()
	admitted, passed := w.letEventsGo(at)
	same(w, "let go", ids, turnIDs(admitted))
	if len(passed) > 0 {
		w.Errorf("stale: %q, want none", turnIDs(passed))
	}
	return admitted
}

// inRun takes admitted events; the run is nil if none may run.
func (w *bench[T]) inRun(at time.Time, all []inTurn) driver.Run[T] {
	w.Helper()
	p := w.takeParams(at, len(all), false)
	p.Beside = true
	for i := range all {
		p.Keys, p.Lines = append(p.Keys, all[i].Key), append(p.Lines, all[i].Line.Object)
	}
	return w.takeWith(p)
}

// lineOf returns the line of an admitted event as a result names it.
func lineOf(e *inTurn) *driver.ObjectVersion {
	line := e.Line
	line.Source = e.Source
	if len(line.Version) > 0 {
		line.Shown = fmt.Sprint(line.Version[0])
	}
	return &line
}

// runs runs admitted events, each with this outcome, in a run of its own.
func (w *bench[T]) runs(at time.Time, all []inTurn, result func(*driver.TakenEvent) driver.WorkResult) {
	w.Helper()
	for i := range all {
		run := w.inRun(at, all[i:i+1])
		if run == nil {
			w.Fatalf("%s may not run", all[i].EventID)
		}
		r := result(&run.Events()[0])
		r.Line = lineOf(&all[i])
		w.finish(at, run, r)
	}
}

// skip records that events are stale.
func (w *bench[T]) skip(at time.Time, all []inTurn) {
	w.Helper()
	for i := range all {
		r := stale(&all[i].TakenEvent)
		r.Line = lineOf(&all[i])
		w.record(at, r)
	}
}

func eventsLowestFirst[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 3, true), newInLine("x", 1, true), newInLine("x", 2, true))
	for _, id := range []string{"x_1", "x_2", "x_3"} {
		got := w.turn(t0, id)
		w.turn(t0) // the others wait
		w.runs(t0, got, succeeded)
		if n := w.event("stripe", id).Attempts; n != 1 {
			w.Errorf("%s has %d attempts, want 1: waiting is none", id, n)
		}
	}
	w.turn(t0.Add(day))
	// Without versions: the order of the claims.
	for i := range 3 {
		c := newInLine("y", i+1, true)
		c.Order = placedEvent("y", 0, true)
		w.claimNew(t0.Add(time.Duration(9-i)*time.Second), c)
	}
	now := t0.Add(time.Minute)
	for _, id := range []string{"y_3", "y_2", "y_1"} {
		w.runs(now, w.turn(now, id), succeeded)
	}
}

func eventsOthersNeverWait[T any](w *bench[T]) {
	var claims []driver.Claim
	for v := 1; v <= 4; v++ {
		claims = append(claims, newInLine("x", v, true), newInLine("y", v, true))
	}
	w.claimNew(t0, claims...)
	got := w.turn(t0, "x_1", "y_1")
	w.runs(t0, got[1:], succeeded)
	w.runs(t0, w.turn(t0, "y_2"), succeeded)
	run := w.inRun(t0, append(got[:1], w.turn(t0, "y_3")...))
	same(w, "one run of two objects", 2, len(run.Events()))
	results := allSucceeded(run)
	for i := range results {
		object := run.Events()[i].EventID[:1]
		results[i].Line = &placedEvent(object, int(run.Events()[i].EventID[2]-'0'), true).Line
	}
	w.finish(t0, run, results...)
	w.turn(t0, "x_2", "y_4")
}

// eventsOneAtATime interrupts a run. Until a sweep has dealt with it, no other event of its line runs, not even a lower one.
func eventsOneAtATime[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, true))
	w.interrupt(w.inRun(t0, w.turn(t0, "x_2")))
	w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 3, true))
	w.turn(t0)
	w.turn(t0.Add(reservedFor / 2))
	at := t0.Add(time.Hour)
	same(w, "lost", 1, len(w.sweep(at)))
	w.runs(at, w.turn(at, "x_1"), succeeded) // 2 is due, too, and 1 comes first
	w.runs(at, w.turn(at, "x_2"), succeeded)
	w.turn(at, "x_3")
	w.effects()
}

// eventsWhileItRuns looks beside a run that goes on.
func eventsWhileItRuns[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, true))
	got := w.turn(t0, "x_2")
	run := w.inRun(t0, got)
	if !w.singleWriter() { // with one writer nothing can be admitted meanwhile
		w.claimNew(t0, newInLine("x", 1, true))
		w.turn(t0)
	}
	r := succeeded(&run.Events()[0])
	r.Line = lineOf(&got[0])
	w.finish(t0, run, r)
	if w.singleWriter() {
		w.claimNew(t0, newInLine("x", 1, true))
	}
	_, passed := w.letEventsGo(t0)
	same(w, "stale", []string{"x_1"}, turnIDs(passed))
}

func eventsRetryHolds[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, true), newInLine("x", 3, true))
	w.runs(t0, w.turn(t0, "x_2"), retried)
	w.turn(t0.Add(retryIn - time.Second)) // 3 waits for 2
	w.claimNew(t0, newInLine("x", 1, true))
	w.runs(t0, w.turn(t0, "x_1"), succeeded) // the lowest one, and no run of 2 goes on
	at := t0.Add(retryIn)
	w.runs(at, w.turn(at, "x_2"), succeeded)
	w.turn(at, "x_3")
}

func (w *bench[T]) heldEvents(want int64) {
	w.Helper()
	got, err := w.d.Backlog(w.Context(), &driver.BacklogParams{Sources: []string{"stripe"}, Limit: 10})
	if err != nil || got.Sources["stripe"].HeldLines != want {
		w.Errorf("backlog: %+v, %v, want %d held lines", got, err, want)
	}
}

func (w *bench[T]) waitBehind(key driver.Key, want int) {
	w.Helper()
	if got, err := w.d.WaitingBehind(w.Context(), driver.EventPlace(key)); got != want || err != nil {
		w.Errorf("%d events wait behind, %v, want %d", got, err, want)
	}
}

func eventsHold[T any](w *bench[T]) {
	first := newInLine("x", 1, true)
	w.claimNew(t0, first, newInLine("x", 2, true), newInLine("x", 3, true))
	w.heldEvents(0)
	w.runs(t0, w.turn(t0, "x_1"), failed)
	w.turn(t0.Add(day))
	w.heldEvents(1)
	w.waitBehind(first.Key, 2)
	w.replayAt(t0, first.Key, driver.ReplayPlain)
	w.heldEvents(0)
	w.runs(t0, w.turn(t0, "x_1"), succeeded)
	w.waitBehind(first.Key, 0)
	w.turn(t0, "x_2")
}

func eventsPass[T any](w *bench[T]) {
	first := newInLine("x", 1, false)
	w.claimNew(t0, first, newInLine("x", 2, true))
	w.runs(t0, w.turn(t0, "x_1"), failed)
	w.runs(t0, w.turn(t0, "x_2"), succeeded)
	w.prune(windows(day, t0.Add(100*day))) // the line keeps its version for the dead letter
	same(w, "replayed", []bool{true}, w.replayDead(t0, driver.DeadLetterRef{Key: first.Key}))
	_, passed := w.letEventsGo(t0)
	same(w, "stale", []string{"x_1"}, turnIDs(passed))
}

func eventsPassed[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, true))
	w.runs(t0, w.turn(t0, "x_2"), succeeded)
	w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 3, true))
	admitted, passed := w.letEventsGo(t0)
	same(w, "let go", []string{"x_3"}, turnIDs(admitted)) // 1 is stale, so it does not come first
	same(w, "stale", []string{"x_1"}, turnIDs(passed))
	if passed[0].Newer != "2" {
		w.Errorf("newer is %q, want 2", passed[0].Newer)
	}
	w.skip(t0, passed)
	if e := w.event("stripe", "x_1"); e.State != driver.StateSkipped || e.Note != driver.NoteStale {
		w.Errorf("x_1 is %s with the note %q, want skipped, stale", e.State, e.Note)
	}
	w.runs(t0, admitted, succeeded)
	equal := newInLine("x", 4, true)
	equal.Order = placedEvent("x", 3, true)
	w.claimNew(t0, equal)
	w.turn(t0, "x_4") // equal is not older
}

// eventsAdmitThenLate lets a process be slow between the admission and the run. A lower version goes first then.
func eventsAdmitThenLate[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, true))
	late := w.turn(t0, "x_2")
	w.claimNew(t0, newInLine("x", 1, true))
	first := w.turn(t0, "x_1")
	if run := w.inRun(t0, late); run != nil {
		w.Fatal("2 runs after 1 was admitted")
	}
	w.runs(t0, first, succeeded)
	if run := w.inRun(t0, late); run != nil {
		w.Fatal("2 runs by an admission that is over")
	}
	at := t0.Add(reservedFor)
	w.runs(at, w.turn(at, "x_2"), succeeded)
}

// eventsLateInABatch is that with another object in the same run.
func eventsLateInABatch[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, true), newInLine("y", 1, true))
	late := w.turn(t0, "x_2", "y_1")
	w.claimNew(t0, newInLine("x", 1, true))
	first := w.turn(t0, "x_1")
	run := w.inRun(t0, late)
	same(w, "the run", []string{"y_1"}, eventIDs(run.Events()))
	at := t0.Add(reservedFor)
	if !w.singleWriter() { // the run does not keep 2, although it was among its events
		w.runs(t0, first, succeeded)
		w.turn(at, "x_2")
	}
	r := succeeded(&run.Events()[0])
	r.Line = lineOf(&late[1])
	w.finish(t0, run, r)
	if w.singleWriter() {
		w.runs(t0, first, succeeded)
		w.turn(at, "x_2")
	}
}

// eventsEndWithout ends runs without an outcome. Each end wakes a lower version that waits.
func eventsEndWithout[T any](w *bench[T]) {
	for object, end := range map[string]func(run driver.Run[T]){
		"abandoned": w.abandon,
		"released":  func(run driver.Run[T]) { w.finish(t0, run) },
		"severed": func(run driver.Run[T]) {
			run.Sever()
			w.abandon(run)
		},
	} {
		w.claimNew(t0, newInLine(object, 2, true))
		run := w.inRun(t0, w.turn(t0, object+"_2"))
		if w.singleWriter() { // with one writer nothing can be admitted meanwhile
			end(run)
			w.claimNew(t0, newInLine(object, 1, true))
		} else {
			w.claimNew(t0, newInLine(object, 1, true))
			w.turn(t0)
			end(run)
		}
		at := time.Now().Add(time.Minute)
		w.runs(at, w.turn(at, object+"_1"), succeeded)
		w.runs(at.Add(reservedFor), w.turn(at.Add(reservedFor), object+"_2"), succeeded)
	}
}

func eventsInterruptedDead[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 1, false), newInLine("x", 2, true))
	got := w.turn(t0, "x_1")
	p := w.takeParams(t0, 1, false)
	p.Keys, p.Lines, p.Retry = []driver.Key{got[0].Key}, []driver.Key{got[0].Line.Object}, retry(1)
	w.interrupt(w.takeWith(p))
	w.turn(t0)
	at := t0.Add(time.Hour)
	same(w, "dead", true, w.sweep(at)[0].Dead)
	w.turn(at, "x_2")
}

// eventsEnded lets a handler commit by itself: its effect is there, and its outcome is not recorded yet.
func eventsEnded[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 2, false))
	got := w.turn(t0, "x_2")
	run := w.inRun(t0, got)
	if err := run.Next(w.Context(), got[0].Key, &driver.FinishParams{Now: t0}); err != nil {
		w.Fatalf("Next: %v", err)
	}
	w.effect(run)
	if err := w.h.Commit(w.Context(), run.Tx()); err != nil {
		w.Fatalf("Harness.Commit: %v", err)
	}
	if !w.singleWriter() { // with one writer no other session can claim meanwhile
		w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 3, true))
		w.turn(t0)
	}
	r := committed(&run.Events()[0])
	r.Line = lineOf(&got[0])
	w.settle(t0, run, r)
	w.isEnded("x_2")
	if w.singleWriter() {
		w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 3, true))
	}
	w.runs(t0, w.turn(t0, "x_1"), succeeded)
	w.turn(t0, "x_3")
}

// eventsReleased gives events back: those of an abandoned run, and one without an outcome.
func eventsReleased[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 2, true), newInLine("y", 1, true))
	got := w.turn(t0, "x_1", "y_1")
	w.abandon(w.inRun(t0, got))
	at := t0.Add(reservedFor)
	got = w.turn(at, "x_1", "y_1")
	run := w.inRun(at, got)
	for i := range run.Events() {
		if e := &run.Events()[i]; e.EventID == "y_1" {
			r := succeeded(e)
			r.Line = lineOf(&got[1])
			w.finish(at, run, r)
		}
	}
	at = at.Add(reservedFor)
	w.runs(at, w.turn(at, "x_1"), succeeded)
	w.turn(at, "x_2")
}
