package hookadmin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
)

var jobParameters = []string{"state", "limit", "cursor"}

// JobRequest is the body of POST /api/v1/jobs.
type JobRequest struct {
	Of     string    `json:"of,omitempty"`     // dead_letters, the default, or events
	Action string    `json:"action,omitempty"` // replay or discard
	Mode   string    `json:"mode,omitempty"`   // as_new, same_id or reroute, for events
	To     string    `json:"to,omitempty"`     // for events: the name of a destination to send them to; without a mode
	Rate   string    `json:"rate,omitempty"`
	Filter JobFilter `json:"filter"`
	Start  bool      `json:"start,omitempty"`
}

// JobFilter selects the rows of a job. Its keys are those of the listings, with lists of ids.
type JobFilter struct {
	Source      string   `json:"source,omitempty"`
	Type        string   `json:"type,omitempty"`
	Destination string   `json:"destination,omitempty"`
	State       string   `json:"state,omitempty"`
	Note        string   `json:"note,omitempty"`
	Signature   string   `json:"signature,omitempty"`
	IDs         []string `json:"ids,omitempty"`
	MessageIDs  []string `json:"message_ids,omitempty"`
	Q           string   `json:"q,omitempty"`
	Since       string   `json:"since,omitempty"`
	Until       string   `json:"until,omitempty"`
	All         bool     `json:"all,omitempty"`
}

// NewJobFilter returns the selection of the rows that a listing with these parameters has, or of all.
func NewJobFilter(values url.Values, all bool) JobFilter {
	return JobFilter{
		Source: values.Get("source"), Type: values.Get("type"), Destination: values.Get("destination"), State: values.Get("state"),
		Note: values.Get("note"), Signature: values.Get("signature"), IDs: given(values, "id"), MessageIDs: given(values, "message_id"),
		Q: values.Get("q"), Since: values.Get("since"), Until: values.Get("until"), All: all,
	}
}

// given returns the value of a parameter as a list, or nil.
func given(values url.Values, name string) []string {
	if value := values.Get(name); value != "" {
		return []string{value}
	}
	return nil
}

