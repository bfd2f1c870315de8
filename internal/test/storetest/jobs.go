package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func jobCases() []testCase {
	return []testCase{
		{"Life", jobLife},
		{"RequestID", jobRequestID},
		{"Cancel", jobCancel},
		{"Fence", jobFence},
		{"TakeOldestFirst", jobTakeOrder},
		{"Letters", jobLetters},
		{"List", jobList},
		{"KeepsTheNewest", jobsTrimmed},
		{"Prune", jobsPruned},
		{"BadTexts", jobBadTexts},
	}
}

var jobSpec = driver.JobSpec{Of: driver.JobOfDeadLetters, Action: driver.JobReplay, Rate: "100/s", Filter: `{"source":"é\""}`}

func (f *fixture) addJob(p *driver.AddJobParams) *driver.Job {
	f.Helper()
	if p.JobSpec == (driver.JobSpec{}) {
		p.JobSpec = jobSpec
	}
	got, err := f.s.AddJob(f.Context(), p)
	if err != nil {
		f.Fatalf("AddJob(%+v): %v", p, err)
	}
	return got
}

func (f *fixture) job(id string) *driver.Job {
	f.Helper()
	got, err := f.s.Job(f.Context(), id)
	if err != nil {
		f.Fatalf("Job(%q): %v", id, err)
	}
	return got
}

func (f *fixture) startJob(id string, at time.Time) *driver.Job {
	f.Helper()
	got, err := f.s.StartJob(f.Context(), &driver.ChangeJobParams{ID: id, Now: at})
	if err != nil {
		f.Fatalf("StartJob(%q): %v", id, err)
	}
	return got
}

func (f *fixture) cancelJob(id string, at time.Time) *driver.Job {
	f.Helper()
	got, err := f.s.CancelJob(f.Context(), &driver.ChangeJobParams{ID: id, Now: at})
	if err != nil {
		f.Fatalf("CancelJob(%q): %v", id, err)
	}
	return got
}

const jobLease = 15 * time.Second

// takeJob takes a job, or returns nil.
func (f *fixture) takeJob(owner string, at time.Time) *driver.Job {
	f.Helper()
	got, err := f.s.TakeJob(f.Context(), &driver.TakeJobParams{Owner: owner, For: jobLease, Now: at})
	if err != nil {
		f.Fatalf("TakeJob: %v", err)
	}
	return got
}

func (f *fixture) stepJob(p *driver.JobStep) (held bool, done []bool) {
	f.Helper()
	if p.For == 0 {
		p.For = jobLease
	}
	held, done, err := f.s.StepJob(f.Context(), p)
	if err != nil {
		f.Fatalf("StepJob(%+v): %v", p, err)
	}
	return held, done
}

