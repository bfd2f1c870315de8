package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

const jobColumns = `id, subject, action, mode, rate, filter, plan, coalesce(request_id, ''), state, done, skipped, failed, last_error, place, owner,
	fence, created_at, started_at, finished_at`

const (
	insertJob = `INSERT INTO hookonce_job
		(id, subject, action, mode, rate, filter, plan, request_id, state, leased_until, created_at, started_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, CASE ?9 WHEN 1 THEN ?10 END)
		ON CONFLICT DO NOTHING RETURNING ` + jobColumns

	selectJobByRequest = `SELECT ` + jobColumns + ` FROM hookonce_job WHERE request_id = ?`
	selectNamedJob     = `SELECT ` + jobColumns + ` FROM hookonce_job WHERE id = ?1 OR request_id = ?1 ORDER BY id = ?1 DESC LIMIT 1`
	selectJob          = `SELECT ` + jobColumns + ` FROM hookonce_job WHERE id = ?`

	// Keeps the newest jobs, and running ones.
	trimJobs = `DELETE FROM hookonce_job WHERE state <> 1 AND id IN (
		SELECT id FROM hookonce_job ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)`

	startJob = `UPDATE hookonce_job
		SET state = 1, leased_until = CASE state WHEN 1 THEN leased_until ELSE ?2 END, started_at = coalesce(started_at, ?2), finished_at = NULL
		WHERE id = ?1 AND state IN (0, 1, 3) RETURNING ` + jobColumns

	cancelJob = `UPDATE hookonce_job SET state = 3, finished_at = coalesce(finished_at, ?2)
		WHERE id = ?1 AND state IN (0, 1, 3) RETURNING ` + jobColumns

	// A lease that ends in more than an hour is from before the clock was set back.
	freeJob = `SELECT id FROM hookonce_job INDEXED BY hookonce_job_running
		WHERE state = 1 AND (leased_until <= ?1 OR leased_until > ?1 + 3600000000) AND ?2 IN ('', id)
		ORDER BY leased_until LIMIT 1`

	takeJob = `UPDATE hookonce_job SET fence = fence + 1, owner = ?2, leased_until = ?3 WHERE id = ?1 RETURNING ` + jobColumns

	holdJob = `SELECT 1 FROM hookonce_job WHERE id = ? AND fence = ? AND state = 1`

	stepJob = `UPDATE hookonce_job
		SET done = done + ?2, skipped = skipped + ?3, failed = failed + ?4, last_error = coalesce(nullif(?5, ''), last_error),
			place = coalesce(nullif(?6, ''), place), leased_until = ?7, state = ?8, finished_at = CASE WHEN ?8 <> 1 THEN ?9 END
		WHERE id = ?1`

	// Jobs that ended, or were planned, before a time.
	deleteJobs = `DELETE FROM hookonce_job WHERE state <> 1 AND created_at < ?1 AND coalesce(finished_at, created_at) < ?1`
)

var jobStates = driver.JobStates()

func scanJob(scan func(...any) error) (*driver.Job, error) {
	var j driver.Job
	if err := scanInto(&j, scan); err != nil {
		return nil, err
	}
	return &j, nil
}

func scanInto(j *driver.Job, scan func(...any) error) error {
	var state int
	var createdAt int64
	var startedAt, finishedAt sql.NullInt64
	if err := scan(&j.ID, &j.Of, &j.Action, &j.Mode, &j.Rate, &j.Filter, &j.Plan, &j.RequestID, &state, &j.Done, &j.Skipped, &j.Failed,
		&j.LastError, &j.Cursor, &j.Owner, &j.Fence, &createdAt, &startedAt, &finishedAt); err != nil {
		return err
	}
	j.State = jobStates[state]
	j.CreatedAt, j.StartedAt, j.FinishedAt = fromMicros(createdAt), fromNullMicros(startedAt), fromNullMicros(finishedAt)
	return nil
}

