package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

func workRaceCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"FinishAgainstSweep", raceFinishSweep[T]},
		{"SettleAgainstSweep", raceSettleSweep[T]},
		{"SweepTwice", raceSweepTwice[T]},
		{"TakeOneEvent", raceTakeOne[T]},
		{"ReserveAgainstTake", raceReserveTake[T]},
		{"Workers", raceWorkers[T]},
		{"EventOrder", raceEventOrder[T]},
	}
}

// sides returns the drivers of a race.
func (w *bench[T]) sides() [2]driver.Driver[T] { return [2]driver.Driver[T]{w.d, w.second().d} }

// untilFree repeats a call while another transaction blocks it.
func (w *bench[T]) untilFree(call func(ctx context.Context) error) error {
	for {
		err := call(w.Context())
		if err == nil || !again(err) || w.Context().Err() != nil {
			return err
		}
	}
}

// raceFinishSweep severs runs while they finish, and sweeps. If the run was committed, the sweep
// finds nothing; otherwise it counts an attempt.
func raceFinishSweep[T any](w *bench[T]) {
	rounds := group.Rounds(12, 40)
	drivers := w.sides()
	wins := map[bool]int{}
	for round := range rounds {
		id := fmt.Sprint("evt_", round)
		w.queue(t0, id)
		run := w.take(t0, id)
		w.effect(run)
		var lost []driver.LostRun
		var finished error
		var group sync.WaitGroup
		group.Go(func() {
			if round%4 != 0 { // else the sweep finds nothing yet
				run.Sever()
			}
			if err := w.untilFree(func(ctx context.Context) (err error) {
				lost, err = drivers[1].SweepRuns(ctx, sweepParams(t0.Add(day)))
				return err
			}); err != nil {
				w.Errorf("SweepRuns: %v", err)
			}
		})
		group.Go(func() {
			finished = run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0})
		})
		group.Wait()
		lost = append(lost, w.sweep(t0.Add(day))...) // runs that were severed after the first sweep
		got, effects := w.event("stripe", id), w.h.Effects(w.T, w.d)[id+"#0"]
		if again := w.event("stripe", id); again.State != got.State { // the server was still committing
			got, effects = again, w.h.Effects(w.T, w.d)[id+"#0"]
		}
		committed := got.State == driver.StateDone
		wins[committed]++
		switch {
		case committed && (effects != 1 || len(lost) != 0 || got.Attempts != 1 || finished != nil && !errors.Is(finished, driver.ErrCommitUnknown)):
			w.Errorf("round %d: the run was committed (%v), with %d effects, and the sweep found %+v", round, finished, effects, lost)
		case !committed && (effects != 0 || len(lost) != 1 || got.Attempts != 1 || finished == nil):
			w.Errorf("round %d: the run was not committed (%v), with %d effects, and the sweep found %+v", round, finished, effects, lost)
		}
		if !committed {
			w.unsettled("after it was swept", t0, run, failed(&run.Events()[0]))
		}
		w.abandon(run)
	}
	w.Logf("%d runs were committed, and %d swept", wins[true], wins[false])
}

// raceSettleSweep settles an interrupted run while it is swept. Its attempt is counted once.
func raceSettleSweep[T any](w *bench[T]) {
	rounds := group.Rounds(8, 20)
	drivers := w.sides()
	for round := range rounds {
		id := fmt.Sprint("evt_", round)
		w.queue(t0, id)
		run := w.take(t0, id)
		w.h.Interrupt(w.T, w.d, run)
		var lost []driver.LostRun
		var settled, swept error
		var group sync.WaitGroup
		group.Go(func() {
			settled = w.untilFree(func(ctx context.Context) error {
				return run.Settle(ctx, &driver.FinishParams{Results: []driver.WorkResult{retried(&run.Events()[0])}, Now: t0})
			})
		})
		group.Go(func() {
			swept = w.untilFree(func(ctx context.Context) (err error) {
				lost, err = drivers[1].SweepRuns(ctx, sweepParams(t0))
				return err
			})
		})
		group.Wait()
		if swept != nil || settled != nil && !errors.Is(settled, driver.ErrNotFound) {
			w.Fatalf("SweepRuns returned the error %v, and Settle %v", swept, settled)
		}
		got := w.event("stripe", id)
		if (settled == nil) == (len(lost) == 1) || got.Attempts != 1 || len(got.Tries) != 1 || got.State != driver.StatePending {
			w.Errorf("round %d: Settle returned %v, and the sweep found %+v; the event is %+v with the attempts %+v",
				round, settled, lost, got.Event, got.Tries)
		}
		w.abandon(run)
		w.sweptNothing("after both", t0.Add(day))
	}
	w.effects()
}

