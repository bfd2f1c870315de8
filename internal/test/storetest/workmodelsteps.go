package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// stepTake takes due events of one source, checks that it got the maximum number and the oldest,
// and ends the run in some way.
func (w *workWorld[T]) stepTake() string {
	p := w.takeParams(w.now, 1+w.rand.IntN(4), w.rand.IntN(2) == 0)
	p.Source = []string{"stripe", "github"}[w.rand.IntN(2)]
	p.Types = [][]string{{"*"}, {"*"}, {"*"}, {"a.*"}, {"b", "a_*"}, {"*x"}}[w.rand.IntN(6)]
	eligible := slices.DeleteFunc(slices.Clone(w.events), func(e *queuedModel) bool {
		return e.state != driver.StatePending || e.dueAt.After(w.now) || e.claim.Source != p.Source ||
			!matchesAny(p.Types, e.claim.Type) || e.tried() != p.Tried
	})
	p.Retry = retry(workModelAttempts)
	run := w.takeFrom(w.either(), p, eligible)
	if run == nil {
		w.seen["nothing"] = true
		return "take of nothing"
	}
	return w.end(run)
}

// stepByKey takes one event by its key, due or not.
func (w *workWorld[T]) stepByKey() string {
	e := w.pick(func(e *queuedModel) bool { return e.state == driver.StatePending || w.rand.IntN(8) == 0 })
	if e == nil {
		return "no event"
	}
	p := &driver.TakeParams{
		Keys: []driver.Key{e.claim.Key}, Limit: 1, HandlerTimeout: w.d.WorkLimits().MaxHandlerTimeout, Retry: retry(workModelAttempts), Now: w.now,
	}
	var eligible []*queuedModel
	if e.state == driver.StatePending {
		eligible = append(eligible, e)
	}
	run := w.takeFrom(w.either(), p, eligible)
	if run == nil {
		return "take by key, state " + e.state
	}
	w.seen["by key"] = true
	return w.end(run)
}

// takeFrom takes events, and compares them with the eligible ones.
func (w *workWorld[T]) takeFrom(d driver.Driver[T], p *driver.TakeParams, eligible []*queuedModel) driver.Run[T] {
	w.Helper()
	run, err := d.Take(w.Context(), p)
	if err != nil {
		w.Fatalf("Take: %v", err)
	}
	w.abandonOnFailure(run)
	if run == nil {
		if len(eligible) > 0 {
			w.Errorf("Take(%+v) took nothing, want some of %d", p, len(eligible))
		}
		return nil
	}
	events := run.Events()
	if len(events) != min(p.Limit, len(eligible)) {
		w.Fatalf("Take(%+v) took %v, want %d of %d", p, eventIDs(events), p.Limit, len(eligible))
	}
	var last time.Time
	for i := range events {
		e := w.find(events[i].Key)
		if !slices.Contains(eligible, e) {
			w.Errorf("Take(%+v) took %s, which is %+v", p, e.claim.EventID, e.detail().Event)
		}
		same(w, "taken event", e.taken(), events[i])
		if e.vague {
			continue
		}
		if e.dueAt.Before(last) {
			w.Errorf("%s, due since %v, was taken after one due since %v", e.claim.EventID, e.dueAt, last)
		}
		last = e.dueAt
	}
	for _, e := range eligible {
		if !e.vague && e.dueAt.Before(last) && !slices.Contains(eventIDs(events), e.claim.EventID) {
			w.Errorf("%s, due since %v, was skipped for one due since %v", e.claim.EventID, e.dueAt, last)
		}
	}
	return run
}

// end runs handlers, and ends the run in some way.
func (w *workWorld[T]) end(run driver.Run[T]) string {
	w.effect(run)
	events := run.Events()
	w.seen[map[bool]string{true: "alone", false: "batch"}[len(events) == 1]] = true
	w.now = w.now.Add(time.Duration(w.rand.IntN(3)) * time.Second)
	text := strings.Join(eventIDs(events), " ")
	one := &events[w.rand.IntN(len(events))]
	failure := retried(one)
	failure.RetryIn = time.Duration(w.rand.IntN(30)) * time.Second
	if w.rand.IntN(3) == 0 || one.Attempts+1 >= workModelAttempts {
		failure = failed(one)
	}
	how := w.rand.IntN(8)
	if how <= 2 && len(w.lost) == maxGone {
		how = 0
	}
	switch how {
	case 0:
		w.abandon(run)
		w.seen["abandoned"] = true
		w.recordOf(run)
		return "abandoned " + text
	case 1, 2:
		w.interruptIn(run)
		return "interrupted " + text
	case 3:
		w.settle(w.now, run, failure)
		w.seen["settled"] = true
		w.recordOf(run, failure)
		return "settled " + text
	case 4, 5:
		w.finish(w.now, run, failure)
		w.seen["failed in a batch"] = w.seen["failed in a batch"] || len(events) > 1
		w.recordOf(run, failure)
		return "failed " + text
	}
	var results []driver.WorkResult
	for i := range events {
		switch w.rand.IntN(8) {
		case 0:
			results = append(results, stale(&events[i]))
		case 1:
			w.seen["released"] = true
			continue
		default:
			results = append(results, succeeded(&events[i]))
		}
	}
	// All writes of the handlers are committed with the successful events.
	for i := range events {
		w.effects[effectOf(&events[i])]++
	}
	w.finish(w.now, run, results...)
	w.recordOf(run, results...)
	return "finished " + text
}

