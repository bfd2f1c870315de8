package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

var jobColumns = `id, subject, action, mode, rate, filter, plan, coalesce(request_id, ''), state, done, skipped, failed, last_error, place, owner,
	fence, ` + bounded("created_at") + ", " + boundedOrNull("started_at") + ", " + boundedOrNull("finished_at")

// The number of each state in the table.
var (
	jobStates    = driver.JobStates()
	jobRunning   = int32(slices.Index(jobStates, driver.JobRunning))
	selectJobSQL = "SELECT " + jobColumns + " FROM {schema}.job"
)

var (
	jobByRequestSQL = statement(selectJobSQL + " WHERE request_id = $1::text")
	jobNamedSQL     = statement(selectJobSQL + " WHERE id = $1::text OR request_id = $1::text ORDER BY id = $1::text DESC LIMIT 1")
)

// A job runs at once if $9 is its state; otherwise $9 is that of a planned job.
var addJobSQL = statement(`
INSERT INTO {schema}.job (id, subject, action, mode, rate, filter, plan, request_id, state, leased_until, created_at, started_at)
SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, nullif($8::text, ''), $9::smallint, now, now,
	CASE $9::smallint WHEN 1 THEN now END
FROM (SELECT coalesce($10::timestamptz, now()) AS now, {schema}.durably() AS durable) setting
ON CONFLICT DO NOTHING
RETURNING ` + jobColumns)

// trimJobsSQL keeps the newest $1 jobs, and running ones.
var trimJobsSQL = statement(`
DELETE FROM {schema}.job WHERE ctid = ANY (ARRAY(
	SELECT old.ctid FROM (
		SELECT created_at, id FROM {schema}.job ORDER BY created_at DESC, id COLLATE "C" DESC OFFSET $1::int LIMIT 1
	) first
	CROSS JOIN LATERAL (
		SELECT j.ctid FROM {schema}.job j
		WHERE (j.created_at, j.id COLLATE "C") <= (first.created_at, first.id COLLATE "C") AND j.state <> 1
		FOR UPDATE SKIP LOCKED
	) old
))`)

var (
	startJobSQL = statement(`
UPDATE {schema}.job j
SET state = 1, leased_until = CASE j.state WHEN 1 THEN j.leased_until ELSE setting.now END,
	started_at = coalesce(j.started_at, setting.now), finished_at = NULL
FROM (SELECT coalesce($2::timestamptz, now()) AS now, {schema}.durably() AS durable) setting
WHERE j.id = $1::text AND j.state IN (0, 1, 3)
RETURNING ` + jobColumns)

	cancelJobSQL = statement(`
UPDATE {schema}.job j
SET state = 3, finished_at = coalesce(j.finished_at, setting.now)
FROM (SELECT coalesce($2::timestamptz, now()) AS now, {schema}.durably() AS durable) setting
WHERE j.id = $1::text AND j.state IN (0, 1, 3)
RETURNING ` + jobColumns)

	// A lease that ends in more than an hour is from before the clock was set back.
	takeJobSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now
), free AS MATERIALIZED (
	SELECT j.id FROM {schema}.job j, setting
	WHERE j.state = 1 AND (j.leased_until <= setting.now OR j.leased_until > setting.now + interval '1 hour')
		AND $4::text IN ('', j.id)
	ORDER BY j.leased_until
	LIMIT 1
	FOR UPDATE OF j SKIP LOCKED
)
UPDATE {schema}.job j
SET fence = j.fence + 1, owner = $2::text, leased_until = setting.now + $3::bigint * interval '1 microsecond'
FROM setting
WHERE j.id = (SELECT id FROM free)
RETURNING ` + jobColumns)
)

var (
	holdJobSQL = statement(`
SELECT 1 FROM {schema}.job WHERE id = $1::text AND fence = $2::bigint AND state = 1 FOR UPDATE`)

	// stepJobSQL records a step, under the lock of holdJobSQL. $8 is the state of the end, or that of a
	// running job.
	stepJobSQL = statement(`
