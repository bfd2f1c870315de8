package hookpgx

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pgsession"
)

// GiveBack ends the transaction of a run, and keeps its record.
func GiveBack(ctx context.Context, r driver.Run[pgx.Tx]) {
	r.(*pgsession.Run[pgx.Tx]).Run.Tx().Rollback(ctx)
}

// WorkPool returns the pool of handlers, leases and outcomes.
func WorkPool(s *Store) *pgxpool.Pool { return s.work }