// stepDoneRefused takes events while the database refuses the done mark of one. Nothing of their run is committed; then it
// ends as the engine ends it: a batch is given back, and the event alone has failed.
func (w *workWorld[T]) stepDoneRefused() string {
	one := w.pick(func(e *queuedModel) bool { return e.state == driver.StatePending && !e.dueAt.After(w.now) })
	if one == nil {
		return "no done mark to refuse"
	}
	allow := w.h.Refuse(w.T, w.d, "event_state", one.claim.Key)
	defer allow()
	p := w.takeParams(w.now, 1+w.rand.IntN(4), one.tried())
	p.Source, p.Retry = one.claim.Source, retry(workModelAttempts)
	run := w.takeFrom(w.either(), p, slices.DeleteFunc(slices.Clone(w.events), func(e *queuedModel) bool {
		return e.state != driver.StatePending || e.dueAt.After(w.now) || e.claim.Source != p.Source || e.tried() != p.Tried
	}))
	w.effect(run)
	var results []driver.WorkResult
	for _, e := range run.Events() {
		results = append(results, succeeded(&e))
	}
	if !slices.Contains(eventIDs(run.Events()), one.claim.EventID) {
		w.abandon(run)
		w.recordOf(run)
		return "no refused done mark among " + strings.Join(eventIDs(run.Events()), " ")
	}
	err := run.Finish(w.Context(), &driver.FinishParams{Results: results, Now: w.now})
	if !errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrCommitUnknown) {
		w.Fatalf("Finish while the database refuses a done mark: %v, want %v", err, driver.ErrBadRow)
	}
	w.seen["done refused"] = true
	if len(results) > 1 {
		w.abandon(run)
		w.recordOf(run)
		return "refused done mark in a batch"
	}
	failure := failed(&run.Events()[0])
	w.settle(w.now, run, failure)
	w.recordOf(run, failure)
	return "refused done mark"
}

// recordOf records the results of a run in the model.
func (w *workWorld[T]) recordOf(run driver.Run[T], results ...driver.WorkResult) {
	w.record(results...)
	for _, taken := range run.Events() {
		if !slices.ContainsFunc(results, func(r driver.WorkResult) bool { return r.Key == taken.Key }) {
			e := w.find(taken.Key)
			e.state = driver.StatePending
			w.giveBack(e)
		}
	}
}

// record records outcomes in the model.
func (w *workWorld[T]) record(results ...driver.WorkResult) {
	for _, r := range results {
		w.find(r.Key).record(r, w.now)
		w.seen[map[driver.WorkOutcome]string{
			driver.WorkSucceeded: "done", driver.WorkStale: "stale", driver.WorkRetry: "retry", driver.WorkFailed: "failed",
		}[r.Outcome]] = true
	}
}

func (w *workWorld[T]) interruptIn(run driver.Run[T]) {
	w.h.Interrupt(w.T, w.d, run)
	w.lost = append(w.lost, run)
	w.seen["interrupted"] = true
	for _, e := range run.Events() {
		m := w.find(e.Key)
		m.state, m.alone = driver.StateRunning, len(run.Events()) == 1
		w.seen["interrupted batch"] = w.seen["interrupted batch"] || !m.alone
	}
}

// stepSweep sweeps from either driver.
func (w *workWorld[T]) stepSweep() string {
	lost, err := w.either().SweepRuns(w.Context(), sweepParams(w.now))
	if err != nil {
		w.Fatalf("SweepRuns: %v", err)
	}
	var want []driver.LostRun
	for _, e := range w.events {
		if e.state != driver.StateRunning {
			continue
		}
		e.touched = true
		// The due time may be now or earlier.
		e.state, e.dueAt, e.vague = driver.StatePending, w.now, true
		e.crashes++
		l := driver.LostRun{Key: e.claim.Key, Source: e.claim.Source, EventID: e.claim.EventID, Type: e.claim.Type, Attempts: e.attempts}
		w.seen["swept"] = true
		if e.alone {
			l = w.sweptAlone(e)
		}
		want = append(want, l)
	}
	if len(want) > 0 {
		w.now = w.now.Add(sweepMax) // all swept events are due again
	}
	for len(w.lost) > 1 { // keep one, to settle it too late
		w.abandon(w.lost[0])
		w.lost = w.lost[1:]
	}
	byID := func(a, b driver.LostRun) int { return strings.Compare(a.EventID, b.EventID) }
	slices.SortFunc(lost, byID)
	slices.SortFunc(want, byID)
	same(w, "lost", want, lost)
	return fmt.Sprintf("sweep of %d events", len(lost))
}

