package hookpgx

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

// GiveBack ends the transaction of a run, and leaves its record.
func GiveBack(ctx context.Context, r driver.Run[pgx.Tx]) { r.(*run).Run.Tx().Rollback(ctx) }
