package pgsession

import (
	"context"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// Store is a pgstore.Store whose handlers work in a T. It implements all of [driver.Driver] except
// Close, ClaimConcurrency and WorkLimits, which depend on the client's pools.
type Store[T any] struct {
	*pgstore.Store
	ofRun func(*pgstore.Run, RunTx) T
	conn  func(T) pgstore.Conn
}

// NewStore returns a store. ofRun returns the transaction of a run as its handlers get it. conn
// returns a connection that runs statements in a caller's transaction.
func NewStore[T any](store *pgstore.Store, ofRun func(*pgstore.Run, RunTx) T, conn func(T) pgstore.Conn) *Store[T] {
	return &Store[T]{store, ofRun, conn}
}

// Run is a [driver.Run].
type Run[T any] struct {
	*pgstore.Run
	tx T
}

// Tx implements [driver.Run].
func (r *Run[T]) Tx() T { return r.tx }

// run returns nil for no run, and not an interface that holds nil.
func (s *Store[T]) run(r *pgstore.Run) driver.Run[T] {
	if r == nil {
		return nil
	}
	return &Run[T]{r, s.ofRun(r, r.Tx().(*runTx).tx)}
}

// Take implements [driver.Driver].
func (s *Store[T]) Take(ctx context.Context, p *driver.TakeParams) (driver.Run[T], error) {
	r, err := s.Store.Take(ctx, p)
	return s.run(r), err
}

// TakeClaim implements [driver.Driver]. Settle and Abandon of its run only roll back, which undoes
// the claim. So does Finish if the outcome is a failure.
func (s *Store[T]) TakeClaim(ctx context.Context, p *driver.ClaimParams) (driver.Run[T], driver.ClaimResult, error) {
	r, result, err := s.Store.TakeClaim(ctx, p)
	return s.run(r), result, err
}

// CheckHandlers implements [driver.Driver]. Every driver will do.
func (s *Store[T]) CheckHandlers(context.Context) error { return nil }

// ClaimTx implements [driver.Driver].
func (s *Store[T]) ClaimTx(ctx context.Context, tx T, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	return s.ClaimTxOn(ctx, s.conn(tx), p)
}

// EnqueueTx implements [driver.Driver].
func (s *Store[T]) EnqueueTx(ctx context.Context, tx T, messages []driver.OutboxMessage) error {
	return s.EnqueueOn(ctx, s.conn(tx), messages)
}
