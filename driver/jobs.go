package driver

import (
	"context"
	"fmt"
	"time"
)

// Jobs are bulk actions that are kept in the database, so that they go on after a restart. A job is
// planned first, and does nothing until it is started. Then one process at a time holds its lease and
// works on it.
type Jobs interface {
	// AddJob stores a planned job. If p.RequestID was used before, AddJob stores nothing and returns
	// the earlier job; the error matches ErrRequestReused if that job is another one (JobSpec). It
	// also removes the oldest jobs beyond MaxJobs that are not running.
	AddJob(ctx context.Context, p *AddJobParams) (*Job, error)

	// Job returns the job with an id, otherwise the one with that request id. The error matches
	// ErrNotFound if there is none.
	Job(ctx context.Context, id string) (*Job, error)

	// Jobs lists jobs, newest first.
	Jobs(ctx context.Context, f *JobFilter) (*JobPage, error)

	// StartJob makes a planned or cancelled job run, from where it was cancelled, and returns it. A
	// running job is returned as it is. The error matches ErrNotFound, or ErrJobEnded for a job that
	// is done or has failed.
	StartJob(ctx context.Context, p *ChangeJobParams) (*Job, error)

	// CancelJob makes a planned or running job cancelled, and returns it. A cancelled job is returned
	// as it is. The error matches ErrNotFound, or ErrJobEnded for a job that is done or has failed.
	// After CancelJob no step of the job commits.
	CancelJob(ctx context.Context, p *ChangeJobParams) (*Job, error)

	// TakeJob leases the running job that waits longest, or the one that p names, and returns it with a
	// higher Fence; nil if there is none. It passes over jobs whose lease another process holds.
	TakeJob(ctx context.Context, p *TakeJobParams) (*Job, error)

	// StepJob records progress of a leased job and prolongs the lease, in one commit with the changes
	// of p.Letters. It reports whether the job was running under that lease; if not, nothing was
	// changed. done says for each letter whether it was changed, as for ReplayDead and Discard; StepJob
	// counts it as done or skipped.
	StepJob(ctx context.Context, p *JobStep) (held bool, done []bool, err error)

	// Undiscard makes letters dead again that a discard of p.Operation made skipped: with the
	// generation, attempts, error, note and time of failure from before. It works on the next p.Limit
	// letters after p.After, in one transaction. It skips letters that were replayed, discarded again
	// or pruned since.
	Undiscard(ctx context.Context, p *UndiscardParams) (*Undiscarded, error)

	// Discards tells of the discards of an operation. The error matches ErrNotFound if there are none.
	Discards(ctx context.Context, operation string) (*Discarded, error)
}

// Bounds of jobs.
const (
	MaxJobs      = 1000                // that are kept
	JobsKept     = 30 * 24 * time.Hour // after their end; planned ones, after they were planned
	MaxJobText   = 1 << 20             // bytes of the filter, and of the plan
	MaxJobStep   = 200                 // letters of one step
	MaxJobID     = 64                  // bytes of an id
	MaxPlanNames = 50                  // names of each kind in a plan
	UndoTime     = 10 * time.Minute    // after the last discard of an operation
)

// The states of a job.
const (
	JobPlanned   = "planned"
	JobRunning   = "running"
	JobDone      = "done"
	JobCancelled = "cancelled"
	JobFailed    = "failed" // it cannot be carried out; Job.LastError says why
)

// JobStates lists the states of a job. The index of each is its number in the tables of both
// databases.
func JobStates() []string {
	return []string{JobPlanned, JobRunning, JobDone, JobCancelled, JobFailed}
}

// The subjects and actions of a JobSpec.
const (
	JobOfDeadLetters = "dead_letters"
	JobOfEvents      = "events"

	JobReplay  = "replay"
	JobDiscard = "discard" // of dead letters only
	JobUndo    = "undo"    // of a discard
)

// JobTo begins the mode of a replay of events to a destination. Its name follows.
const JobTo = "to:"

// JobSpec says which rows a job changes, and how.
type JobSpec struct {
	Of     string // JobOfDeadLetters or JobOfEvents
	Action string // JobReplay, JobDiscard or JobUndo
	// Mode is that of a replay of events: "as_new", "same_id", "reroute", JobTo and the name of a
	// destination, or "" for events that are dead or skipped.
	Mode   string
	Rate   string // letters or events for a time, such as "100/s"; "none" is unpaced, "" the default
	Filter string // a JobSelection as JSON
}

