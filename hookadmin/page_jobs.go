package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// jobView is a job on a page at root.
type jobView struct {
	*Job
	root string
}

func (h *handling) showJobsPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, values, "jobs", jobPageParameters)
	l.Spans = nil // jobs are not listed by time
	found, status := listed(h, r, l, ParseJobFilter, h.store.Jobs, NewJobPage)
	l.field("state", "State", "", driver.JobStates()...)
	content := &jobsPage{listPage: l}
	if found != nil {
		for i := range found.Jobs {
			content.Rows = append(content.Rows, jobView{&found.Jobs[i], l.Root})
		}
	}
	if found != nil && !l.Stale.Known() {
		l.page(found.Next)
		if len(content.Rows) == 0 {
			l.Empty = &empty{Title: "No jobs.", Text: "A job replays or discards all dead letters, or reroutes all events, that match a filter. Plan one from their lists.", Link: &link{l.Root + "dead-letters", "Dead letters"}}
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
	content.Job = jobView{job, content.Root}
	finished := time.Time(job.FinishedAt)
	content.Undo = job.Action == driver.JobDiscard && job.Done > 0 && !finished.IsZero() && now.Sub(finished) < driver.UndoTime
	p := &page{Title: content.Job.Title(), Up: &link{content.Root + "jobs", "Jobs"}, Content: content, Flash: h.takeFlash(w, r), Made: Time(now)}
	if p.Live = (&live{Every: 10}); job.State == driver.JobRunning {
		p.Live.Every, p.Watched = 2, true
	}
	h.render(w, r, http.StatusOK, "job.html", p)
}

// Title returns "Replay of dead letters".
func (v jobView) Title() string {
	title := cmp.Or(map[string]string{driver.JobReplay: "Replay", driver.JobDiscard: "Discard", driver.JobUndo: "Undo a discard"}[v.Action], v.Action)
	switch {
	case v.Action == driver.JobUndo:
		return title
	case v.Mode == "reroute":
		return "Reroute of events"
	case v.Of == driver.JobOfEvents:
		return title + " of events"
	}
	return title + " of dead letters"
}

// How returns how events are replayed; "" for other jobs.
func (v jobView) How() string {
	switch {
	case v.To != "":
		return "sent to " + visible(v.To)
	case v.Mode == "":
		return ""
	}
	return cmp.Or(map[string]string{"as_new": "as new", "same_id": "same ids", "reroute": "rerouted, by the routes of the settings"}[v.Mode], v.Mode)
}

// Effects returns the foreseen effect of a replay of events.
func (v jobView) Effects() (all []fact) {
	add := func(name string, n int, more string) {
		all = append(all, fact{Name: name, Value: newText(strings.TrimSpace(say.Number(int64(n))+" "+more), 120)})
	}
	for _, part := range []struct {
		name string
		list []driver.PlanPart
	}{{"Sent", v.Sends}, {"Not sent any more", v.Skips}, {"Stay as they are", v.Stays}} {
		for _, m := range part.list {
			add(part.name, m.Messages, "→ "+m.To())
		}
	}
	if v.Handled > 0 {
		add("Handlers run again for", v.Handled, "events")
	}
	for _, reason := range slices.Sorted(maps.Keys(v.Refused)) {
		add("Refused", v.Refused[reason], reason)
	}
	if v.Discarded > 0 {
		add("Left out", v.Discarded, "discarded; select the note discarded to take them")
	}
	return all
}

// Passed says why rows were skipped.
func (v jobView) Passed() string {
	if v.Of == driver.JobOfEvents {
		return "stay as they are"
	}
	return "skipped"
}

// Selection returns the filters of the job, with links to its rows.
func (v jobView) Selection() []chip {
	page := "dead-letters"
	if v.Of == driver.JobOfEvents && v.Action != driver.JobUndo {
		page = "events"
	}
	var all []chip
	for _, name := range []string{"source", "type", "destination", "state", "note", "signature", "q", "since", "until"} {
		if value, ok := v.Filter[name].(string); ok && value != "" {
			shown := value
			if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
				shown = toTheSecond(Time(at))
			}
			all = append(all, chip{Name: name, Value: newText(shown, 80).Short, Remove: v.root + page + queryOf(url.Values{name: {value}})})
		}
	}
	for name, of := range map[string]string{"ids": "event", "message_ids": "message", "events": "event"} {
		if ids, ok := v.Filter[name].([]any); ok {
			all = append(all, chip{Name: "only", Value: countWord(int64(len(ids)), of, of+"s"), Remove: v.root + page})
		}
	}
	return all
}

// Planned returns the number of rows, "10,000+" at the bound; "" if it was not counted.
func (v jobView) Planned() string {
	switch {
	case v.Action == driver.JobUndo:
		return ""
	case v.More:
		return say.Number(v.Count) + "+"
	}
	return say.Number(v.Count)
}

// Typed returns the number to type before the start; "" for none.
func (v jobView) Typed() string {
	if v.Count <= manyRows {
		return ""
	}
	return say.Number(v.Count)
}

// Percent returns the share of the planned rows that were worked on.
func (v jobView) Percent() int64 {
	switch {
	case v.State == driver.JobDone:
		return 100
	case v.Count == 0:
		return 0
	}
	return min(100, 100*(v.Done+v.Skipped+v.Failed)/v.Count)
}

// Pace returns "about 2 minutes at 100/s"; "" if the job is not paced.
func (v jobView) Pace() string {
	if v.Seconds == nil {
		return ""
	}
	rate := cmp.Or(v.Rate, fmt.Sprintf("%d/s", defaults.ReplayRate.Count))
	return "about " + inWords(roughly(time.Duration(*v.Seconds)*time.Second)) + " at " + visible(rate)
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
