package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hookonce/hookonce/driver"
)

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
func (o *Operator) Undo(ctx context.Context, operation string) (*Undone, error) {
	operation, count, err := o.undoable(ctx, operation)
	switch {
	case err != nil:
		return nil, err
	case count <= ManyDeadLetters:
		return o.undo(ctx, operation)
	}
	job, err := o.PlanJob(ctx, &Request{
		Of: driver.JobOfDeadLetters, Action: driver.JobUndo, Select: driver.JobSelection{RequestID: operation}, Start: true,
	})
	if err != nil {
		return nil, err
	}
	return &Undone{Job: job.ID}, nil
}

// UndoHere is Undo without a job, for a program that runs none. With an error, the result counts the
// letters until then, or is nil; repeating it is safe.
func (o *Operator) UndoHere(ctx context.Context, operation string) (*Undone, error) {
	operation, _, err := o.undoable(ctx, operation)
	if err != nil {
		return nil, err
	}
	return o.undo(ctx, operation)
}

// undoable returns the number of letters that operation discarded, or why they stay discarded. If
// operation is the request of a job, it also returns the id of the job instead.
func (o *Operator) undoable(ctx context.Context, operation string) (string, int, error) {
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
		return operation, 0, fmt.Errorf("hookonce: undo: %w", err)
	}
	return operation, found.Count, nil
}

// undo makes the letters of operation dead again, step by step.
func (o *Operator) undo(ctx context.Context, operation string) (*Undone, error) {
	undone := &Undone{}
	for after := int64(0); ; {
		step, err := o.store.Undiscard(ctx, &driver.UndiscardParams{Operation: operation, Limit: driver.MaxJobStep, After: after})
		if err != nil {
			return undone, fmt.Errorf("hookonce: undo: %w", err)
		}
		undone.Undone, undone.Skipped = undone.Undone+step.Undone, undone.Skipped+step.Skipped
		if after = step.Next; after == 0 {
			o.log.Info("discard undone", slog.String("request_id", operation), slog.Int("undone", undone.Undone), slog.Int("skipped", undone.Skipped))
			return undone, nil
		}
	}
}