func jobLife(f *fixture) {
	if _, err := f.s.Job(f.Context(), "job_1"); !errors.Is(err, driver.ErrNotFound) {
		f.Errorf("the error of an unknown job is %v", err)
	}
	want := &driver.Job{ID: "job_1", JobSpec: jobSpec, State: driver.JobPlanned, Plan: `{"count":3}`, CreatedAt: t0}
	same(f, "added", want, f.addJob(&driver.AddJobParams{ID: "job_1", Plan: want.Plan, Now: t0}))
	if got := f.takeJob("a", t0); got != nil {
		f.Errorf("took the planned job %+v", got)
	}
	at := t0.Add(time.Minute)
	want.State, want.StartedAt = driver.JobRunning, at
	same(f, "started", want, f.startJob("job_1", at))
	same(f, "started again", want, f.startJob("job_1", at.Add(time.Second)))
	want.Owner, want.Fence = "a", 1
	same(f, "taken", want, f.takeJob("a", at))
	same(f, "taken while leased", (*driver.Job)(nil), f.takeJob("b", at.Add(jobLease-time.Microsecond)))
	step := &driver.JobStep{ID: "job_1", Fence: 1, Done: 3, Skipped: 2, Failed: 1, LastError: "why", Cursor: "place", Now: at.Add(time.Second)}
	if held, _ := f.stepJob(step); !held {
		f.Error("the step was refused")
	}
	want.Done, want.Skipped, want.Failed, want.LastError, want.Cursor = 3, 2, 1, "why", "place"
	same(f, "after a step", want, f.job("job_1"))
	same(f, "taken before the prolonged lease ends", (*driver.Job)(nil), f.takeJob("b", at.Add(jobLease)))
	f.stepJob(&driver.JobStep{ID: "job_1", Fence: 1, Done: 1, Now: at.Add(2 * time.Second)}) // keeps the texts
	f.stepJob(&driver.JobStep{ID: "job_1", Fence: 1, End: driver.JobDone, Now: at.Add(time.Hour)})
	want.Done, want.State, want.FinishedAt = 4, driver.JobDone, at.Add(time.Hour)
	same(f, "done", want, f.job("job_1"))
	same(f, "taken after its end", (*driver.Job)(nil), f.takeJob("b", at.Add(2*time.Hour)))
	if held, _ := f.stepJob(&driver.JobStep{ID: "job_1", Fence: 1, Done: 1, Now: at}); held {
		f.Error("a step after the end was accepted")
	}
	for name, change := range map[string]func(*driver.ChangeJobParams) (*driver.Job, error){
		"StartJob":  func(p *driver.ChangeJobParams) (*driver.Job, error) { return f.s.StartJob(f.Context(), p) },
		"CancelJob": func(p *driver.ChangeJobParams) (*driver.Job, error) { return f.s.CancelJob(f.Context(), p) },
	} {
		if _, err := change(&driver.ChangeJobParams{ID: "job_1"}); !errors.Is(err, driver.ErrJobEnded) {
			f.Errorf("%s of a job that is done: %v", name, err)
		}
		if _, err := change(&driver.ChangeJobParams{ID: "job_2"}); !errors.Is(err, driver.ErrNotFound) {
			f.Errorf("%s of an unknown job: %v", name, err)
		}
	}
	same(f, "unchanged", want, f.job("job_1"))
}

func jobRequestID(f *fixture) {
	first := f.addJob(&driver.AddJobParams{ID: "job_1", RequestID: "req", Plan: "{}", Now: t0})
	same(f, "repeated", first, f.addJob(&driver.AddJobParams{ID: "job_2", RequestID: "req", Plan: `{"count":1}`, Now: t0.Add(time.Hour)}))
	f.startJob("job_1", t0)
	same(f, "by its request", f.job("job_1"), f.job("req"))
	same(f, "repeated after the start", f.job("job_1"), f.addJob(&driver.AddJobParams{ID: "job_3", RequestID: "req", Now: t0}))
	for _, other := range []driver.AddJobParams{
		{ID: "job_4", RequestID: "req", JobSpec: driver.JobSpec{Of: driver.JobOfDeadLetters, Action: driver.JobDiscard}},
		{ID: "job_1", JobSpec: jobSpec}, // the id of another job
	} {
		if _, err := f.s.AddJob(f.Context(), &other); !errors.Is(err, driver.ErrRequestReused) {
			f.Errorf("AddJob(%+v): %v, want %v", other, err, driver.ErrRequestReused)
		}
	}
	f.addJob(&driver.AddJobParams{ID: "job_5", Now: t0})
	f.addJob(&driver.AddJobParams{ID: "job_6", Now: t0}) // without a request id, jobs are never the same
	if got, err := f.s.Jobs(f.Context(), &driver.JobFilter{}); err != nil || len(got.Jobs) != 3 {
		f.Errorf("there are %+v, error %v; want 3 jobs", got, err)
	}
}

func jobCancel(f *fixture) {
	f.addJob(&driver.AddJobParams{ID: "job_1", Start: true, Now: t0})
	taken := f.takeJob("a", t0)
	f.stepJob(&driver.JobStep{ID: "job_1", Fence: taken.Fence, Done: 2, Cursor: "here", Now: t0})
	at := t0.Add(time.Second)
	want := f.job("job_1")
	want.State, want.FinishedAt = driver.JobCancelled, at
	same(f, "cancelled", want, f.cancelJob("job_1", at))
	same(f, "cancelled again", want, f.cancelJob("job_1", at.Add(time.Minute)))
	if held, _ := f.stepJob(&driver.JobStep{ID: "job_1", Fence: taken.Fence, Done: 1, Now: at}); held {
		f.Error("a step after the cancellation was accepted")
	}
	same(f, "taken", (*driver.Job)(nil), f.takeJob("b", at.Add(time.Hour)))
	// It goes on where it was.
	at = at.Add(time.Minute)
	want.State, want.FinishedAt = driver.JobRunning, time.Time{}
	same(f, "started again", want, f.startJob("job_1", at))
	want.Owner, want.Fence = "b", taken.Fence+1
	same(f, "taken at once", want, f.takeJob("b", at))
	f.addJob(&driver.AddJobParams{ID: "job_2", Now: t0})
	if got := f.cancelJob("job_2", at); got.State != driver.JobCancelled || !got.StartedAt.IsZero() {
		f.Errorf("a planned job is %+v after its cancellation", got)
	}
}

