package sqlitestore

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// apart is a transaction that runs as a whole in a goroutine of its own, so that its caller can leave it at any
// moment. Other transactions hand only their BEGIN and their COMMIT over to a goroutine, and a stalled disk may
// delay them in between. A claim must not be delayed, and one hand-over is cheaper than two.
type apart struct{ stage atomic.Int32 }

// Stages of a transaction apart.
const (
	open int32 = iota
	committing
	left // by its caller, before the commit: it is rolled back
)

// commits reports whether the transaction may commit. Then its caller cannot end it any more.
func (a *apart) commits() bool { return a.stage.CompareAndSwap(open, committing) }

// leave reports whether the transaction will be rolled back.
func (a *apart) leave() bool { return a.stage.CompareAndSwap(open, left) }

// writeEachApart is writeEach for a sender that waits: see writeApart.
func (s *Store) writeEachApart(ctx context.Context, op string, at time.Time, n int, step func(t *writeTx, i int) error) error {
	if n == 0 {
		return nil
	}
	return s.writeApart(ctx, op, allSteps(at, n, step))
}

// writeApart is write in a goroutine of its own. If ctx ends first, work may still run for a while. The caller then
// leaves alone what work reads and writes.
func (s *Store) writeApart(ctx context.Context, op string, work func(t *writeTx) error) error {
	a, done := new(apart), make(chan error, 1)
	s.detached.Go(func() { done <- s.writeIn(ctx, a, op, recovering(work)) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if a.leave() {
		return fmt.Errorf("%s: %w: %w", op, driver.ErrUnavailable, context.Cause(ctx))
	}
	return leftCommit(ctx, op, done)
}

// recovering returns work whose panic is an error: its goroutine has no caller that could recover it. The transaction is rolled back.
func recovering(work func(t *writeTx) error) func(t *writeTx) error {
	return func(t *writeTx) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%w: panic: %v\n%s", driver.ErrUnavailable, v, debug.Stack())
			}
		}()
		return work(t)
	}
}
