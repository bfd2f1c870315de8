package pruning

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
)

// Each takes the steps of a pass one after the other, and returns the first error. A step that fails stops no other, unless
// the time is over. It returns at once if the turn is lost, or if the outcome of a commit is unknown.
func Each(ctx context.Context, steps ...func(context.Context) error) (first error) {
	for _, step := range steps {
		err := step(ctx)
		if errors.Is(err, driver.ErrTurnLost) || errors.Is(err, driver.ErrCommitUnknown) {
			return err
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}