// jobFence takes a job over from an owner whose lease has ended. The first owner changes nothing more.
func jobFence(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	f.addJob(&driver.AddJobParams{ID: "job_1", Start: true, Now: t0})
	a, at := f.takeJob("a", t0), t0.Add(jobLease)
	b := f.takeJob("b", at)
	if b == nil || b.Fence <= a.Fence || b.Owner != "b" {
		f.Fatalf("took %+v after %+v, want the job under a higher fence", b, a)
	}
	want := f.job("job_1")
	letters := []driver.DeadLetterRef{letter(&c, 0)}
	held, done := f.stepJob(&driver.JobStep{ID: "job_1", Fence: a.Fence, Letters: letters, Action: driver.JobReplay, Done: 1, Now: at})
	if held || slices.Contains(done, true) {
		f.Errorf("the step of the lost lease was accepted: %v, %v", held, done)
	}
	same(f, "the job", want, f.job("job_1"))
	same(f, "the letter is still dead", []bool{true}, f.replayDead(at, letters...))
	// An owner may go on after its lease ended, until another one takes the job.
	if held, _ := f.stepJob(&driver.JobStep{ID: "job_1", Fence: b.Fence, Now: at.Add(time.Hour)}); !held {
		f.Error("the step of the late owner was refused")
	}
	// A lease that the clock left far ahead does not hold for ever.
	if got := f.takeJob("c", t0.Add(-day)); got == nil || got.Fence <= b.Fence {
		f.Errorf("took %+v after the clock was set back, want the job", got)
	}
}

func jobTakeOrder(f *fixture) {
	f.addJob(&driver.AddJobParams{ID: "job_late", Start: true, Now: t0.Add(time.Second)})
	f.addJob(&driver.AddJobParams{ID: "job_early", Start: true, Now: t0})
	f.addJob(&driver.AddJobParams{ID: "job_last", Start: true, Now: t0.Add(2 * time.Second)})
	at := t0.Add(time.Minute)
	take := func(id, want string) {
		f.Helper()
		got, err := f.s.TakeJob(f.Context(), &driver.TakeJobParams{ID: id, Owner: "a", For: jobLease, Now: at})
		if err != nil || want == "" != (got == nil) || got != nil && got.ID != want {
			f.Errorf("took %+v, error %v, want %q", got, err, want)
		}
	}
	take("job_none", "")
	take("job_last", "job_last")
	take("job_last", "") // it is leased
	take("", "job_early")
	take("", "job_late")
	take("", "")
}

// jobLetters replays and discards letters in steps of a job.
func jobLetters(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b", "c")
	f.claimNew(t0, c)
	for _, destination := range []string{"to-a", "to-b", "to-c"} {
		f.kill(t0, destination)
	}
	f.discard(t0, letter(&c, 2))
	f.addJob(&driver.AddJobParams{ID: "job_1", Start: true, Now: t0})
	fence := f.takeJob("a", t0).Fence
	held, done := f.stepJob(&driver.JobStep{
		ID: "job_1", Fence: fence, Letters: []driver.DeadLetterRef{letter(&c, 0), letter(&c, 2)}, Action: driver.JobReplay, Done: 1, Cursor: "x", Now: t0,
	})
	same(f, "replayed", []any{true, []bool{true, false}}, []any{held, done})
	held, done = f.stepJob(&driver.JobStep{ID: "job_1", Fence: fence, Letters: []driver.DeadLetterRef{letter(&c, 1)}, Action: driver.JobDiscard, Now: t0})
	same(f, "discarded", []any{true, []bool{true}}, []any{held, done})
	if got := f.job("job_1"); got.Done != 3 || got.Skipped != 1 || got.Cursor != "x" {
		f.Errorf("the job is %+v, want 3 done and 1 skipped", got)
	}
	var got []string
	for _, h := range f.event("stripe", "evt_1").History {
		got = append(got, h.Action+" "+h.RequestID)
	}
	same(f, "history", []string{"discarded ", "replayed job_1", "discarded job_1"}, got)
	f.leaseOne(t0, "to-a")
}