// selection returns the rows that f selects.
func (f *JobFilter) selection(of, prefix string, now time.Time) (driver.JobSelection, error) {
	fault := func(name, reason string) (driver.JobSelection, error) {
		return driver.JobSelection{}, &ParameterError{prefix + name, reason}
	}
	filtered := f.Source+f.Type+f.Destination+f.State+f.Note+f.Signature+f.Q+f.Since+f.Until != "" || f.IDs != nil || f.MessageIDs != nil
	events := of == driver.JobOfEvents
	switch {
	case !filtered && !f.All:
		return fault("all", "must be true unless other keys select")
	case filtered && f.All:
		return fault("all", "must stand alone: the other keys select only some of them")
	case f.IDs != nil && f.Source == "":
		return fault("source", "is required with ids, because ids belong to one source")
	case f.IDs != nil && f.MessageIDs != nil:
		return fault("message_ids", "is not allowed with ids")
	case events && (f.Signature != "" || f.MessageIDs != nil):
		return fault("signature", "is of dead letters, as message_ids are; events have none of them")
	case events && f.State != "" && !slices.Contains(driver.EventStates(), f.State):
		return fault("state", notState(f.State, driver.EventStates()))
	case !events && f.State != "" && f.State != driver.StateDead:
		return fault("state", notState(f.State, []string{driver.StateDead}))
	}
	since, until, err := parseSpan(f.Since, f.Until, now)
	if err != nil {
		return driver.JobSelection{}, err
	}
	sel := driver.JobSelection{
		Source: f.Source, Type: f.Type, Destination: f.Destination, Note: f.Note, Signature: f.Signature, Text: f.Q,
		Since: timeOrNil(since), Until: timeOrNil(until), EventIDs: f.IDs, MessageIDs: f.MessageIDs,
	}
	if events {
		sel.State = f.State
	}
	return sel, nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// job returns the request for the engine. prefix is that of the keys of the filter in a ParameterError.
func (q *JobRequest) job(prefix string, now time.Time) (*operate.Request, error) {
	of := cmp.Or(q.Of, driver.JobOfDeadLetters)
	switch {
	case of != driver.JobOfDeadLetters && of != driver.JobOfEvents:
		return nil, &ParameterError{"of", fmt.Sprintf("%q is unknown; use dead_letters or events", of)}
	case q.Action == "":
		return nil, &ParameterError{"action", "is missing; use replay or discard"}
	case q.Action != driver.JobReplay && q.Action != driver.JobDiscard:
		return nil, &ParameterError{"action", fmt.Sprintf("%q is unknown; use replay or discard", q.Action)}
	case of == driver.JobOfEvents && q.Action != driver.JobReplay:
		return nil, &ParameterError{"action", "must be replay for events: only dead letters are discarded"}
	case q.Mode != "" && q.Mode != "as_new" && q.Mode != "same_id" && q.Mode != "reroute":
		return nil, &ParameterError{"mode", fmt.Sprintf("%q is unknown; use as_new, same_id or reroute", q.Mode)}
	case q.Mode != "" && of != driver.JobOfEvents:
		return nil, &ParameterError{"mode", "is for events: dead letters keep their ids"}
	case q.To != "" && of != driver.JobOfEvents:
		return nil, &ParameterError{"to", "is for events: dead letters keep their destinations"}
	case q.Mode != "" && q.To != "":
		return nil, &ParameterError{"to", "excludes mode"}
	}
	mode := q.Mode
	if q.To != "" {
		mode = driver.JobTo + q.To
	}
	if _, err := limit.ParsePace(q.Rate); err != nil {
		return nil, &ParameterError{"rate", fmt.Sprintf("%q %s", q.Rate, err)}
	}
	sel, err := q.Filter.selection(of, prefix, now)
	if err != nil {
		return nil, err
	}
	return &operate.Request{Of: of, Action: q.Action, Mode: mode, Rate: q.Rate, Select: sel, Start: q.Start}, nil
}

func (h *handling) planJob(w http.ResponseWriter, r *http.Request) {
	var q JobRequest
	if !h.read(w, r, &q) {
		return
	}
	id, refused := requestID(r)
	if refused != nil {
		h.refuse(w, r, refused)
		return
	}
	request, err := q.job("filter.", time.Now())
	if err != nil {
		h.fail(w, r, http.StatusUnprocessableEntity, err.Error(), nil)
		return
	}
	request.RequestID = id
	ctx, cancel := changing(r)
	defer cancel()
	job, err := h.engine.Operator().PlanJob(ctx, request)
	if err != nil {
		h.failKnown(w, r, ofJob, "With an Idempotency-Key, repeating is safe.", fmt.Errorf("planning a job: %w", err))
		return
	}
	w.Header().Set("Location", "/api/v1/jobs/"+job.ID)
	writeJSONStatus(w, http.StatusCreated, NewJob(job))
}

func (h *handling) listJobs(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, ParseJobFilter, h.store.Jobs, NewJobPage)
}

// ParseJobFilter reads the parameters of GET /api/v1/jobs, as ParseFilter does.
func ParseJobFilter(values url.Values, now time.Time) (*driver.JobFilter, error) {
	l, err := parseListing(values, jobParameters, driver.JobStates(), now)
	if err != nil {
		return nil, err
	}
	after, err := driver.ParseCursor(values.Get("cursor"))
	if err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return &driver.JobFilter{State: values.Get("state"), Limit: l.limit, After: after}, nil
}

func (h *handling) showJob(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	job, err := h.store.Job(ctx, r.PathValue("id"))
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	writeJSON(w, NewJob(job))
}

func (h *handling) startJob(w http.ResponseWriter, r *http.Request) {
	h.changeJob(w, r, h.engine.Operator().StartJob)
}