// AddJob implements driver.Store.
func (s *Store) AddJob(ctx context.Context, p *driver.AddJobParams) (job *driver.Job, err error) {
	const op = "adding a job"
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	err = s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		state := driver.JobPlanned
		if p.Start {
			state = driver.JobRunning
		}
		job, err = scanJob(t.queryRow(insertJob, p.ID, p.Of, p.Action, p.Mode, p.Rate, p.Filter, p.Plan, nullText(p.RequestID),
			slices.Index(jobStates, state), t.now).Scan)
		if err == nil {
			_, err := t.exec(trimJobs, driver.MaxJobs)
			return err
		}
		if errors.Is(err, sql.ErrNoRows) {
			job, err = scanJob(t.queryRow(selectJobByRequest, p.RequestID).Scan)
		}
		if errors.Is(err, sql.ErrNoRows) || err == nil && job.JobSpec != p.JobSpec {
			return driver.ErrRequestReused
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}

// Job implements driver.Store.
func (s *Store) Job(ctx context.Context, id string) (job *driver.Job, err error) {
	err = s.snapshot(ctx, "reading a job", func(ctx context.Context, tx *sql.Tx) (err error) {
		job, err = scanJob(tx.QueryRowContext(ctx, selectNamedJob, id).Scan)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, driver.ErrNotFound
	}
	return job, err
}

// Jobs implements driver.Store.
func (s *Store) Jobs(ctx context.Context, f *driver.JobFilter) (*driver.JobPage, error) {
	var c clause
	if f.State != "" {
		c.add(`state = ?`, slices.Index(jobStates, f.State))
	}
	if !f.After.IsZero() {
		c.add(`(created_at, id) < (?, ?)`, f.After.At.UnixMicro(), f.After.ID)
	}
	query := `SELECT ` + jobColumns + ` FROM hookonce_job` + c.where() + ` ORDER BY created_at DESC, id DESC LIMIT ?`
	all, err := listed(ctx, s, "listing jobs", query, c.args, f.Limit, func(j *driver.Job, rows *sql.Rows) error { return scanInto(j, rows.Scan) })
	if err != nil {
		return nil, err
	}
	return walk.JobPage(all, f.Limit), nil
}

// StartJob implements driver.Store.
func (s *Store) StartJob(ctx context.Context, p *driver.ChangeJobParams) (*driver.Job, error) {
	return s.changeJob(ctx, "starting a job", startJob, p)
}

// CancelJob implements driver.Store. It waits for a step in progress.
func (s *Store) CancelJob(ctx context.Context, p *driver.ChangeJobParams) (*driver.Job, error) {
	return s.changeJob(ctx, "cancelling a job", cancelJob, p)
}

func (s *Store) changeJob(ctx context.Context, op, query string, p *driver.ChangeJobParams) (job *driver.Job, err error) {
	err = s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		if job, err = scanJob(t.queryRow(query, p.ID, t.now).Scan); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		switch _, err := scanJob(t.queryRow(selectJob, p.ID).Scan); {
		case errors.Is(err, sql.ErrNoRows):
			return driver.ErrNotFound
		case err != nil:
			return err
		}
		return driver.ErrJobEnded
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}

// TakeJob implements driver.Store. Most calls find nothing, and see that without waiting for the writer.
func (s *Store) TakeJob(ctx context.Context, p *driver.TakeJobParams) (job *driver.Job, err error) {
	const op = "looking for jobs"
	var id string
	err = s.read(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, freeJob, clock(p.Now), p.ID).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || id == "" {
		return nil, err
	}
	err = s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		if err := t.queryRow(freeJob, t.now, p.ID).Scan(&id); errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		job, err = scanJob(t.queryRow(takeJob, id, p.Owner, t.now+p.For.Microseconds()).Scan)
		return err
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}

// StepJob implements driver.Store.
func (s *Store) StepJob(ctx context.Context, p *driver.JobStep) (held bool, done []bool, err error) {
	const op = "recording a step of a job"
	if err := p.Check(); err != nil {
		return false, nil, fmt.Errorf("%s: %w", op, err)
	}
	err = s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		if held, err = t.holdJob(p); err != nil || !held {
			return err
		}
		do := t.discarder(p.ID)
		if p.Action == driver.JobReplay {
			do = t.replayer(p.ID)
		}
		for i := range p.Letters {
			ok, err := do(&p.Letters[i])
			if err != nil {
				return err
			}
			done = append(done, ok)
		}
		own := *p
		own.Count(done)
		return t.stepJob(&own)
	})
	if err != nil {
		return false, nil, err
	}
	return held, done, nil
}

// holdJob reports whether a job runs under the lease of a step.
func (t *writeTx) holdJob(p *driver.JobStep) (bool, error) {
	var one int
	err := t.queryRow(holdJob, p.ID, p.Fence).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (t *writeTx) stepJob(p *driver.JobStep) error {
	state := driver.JobRunning
	if p.End != "" {
		state = p.End
	}
	_, err := t.exec(stepJob, p.ID, p.Done, p.Skipped, p.Failed, p.LastError, p.Cursor, t.now+p.For.Microseconds(), slices.Index(jobStates, state), t.now)
	return err
}

// jobs removes jobs that ended long ago.
func (r *pruner) jobs(ctx context.Context) error {
	return r.write(ctx, "pruning jobs", func(t *writeTx) error {
		_, err := t.exec(deleteJobs, r.before(driver.JobsKept))
		return err
	})
}
