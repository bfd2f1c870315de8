package app

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// checkClaim lets the database prove itself: a full disk answers questions, and some engines lack what hookonce needs.
func checkClaim(ctx context.Context, store driver.Store) Check {
	const name = "claim"
	skipped, err := store.Prove(ctx)
	if err == nil {
		c := ok(name, "a test claim and its duplicate were made, and taken back")
		c.Seen = append(c.Seen, skipped...)
		return c
	}
	c := failed(name, err)
	refused, _ := refusalOf(err)
	switch {
	case errors.Is(err, driver.ErrFull):
		c.Remedy = "free some space on the disk of the database; deliveries are accepted again by themselves"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, driver.ErrLockTimeout):
		c.Remedy = "look for a transaction that holds a lock: fuser -v FILE for SQLite, pg_stat_activity for PostgreSQL; end it"
	case refused != nil && refused.SQLState() == stateNoPrivilege:
		c.Remedy = "let the owner of the schema run the output of: hookonce migrate grants --role NAME"
	}
	return c
}
