package work_test

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/work"
)

// A callback ends its goroutine, or panics, for each of many events. Each of them costs one step at
// most: no worker, no room for handlers and no transaction is lost.
func TestCallbacksThatEndTheirGoroutine(t *testing.T) {
	t.Parallel()
	const events = 6 // more than there is room for handlers
	for name, end := range map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("boom") }} {
		t.Run("Observer, "+name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			w := newWorkers(db, insert, func(o *work.Options, _ *work.Source) {
				o.Batch = 1
				o.Observe = func(*work.Observed) { end() }
			})
			runAll(t, db, w, events)
		})
		t.Run("commit, "+name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			var ended atomic.Int64
			db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
				if ended.Add(1) <= events {
					end()
				}
				return run.Finish(ctx, p)
			}
			runAll(t, db, newWorkers(db, insert, func(o *work.Options, _ *work.Source) { o.Batch = 1 }), events)
		})
	}
}

func runAll(t *testing.T, db *database, w *workers, events int) {
	t.Helper()
	var ids []string
	for i := range events {
		ids = append(ids, fmt.Sprint(i))
	}
	claimInTurn(t, db, ids...)
	run(t, w)
	for _, id := range ids {
		wantOutcome(t, db, id, done)
	}
	wantEffects(t, db, ids...)
}

// A callback ends the goroutine of an Inline run before its commit. Its transaction is rolled back,
// so the next delivery is not held up.
func TestInlineCommitThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var ended atomic.Bool
	db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
		if !ended.Swap(true) {
			runtime.Goexit()
		}
		return run.Finish(ctx, p)
	}
	w := newWorkers(db, insert, nil)
	wantAnswer(t, "while it ends goroutines", answer{Err: "was ended by a callback"}, inline(t, w, newClaim("1", "{}")))
	wantAnswer(t, "afterwards", answer{Claimed: true}, inline(t, w, newClaim("1", "{}")))
	wantEffects(t, db, "1")
}
