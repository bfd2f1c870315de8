package adminclient

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// ReplaySafely is ReplayEvent with retries if the commit's outcome is unknown or the database aborted
// the transaction because of a conflict. The request id makes that safe, and must not be "".
func (c *Client) ReplaySafely(ctx context.Context, source, eventID, requestID string, how *hookadmin.ReplayRequest) (*hookadmin.Replayed, error) {
	const tries = 3
	for try := 1; ; try++ {
		replayed, err := c.ReplayEvent(ctx, source, eventID, requestID, how)
		again := errors.Is(err, driver.ErrCommitUnknown) || errors.Is(err, driver.ErrSerialization)
		if !again || try == tries || ctx.Err() != nil {
			return replayed, err
		}
	}
}
