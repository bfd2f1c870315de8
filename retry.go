package hookonce

import (
	"math/rand/v2"
	"time"
)

// backoff returns the time to wait after attempt n (from 1) failed: full
// jitter, a random time between 0 and First·2ⁿ⁻¹, which is capped at Max. A
// destination's Retry-After is a floor.
func (r Retry) backoff(n int, retryAfter time.Duration) time.Duration {
	ceiling := r.First
	for i := 1; i < n && ceiling < r.Max; i++ {
		ceiling *= 2
	}
	return max(rand.N(min(ceiling, r.Max)+1), retryAfter)
}