// JobSelection selects the rows of a job. Zero fields select all. Events have no Signature, MessageIDs
// and Events, and dead letters have no State. A job of dead letters counts a name
// without one as skipped.
type JobSelection struct {
	Source      string     `json:"source,omitempty"`
	Type        string     `json:"type,omitempty"`
	Destination string     `json:"destination,omitempty"`
	State       string     `json:"state,omitempty"`
	Note        string     `json:"note,omitempty"`
	Signature   string     `json:"signature,omitempty"`
	Text        string     `json:"q,omitempty"`
	Since       *time.Time `json:"since,omitempty"` // received at or after
	Until       *time.Time `json:"until,omitempty"` // received before
	EventIDs    []string   `json:"ids,omitempty"`   // of events of Source
	MessageIDs  []string   `json:"message_ids,omitempty"`
	Events      []JobEvent `json:"events,omitempty"`     // of dead letters of several sources
	RequestID   string     `json:"request_id,omitempty"` // of JobUndo: the operation that discarded; nothing else is set
}

// JobEvent names an event.
type JobEvent struct {
	Source string `json:"source"`
	ID     string `json:"id"` // as shown
}

// JobPlan is the result of the count before the start of a job. Count is 0 for JobUndo.
type JobPlan struct {
	Count        int        `json:"count"`
	More         bool       `json:"more,omitempty"`         // there are more than Count, and the rest is about the counted ones
	Oldest       *time.Time `json:"oldest,omitempty"`       // receipt of the oldest event
	Newest       *time.Time `json:"newest,omitempty"`       // receipt of the newest event
	Destinations []string   `json:"destinations,omitempty"` // sorted; at most MaxPlanNames
	Sources      []string   `json:"sources,omitempty"`      // sorted; at most MaxPlanNames

	// Of a replay of events: how many are in each state, and how many are left out because they were
	// discarded; those are not in Count.
	States    map[string]int `json:"states,omitempty"`
	Discarded int            `json:"discarded,omitempty"`
	// The effect that the replay would have now: messages that are sent, stay as they are, and become skipped; events
	// with a handler that runs; events that are refused, by the reason.
	Sends   []PlanPart     `json:"sends,omitempty"`
	Stays   []PlanPart     `json:"stays,omitempty"`
	Skips   []PlanPart     `json:"skips,omitempty"`
	Handled int            `json:"handled,omitempty"`
	Refused map[string]int `json:"refused,omitempty"`
}

// PlanPart counts messages of a plan. A plan has at most MaxPlanNames of each kind.
type PlanPart struct {
	Destination string `json:"destination"`
	Route       string `json:"route"` // "" for messages of no route
	Messages    int    `json:"messages"`
}

// To names the destination for people: "billing (route invoices)".
func (p *PlanPart) To() string {
	if p.Route == "" {
		return p.Destination
	}
	return p.Destination + " (route " + p.Route + ")"
}

// Job is a bulk action.
type Job struct {
	ID string // unique
	JobSpec
	State     string // one of JobStates
	Plan      string // a JobPlan as JSON
	RequestID string // of AddJobParams; else ""

	Done      int64  // letters or events that were changed
	Skipped   int64  // letters that no longer match or are locked; events that are as wanted already, and stay
	Failed    int64  // refused; LastError has the reason of the last one
	LastError string // also an error of the database; then the job is tried again

	Cursor string // where the job goes on; only package internal/jobs reads it
	Owner  string // the process that took the job last
	Fence  int64  // counts the leases

	CreatedAt  time.Time
	StartedAt  time.Time // of the first start; zero before
	FinishedAt time.Time // of the end, or of the cancellation; zero otherwise
}

// AddJobParams are the parameters of Jobs.AddJob.
type AddJobParams struct {
	ID string
	JobSpec
	Plan      string
	RequestID string // "" if the request cannot be repeated; at most 255 bytes
	Start     bool   // the job runs at once
	Now       time.Time
}

