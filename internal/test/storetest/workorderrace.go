package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// eventOrderRace sees the runs of ordered events.
type eventOrderRace[T any] struct {
	*workersRace[T]
	seen    sync.Mutex
	running map[string]string // by object: the event whose handler works
	highest map[string]int    // by object: of the versions whose runs have committed
}

// raceEventOrder lets workers on two drivers run the versions of some objects, in any order of their claims. Runs fail, are
// abandoned, or end as those of killed processes do, next to a sweep of runs. No worker sweeps lines, so the end of a run makes
// the next event due. Of each object one event runs at a time, and none after a higher version.
func raceEventOrder[T any](w *bench[T]) {
	const workers, objects = 4, 3
	var claims []driver.Claim
	for o := range objects {
		for v := 1; v <= group.Rounds(8, 40); v++ {
			claims = append(claims, newInLine(fmt.Sprint("o", o), v, true))
		}
	}
	rand.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	r := &eventOrderRace[T]{
		workersRace: &workersRace[T]{bench: w, events: len(claims)}, running: map[string]string{}, highest: map[string]int{},
	}
	drivers := w.sides()
	var all sync.WaitGroup
	all.Go(func() {
		for i := range claims { // lower versions come while higher ones run
			if err := w.untilFree(func(ctx context.Context) error {
				_, err := w.d.Claim(ctx, &driver.ClaimParams{Claims: claims[i : i+1], Now: t0})
				return err
			}); err != nil {
				w.Errorf("Claim: %v", err)
			}
		}
	})
	for i := range workers {
		all.Go(func() { r.workInOrder(drivers[i%2], rand.New(rand.NewPCG(2, uint64(i)))) })
	}
	all.Wait()
	var names []string
	for i := range claims {
		switch e := w.event("stripe", claims[i].EventID); {
		case e.State == driver.StateDone:
			names = append(names, e.EventID+"#0")
		case e.Note != driver.NoteStale:
			w.Errorf("event %s is %s, note %q, want it done or stale", e.EventID, e.State, e.Note)
		}
	}
	w.effects(names...)
}

func (r *eventOrderRace[T]) workInOrder(d driver.Driver[T], random *rand.Rand) {
	for range 20_000 {
		err := r.stepInOrder(d, random)
		if err != nil && !again(err) && !errors.Is(err, driver.ErrNotFound) {
			r.Errorf("a worker stopped with the error %v", err)
			return
		}
		if err == nil && random.IntN(4) == 0 {
			ended := 0
			for _, state := range []string{driver.StateDone, driver.StateSkipped} {
				page, err := d.Events(r.Context(), &driver.EventFilter{State: state, Limit: driver.MaxLimit})
				if err != nil {
					r.Errorf("Events: %v", err)
					return
				}
				ended += len(page.Events)
			}
			if ended == r.events {
				return
			}
		}
	}
	r.Error("a worker saw events that never ended")
}

// stepInOrder sweeps runs, or reserves some events and runs those that are admitted.
func (r *eventOrderRace[T]) stepInOrder(d driver.Driver[T], random *rand.Rand) error {
	if random.IntN(5) == 0 {
		return r.sweep(d)
	}
	now := r.now()
	reserved, err := d.Reserve(r.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 4, For: reservedFor, Now: now})
	if err != nil || len(reserved) == 0 {
		return err
	}
	p := &driver.AdmitParams{Now: now}
	for i := range reserved {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.Reserved(&reserved[i])})
	}
	admitted, err := d.Admit(r.Context(), p)
	if err != nil {
		return err
	}
	take := r.takeParams(now, len(admitted), false)
	take.Retry.Attempts, take.Beside = 1000, true
	lines := map[driver.Key]*driver.ObjectVersion{}
	for i := range admitted {
		e := &inTurn{reserved[i], admitted[i]}
		switch e.Verdict {
		case driver.Passed:
			result := stale(&e.TakenEvent)
			result.Line = lineOf(e)
			if err := d.RecordReserved(r.Context(), &driver.FinishParams{Results: []driver.WorkResult{result}, Now: now}); err != nil {
				return err
			}
		case driver.Admitted:
			lines[e.Key] = lineOf(e)
			take.Keys, take.Lines = append(take.Keys, e.Key), append(take.Lines, e.Line.Object)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	run, err := d.Take(r.Context(), take)
	if err != nil || run == nil {
		return err
	}
	return r.end(run, lines, random)
}

// end runs the handlers of a run, and ends it in some way.
func (r *eventOrderRace[T]) end(run driver.Run[T], lines map[driver.Key]*driver.ObjectVersion, random *rand.Rand) error {
	results := allSucceeded(run)
	r.began(run)
	for i, e := range run.Events() {
		results[i].Line = lines[e.Key]
		if err := r.h.Effect(r.Context(), run.Tx(), effectOf(&e)); err != nil {
			r.returned(run)
			return errors.Join(err, run.Abandon(r.Context()))
		}
	}
	r.returned(run)
	failure := retried(&run.Events()[0])
	failure.RetryIn, failure.Line = 0, results[0].Line
	p := &driver.FinishParams{Results: []driver.WorkResult{failure}, Now: r.now()}
	switch random.IntN(8) {
	case 0:
		return run.Abandon(r.Context())
	case 1:
		return r.die(run)
	case 2:
		run.Sever()
		return run.Settle(r.Context(), p)
	case 3:
		return run.Settle(r.Context(), p)
	}
	p.Results = results
	if err := run.Finish(r.Context(), p); err != nil {
		return errors.Join(err, run.Abandon(r.Context()))
	}
	r.seen.Lock()
	defer r.seen.Unlock()
	for _, e := range run.Events() {
		r.highest[e.EventID[:2]] = max(r.highest[e.EventID[:2]], int(lines[e.Key].Version[0]))
	}
	return nil
}

func (r *eventOrderRace[T]) began(run driver.Run[T]) {
	r.seen.Lock()
	defer r.seen.Unlock()
	for _, e := range run.Events() {
		object := e.EventID[:2]
		if other := r.running[object]; other != "" {
			r.Errorf("%s runs while %s does", e.EventID, other)
		}
		var version int
		if _, err := fmt.Sscanf(e.EventID[3:], "%d", &version); err != nil || version < r.highest[object] {
			r.Errorf("%s runs after version %d, %v", e.EventID, r.highest[object], err)
		}
		r.running[object] = e.EventID
	}
}

func (r *eventOrderRace[T]) returned(run driver.Run[T]) {
	r.seen.Lock()
	defer r.seen.Unlock()
	for _, e := range run.Events() {
		delete(r.running, e.EventID[:2])
	}
}
