package app

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// checkClaim makes a claim and takes it back: a full disk answers questions.
func checkClaim(ctx context.Context, store driver.Store) Check {
	const name = "claim"
	err := store.ProbeClaim(ctx)
	if err == nil {
		return ok(name, "a test claim was made, and taken back")
	}
	c := failed(name, err)
	if errors.Is(err, driver.ErrFull) {
		c.Remedy = "free some space on the disk of the database; deliveries are accepted again by themselves"
	}
	return c
}
