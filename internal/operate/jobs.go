package operate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/limit"
)

// Request describes a bulk action.
type Request struct {
	Of     string // driver.JobOfDeadLetters or driver.JobOfEvents
	Action string // driver.JobReplay or driver.JobDiscard
	Mode   string // of a replay of events: "as_new", "same_id", or "" for events that are dead or skipped
	// Rate is the pace as limit.ParsePace reads it. Defaults to 100 a second for a replay, and to
	// limit.Unpaced for a discard.
	Rate   string
	Select driver.JobSelection
	// RequestID makes the request repeatable, if it is not "": a repeated one gets the same job. At
	// most 255 bytes without control characters.
	RequestID string
	Start     bool // the job begins at once
}

// PlanJob counts the rows that a job would change, up to 100,000 and for at most 2 s, and stores the
// job. It does nothing until StartJob, unless r.Start is set. Every engine that runs works on started
// jobs of its database, each job in one process at a time; after the end of that process another one
// goes on. A job changes each row at most once, and no dead letter that died after it began.
//
// The error matches driver.ErrRequestReused if the RequestID was used for another job.
func (o *Operator) PlanJob(ctx context.Context, r *Request) (*driver.Job, error) {
	spec := driver.JobSpec{Of: r.Of, Action: r.Action, Mode: r.Mode, Rate: r.Rate}
	_, badRate := pace(&spec)
	_, badMode := jobs.Mode(r.Mode)
	if err := errors.Join(CheckRequestID(r.RequestID), badRate, badMode); err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	plan := &driver.JobPlan{}
	if r.Action != driver.JobUndo {
		var err error
		if plan, err = jobs.Plan(ctx, o.store, r.Of, &r.Select, jobs.MaxCount); err != nil {
			return nil, fmt.Errorf("hookonce: plan a job: %w", err)
		}
	}
	return o.addJob(ctx, r, &spec, plan)
}

func (o *Operator) addJob(ctx context.Context, r *Request, spec *driver.JobSpec, plan *driver.JobPlan) (*driver.Job, error) {
	selection, err := json.Marshal(r.Select)
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	counted, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	spec.Filter = string(selection)
	job, err := o.store.AddJob(ctx, &driver.AddJobParams{
		ID: "job_" + rand.Text(), JobSpec: *spec, Plan: string(counted), RequestID: r.RequestID, Start: r.Start,
	})
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	o.jobs.Wake()
	return job, nil
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

// ManyDeadLetters is the number of dead letters above which a replay, a discard or an undoing is
// better a job.
const ManyDeadLetters = 1000

// HasMany reports whether a selection has more than ManyDeadLetters, or takes more than 2 s to count.
func (o *Operator) HasMany(ctx context.Context, sel *driver.JobSelection) (bool, error) {
	plan, err := jobs.Plan(ctx, o.store, driver.JobOfDeadLetters, sel, ManyDeadLetters)
	if err != nil {
		return false, fmt.Errorf("hookonce: count dead letters: %w", err)
	}
	return plan.More, nil
}

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
