package work

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// suspectReservation keeps a suspect without Refetch from other processes until its run begins. If
// the process is killed before that, the suspect waits this long.
const suspectReservation = 2 * time.Second

const (
	// alonePatience is how long the last attempt of a suspect waits for the handlers in progress
	// while no other one waits to begin.
	alonePatience = 30 * time.Second
	// firstStall is how long it keeps others from beginning the first time.
	firstStall = time.Second
	// restFactor makes the lane of suspects rest for that many times the time that it kept others
	// waiting, so that these have nine tenths of the time.
	restFactor = 9
	// longestRest bounds the reservation of suspects while the lane rests.
	longestRest = 30 * time.Second
)

// lastAttempts decides when the last attempt of a suspect may run alone in the process. Only the
// lane of suspects uses it.
type lastAttempts struct {
	longest time.Duration // any run in progress ends within this time
	stall   time.Duration // how long the next one may keep others waiting
	rested  time.Time     // when the next one may keep others waiting
}

// rest returns how long no last attempt may run.
func (l *lastAttempts) rest() time.Duration { return max(time.Until(l.rested), 0) }

// during runs f while no other handler runs. It waits for the handlers in progress, and keeps others
// waiting for a short time only. Each time that this is not enough it has twice the time, until any
// handler in progress must have ended. If f cannot run now, during returns false.
func (l *lastAttempts) during(ctx context.Context, b *budget, f func()) bool {
	if l.rest() > 0 {
		return false
	}
	defer func() { l.rested = time.Now().Add(restFactor * b.releaseAll()) }()
	l.stall = max(l.stall, firstStall)
	if !b.acquireAll(ctx, alonePatience, l.stall) {
		l.stall = min(2*l.stall, l.longest)
		return false
	}
	l.stall = 0
	f()
	return true
}

// stepSuspect runs one event that had an interrupted run, alone. Its process has one such run at a
// time, beside those of the other workers: most suspects are innocent, and do not hold the others
// up.
//
// If the process ends again, only the suspect has an attempt counted, because all other runs are
// taken with Beside. It may be innocent once more, if the process ended for another reason. Its last
// attempt would make it dead, so it runs while no other handler does. If that is not possible now,
// the suspect is due again after its reservation.
func (w *Workers[T]) stepSuspect(ctx, workCtx context.Context, t task) (more bool, err error) {
	src := w.o.Source(t.source)
	if src == nil {
		src = &Source{Name: t.source}
	}
	duration := max(suspectReservation, min(w.alone.rest(), longestRest))
	if src.Refetch != nil {
		// The fetched state may not wait longer than the reservation.
		duration = max(duration, src.RefetchTimeout+refetchMargin+alonePatience+max(w.alone.stall, firstStall))
	}
	reserved, err := w.reserve(ctx, src.Name, 1, duration, driver.OnlySuspects)
	if err != nil || len(reserved) == 0 {
		return false, err
	}
	ready := &prepared{}
	if reserved, err = w.admit(ctx, src, reserved, ready); err != nil || len(reserved) == 0 {
		return err == nil, err
	}
	suspect := &reserved[0]
	last := suspect.Attempts+1 >= w.o.Retry.Attempts
	if last && w.alone.rest() > 0 {
		return true, nil
	}
	if src.Refetch != nil {
		var failures map[driver.Key]*fetchFailure
		ready.current, failures = w.refetchAll(workCtx, src, reserved, ready)
		if len(failures) > 0 {
			w.recordReserved(ctx, workCtx, failures)
			return true, nil
		}
	}
	if !last {
		w.runAlone(ctx, workCtx, suspect, ready, true)
		return true, nil
	}
	w.alone.during(ctx, w.budget, func() { w.runUntilEnded(ctx, workCtx, suspect, ready, true) })
	return true, nil
}
