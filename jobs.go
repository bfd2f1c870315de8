package hookonce

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/jobs"
)

// JobRequest describes a bulk action.
type JobRequest struct {
	Of     string // driver.JobOfDeadLetters or driver.JobOfEvents
	Action string // driver.JobReplay or driver.JobDiscard
	Mode   string // of a replay of events: "as_new", "same_id", or "" for events that are dead or skipped
	// Rate is the pace as ParsePace reads it. Defaults to DefaultReplayRate for a replay, and to
	// Unpaced for a discard.
	Rate   string
	Select driver.JobSelection
	// RequestID makes the request repeatable, if it is not "": a repeated one gets the same job. At
	// most 255 bytes without control characters.
	RequestID string
	Start     bool // the job begins at once
}

// PlanJob counts the rows that a job would change, up to 100,000 and for at most 2 s, and stores the
// job. It does nothing until StartJob, unless r.Start is set. Every Engine that runs works on started
// jobs of its database, each job in one process at a time; after the end of that process another one
// goes on. A job changes each row at most once, and no dead letter that died after it began.
//
// The error matches driver.ErrRequestReused if the RequestID was used for another job.
func (in *Engine) PlanJob(ctx context.Context, r *JobRequest) (*driver.Job, error) {
	spec := driver.JobSpec{Of: r.Of, Action: r.Action, Mode: r.Mode, Rate: r.Rate}
	_, badRate := jobPace(&spec)
	_, badMode := jobs.Mode(r.Mode)
	if err := errors.Join(checkRequestID(r.RequestID), badRate, badMode); err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	plan := &driver.JobPlan{}
	if r.Action != driver.JobUndo {
		var err error
		if plan, err = jobs.Plan(ctx, in.store, r.Of, &r.Select, jobs.MaxCount); err != nil {
			return nil, fmt.Errorf("hookonce: plan a job: %w", err)
		}
	}
	return in.addJob(ctx, r, &spec, plan)
}

func (in *Engine) addJob(ctx context.Context, r *JobRequest, spec *driver.JobSpec, plan *driver.JobPlan) (*driver.Job, error) {
	selection, err := json.Marshal(r.Select)
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	counted, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	spec.Filter = string(selection)
	job, err := in.store.AddJob(ctx, &driver.AddJobParams{
		ID: "job_" + rand.Text(), JobSpec: *spec, Plan: string(counted), RequestID: r.RequestID, Start: r.Start,
	})
	if err != nil {
		return nil, fmt.Errorf("hookonce: plan a job: %w", err)
	}
	in.jobs.Wake()
	return job, nil
}

// StartJob starts a planned job, or a cancelled one from where it was. The error matches
// driver.ErrNotFound, or driver.ErrJobEnded for a job that is done or has failed.
func (in *Engine) StartJob(ctx context.Context, id string) (*driver.Job, error) {
	job, err := in.store.StartJob(ctx, &driver.ChangeJobParams{ID: id})
	if err != nil {
		return nil, fmt.Errorf("hookonce: start job %q: %w", id, err)
	}
	in.log.Info("job started", slog.String("job", id))
	in.jobs.Wake()
	return job, nil
}

// CancelJob stops a job. When it returns, the job changes nothing more, except for an event that it is
// replaying. Errors are those of StartJob.
func (in *Engine) CancelJob(ctx context.Context, id string) (*driver.Job, error) {
	job, err := in.store.CancelJob(ctx, &driver.ChangeJobParams{ID: id})
	if err != nil {
		return nil, fmt.Errorf("hookonce: cancel job %q: %w", id, err)
	}
	in.log.Info("job cancelled", slog.String("job", id))
	return job, nil
}

// ManyDeadLetters is the number of dead letters above which a replay, a discard or an undoing is
// better a job.
const ManyDeadLetters = 1000

// HasMany reports whether a selection has more than ManyDeadLetters, or takes more than 2 s to count.
func (in *Engine) HasMany(ctx context.Context, sel *driver.JobSelection) (bool, error) {
	plan, err := jobs.Plan(ctx, in.store, driver.JobOfDeadLetters, sel, ManyDeadLetters)
	if err != nil {
		return false, fmt.Errorf("hookonce: count dead letters: %w", err)
	}
	return plan.More, nil
}

// Undone is the result of Undo.
type Undone struct {
	Undone  int
	Skipped int    // they were replayed, discarded again or pruned since, or another session had locked them
	Job     string // the job that undoes the discard, if it discarded more than ManyDeadLetters; else ""
}

// Undo makes the letters dead again that a request or job discarded, as they were before; see
// DeadLetters.Operation. For a job, operation is its id or that of its request. The error matches driver.ErrNotFound;
// driver.ErrTooLate if the last one was discarded more than driver.UndoTime ago; or driver.ErrOpen
// while the job runs.
func (in *Engine) Undo(ctx context.Context, operation string) (*Undone, error) {
	operation, count, err := in.undoable(ctx, operation)
	switch {
	case err != nil:
		return nil, err
	case count <= ManyDeadLetters:
		return in.undo(ctx, operation)
	}
	job, err := in.PlanJob(ctx, &JobRequest{
		Of: driver.JobOfDeadLetters, Action: driver.JobUndo, Select: driver.JobSelection{RequestID: operation}, Start: true,
	})
	if err != nil {
		return nil, err
	}
	return &Undone{Job: job.ID}, nil
}

// UndoHere is Undo without a job, for a program that runs none. With an error, the result counts the
// letters until then, or is nil; repeating it is safe.
func (in *Engine) UndoHere(ctx context.Context, operation string) (*Undone, error) {
	operation, _, err := in.undoable(ctx, operation)
	if err != nil {
		return nil, err
	}
	return in.undo(ctx, operation)
}

// undoable returns the number of letters that operation discarded, or why they stay discarded. If
// operation is the request of a job, it also returns the id of the job instead.
func (in *Engine) undoable(ctx context.Context, operation string) (string, int, error) {
	job, err := in.store.Job(ctx, operation)
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
		found, err = in.store.Discards(ctx, operation)
	}
	if err == nil && !found.Recent {
		err = driver.ErrTooLate
	}
	if err != nil {
		return operation, 0, fmt.Errorf("hookonce: undo: %w", err)
	}
	return operation, found.Count, nil
}

// undo makes the letters of operation dead again, step by step.
func (in *Engine) undo(ctx context.Context, operation string) (*Undone, error) {
	undone := &Undone{}
	for after := int64(0); ; {
		step, err := in.store.Undiscard(ctx, &driver.UndiscardParams{Operation: operation, Limit: driver.MaxJobStep, After: after})
		if err != nil {
			return undone, fmt.Errorf("hookonce: undo: %w", err)
		}
		undone.Undone, undone.Skipped = undone.Undone+step.Undone, undone.Skipped+step.Skipped
		if after = step.Next; after == 0 {
			in.log.Info("discard undone", slog.String("request_id", operation), slog.Int("undone", undone.Undone), slog.Int("skipped", undone.Skipped))
			return undone, nil
		}
	}
}
