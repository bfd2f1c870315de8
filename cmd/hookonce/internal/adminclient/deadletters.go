package adminclient

import (
	"context"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// ReplayAllDead replays every dead letter, and returns their number.
func (c *Client) ReplayAllDead(ctx context.Context) (int, error) {
	job, err := c.RunJob(ctx, "", &hookadmin.JobRequest{Action: driver.JobReplay, Filter: hookadmin.JobFilter{All: true}}, func(*hookadmin.Job) {})
	if job == nil {
		return 0, err
	}
	return int(job.Done), err
}

// Undo takes a discard back. If the gateway does it by a job, Undo waits for the end of the job, and calls progress
// meanwhile. The error matches driver.ErrNotFound, driver.ErrTooLate or driver.ErrOpen. Repeating it is
// safe.
func (c *Client) Undo(ctx context.Context, requestID string, progress func(*hookadmin.Job)) (*hookadmin.Undone, error) {
	var answer struct {
		hookadmin.Undone
		hookadmin.Accepted
	}
	err := c.Post(ctx, api+"/dead-letters/undo", "", &hookadmin.UndoRequest{RequestID: requestID}, &answer)
	if err != nil || answer.Job == "" {
		return &answer.Undone, err
	}
	job, err := get[hookadmin.Job](ctx, c, api+"/jobs"+Path(answer.Job), nil)
	job, err = c.followJob(ctx, job, err, progress)
	if job == nil {
		return &answer.Undone, err
	}
	return hookadmin.NewUndone(job), err
}