// raceSweepTwice sweeps from both drivers at once. Each run is counted once.
func raceSweepTwice[T any](w *bench[T]) {
	const callers, runs = 6, 4
	rounds := group.Rounds(3, 5)
	drivers := w.sides()
	p := &pair{fixture: w.fixture, stores: [2]driver.Store{drivers[0], drivers[1]}}
	for round := range rounds {
		counts := map[string]int{}
		for i := range runs {
			for n := range 1 + i%2 { // every other run is a batch
				id := fmt.Sprintf("evt_%d_%d_%d", round, i, n)
				w.queue(t0, id)
				counts[id] = 0
			}
			w.die(w.takeWith(w.takeParams(t0, 10, false)))
		}
		var mu sync.Mutex
		p.atOnce(callers, func(s driver.Store, _ int) error {
			lost, err := s.SweepRuns(w.Context(), sweepParams(t0))
			mu.Lock()
			defer mu.Unlock()
			for _, l := range lost {
				counts[l.EventID]++
			}
			return err
		})
		for _, l := range w.sweep(t0) { // runs that the first sweeps skipped as locked
			counts[l.EventID]++
		}
		for id, n := range counts {
			got := w.event("stripe", id)
			if n != 1 || got.Attempts > 1 || len(got.Tries) != got.Attempts || got.State != driver.StatePending {
				w.Errorf("event %s was found %d times, and is %+v", id, n, got.Event)
			}
		}
	}
}

// raceTakeOne takes one event from many callers at once.
func raceTakeOne[T any](w *bench[T]) {
	const callers = 8
	rounds := group.Rounds(4, 10)
	drivers := w.sides()
	p := &pair{fixture: w.fixture, stores: [2]driver.Store{drivers[0], drivers[1]}}
	var names []string
	for round := range rounds {
		id := fmt.Sprint("evt_", round)
		c := w.queue(t0, id)[0]
		var won atomic.Int32
		p.atOnce(callers, func(_ driver.Store, i int) error {
			params := w.takeParams(t0, 1, false)
			if i%4 >= 2 {
				params.Keys = []driver.Key{c.Key}
			}
			var run driver.Run[T]
			err := w.untilFree(func(ctx context.Context) (err error) {
				run, err = drivers[i%2].Take(ctx, params)
				return err
			})
			if err != nil || run == nil {
				return err
			}
			won.Add(1)
			if err := w.h.Effect(w.Context(), run.Tx(), id+"#0"); err != nil {
				return err
			}
			return run.Finish(w.Context(), &driver.FinishParams{Results: allSucceeded(run), Now: t0})
		})
		if n := won.Load(); n != 1 {
			w.Errorf("event %s was taken by %d callers, want 1", id, n)
		}
		names = append(names, id+"#0")
	}
	w.effects(names...)
}

// raceReserveTake reserves events while they are taken. Each has one owner.
func raceReserveTake[T any](w *bench[T]) {
	rounds := group.Rounds(8, 20)
	drivers := w.sides()
	p := &pair{fixture: w.fixture, stores: [2]driver.Store{drivers[0], drivers[1]}}
	for round := range rounds {
		ids := []string{fmt.Sprintf("evt_%d_a", round), fmt.Sprintf("evt_%d_b", round), fmt.Sprintf("evt_%d_c", round)}
		w.queue(t0, ids...)
		owners := map[string]int{}
		var mu sync.Mutex
		owns := func(events []driver.TakenEvent) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range eventIDs(events) {
				owners[id]++
			}
		}
		p.atOnce(4, func(_ driver.Store, i int) error {
			d := drivers[i%2]
			return w.untilFree(func(ctx context.Context) error {
				if i < 2 {
					got, err := d.Reserve(ctx, &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 2, For: 365 * day, Now: t0})
					owns(got)
					return err
				}
				run, err := d.Take(ctx, w.takeParams(t0, 2, false))
				if err != nil || run == nil {
					return err
				}
				owns(run.Events())
				return run.Finish(ctx, &driver.FinishParams{Results: allSucceeded(run), Now: t0})
			})
		})
		for id, n := range owners {
			if n != 1 {
				w.Errorf("event %s has %d owners, want 1", id, n)
			}
		}
		w.reserve(t0, 365*day) // the skipped events
	}
}

