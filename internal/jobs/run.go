package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

const (
	lease = 15 * time.Second
	// slice bounds one piece of work, and one wait: a cancelled job stops after it.
	slice = 500 * time.Millisecond
	// poll is the time between two looks for jobs of other processes, and look between two at one of them.
	poll = 2 * time.Second
	look = 50 * time.Millisecond
	// atOnce bounds the jobs that a process works on, so that a slow one does not hold up all others.
	atOnce   = 4
	maxRetry = 30 * time.Second
	// callTime bounds one call of the store.
	callTime = 30 * time.Second
)

// Options are the parts of a process that jobs need.
type Options struct {
	// Replay replays one event, once for each request id. It reports whether the event is as wanted already,
	// and stays as it is.
	Replay func(ctx context.Context, source, eventID string, how *How) (stayed bool, err error)
	// Pace returns the bucket for the pace of a job.
	Pace func(*driver.JobSpec) (*limit.Bucket, error)
	// Worked tells of the letters that a step replayed or discarded.
	Worked func(action string, letters []driver.DeadLetter)
	Owner  string // names the process, for operators
	Log    *slog.Logger
}

// How says how an event is replayed. See driver.ReplayParams.
type How struct {
	Mode                driver.ReplayMode
	To, Note, RequestID string
}

// Runner works on jobs.
type Runner struct {
	store Store
	Options
	wake chan struct{}
}

// New returns a Runner.
func New(store Store, o Options) *Runner { return &Runner{store, o, make(chan struct{}, 1)} }

// Unpaced returns a Runner that works on the jobs of r without a pace.
func (r *Runner) Unpaced() *Runner {
	fast := *r
	fast.Pace = func(*driver.JobSpec) (*limit.Bucket, error) { return &limit.Bucket{}, nil }
	return &fast
}

// Wake makes Run look for jobs at once.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it is about to look
	}
}

// Run works on jobs until ctx ends. Then it gives them back, and other processes go on with them.
func (r *Runner) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	free := make(chan struct{}, atOnce)
	wait := poll
	for ctx.Err() == nil {
		free <- struct{}{} // waits for a job to end, which ctx makes it do
		job, err := r.take(ctx, "")
		switch {
		case job != nil:
			wait = poll
			working.Go(func() {
				r.work(ctx, job)
				<-free
				r.Wake() // there may be more jobs than workers
			})
			continue
		case err != nil && ctx.Err() == nil:
			r.Log.Warn("looking for jobs failed; retrying", slog.Any("error", err), slog.String("in", wait.String()))
			wait = min(2*wait, maxRetry)
		default:
			wait = poll
		}
		<-free
		r.sleep(ctx, wait)
	}
}

// Work works on one running job until it ends, is cancelled or ctx ends, and returns its last state. While
// another process works on the job, Work waits.
func (r *Runner) Work(ctx context.Context, id string) (*driver.Job, error) {
	for {
		if job, err := r.take(ctx, id); err != nil {
			return nil, err
		} else if job != nil {
			r.work(ctx, job)
		}
		job, err := r.read(context.WithoutCancel(ctx), id)
		if err != nil || job.State != driver.JobRunning {
			return job, err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return job, ctx.Err()
		}
	}
}

// sleep waits for d, for Wake or for the end of ctx.
func (r *Runner) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

func (r *Runner) take(ctx context.Context, id string) (*driver.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return r.store.TakeJob(ctx, &driver.TakeJobParams{ID: id, Owner: r.Owner, For: lease})
}

func (r *Runner) read(ctx context.Context, id string) (*driver.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return r.store.Job(ctx, id)
}

// Errors that end the work on a job in this process.
var (
	errLost  = errors.New("the job was cancelled, or another process took it over")
	errEnded = errors.New("the job has ended")
)

// brokenError means that a job cannot be carried out.
type brokenError struct{ error }

// Broken returns err as the error of a job that cannot be carried out: the job has failed.
func Broken(err error) error { return brokenError{err} }

// Unwrap returns the error inside.
func (e brokenError) Unwrap() error { return e.error }

