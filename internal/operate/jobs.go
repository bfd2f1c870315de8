package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/limit"
)

// Request describes a bulk action.
type Request struct {
	Of     string // driver.JobOfDeadLetters or driver.JobOfEvents
	Action string // driver.JobReplay or driver.JobDiscard
	// Mode is that of a replay of events: "as_new", "same_id", "reroute", driver.JobTo and the name of a
	// destination, or "" for events that are dead or skipped.
	Mode string
	// Rate is the pace as limit.ParsePace reads it. Defaults to 100 a second for a replay, and to
	// limit.Unpaced for a discard.
	Rate   string
	Select driver.JobSelection
	// RequestID makes the request repeatable, if it is not "": a repeated one gets the same job. At
	// most 255 bytes without control characters.
	RequestID string
	Start     bool // the job begins at once

	many bool // it selects more than ManyDeadLetters
}

// PlanJob counts the rows that a job would change, up to 100,000 and for at most 2 s, and stores the
// job. It does nothing until StartJob, unless r.Start is set. Every engine that runs works on started
// jobs of its database, each job in one process at a time; after the end of that process another one
// goes on. A job changes each row at most once, and no dead letter that died after it began.
//
// The error matches driver.ErrRequestReused if the RequestID was used for another job.
func (o *Operator) PlanJob(ctx context.Context, r *Request) (*driver.Job, error) {
	job, err := o.addJob(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	o.jobs.Wake()
	return job, nil
}

func (o *Operator) addJob(ctx context.Context, r *Request) (*driver.Job, error) {
	spec := driver.JobSpec{Of: r.Of, Action: r.Action, Mode: r.Mode, Rate: r.Rate}
	_, badRate := pace(&spec)
	mode, to, badMode := jobs.Mode(r.Mode)
	if badMode == nil {
		badMode = o.checkTo(mode, to)
	}
	selection, badFilter := json.Marshal(r.Select)
	if err := errors.Join(CheckRequestID(r.RequestID), badRate, badMode, badFilter); err != nil {
		return nil, err
	}
	plan := &driver.JobPlan{}
	if r.Action != driver.JobUndo {
		var err error
		if plan, err = jobs.Plan(ctx, o.store, r.Of, &r.Select, o.foresee(mode, to, r.Select.Note)); err != nil {
			return nil, err
		}
		r.many = plan.Count > ManyDeadLetters || plan.More
	}
	counted, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	spec.Filter = string(selection)
	return o.store.AddJob(ctx, &driver.AddJobParams{
		ID: "job_" + rand.Text(), JobSpec: spec, Plan: string(counted), RequestID: r.RequestID, Start: r.Start,
	})
}

// Do is PlanJob with a start. It works on a job of at most ManyDeadLetters for up to 2 s, without a pace
// unless r has one. A job that is not done then runs on, in the engines that run.
func (o *Operator) Do(ctx context.Context, r *Request) (*driver.Job, error) {
	r.Start = true
	job, err := o.addJob(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("hookonce: start a job: %w", err)
	}
	defer o.jobs.Wake()
	if r.many {
		return job, nil
	}
	runner := o.jobs
	if r.Rate == "" {
		runner = runner.Unpaced()
	}
	ctx, cancel := context.WithTimeout(ctx, atOnce)
	defer cancel()
	if seen, _ := runner.Work(ctx, job.ID); seen != nil { // after an error the job runs on
		job = seen
	}
	return job, nil
}

// DoAll is PlanJob with a start. It works on the job until it ends, at its pace. A repeated RequestID continues
// a job that was cancelled. When ctx ends, DoAll cancels the job, which tells how far it came.
func (o *Operator) DoAll(ctx context.Context, r *Request) (*driver.Job, error) {
	r.Start = true
	job, err := o.addJob(ctx, r)
	if err == nil && (job.State == driver.JobPlanned || job.State == driver.JobCancelled) {
		job, err = o.store.StartJob(ctx, &driver.ChangeJobParams{ID: job.ID})
	}
	if err != nil {
		return nil, fmt.Errorf("hookonce: start a job: %w", err)
	}
	seen, err := o.Work(ctx, job.ID)
	if err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), atOnce)
		defer cancel()
		if stopped, failed := o.CancelJob(stopping, job.ID); failed == nil {
			seen = stopped
		}
	}
	switch job = cmp.Or(seen, job); {
	case err == nil && job.State == driver.JobFailed:
		err = errors.New(job.LastError)
	case err == nil && job.State != driver.JobDone:
		err = errors.New("it was cancelled")
	}
	if err != nil {
		err = fmt.Errorf("hookonce: job %q: %w", job.ID, err)
	}
	return job, err
}

