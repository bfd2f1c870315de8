package driver

import (
	"context"
	"errors"
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

// MaxAhead is how far ahead due times may lie, apart from those of failed attempts with a longer
// wait. Leases and reservations are shorter.
const MaxAhead = 24 * time.Hour

// LongestLease is the longest lease: the longest timeout of a destination, and the time to record the outcome.
const LongestLease = time.Hour + 5*time.Second

// PullBackParams are the parameters of Store.PullBack.
type PullBackParams struct {
	Sources, Destinations []string // whose events and messages to look at
	Armable               []string // sources that may be armed
	Limit                 int
	// Ahead is how far ahead due times may lie, as MaxAhead, which 0 means. A small one reads all that wait.
	Ahead time.Duration
	Now   time.Time // tests only; zero means the database's clock
}

// reopenWait is how long the delivery of a dead event waits for another session that has locked the event.
const reopenWait = time.Second

// ReopenOne reopens one event for its delivery, by Store.Reopen. It waits for a second at most for another session that has
// locked the event, and then fails with ErrLockTimeout.
func ReopenOne(ctx context.Context, s interface {
	Reopen(ctx context.Context, p *ReopenParams) (reopened, held []Key, err error)
}, key Key,
) (bool, error) {
	reopened, held, err := s.Reopen(ctx, &ReopenParams{Keys: []Key{key}, Wait: reopenWait})
	if len(held) > 0 {
		err = ErrLockTimeout
	}
	return len(reopened) > 0, err
}

// FaultOfRows reports whether err is the fault of single rows of a statement and nothing was
// written. The statement may succeed for halves of its rows.
func FaultOfRows(err error) bool {
	return errors.Is(err, ErrBadRow) || errors.Is(err, ErrNotStored) || errors.Is(err, ErrLockTimeout) ||
		errors.Is(err, ErrSerialization)
}