UPDATE {schema}.job j
SET done = j.done + $2::bigint, skipped = j.skipped + $3::bigint, failed = j.failed + $4::bigint,
	last_error = coalesce(nullif($5::text, ''), j.last_error), place = coalesce(nullif($6::text, ''), j.place),
	leased_until = setting.now + $7::bigint * interval '1 microsecond',
	state = $8::smallint, finished_at = CASE WHEN $8::smallint <> 1 THEN setting.now END
FROM (SELECT coalesce($9::timestamptz, now()) AS now, {schema}.durably() AS durable) setting
WHERE j.id = $1::text`)

	// pruneJobsSQL removes jobs that ended, or were planned, more than $2 microseconds ago.
	pruneJobsSQL = statement(`
DELETE FROM {schema}.job j
USING (SELECT coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond' AS before) setting
WHERE j.state <> 1 AND j.created_at < setting.before AND coalesce(j.finished_at, j.created_at) < setting.before`)
)

func scanJob(j *driver.Job) func(Rows) error {
	return func(r Rows) error {
		var state int16
		var startedAt, finishedAt *time.Time
		err := r.Scan(&j.ID, &j.Of, &j.Action, &j.Mode, &j.Rate, &j.Filter, &j.Plan, &j.RequestID, &state, &j.Done, &j.Skipped, &j.Failed,
			&j.LastError, &j.Cursor, &j.Owner, &j.Fence, &j.CreatedAt, &startedAt, &finishedAt)
		if err == nil {
			j.State = jobStates[state]
		}
		j.CreatedAt, j.StartedAt, j.FinishedAt = j.CreatedAt.UTC(), timeOf(startedAt), timeOf(finishedAt)
		return err
	}
}

// AddJob implements [driver.Store].
func (s *Store) AddJob(ctx context.Context, p *driver.AddJobParams) (*driver.Job, error) {
	const op = "adding a job"
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	state := int32(0)
	if p.Start {
		state = jobRunning
	}
	var job driver.Job
	err := transact(ctx, s.pools.Admin, op, func(conn Conn) error {
		job = driver.Job{}
		err := scan(ctx, conn, scanJob(&job), s.text(addJobSQL), p.ID, p.Of, p.Action, p.Mode, p.Rate, p.Filter, p.Plan, p.RequestID, state, clock(p.Now))
		switch {
		case err != nil:
			return err
		case job.ID != "":
			return scan(ctx, conn, noRows, s.text(trimJobsSQL), int32(driver.MaxJobs))
		}
		if err := scan(ctx, conn, scanJob(&job), s.text(jobByRequestSQL), p.RequestID); err != nil {
			return err
		}
		if job.ID == "" || job.JobSpec != p.JobSpec {
			return refusedError{driver.ErrRequestReused}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &job, nil
}

// Job implements [driver.Store].
func (s *Store) Job(ctx context.Context, id string) (*driver.Job, error) {
	var job driver.Job
	if driver.IsText(id) {
		if err := read(ctx, s.pools.Admin, "reading a job", scanJob(&job), s.text(jobNamedSQL), id); err != nil {
			return nil, err
		}
	}
	if job.ID == "" {
		return nil, driver.ErrNotFound
	}
	return &job, nil
}

// Jobs implements [driver.Store].
func (s *Store) Jobs(ctx context.Context, f *driver.JobFilter) (*driver.JobPage, error) {
	where := newCondition()
	if f.State != "" {
		where.add("state = $%d::int", int32(slices.Index(jobStates, f.State)))
	}
	if !f.After.IsZero() {
		where.add(`(created_at, id COLLATE "C") < ($%d::timestamptz, $%d::text)`, &f.After.At, f.After.ID)
	}
	var jobs []driver.Job
	sql := "SELECT " + jobColumns + " FROM " + s.schema + ".job" + where.sql() + ` ORDER BY created_at DESC, id COLLATE "C" DESC` +
		where.limit(driver.PageSize(f.Limit))
	err := read(ctx, s.pools.Admin, "listing jobs", func(r Rows) error {
		var job driver.Job
		err := scanJob(&job)(r)
		jobs = append(jobs, job)
		return err
	}, sql, where.args...)
	if err != nil {
		return nil, err
	}
	return walk.JobPage(jobs, f.Limit), nil
}

// StartJob implements [driver.Store].
func (s *Store) StartJob(ctx context.Context, p *driver.ChangeJobParams) (*driver.Job, error) {
	return s.changeJob(ctx, "starting a job", s.text(startJobSQL), p)
}

// CancelJob implements [driver.Store]. It waits for a step in progress.
func (s *Store) CancelJob(ctx context.Context, p *driver.ChangeJobParams) (*driver.Job, error) {
	return s.changeJob(ctx, "cancelling a job", s.text(cancelJobSQL), p)
}

func (s *Store) changeJob(ctx context.Context, op, sql string, p *driver.ChangeJobParams) (*driver.Job, error) {
	var job driver.Job
	if driver.IsText(p.ID) {
		if err := write(ctx, s.pools.Admin, op, scanJob(&job), sql, p.ID, clock(p.Now)); err != nil {
			return nil, err
		}
	}
	if job.ID != "" {
		return &job, nil
	}
	if _, err := s.Job(ctx, p.ID); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return nil, fmt.Errorf("%s: %w", op, driver.ErrJobEnded)
}

// TakeJob implements [driver.Store].
func (s *Store) TakeJob(ctx context.Context, p *driver.TakeJobParams) (*driver.Job, error) {
	var job driver.Job
	err := write(ctx, s.pools.Work, "looking for jobs", scanJob(&job), s.text(takeJobSQL), clock(p.Now), p.Owner, p.For.Microseconds(), p.ID)
	if err != nil || job.ID == "" {
		return nil, err
	}
	return &job, nil
}

// StepJob implements [driver.Store].
func (s *Store) StepJob(ctx context.Context, p *driver.JobStep) (held bool, done []bool, err error) {
	const op = "recording a step of a job"
	if err := p.Check(); err != nil {
		return false, nil, fmt.Errorf("%s: %w", op, err)
	}
	err = transact(ctx, s.pools.Work, op, func(conn Conn) (err error) {
		if held, err = s.holdJob(ctx, conn, p); err != nil || !held {
			return err
		}
		own := *p
		if len(p.Letters) > 0 {
			sql := s.text(replayDeadSQL)
			if p.Action == driver.JobDiscard {
				sql = s.text(discardSQL)
			}
			done, err = s.onLetters(ctx, conn, sql, &driver.DeadLetterParams{Letters: p.Letters, Operation: p.ID, Now: p.Now})
			if err != nil {
				return err
			}
			own.Count(done)
		}
		return s.stepJob(ctx, conn, &own)
	})
	if err != nil {
		return false, nil, err
	}
	return held, done, nil
}

// holdJob locks a job, and reports whether it runs under the lease of a step.
func (s *Store) holdJob(ctx context.Context, conn Conn, p *driver.JobStep) (held bool, err error) {
	err = scan(ctx, conn, func(r Rows) error {
		held = true
		return r.Scan(new(int32))
	}, s.text(holdJobSQL), p.ID, p.Fence)
	return held, err
}

func (s *Store) stepJob(ctx context.Context, conn Conn, p *driver.JobStep) error {
	state := jobRunning
	if p.End != "" {
		state = int32(slices.Index(jobStates, p.End))
	}
	return scan(ctx, conn, noRows, s.text(stepJobSQL), p.ID, p.Done, p.Skipped, p.Failed, p.LastError, p.Cursor, p.For.Microseconds(), state, clock(p.Now))
}
