package work

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// suspectReservation keeps a suspect without Refetch from other processes until its run begins. If
// the process is killed before that, the suspect waits this long.
const suspectReservation = 2 * time.Second

// stepSuspect runs one event that had an interrupted run, alone. Its process has one such run at a
// time, beside those of the other workers: most suspects are innocent, and do not hold the others
// up.
//
// If the process ends again, only the suspect has an attempt counted, because all other runs are
// taken with Beside. It may be innocent once more, if the process ended for another reason. Its last
// attempt would make it dead, so it runs while no other handler does.
func (w *Workers[T]) stepSuspect(ctx, workCtx context.Context, t task) (more bool, err error) {
	src := w.o.Source(t.source)
	if src == nil {
		src = &Source{Name: t.source}
	}
	duration := suspectReservation
	if src.Refetch != nil {
		duration = src.RefetchTimeout + refetchMargin
	}
	reserved, err := w.reserve(ctx, src.Name, 1, duration, driver.OnlySuspects)
	if err != nil || len(reserved) == 0 {
		return false, err
	}
	var current map[driver.Key][]byte
	if src.Refetch != nil {
		var failures map[driver.Key]*driver.WorkResult
		current, failures = w.refetchAll(workCtx, src, reserved)
		if len(failures) > 0 {
			w.recordReserved(ctx, workCtx, failures)
			return true, nil
		}
	}
	w.runAlone(ctx, workCtx, &reserved[0], current, true)
	return true, nil
}