// raceWorkers lets workers on two drivers run events in batches and alone, with every kind of
// failure, next to a sweep. In the end every event is done, and its effect exists once.
func raceWorkers[T any](w *bench[T]) {
	const workers = 4
	events := group.Rounds(30, 80)
	ids := numbered(events)
	w.queue(t0, ids...)
	drivers := w.sides()
	r := &workersRace[T]{bench: w, events: events}
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { r.work(drivers[i%2], rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	group.Wait()
	var names []string
	for _, id := range ids {
		names = append(names, id+"#0")
		if state := w.state(id); state != driver.StateDone {
			w.Errorf("event %s is %s, want it done", id, state)
		}
	}
	w.effects(names...)
	w.sweptNothing("after all was done", r.now().Add(day))
}

type workersRace[T any] struct {
	*bench[T]
	events int
	days   atomic.Int64
	mu     sync.Mutex
	gone   []driver.Run[T] // severed runs, until the next sweep
}

// die severs the run and leaves it to a sweep, or abandons it if two are left already.
func (r *workersRace[T]) die(run driver.Run[T]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gone) == 2 {
		return run.Abandon(r.Context())
	}
	run.Sever()
	r.gone = append(r.gone, run)
	return nil
}

// sweep sweeps the severed runs, then abandons them.
func (r *workersRace[T]) sweep(d driver.Driver[T]) error {
	r.mu.Lock()
	gone := r.gone
	r.gone = nil
	r.mu.Unlock()
	r.days.Add(1)
	_, err := d.SweepRuns(r.Context(), sweepParams(r.now()))
	for _, run := range gone {
		err = errors.Join(err, run.Abandon(r.Context()))
	}
	return err
}

// now is the race's own clock. Every sweep moves it on by a day, so that a sweep finds runs taken
// before, on databases where that takes time.
func (r *workersRace[T]) now() time.Time { return t0.Add(time.Duration(r.days.Load()) * day) }

func (r *workersRace[T]) work(d driver.Driver[T], random *rand.Rand) {
	for range 20_000 {
		err := r.step(d, random)
		if err != nil && !again(err) && !errors.Is(err, driver.ErrNotFound) {
			r.Errorf("a worker stopped with the error %v", err)
			return
		}
		if err == nil && random.IntN(4) == 0 {
			done, err := d.Events(r.Context(), &driver.EventFilter{State: driver.StateDone, Limit: driver.MaxLimit})
			if err != nil {
				r.Errorf("Events: %v", err)
				return
			}
			if len(done.Events) == r.events {
				return
			}
		}
	}
	r.Error("a worker saw events that were never done")
}

// step sweeps, or takes events and works. Other workers may cause any of its errors.
func (r *workersRace[T]) step(d driver.Driver[T], random *rand.Rand) error {
	if random.IntN(5) == 0 {
		return r.sweep(d)
	}
	limit, tried := 1+random.IntN(5), random.IntN(2) == 0
	if tried {
		limit = 1
	}
	now := r.now()
	params := r.takeParams(now, limit, tried)
	params.Retry.Attempts = 1000
	run, err := d.Take(r.Context(), params)
	if err != nil || run == nil {
		return err
	}
	for _, e := range run.Events() {
		if err := r.h.Effect(r.Context(), run.Tx(), effectOf(&e)); err != nil {
			return errors.Join(err, run.Abandon(r.Context()))
		}
	}
	retry := retried(&run.Events()[0])
	retry.RetryIn = 0
	p := &driver.FinishParams{Results: []driver.WorkResult{retry}, Now: now}
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
	case 4:
		if err := run.Finish(r.Context(), p); err != nil {
			return errors.Join(err, run.Abandon(r.Context()))
		}
		return nil
	}
	p.Results = allSucceeded(run)
	if err := run.Finish(r.Context(), p); err != nil {
		return errors.Join(err, run.Abandon(r.Context()))
	}
	return nil
}