// work works on a job until it ends, is cancelled or lost, or ctx ends. After another error it retries.
func (r *Runner) work(ctx context.Context, job *driver.Job) {
	log := r.Log.With(slog.String("job", job.ID), slog.String("action", job.Action))
	log.Info("job taken")
	tries := 0
	for wait := time.Second; ; tries++ {
		before := job.Cursor
		err := r.steps(ctx, job, tries)
		var broken brokenError
		switch {
		case errors.Is(err, errEnded):
			log.Info("job ended")
			return
		case errors.Is(err, errLost):
			log.Info("job stopped: it was cancelled, or another process took it over")
			return
		case ctx.Err() != nil:
			r.giveBack(ctx, job)
			return
		case errors.As(err, &broken):
			log.Error("job failed", slog.Any("error", err))
			if err := r.step(ctx, job, &driver.JobStep{LastError: text(err), End: driver.JobFailed}); err == nil || errors.Is(err, errLost) {
				return
			}
		default:
			log.Warn("a step of a job failed; retrying", slog.Any("error", err), slog.String("in", wait.String()))
		}
		if job.Cursor != before {
			wait, tries = time.Second, 0
		}
		if err := r.afterFailure(ctx, job, err, wait); err != nil {
			return
		}
		wait = min(2*wait, maxRetry)
	}
}

// afterFailure records the error of a step, waits, and reads the job again, because the step may have
// been committed. It returns an error if the job is not to go on here.
func (r *Runner) afterFailure(ctx context.Context, job *driver.Job, failure error, wait time.Duration) error {
	if err := r.step(ctx, job, &driver.JobStep{LastError: text(failure)}); errors.Is(err, errLost) {
		return err
	}
	for until := time.Now().Add(wait); time.Now().Before(until); {
		if err := r.hold(ctx, job, time.Until(until)); errors.Is(err, errLost) || ctx.Err() != nil {
			r.giveBack(ctx, job)
			return errLost
		}
	}
	now, err := r.read(ctx, job.ID)
	switch {
	case err != nil:
		return nil // the next step fails too, or it shows that the job is lost
	case now.State != driver.JobRunning || now.Fence != job.Fence:
		return errLost
	}
	*job = *now
	return nil
}

// giveBack ends the lease, so that another process need not wait for its end.
func (r *Runner) giveBack(ctx context.Context, job *driver.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slice)
	defer cancel()
	_, _, _ = r.store.StepJob(ctx, &driver.JobStep{ID: job.ID, Fence: job.Fence}) // otherwise the lease ends by itself
}

// step records a step, and moves job to its place.
func (r *Runner) step(ctx context.Context, job *driver.Job, s *driver.JobStep) error {
	_, err := r.stepLetters(ctx, job, s)
	return err
}

func (r *Runner) stepLetters(ctx context.Context, job *driver.Job, s *driver.JobStep) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	s.ID, s.Fence, s.For = job.ID, job.Fence, lease
	held, done, err := r.store.StepJob(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case !held:
		return nil, errLost
	}
	if s.Cursor != "" {
		job.Cursor = s.Cursor
	}
	s.Count(done)
	job.Done, job.Skipped = job.Done+s.Done, job.Skipped+s.Skipped
	return done, nil
}

// hold waits for up to d, at most for a slice, and prolongs the lease. The error is errLost after a
// cancellation.
func (r *Runner) hold(ctx context.Context, job *driver.Job, d time.Duration) error {
	timer := time.NewTimer(min(d, slice))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.step(ctx, job, &driver.JobStep{})
}

// tokens waits until the pace allows some of n rows, and returns how many.
func (r *Runner) tokens(ctx context.Context, job *driver.Job, pace *limit.Bucket, n int) (int, error) {
	for {
		got, wait := pace.TakeUpTo(n, time.Now())
		if wait == 0 {
			return got, ctx.Err()
		}
		if err := r.hold(ctx, job, wait); err != nil {
			return 0, err
		}
	}
}

// rest lets other work come in after a step that began at a time.
func (r *Runner) rest(ctx context.Context, began time.Time) error {
	timer := time.NewTimer(min(time.Since(began), slice))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// text returns the text of an error as a store takes it, for an operator: that of the known cause, if there
// is one.
func text(err error) string {
	for _, known := range []error{
		driver.ErrCommitUnknown, driver.ErrTimedOut, driver.ErrUnavailable, driver.ErrSerialization, driver.ErrLockTimeout,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return clean(err.Error())
}
