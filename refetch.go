package hookonce

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// stepRefetch is step for a source with Refetch: it reserves events, gets the
// current state of what they are about, and then takes them. A process that is
// killed in between costs them the time of the reservation, and no attempt.
func (w *works[T]) stepRefetch(ctx, workCtx context.Context, src *source) (more bool, err error) {
	limit := min(w.in.cfg.Batch, maxRefetch)
	reserveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	reserved, err := w.db.Reserve(reserveCtx, &driver.ReserveParams{
		Source: src.Name, Types: w.types[src.Name], Limit: limit, For: src.RefetchTimeout + refetchMargin,
	})
	if err != nil || len(reserved) == 0 {
		return false, err
	}
	current, failures := w.refetchAll(workCtx, src, reserved)
	w.recordReserved(ctx, workCtx, failures)
	var fresh []driver.Key
	var alone []driver.TakenEvent
	for i := range reserved {
		e := &reserved[i]
		switch {
		case failures[e.Key] != nil:
		case e.Attempts > 0 || e.Crashes > 0:
			alone = append(alone, *e)
		default:
			fresh = append(fresh, e.Key)
		}
	}
	if len(fresh) > 0 {
		failed, err := w.takeFetched(ctx, workCtx, src.Name, fresh, current)
		if err != nil {
			return false, err
		}
		alone = append(alone, failed...)
	}
	w.workAlone(ctx, workCtx, alone, current)
	return len(reserved) == limit, nil
}

func (w *works[T]) takeFetched(ctx, workCtx context.Context, source string, keys []driver.Key, current map[driver.Key][]byte) ([]driver.TakenEvent, error) {
	w.quiet.RLock()
	defer w.quiet.RUnlock()
	run, err := w.take(workCtx, &driver.TakeParams{
		Source: source, Keys: keys, Limit: len(keys), HandlerTimeout: w.in.cfg.HandlerTimeout,
	})
	if err != nil || run == nil {
		return nil, err
	}
	alone, _ := w.work(ctx, workCtx, run, current, false)
	return alone, nil
}

// refetchAll gets what the events are about, all at once.
func (w *works[T]) refetchAll(ctx context.Context, src *source, events []driver.TakenEvent) (map[driver.Key][]byte, map[driver.Key]*driver.WorkResult) {
	current := make(map[driver.Key][]byte)
	failures := make(map[driver.Key]*driver.WorkResult)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range events {
		wg.Go(func() {
			taken := &events[i]
			ev := eventOf(taken, w.log)
			began := time.Now()
			data, err := refetch(ctx, src, ev)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				current[taken.Key] = data
				return
			}
			result := judge(taken, w.in.cfg.Retry, err)
			result.Took = time.Since(began)
			failures[taken.Key] = &result
			if ctx.Err() == nil {
				w.in.tellFailure(ev, &result, err)
			}
		})
	}
	wg.Wait()
	return current, failures
}

// refetch calls Refetch in its time. One that does not return is left behind.
func refetch(ctx context.Context, src *source, ev *Event) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, src.RefetchTimeout)
	defer cancel()
	var data []byte // not to be looked at before done
	done := guarded("Refetch", func() (err error) {
		data, err = src.Refetch(ctx, ev)
		return err
	})
	select {
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("getting the current state: %w", err)
		}
		return data, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("getting the current state: nothing came within %s: %w", src.RefetchTimeout, ctx.Err())
	}
}

// recordReserved records failures to get the current state; not those that our own
// stop caused.
func (w *works[T]) recordReserved(ctx, workCtx context.Context, failures map[driver.Key]*driver.WorkResult) {
	if len(failures) == 0 || workCtx.Err() != nil {
		return
	}
	p := &driver.FinishParams{}
	for _, result := range failures {
		p.Results = append(p.Results, *result)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	if err := w.db.RecordReserved(ctx, p); err != nil {
		w.log.Warn("failures were not recorded; their events are tried again", slog.Any("error", err))
	}
}