// Work works on a running job until it ends or is cancelled, and returns its last state. When ctx ends,
// another process goes on.
func (o *Operator) Work(ctx context.Context, id string) (*driver.Job, error) {
	return o.jobs.Work(ctx, id)
}

// UndoRequest returns the request of a job that makes the letters dead again that a request or job discarded, as
// they were before. operation is the id of the job or of its request. The error matches driver.ErrNotFound;
// driver.ErrTooLate if the last one was discarded more than driver.UndoTime ago; or driver.ErrOpen
// while the job runs.
func (o *Operator) UndoRequest(ctx context.Context, operation string) (*Request, error) {
	job, err := o.store.Job(ctx, operation)
	switch {
	case err == nil && job.State == driver.JobRunning:
		err = driver.ErrOpen
	case err == nil:
		operation = job.ID
	case errors.Is(err, driver.ErrNotFound):
		err = nil
	}
	var found *driver.Discarded
	if err == nil {
		found, err = o.store.Discards(ctx, operation)
	}
	if err == nil && !found.Recent {
		err = driver.ErrTooLate
	}
	if err != nil {
		return nil, fmt.Errorf("hookonce: undo: %w", err)
	}
	return &Request{
		Of: driver.JobOfDeadLetters, Action: driver.JobUndo, Select: driver.JobSelection{RequestID: operation}, many: found.Count > ManyDeadLetters,
	}, nil
}

// StartJob starts a planned job, or a cancelled one from where it was. The error matches
// driver.ErrNotFound, or driver.ErrJobEnded for a job that is done or has failed.
func (o *Operator) StartJob(ctx context.Context, id string) (*driver.Job, error) {
	job, err := o.store.StartJob(ctx, &driver.ChangeJobParams{ID: id})
	if err != nil {
		return nil, fmt.Errorf("hookonce: start job %q: %w", id, err)
	}
	o.log.Info("job started", slog.String("job", id))
	o.jobs.Wake()
	return job, nil
}

// CancelJob stops a job. When it returns, the job changes nothing more, except for an event that it is
// replaying. Errors are those of StartJob.
func (o *Operator) CancelJob(ctx context.Context, id string) (*driver.Job, error) {
	job, err := o.store.CancelJob(ctx, &driver.ChangeJobParams{ID: id})
	if err != nil {
		return nil, fmt.Errorf("hookonce: cancel job %q: %w", id, err)
	}
	o.log.Info("job cancelled", slog.String("job", id))
	return job, nil
}

// ManyDeadLetters is the largest number of dead letters that Do works on.
const ManyDeadLetters = 1000

// atOnce bounds the work of Do on a job.
const atOnce = 2 * time.Second

// JobRate returns the pace of a job, with its default.
func JobRate(spec *driver.JobSpec) (limit.Rate, error) {
	rate, err := limit.ParsePace(spec.Rate)
	switch {
	case err != nil:
		return limit.Rate{}, fmt.Errorf("rate: %q %w", spec.Rate, err)
	case rate.Count > 0:
		return rate, nil
	case spec.Action == driver.JobReplay:
		return defaults.ReplayRate, nil
	}
	return limit.Unpaced, nil
}

// pace returns the bucket for the pace of a job.
func pace(spec *driver.JobSpec) (*limit.Bucket, error) {
	rate, err := JobRate(spec)
	if err != nil {
		return nil, err
	}
	return limit.NewPace(rate.Count, rate.Per), nil
}
