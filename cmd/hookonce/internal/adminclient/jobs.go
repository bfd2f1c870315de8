package adminclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

const (
	// minPause and maxPause bound the time between two looks at a job.
	minPause, maxPause = 10 * time.Millisecond, 200 * time.Millisecond
	// cancelLimit bounds the cancellation of a job after an interruption.
	cancelLimit = 10 * time.Second
)

// RunJob starts a job, or continues the one of the same requestID, and calls progress with its state until it
// ends. When ctx ends, RunJob cancels the job, and returns its last state with the error of ctx. It also returns
// an error if the job failed or was cancelled.
func (c *Client) RunJob(ctx context.Context, requestID string, q *hookadmin.JobRequest, progress func(*hookadmin.Job)) (*hookadmin.Job, error) {
	q.Start = true
	job, err := post[hookadmin.Job](ctx, c, api+"/jobs", requestID, q)
	if err == nil && (job.State == driver.JobCancelled || job.State == driver.JobPlanned) {
		job, err = post[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID, "start"), "", nil)
	}
	return c.followJob(ctx, job, err, progress)
}

// followJob calls progress with the state of a job, which may have failed to start, until it ends, and
// cancels it when ctx ends. Without a gateway it works on the job meanwhile.
func (c *Client) followJob(ctx context.Context, job *hookadmin.Job, err error, progress func(*hookadmin.Job)) (*hookadmin.Job, error) {
	if err == nil && c.Work != nil {
		working, stop := context.WithCancel(ctx)
		var worker sync.WaitGroup
		worker.Go(func() { c.Work(working, job.ID) })
		defer worker.Wait()
		defer stop()
	}
	for pause := minPause; err == nil && !jobEnded(job); pause = min(2*pause, maxPause) {
		progress(job)
		select {
		case <-time.After(pause):
			var seen *hookadmin.Job
			if seen, err = get[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID), nil); err == nil {
				job = seen
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case job != nil && ctx.Err() != nil && !jobEnded(job):
		return c.cancelJob(job, ctx.Err())
	case err == nil && job.State != driver.JobDone:
		err = errors.New(strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", job.ID, job.State, job.LastError), ": "))
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
