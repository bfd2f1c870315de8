package hookpgx

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// run is a driver.Run.
type run struct {
	*pgstore.Run
	tx *handlerTx
}

func newRun(r *pgstore.Run) driver.Run[pgx.Tx] {
	return &run{r, &handlerTx{r.Tx().(*poolTx).tx, r}}
}

// Tx implements driver.Run. The Commit and Rollback of the transaction do nothing
// and return an error, because a run is ended by whoever took it.
func (r *run) Tx() pgx.Tx { return r.tx }

// Take implements [driver.Driver].
func (s *Store) Take(ctx context.Context, p *driver.TakeParams) (driver.Run[pgx.Tx], error) {
	r, err := s.Store.Take(ctx, p)
	if err != nil || r == nil {
		return nil, err
	}
	return newRun(r), nil
}

// TakeClaim implements [driver.Driver]. Settle and Abandon of its run do nothing but
// roll back, which undoes the claim; so does Finish where the outcome is a failure.
func (s *Store) TakeClaim(ctx context.Context, p *driver.ClaimParams) (driver.Run[pgx.Tx], driver.ClaimResult, error) {
	r, result, err := s.Store.TakeClaim(ctx, p)
	if err != nil || r == nil {
		return nil, result, err
	}
	return newRun(r), result, nil
}

// ClaimTx implements [driver.Driver].
func (s *Store) ClaimTx(ctx context.Context, tx pgx.Tx, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	return s.ClaimTxOn(ctx, txConn{tx}, p)
}

// EnqueueTx implements [driver.Driver].
func (s *Store) EnqueueTx(ctx context.Context, tx pgx.Tx, messages []driver.OutboxMessage) error {
	return s.EnqueueOn(ctx, txConn{tx}, messages)
}

// WorkLimits implements [driver.Driver]. Handlers may hold half of the caller's pool:
// leases, outcomes and pruning run on it too.
func (s *Store) WorkLimits() driver.WorkLimits {
	return pgstore.WorkLimits(int(s.work.Config().MaxConns))
}
