package adminclient

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// JobRequest is a bulk change that the gateway carries out as a job.
type JobRequest struct {
	Of     string    `json:"of"`     // dead_letters or events
	Action string    `json:"action"` // replay or discard
	Mode   string    `json:"mode,omitempty"`
	Rate   string    `json:"rate,omitempty"`
	Filter JobFilter `json:"filter"`
	Start  bool      `json:"start,omitempty"`
}

// JobFilter selects the rows of a job.
type JobFilter struct {
	Source      string   `json:"source,omitempty"`
	Type        string   `json:"type,omitempty"`
	Destination string   `json:"destination,omitempty"`
	State       string   `json:"state,omitempty"`
	Note        string   `json:"note,omitempty"`
	IDs         []string `json:"ids,omitempty"`
	Q           string   `json:"q,omitempty"`
	Since       string   `json:"since,omitempty"`
	Until       string   `json:"until,omitempty"`
	All         bool     `json:"all,omitempty"`
}

// Job is the part of a job that a command shows.
type Job struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Count     int64  `json:"count,string"`
	Done      int64  `json:"done,string"`
	Skipped   int64  `json:"skipped,string"`
	Failed    int64  `json:"failed,string"`
	LastError string `json:"last_error"`
}

// Ended reports whether the job changes nothing more, unless it is started again.
func (j *Job) Ended() bool { return j.State != driver.JobRunning && j.State != driver.JobPlanned }

const (
	jobPause = 200 * time.Millisecond // between two looks at a job
	// cancelLimit bounds the cancellation of a job after an interruption.
	cancelLimit = 10 * time.Second
)

// RunJob has the gateway carry out a job, and calls progress with its state until it ends. The same
// requestID continues a job that was cancelled. When ctx ends, RunJob cancels the job, and returns its
// last state with the error of ctx.
func (c *Client) RunJob(ctx context.Context, requestID string, q *JobRequest, progress func(*Job)) (*Job, error) {
	q.Start = true
	job, err := post[Job](ctx, c, api+"/jobs", requestID, q)
	if err == nil && (job.State == driver.JobCancelled || job.State == driver.JobPlanned) {
		job, err = post[Job](ctx, c, api+"/jobs"+Path(job.ID, "start"), "", nil)
	}
	return c.followJob(ctx, job, err, progress)
}

// followJob calls progress with the state of a job, which may have failed to start, until it ends, and
// cancels it when ctx ends.
func (c *Client) followJob(ctx context.Context, job *Job, err error, progress func(*Job)) (*Job, error) {
	for err == nil && !job.Ended() {
		progress(job)
		select {
		case <-time.After(jobPause):
			var seen *Job
			if seen, err = get[Job](ctx, c, api+"/jobs"+Path(job.ID), nil); err == nil {
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
func (c *Client) cancelJob(job *Job, cause error) (*Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelLimit)
	defer cancel()
	seen, err := post[Job](ctx, c, api+"/jobs"+Path(job.ID, "cancel"), "", nil)
	if err == nil {
		return seen, cause
	}
	if seen, notSeen := get[Job](ctx, c, api+"/jobs"+Path(job.ID), nil); notSeen == nil && seen.Ended() {
		return seen, nil // it was faster
	}
	return job, err
}