// sweptAlone counts the attempt. The next due time is random.
func (w *workWorld[T]) sweptAlone(e *queuedModel) driver.LostRun {
	e.attempts++
	e.error = driver.ErrorRunInterrupted
	dead := e.attempts >= workModelAttempts
	outcome := "retry"
	if dead {
		outcome, e.state, e.failedAt = "dead", driver.StateDead, w.now
	}
	e.tries = append(e.tries, interruptedAttempt(outcome, w.now, e.gen, e.attempts))
	w.seen["swept alone"] = true
	w.seen["swept dead"] = w.seen["swept dead"] || dead
	return lostAlone(&e.claim, e.attempts, dead)
}

func (w *workWorld[T]) stepReplay() string {
	e := w.pick(func(e *queuedModel) bool { return e.state == driver.StateDone || e.state == driver.StateSkipped })
	if e == nil {
		return "nothing to replay"
	}
	mode := []driver.ReplayMode{driver.ReplayAsNew, driver.ReplaySameID}[w.rand.IntN(2)]
	w.replayAt(w.now, e.claim.Key, mode)
	e.owe(w.now, true, replayModes[mode].action)
	w.seen["replayed"] = true
	return "replay of " + e.claim.EventID
}

// stepLetter replays or discards an event, dead or not.
func (w *workWorld[T]) stepLetter() string {
	e := w.pick(func(e *queuedModel) bool { return e.state == driver.StateDead || w.rand.IntN(8) == 0 })
	if e == nil {
		return "no letter"
	}
	dead := e.state == driver.StateDead
	ref := driver.DeadLetterRef{Key: e.claim.Key}
	if w.rand.IntN(3) > 0 {
		same(w, "replayed", []bool{dead}, w.replayDead(w.now, ref))
		if dead {
			e.owe(w.now, true, driver.ActionReplayed)
			w.seen["letter replayed"] = true
		}
		return "replay of the letter " + e.claim.EventID
	}
	same(w, "discarded", []bool{dead}, w.discard(w.now, ref))
	if dead {
		e.state, e.note, e.failedAt = driver.StateSkipped, driver.NoteDiscarded, time.Time{}
		e.history = append(e.history, driver.HistoryEntry{At: w.now, Action: driver.ActionDiscarded, Generation: e.gen})
		w.seen["discarded"] = true
	}
	return "discard of " + e.claim.EventID
}

func (w *workWorld[T]) stepReopen() string {
	e := w.pick(func(e *queuedModel) bool { return e.state == driver.StateDead || w.rand.IntN(8) == 0 })
	if e == nil {
		return "nothing to reopen"
	}
	var want []driver.Key
	if e.state == driver.StateDead {
		want = append(want, e.claim.Key)
		w.seen["reopened"] = true
	}
	same(w, "reopened", want, w.reopen(w.now, e.claim.Key))
	if want != nil {
		e.owe(w.now, false, driver.ActionReopened)
	}
	return "reopening of " + e.claim.EventID
}

// stepReserve reserves due events of one source, and records outcomes for some.
func (w *workWorld[T]) stepReserve() string {
	p := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 3, For: time.Minute, Now: w.now}
	got, err := w.either().Reserve(w.Context(), p)
	if err != nil {
		w.Fatalf("Reserve: %v", err)
	}
	due := 0
	for _, e := range w.events {
		if e.state == driver.StatePending && !e.dueAt.After(w.now) && e.claim.Source == p.Source {
			due++
		}
	}
	if len(got) != min(due, p.Limit) {
		w.Errorf("reserved %d events of %d", len(got), due)
	}
	for i := range got {
		e := w.find(got[i].Key)
		same(w, "reserved event", e.taken(), got[i])
		e.dueAt, e.vague = w.now.Add(p.For), false
		w.seen["reserved"] = true
		if w.rand.IntN(3) == 0 {
			r := retried(&got[i])
			if e.attempts+1 >= workModelAttempts {
				r = failed(&got[i])
			}
			w.bench.record(w.now, r)
			w.record(r)
			w.seen["recorded"] = true
		}
	}
	return fmt.Sprintf("reservation of %d events", len(got))
}

// stepLateSettle settles an interrupted run. It counts unless the run was swept before; then it
// changes nothing.
func (w *workWorld[T]) stepLateSettle() string {
	if len(w.lost) == 0 || w.rand.IntN(2) == 0 {
		return "nothing to settle"
	}
	run := w.lost[len(w.lost)-1]
	w.lost = w.lost[:len(w.lost)-1]
	first := &run.Events()[0]
	e := w.find(first.Key)
	if e.state != driver.StateRunning || e.crashes != first.Crashes || e.gen != first.Generation {
		w.unsettled("after a sweep", w.now, run, failed(first))
		w.seen["late settle"] = true
		return "settling too late"
	}
	w.settle(w.now, run, failed(first))
	w.recordOf(run, failed(first))
	return "settling before the sweep"
}