func jobList(f *fixture) {
	var want []string
	for i := range 5 {
		id := fmt.Sprintf("job_%d", i)
		f.addJob(&driver.AddJobParams{ID: id, Start: i == 2, Now: t0.Add(time.Duration(i/2) * time.Second)}) // two at a time
		want = append([]string{id}, want...)
	}
	for limit := 1; limit <= 6; limit++ {
		var got []string
		filter := &driver.JobFilter{Limit: limit}
		for {
			page, err := f.s.Jobs(f.Context(), filter)
			if err != nil {
				f.Fatal(err)
			}
			for i := range page.Jobs {
				got = append(got, page.Jobs[i].ID)
			}
			if filter.After = page.Next; filter.After.IsZero() {
				break
			}
		}
		same(f, fmt.Sprint("pages of ", limit), want, got)
	}
	page, err := f.s.Jobs(f.Context(), &driver.JobFilter{State: driver.JobRunning})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != "job_2" {
		f.Errorf("running jobs: %+v, error %v", page, err)
	}
	same(f, "a job of the listing", *f.job("job_2"), page.Jobs[0])
}

func jobsTrimmed(f *fixture) {
	f.addJob(&driver.AddJobParams{ID: "runs", Start: true, Now: t0})
	for i := range driver.MaxJobs + 1 {
		f.addJob(&driver.AddJobParams{ID: fmt.Sprintf("job_%04d", i), Now: t0.Add(time.Duration(i+1) * time.Second)})
	}
	f.job("runs")
	f.job("job_0001")
	if _, err := f.s.Job(f.Context(), "job_0000"); !errors.Is(err, driver.ErrNotFound) {
		f.Errorf("the oldest job that does not run is still there: %v", err)
	}
}

func jobsPruned(f *fixture) {
	f.addJob(&driver.AddJobParams{ID: "planned", Now: t0})
	f.addJob(&driver.AddJobParams{ID: "runs", Start: true, Now: t0})
	f.addJob(&driver.AddJobParams{ID: "ended", Now: t0})
	f.cancelJob("ended", t0.Add(day))
	f.prune(windows(day, t0.Add(driver.JobsKept)))
	f.job("planned")
	f.prune(windows(day, t0.Add(driver.JobsKept+time.Second)))
	f.job("ended")
	if _, err := f.s.Job(f.Context(), "planned"); !errors.Is(err, driver.ErrNotFound) {
		f.Errorf("the planned job is still there: %v", err)
	}
	f.prune(windows(day, t0.Add(1000*day)))
	f.job("runs")
	if _, err := f.s.Job(f.Context(), "ended"); !errors.Is(err, driver.ErrNotFound) {
		f.Errorf("the job that ended is still there: %v", err)
	}
}

func jobBadTexts(f *fixture) {
	for _, bad := range []driver.AddJobParams{
		{},
		{ID: "a\x00"},
		{ID: strings.Repeat("a", driver.MaxJobID+1)},
		{ID: "a", RequestID: strings.Repeat("a", 256)},
		{ID: "a", RequestID: "\xff"},
		{ID: "a", Plan: strings.Repeat("a", driver.MaxJobText+1)},
	} {
		if _, err := f.s.AddJob(f.Context(), &bad); !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("AddJob(%.40q, %.40q): %v", bad.ID, bad.RequestID, err)
		}
	}
	if _, err := f.s.Job(f.Context(), "a\x00"); !errors.Is(err, driver.ErrNotFound) {
		f.Errorf("Job of no text: %v", err)
	}
	if _, _, err := f.s.StepJob(f.Context(), &driver.JobStep{ID: "a", LastError: "\xff"}); !errors.Is(err, driver.ErrBadRow) {
		f.Errorf("StepJob: %v", err)
	}
}
