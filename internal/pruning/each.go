package pruning

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// Each takes the steps of a pass one after the other, and returns the first error. A step that fails stops no other, unless
// the turn, the time or the connection is lost.
func Each(ctx context.Context, steps ...func(context.Context) error) (first error) {
	for _, step := range steps {
		err := step(ctx)
		if first == nil {
			first = err
		}
		if ctx.Err() != nil || errors.Is(err, driver.ErrTurnLost) || errors.Is(err, driver.ErrCommitUnknown) {
			break
		}
	}
	return first
}