// ChangeJobParams are the parameters of Jobs.StartJob and Jobs.CancelJob.
type ChangeJobParams struct {
	ID  string
	Now time.Time // tests only; zero means the database's clock
}

// TakeJobParams are the parameters of Jobs.TakeJob.
type TakeJobParams struct {
	ID    string        // of the job; "" for any
	Owner string        // names the process
	For   time.Duration // of the lease
	Now   time.Time     // tests only; zero means the database's clock
}

// JobStep is a step of a job under a lease.
type JobStep struct {
	ID    string
	Fence int64 // of the lease
	For   time.Duration
	// Letters are replayed or discarded, as Action says. At most MaxJobStep. The history has the id of
	// the job.
	Letters []DeadLetterRef
	Action  string // JobReplay or JobDiscard; "" without letters
	// Done, Skipped and Failed are added to the job's counts, besides the letters.
	Done, Skipped, Failed int64
	LastError             string // replaces the job's, unless it is ""
	Cursor                string // replaces the job's, unless it is ""
	End                   string // JobDone or JobFailed ends the job; "" does not
	Now                   time.Time
}

// Count adds the letters to Done and Skipped. done says for each letter whether it was changed.
func (p *JobStep) Count(done []bool) {
	for _, ok := range done {
		if ok {
			p.Done++
		} else {
			p.Skipped++
		}
	}
}

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *JobStep) Check() error {
	return checkJobTexts(p.LastError, p.Cursor)
}

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *AddJobParams) Check() error {
	if p.ID == "" || len(p.ID) > MaxJobID || len(p.RequestID) > maxRequestID {
		return fmt.Errorf("%w: the id of a job must have 1 to %d bytes, and its request id at most %d", ErrBadRow, MaxJobID, maxRequestID)
	}
	return checkJobTexts(p.ID, p.RequestID, p.Of, p.Action, p.Mode, p.Rate, p.Filter, p.Plan)
}

// maxRequestID limits AddJobParams.RequestID, in bytes.
const maxRequestID = 255

func checkJobTexts(texts ...string) error {
	for _, text := range texts {
		if !IsText(text) || len(text) > MaxJobText {
			return fmt.Errorf("%w: a text of a job must be valid UTF-8 without NUL, of at most %d bytes", ErrBadRow, MaxJobText)
		}
	}
	return nil
}

// UndiscardParams are the parameters of Jobs.Undiscard.
type UndiscardParams struct {
	Operation string // the id of the request or job that discarded
	Limit     int    // 1 to MaxJobStep
	After     string // Undiscarded.Next of the call before; "" at the beginning
	Pass      bool   // the letters stay discarded, because the database refuses to change them
	// Step, if not nil, is recorded in the same commit, with Undone as Done and Skipped added, as
	// StepJob does. Its Cursor and End are set by Undiscard: the next place, or the end.
	Step   *JobStep
	Unsure bool      // unless a letter becomes dead again, Step only prolongs the lease
	Now    time.Time // tests only; zero means the database's clock
}

// Recorded returns p.Step with the result of the call.
func (p *UndiscardParams) Recorded(done *Undiscarded) *JobStep {
	step := *p.Step
	if p.Unsure && done.Undone == 0 {
		return &JobStep{ID: step.ID, Fence: step.Fence, For: step.For, Now: step.Now}
	}
	step.Done, step.Skipped = step.Done+int64(done.Undone), step.Skipped+int64(done.Skipped)
	if step.Cursor = done.Next; done.Next == "" {
		step.End = JobDone
	}
	return &step
}

// Undiscarded is the result of Jobs.Undiscard.
type Undiscarded struct {
	Held    bool // false if the step of UndiscardParams was refused: then nothing was changed
	Undone  int
	Skipped int
	Next    string // "" at the end
}

// Discarded tells of the discards of one operation.
type Discarded struct {
	Count  int  // at most 1,001
	Recent bool // the last of them is at most UndoTime ago, by the database's clock
}

// JobFilter selects jobs. Zero fields select all.
type JobFilter struct {
	State string // one of JobStates
	Limit int    // 1 to 200; 0 means 50
	After Cursor
}

// JobPage is one page of jobs, newest first. Its Cursor holds CreatedAt and the id.
type JobPage struct {
	Jobs []Job
	Next Cursor // zero on the last page
}
