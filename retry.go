package hookonce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// backoff returns the time to wait after attempt n (from 1) failed; a destination's
// Retry-After is a floor.
func (r Retry) backoff(n int, retryAfter time.Duration) time.Duration {
	return max(driver.Backoff(r.First, r.Max, n), retryAfter)
}

func (r Retry) check() error {
	switch {
	case r.Attempts < 0 || r.First < 0 || r.Max < 0:
		return fmt.Errorf("attempts %d, first %s and max %s must not be negative", r.Attempts, r.First, r.Max)
	case r.First > maxRetryMax || r.Max > maxRetryMax:
		return fmt.Errorf("first %s and max %s must not be above %s", r.First, r.Max, maxRetryMax)
	case r.Max < r.First:
		return fmt.Errorf("max %s must not be below first %s", r.Max, r.First)
	}
	return nil
}

// sleep waits for a random time of up to d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(rand.N(d + 1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
