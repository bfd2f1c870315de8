package work_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/work"
)

const stops = "this process stops"

// Deliveries arrive all the time while Drain is called. Once it has returned, no handler begins.
func TestNoInlineHandlerBeginsAfterDrain(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var drained atomic.Bool
	began := make(chan struct{})
	var once sync.Once
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if drained.Load() {
			t.Errorf("the handler of %s began after Drain", ev.EventID)
		}
		once.Do(func() { close(began) })
		return insert(ctx, tx, ev)
	}, func(o *work.Options, _ *work.Source) { o.Workers = 4 })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; !drained.Load(); n++ {
				result := inline(t, w, newClaim(fmt.Sprint(i, "-", n), "{}"))
				if result.Err != nil {
					wantAnswer(t, "the last delivery", answer{Err: stops}, result)
					return
				}
			}
		})
	}
	<-began
	w.Drain()
	drained.Store(true)
	w.Drain() // again
	wg.Wait()
}

// Drain turns a delivery away that waits for a worker, and waits for the handler in progress.
func TestDrainWhileDeliveriesWait(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	began, release := make(chan struct{}), make(chan struct{})
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		close(began)
		<-release
		return insert(ctx, tx, ev)
	}, nil)
	var first, second, copied work.InlineResult
	var wg, waiting sync.WaitGroup
	wg.Go(func() { first = inline(t, w, newClaim("1", "{}")) })
	<-began
	waiting.Go(func() { second = inline(t, w, newClaim("2", "{}")) })
	wg.Go(func() { w.Drain() })
	waiting.Wait()
	wantAnswer(t, "second", answer{Err: stops}, second)
	wg.Go(func() { copied = inline(t, w, newClaim("1", "{}")) })
	close(release)
	wg.Wait()
	wantAnswer(t, "first", answer{Claimed: true}, first)
	if copied.Err != nil { // it came after the first had ended
		wantAnswer(t, "copy", answer{Err: stops}, copied)
	}
	wantEffects(t, db, "1")
}

func TestInlineAttempts(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var attempts []int
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		attempts = append(attempts, ev.Attempts+1)
		if len(attempts) < 3 {
			return errInjected
		}
		return insertCurrent(ctx, tx, ev)
	}, refetchBy(func(_ context.Context, ev *work.Event) ([]byte, error) {
		return []byte(fmt.Sprint("fetched in attempt ", ev.Attempts+1)), nil
	}))
	for range 2 {
		wantAnswer(t, "failed", answer{Claimed: true, Failure: "no stock"}, inline(t, w, newClaim("1", "{}")))
	}
	wantAnswer(t, "third", answer{Claimed: true}, inline(t, w, newClaim("1", "{}")))
	if diff := cmp.Diff([]int{1, 2, 3}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	want := done
	want.Attempts = 3
	compareOutcome(t, db, "1", want)
	wantEffects(t, db, "1 fetched in attempt 0") // the claim comes after Refetch, and knows the attempt
}
