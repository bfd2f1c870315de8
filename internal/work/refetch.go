package work

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
)

const (
	// refetchMargin is how much longer than its Refetch an event stays reserved.
	refetchMargin = 30 * time.Second
	maxRefetch    = 16 // calls of Refetch by one worker at a time
)

// stepReserved is step for a source with Refetch or order. It reserves events, finds those whose turn it is, fetches the
// current state of their objects, and then takes them, so that no transaction is open meanwhile. If the process is
// killed in between, the events lose the time of the reservation and no attempt.
func (w *Workers[T]) stepReserved(ctx, workCtx context.Context, src *Source, oneByOne bool) (more bool, err error) {
	limit, duration := w.sizes.limit(src.Name, w.o.Batch), orderReservation
	if src.Refetch != nil {
		limit, duration = min(w.o.Batch, maxRefetch), src.RefetchTimeout+refetchMargin
	}
	if oneByOne {
		limit = 1
	}
	found, err := w.reserve(ctx, src.Name, limit, duration, driver.NoSuspects)
	if err != nil || len(found) == 0 {
		return false, err
	}
	ready := &prepared{}
	reserved, err := w.admit(ctx, src, found, ready)
	if err != nil {
		return false, err
	}
	var failures map[driver.Key]*fetchFailure
	if src.Refetch != nil {
		ready.current, failures = w.refetchAll(workCtx, src, reserved, ready)
		w.recordReserved(ctx, workCtx, failures)
	}
	var fresh, alone []driver.TakenEvent
	for i := range reserved {
		e := &reserved[i]
		switch {
		case failures[e.Key] != nil:
		case e.Attempts > 0:
			alone = append(alone, *e)
		default:
			fresh = append(fresh, *e)
		}
	}
	if len(fresh) > 0 {
		failed, err := w.runReserved(ctx, workCtx, fresh, ready)
		if err != nil {
			return false, err
		}
		alone = append(alone, failed...)
	}
	w.workAlone(ctx, workCtx, alone, ready)
	return mayHaveMore(found, limit), nil
}

// reserve keeps due events from other workers for as long as preparing them may take.
func (w *Workers[T]) reserve(ctx context.Context, source string, limit int, duration time.Duration, suspects driver.Suspects) ([]driver.TakenEvent, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return w.db.Reserve(ctx, &driver.ReserveParams{
		Source: source, Types: w.types[source], Limit: limit, For: duration, Suspects: suspects,
		Skip: w.refusals[source].Resting(time.Now()), Refused: w.passOver(source),
	})
}

// runReserved runs reserved events, in one run. It leaves those that were due again before it could
// take them, and that another worker has reserved or run since.
func (w *Workers[T]) runReserved(ctx, workCtx context.Context, reserved []driver.TakenEvent, ready *prepared) ([]driver.TakenEvent, error) {
	if !w.budget.acquire(ctx, false) {
		return nil, nil
	}
	defer w.budget.release(false)
	keys, seen := make([]driver.Key, len(reserved)), make(map[driver.Key]*driver.TakenEvent)
	for i := range reserved {
		keys[i] = reserved[i].Key
		seen[keys[i]] = &reserved[i]
	}
	for len(keys) > 0 {
		run, err := w.takeReserved(workCtx, &driver.TakeParams{
			Source: reserved[0].Source, Keys: keys, Limit: len(keys), Beside: true, HandlerTimeout: w.o.HandlerTimeout,
		}, ready)
		if err != nil || run == nil {
			return nil, err
		}
		taken := run.Events()
		keys = keys[:0]
		for i := range taken {
			if !hadTurn(seen[taken[i].Key], &taken[i], false) {
				keys = append(keys, taken[i].Key)
			}
		}
		if len(keys) == len(taken) {
			alone, _ := w.work(ctx, workCtx, run, ready, false)
			return alone, nil
		}
		w.abandon(workCtx, run)
	}
	return nil, nil
}

// fetchFailure is a failed Refetch.
type fetchFailure struct {
	ev     *Event
	result driver.WorkResult
	err    error
}

// refetchAll fetches the current states for events, all at once.
func (w *Workers[T]) refetchAll(ctx context.Context, src *Source, events []driver.TakenEvent, ready *prepared) (map[driver.Key][]byte, map[driver.Key]*fetchFailure) {
	current := make(map[driver.Key][]byte)
	failures := make(map[driver.Key]*fetchFailure)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range events {
		ev := w.newEvent(&events[i])
		wg.Go(func() {
			began := time.Now()
			data, err := refetch(ctx, src, ev)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				current[ev.Key] = data
				return
			}
			result := judge(&ev.TakenEvent, w.o.Retry, err)
			result.Took, result.ReservedUntil, result.Line = time.Since(began), ev.DueAt, ready.lines[ev.Key]
			failures[ev.Key] = &fetchFailure{ev, result, err}
		})
	}
	wg.Wait()
	return current, failures
}

// refetch calls Refetch with its timeout. A call that does not return is left behind, and may go on reading its copy of
// the event.
func refetch(ctx context.Context, src *Source, ev *Event) ([]byte, error) {
	if ev.Unreadable != nil {
		return nil, unreadable(ev)
	}
	ctx, cancel := context.WithTimeout(ctx, src.RefetchTimeout)
	defer cancel()
	copied := *ev
	var data []byte // valid once done has received
	done := guard.Call("Refetch", func() (err error) {
		data, err = src.Refetch(ctx, &copied)
		return err
	})
	select {
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("getting the current state: %w", err)
		}
		return data, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("getting the current state: Refetch did not return within %s: %w", src.RefetchTimeout, ctx.Err())
	}
}

// recordReserved records failures of Refetch and tells the log and the observer, unless the stop of
// this process caused them.
func (w *Workers[T]) recordReserved(ctx, workCtx context.Context, failures map[driver.Key]*fetchFailure) {
	if len(failures) == 0 || workCtx.Err() != nil {
		return
	}
	p := &driver.FinishParams{}
	for _, f := range failures {
		p.Results = append(p.Results, f.result)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := w.db.RecordReserved(ctx, p); err != nil {
		for _, f := range failures {
			w.log.Warn("recording a failure failed; the event runs again", slog.String("source", f.ev.Source),
				slog.String("event_id", f.ev.EventID), slog.Any("error", err))
		}
	}
	for _, f := range failures {
		w.tellFailure(f.ev, &f.result, f.err)
	}
}
