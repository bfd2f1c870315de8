package hookonce

import (
	"context"
	"fmt"
	"time"
)

// Clock compares this machine's clock with the database's. skew is how far this
// machine's is ahead, negative where it is behind. limit is how far it may be
// off, either way, until Ready refuses, because timestamps of now may look
// stale: half of the smallest tolerance of the sources; 0 if none has one.
func (in *Engine) Clock(ctx context.Context) (skew, limit time.Duration, err error) {
	if err := in.readClock(ctx); err != nil {
		return 0, 0, fmt.Errorf("hookonce: the database does not answer: %w", err)
	}
	for _, src := range in.setup.Load().sources {
		if half := src.tolerance / 2; half > 0 && (limit == 0 || half < limit) {
			limit = half
		}
	}
	return time.Duration(in.skew.Load()), limit, nil
}