func (h *handling) cancelJob(w http.ResponseWriter, r *http.Request) {
	h.changeJob(w, r, h.engine.Operator().CancelJob)
}

func (h *handling) changeJob(w http.ResponseWriter, r *http.Request, change func(context.Context, string) (*driver.Job, error)) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	job, err := change(ctx, r.PathValue("id"))
	switch {
	case err == nil:
		writeJSON(w, NewJob(job))
	case errors.Is(err, driver.ErrJobEnded):
		h.fail(w, r, http.StatusConflict, "The job has ended. Plan another one.", nil)
	default:
		h.failChange(w, r, "Repeating it is safe.", fmt.Errorf("changing a job: %w", err))
	}
}

// UndoRequest is the body of POST /api/v1/dead-letters/undo.
type UndoRequest struct {
	RequestID string `json:"request_id"`
}

func (h *handling) undoDiscard(w http.ResponseWriter, r *http.Request) {
	var q UndoRequest
	if !h.read(w, r, &q) {
		return
	}
	if q.RequestID == "" {
		h.fail(w, r, http.StatusUnprocessableEntity, `request_id: is missing; give the "request_id" of the answer to the discard, or the id of its job`, nil)
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	job, err := h.undo(ctx, q.RequestID)
	switch {
	case err != nil:
		h.failKnown(w, r, ofUndo, "Repeating it is safe.", fmt.Errorf("undoing a discard: %w", err))
	case job.State != driver.JobDone:
		h.accept(w, job.ID)
	default:
		writeJSON(w, NewUndone(NewJob(job)))
	}
}

// undo undoes a discard, or leaves that to the job that it returns.
func (h *handling) undo(ctx context.Context, operation string) (*driver.Job, error) {
	request, err := h.engine.Operator().UndoRequest(ctx, operation)
	if err != nil {
		return nil, err
	}
	return h.engine.Operator().Do(ctx, request)
}

// accept answers that a job does the work.
func (h *handling) accept(w http.ResponseWriter, job string) {
	w.Header().Set("Location", "/api/v1/jobs/"+job)
	writeJSONStatus(w, http.StatusAccepted, &Accepted{Job: job})
}

// Undone is the answer of POST /api/v1/dead-letters/undo.
type Undone struct {
	Undone int `json:"undone"`
	// Skipped counts letters that were replayed, discarded again or pruned since, or that another
	// session had locked.
	Skipped int `json:"skipped"`
}

// NewUndone returns the result of a job as the API prints it.
func NewUndone(j *Job) *Undone {
	return &Undone{Undone: int(j.Done), Skipped: int(j.Skipped + j.Failed)}
}

// Accepted is the answer of a request that a job carries out. The id of the job is also the
// request_id to undo a discard.
type Accepted struct {
	Job string `json:"job"`
}

// JobPage is the answer of GET /api/v1/jobs.
type JobPage struct {
	Jobs []Job `json:"jobs"` // newest first
	// Next is the cursor of the next page; "" on the last one.
	Next string `json:"next"`
}

// Job is a bulk action.
type Job struct {
	ID     string         `json:"id"`
	Of     string         `json:"of"`     // dead_letters or events
	Action string         `json:"action"` // replay, discard or undo
	Mode   string         `json:"mode"`   // of a replay of events; "" without one
	To     string         `json:"to"`     // of a replay of events to a destination: its name; else ""
	Rate   string         `json:"rate"`   // as requested; "" is the default
	Filter map[string]any `json:"filter"` // the selection; times are absolute
	State  string         `json:"state"`

	Count        int64    `json:"count,string"` // of rows when it was planned; 0 for an undo
	More         bool     `json:"more"`         // there were more than Count, and the rest is about the counted ones
	Oldest       Time     `json:"oldest"`       // receipt of the oldest event
	Newest       Time     `json:"newest"`       // receipt of the newest event
	Destinations []string `json:"destinations"` // at most 50
	Sources      []string `json:"sources"`      // at most 50
	// Of a replay of events, when it was planned: how many are in each state; those that are left out
	// because they were discarded, which are not in Count; and the effect.
	States    map[string]int    `json:"states"`
	Discarded int               `json:"discarded"`
	Sends     []driver.PlanPart `json:"sends"`   // messages that are sent; at most 50 destinations and routes
	Stays     []driver.PlanPart `json:"stays"`   // messages that stay as they are
	Skips     []driver.PlanPart `json:"skips"`   // messages that are not sent any more
	Handled   int               `json:"handled"` // events whose handler runs again
	Refused   map[string]int    `json:"refused"` // events by the reason
	// Seconds is the time for Count rows at the rate; null if the job is not paced.
	Seconds *int64 `json:"seconds,string"`

	Done      int64  `json:"done,string"`
	Skipped   int64  `json:"skipped,string"`
	Failed    int64  `json:"failed,string"`
	LastError string `json:"last_error"`
	Owner     string `json:"owner"`      // the process that works on it, or did last
	RequestID string `json:"request_id"` // the Idempotency-Key; "" without one

	CreatedAt  Time `json:"created_at"`
	StartedAt  Time `json:"started_at"`
	FinishedAt Time `json:"finished_at"`
}

// NewJob returns a job as the API prints it.
func NewJob(j *driver.Job) *Job {
	out := &Job{
		ID: j.ID, Of: j.Of, Action: j.Action, Mode: j.Mode, Rate: j.Rate, Filter: map[string]any{}, State: j.State,
		Destinations: []string{}, Sources: []string{},
		States: map[string]int{}, Refused: map[string]int{}, Sends: []driver.PlanPart{}, Stays: []driver.PlanPart{}, Skips: []driver.PlanPart{},
		Done: j.Done, Skipped: j.Skipped, Failed: j.Failed, LastError: j.LastError, Owner: j.Owner, RequestID: j.RequestID,
		CreatedAt: Time(j.CreatedAt), StartedAt: Time(j.StartedAt), FinishedAt: Time(j.FinishedAt),
	}
	if to, ok := strings.CutPrefix(j.Mode, driver.JobTo); ok {
		out.Mode, out.To = "", to
	}
	// Texts that cannot be read were changed by hand; the rest is still worth showing.
	_ = json.Unmarshal([]byte(j.Filter), &out.Filter)
	var plan driver.JobPlan
	if err := json.Unmarshal([]byte(j.Plan), &plan); err == nil {
		out.Count, out.More = int64(plan.Count), plan.More
		out.Destinations, out.Sources = append(out.Destinations, plan.Destinations...), append(out.Sources, plan.Sources...)
		out.Sends, out.Stays, out.Skips = append(out.Sends, plan.Sends...), append(out.Stays, plan.Stays...), append(out.Skips, plan.Skips...)
		out.Discarded, out.Handled = plan.Discarded, plan.Handled
		maps.Copy(out.States, plan.States)
		maps.Copy(out.Refused, plan.Refused)
		if plan.Oldest != nil && plan.Newest != nil {
			out.Oldest, out.Newest = Time(*plan.Oldest), Time(*plan.Newest)
		}
	}
	if rate, err := operate.JobRate(&j.JobSpec); err == nil && rate != limit.Unpaced && j.Action != driver.JobUndo {
		seconds := int64(float64(out.Count) / float64(rate.Count) * rate.Per.Seconds())
		out.Seconds = &seconds
	}
	return out
}

// NewJobPage returns page as the API prints it.
func NewJobPage(page *driver.JobPage) *JobPage {
	out := &JobPage{Jobs: make([]Job, 0, len(page.Jobs)), Next: page.Next.String()}
	for i := range page.Jobs {
		out.Jobs = append(out.Jobs, *NewJob(&page.Jobs[i]))
	}
	return out
}
