package claims

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// steadyBatches is the number of batches that must succeed in a row before batches grow.
const steadyBatches = 8

// pace bounds the claims of a batch. On a slow disk a large batch takes longer than its deliveries may
// wait, and its senders would all come back together. So the bound is halved when a batch times out,
// and grows by an eighth after steadyBatches that succeed. The queue's lock guards it.
type pace struct {
	limit  int
	steady int // batches that succeeded since the bound was changed
}

// after adapts the bound to a batch.
func (p *pace) after(b *batch) {
	switch {
	case b.timedOut > 1: // one claim alone cannot be made smaller
		p.limit, p.steady = min(p.limit, b.timedOut/2), 0
	case b.timedOut == 0 && !b.failed:
		if p.steady++; p.steady == steadyBatches {
			p.limit, p.steady = min(MaxBatch, p.limit+p.limit/8+1), 0
		}
	}
}

// timedOut reports whether a claim under ctx failed with err because it took too long.
func timedOut(ctx context.Context, err error) bool {
	return err != nil && (errors.Is(err, driver.ErrTimedOut) || ctx.Err() != nil)
}
