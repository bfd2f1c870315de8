package adminclient

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

const (
	jobPause = 200 * time.Millisecond // between two looks at a job
	// cancelLimit bounds the cancellation of a job after an interruption.
	cancelLimit = 10 * time.Second
)

// RunJob has the gateway carry out a job, and calls progress with its state until it ends. The same
// requestID continues a job that was cancelled. When ctx ends, RunJob cancels the job, and returns its
// last state with the error of ctx.
func (c *Client) RunJob(ctx context.Context, requestID string, q *hookadmin.JobRequest, progress func(*hookadmin.Job)) (*hookadmin.Job, error) {
	q.Start = true
	job, err := post[hookadmin.Job](ctx, c, api+"/jobs", requestID, q)
	if err == nil && (job.State == driver.JobCancelled || job.State == driver.JobPlanned) {
		job, err = post[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID, "start"), "", nil)
	}
	return c.followJob(ctx, job, err, progress)
}

// followJob calls progress with the state of a job, which may have failed to start, until it ends, and
// cancels it when ctx ends.
func (c *Client) followJob(ctx context.Context, job *hookadmin.Job, err error, progress func(*hookadmin.Job)) (*hookadmin.Job, error) {
	for err == nil && !jobEnded(job) {
		progress(job)
		select {
		case <-time.After(jobPause):
			var seen *hookadmin.Job
			if seen, err = get[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID), nil); err == nil {
				job = seen
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if job != nil && ctx.Err() != nil {
		return c.cancelJob(job, ctx.Err())
	}
	return job, err
}

// cancelJob cancels a job after an interruption, and returns its state and cause.
func (c *Client) cancelJob(job *hookadmin.Job, cause error) (*hookadmin.Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelLimit)
	defer cancel()
	seen, err := post[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID, "cancel"), "", nil)
	if err == nil {
		return seen, cause
	}
	if seen, notSeen := get[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID), nil); notSeen == nil && jobEnded(seen) {
		return seen, nil // it was faster
	}
	return job, err
}

// jobEnded reports whether a job changes nothing more, unless it is started again.
func jobEnded(j *hookadmin.Job) bool {
	return j.State != driver.JobRunning && j.State != driver.JobPlanned
}
