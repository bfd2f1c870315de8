package driver

import (
	"math/rand/v2"
	"time"
)

// Retry is a schedule of attempts: after attempt n the next one follows within a random time of up
// to First·2ⁿ⁻¹, and at most Max.
type Retry struct {
	Attempts int // in all
	First    time.Duration
	Max      time.Duration
}

// Backoff returns the delay after attempt n (from 1) failed, and at least atLeast, which is the
// Retry-After of a destination.
func (r Retry) Backoff(n int, atLeast time.Duration) time.Duration {
	return max(Backoff(r.First, r.Max, n), atLeast)
}

// AfterInterrupted returns the delay after attempt n (from 1) if its run is interrupted. last
// reports that no other attempt follows.
func (r Retry) AfterInterrupted(n int) (delay time.Duration, last bool) {
	return Backoff(r.First, r.Max, n), n >= r.Attempts
}

// Backoff returns the time to wait after attempt n (from 1) failed, with full jitter: a random time
// between 0 and first·2ⁿ⁻¹, and at most most.
func Backoff(first, most time.Duration, n int) time.Duration {
	most = max(most, 0)
	ceiling := min(max(first, 0), most)
	for i := 1; i < n && ceiling < most; i++ {
		ceiling += min(ceiling, most-ceiling)
	}
	return rand.N(ceiling + 1)
}
