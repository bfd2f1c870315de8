package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/say"
)

var jobPageParameters = append(slices.Clone(jobParameters), "refresh")

// manyRows is the count above which a person types the number before a job starts.
const manyRows = 1000

// jobsPage is the content of jobs.html.
type jobsPage struct {
	*listPage
	Rows []jobView
}

// jobPage is the content of job.html.
type jobPage struct {
	Root string
	Form form
	Job  jobView
	Undo bool // the discard can be undone
}

// jobView is a job on a page.
type jobView struct {
	ID, Href     string
	State        string
	Title        string // "Replay of dead letters"
	Action       string
	Selection    []chip // Remove links to the rows that the job selects
	Count        string // "10,000+"; "" if it was not counted
	Typed        string // the number to type before the start; "" for none
	Pace         string // "about 2 minutes at 100/s"
	Oldest       Time
	Newest       Time
	Destinations []text
	Sources      []text
	Done         string
	Skipped      string
	Failed       string
	Percent      int // of the planned rows that were worked on
	Error        text
	Owner        text
	Created      Time
	Started      Time
	Finished     Time
}

func (h *handling) showJobsPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, values, "jobs", jobPageParameters)
	l.Spans = nil // jobs are not listed by time
	_, found, status := listed(h, r, l, ParseJobFilter, h.store.Jobs)
	l.field("state", "State", "", driver.JobStates()...)
	content := &jobsPage{listPage: l}
	if found != nil {
		for i := range found.Jobs {
			content.Rows = append(content.Rows, newJobView(l.Root, NewJob(&found.Jobs[i]), now))
		}
	}
	if found != nil && !l.Stale.Known() {
		l.page(found.Next.String())
		if len(content.Rows) == 0 {
			l.Empty = &empty{Title: "No jobs.", Text: "A job replays or discards all dead letters that match a filter. Plan one from the dead letters.", Link: &link{l.Root + "dead-letters", "Dead letters"}}
		}
	}
	p := &page{Title: "Jobs", Content: content, Flash: h.takeFlash(w, r), Made: l.Stale.orNow(now)}
	if status == http.StatusOK {
		p.Live = &live{Every: 5}
	}
	p.Live = l.orRetry(p.Live)
	h.render(w, r, status, "jobs.html", p)
}

func (h *handling) showJobPage(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	now := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.store.Job(ctx, r.PathValue("id"))
	if err != nil {
		h.failStore(w, r, fmt.Errorf("reading a job: %w", err))
		return
	}
	job := NewJob(found)
	content := &jobPage{Root: rootFrom(r.URL.EscapedPath()), Form: h.newForm(r)}
	content.Job = newJobView(content.Root, job, now)
	finished := time.Time(job.FinishedAt)
	content.Undo = job.Action == driver.JobDiscard && job.Done > 0 && !finished.IsZero() && now.Sub(finished) < driver.UndoTime
	p := &page{Title: content.Job.Title, Up: &link{content.Root + "jobs", "Jobs"}, Content: content, Flash: h.takeFlash(w, r), Made: Time(now)}
	if p.Live = (&live{Every: 10}); job.State == driver.JobRunning {
		p.Live.Every, p.Watched = 2, true
	}
	h.render(w, r, http.StatusOK, "job.html", p)
}

func newJobView(root string, j *Job, now time.Time) jobView {
	v := jobView{
		ID: j.ID, Href: root + "jobs/" + url.PathEscape(j.ID), State: j.State, Action: j.Action,
		Title:  map[string]string{driver.JobReplay: "Replay", driver.JobDiscard: "Discard", driver.JobUndo: "Undo a discard"}[j.Action],
		Oldest: j.Oldest, Newest: j.Newest, Done: say.Number(j.Done), Skipped: say.Number(j.Skipped), Failed: say.Number(j.Failed),
		Error: newText(j.LastError, 300), Owner: newText(j.Owner, 60), Created: j.CreatedAt,
		Started: j.StartedAt, Finished: j.FinishedAt,
	}
	v.Title = cmp.Or(v.Title, j.Action)
	page := "dead-letters"
	switch {
	case j.Action == driver.JobUndo:
	case j.Of == driver.JobOfEvents:
		v.Title, page = v.Title+" of events", "events"
	default:
		v.Title += " of dead letters"
	}
	if j.Action != driver.JobUndo {
		v.addPlan(j)
	}
	for _, name := range []string{"source", "type", "destination", "state", "note", "signature", "q", "since", "until"} {
		if value, ok := j.Filter[name].(string); ok && value != "" {
			v.Selection = append(v.Selection, chip{Name: name, Value: newText(value, 80).Short, Remove: root + page + queryOf(url.Values{name: {value}})})
		}
	}
	for _, name := range []string{"ids", "message_ids"} {
		if ids, ok := j.Filter[name].([]any); ok {
			v.Selection = append(v.Selection, chip{Name: name, Value: say.Number(len(ids)), Remove: root + page})
		}
	}
	for _, name := range j.Destinations {
		v.Destinations = append(v.Destinations, newText(name, 40))
	}
	for _, name := range j.Sources {
		v.Sources = append(v.Sources, newText(name, 40))
	}
	return v
}

func (v *jobView) addPlan(j *Job) {
	v.Count = say.Number(j.Count)
	if j.More {
		v.Count += "+"
	}
	if j.Count > manyRows {
		v.Typed = say.Number(j.Count)
	}
	if j.Count > 0 {
		v.Percent = int(min(100, 100*(j.Done+j.Skipped+j.Failed)/j.Count))
	}
	if j.State == driver.JobDone {
		v.Percent = 100
	}
	if j.Seconds != nil {
		pace := cmp.Or(j.Rate, fmt.Sprintf("%d/s", defaults.ReplayRate.Count))
		v.Pace = "about " + inWords(roughly(time.Duration(*j.Seconds)*time.Second)) + " at " + visible(pace)
	}
}

// roughly rounds d to what people say: at most two units.
func roughly(d time.Duration) time.Duration {
	switch {
	case d > 48*time.Hour:
		return d.Round(time.Hour)
	case d > time.Hour:
		return d.Round(time.Minute)
	}
	return max(d, time.Second).Round(time.Second)
}

// typedCount reads a number as pages show it.
func typedCount(s string) string {
	return strings.NewReplacer(",", "", " ", "", ".", "", "'", "", "+", "").Replace(s)
}
