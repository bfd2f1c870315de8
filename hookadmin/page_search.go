package hookadmin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
)

var searchPageParameters = []string{"q", "cursor", "refresh"}

// searchPage is the content of search.html.
type searchPage struct {
	Root     string
	Query    string
	Shown    string // Query as it is shown
	Fault    string
	Away     string
	Rows     []Hit
	Searched string
	Pager    pager
	Text     string // link to the events that hold the text
}

// Told reports whether a row has something in the column about it.
func (p *searchPage) Told() bool {
	return slices.ContainsFunc(p.Rows, func(h Hit) bool { return h.Destination != "" || h.Reason != "" })
}

// showSearchPage leads to the only hit of an id, or shows all hits.
func (h *handling) showSearchPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	content := &searchPage{Root: rootFrom(r.URL.EscapedPath()), Query: strings.TrimSpace(values.Get("q"))}
	content.Shown = visible(content.Query)
	content.Text = content.Root + "events" + queryOf(url.Values{"q": {content.Query}})
	found, status := h.lookUp(r, content, values)
	if found != nil {
		content.Rows = found.Hits
		if m := momentOf(found.SearchedUntil); m != nil {
			content.Searched = "Searched for the trace id back to " + m.Date() + " " + m.Clock() + ". “Older” continues."
		}
		if found.Next != "" {
			content.Pager.Next = content.Root + "search" + queryOf(url.Values{"q": {content.Query}, "cursor": {found.Next}})
		}
		if len(content.Rows) == 1 && found.Next == "" && values.Get("cursor") == "" {
			redirect(w, content.Link(&content.Rows[0]))
			return
		}
	}
	p := &page{Title: "Search", Content: content, Query: content.Shown, Made: Time(time.Now())}
	if found != nil && len(content.Rows) == 0 {
		p.See = []runbook.Entry{runbook.Missing}
	}
	h.render(w, r, status, "search.html", p)
}

// lookUp returns the hits of the query, and the status of the page. Without hits to look for it
// returns nil, and content says why.
func (h *handling) lookUp(r *http.Request, content *searchPage, values url.Values) (*SearchPage, int) {
	err := checkParameters(values, searchPageParameters)
	after, cursorErr := driver.ParseCursor(values.Get("cursor"))
	if err == nil && cursorErr != nil {
		err = &ParameterError{"cursor", cursorErr.Error()}
	}
	if err != nil {
		content.Fault = visible(err.Error())
		return nil, http.StatusBadRequest
	}
	if content.Query == "" {
		return nil, http.StatusOK
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.find(ctx, content.Query, after)
	if err == nil && after.IsZero() {
		err = h.findJob(ctx, found, content.Query)
	}
	if err != nil {
		h.logAway(r, "searching", err)
		content.Away = awayText(err) + " So there are no hits. The log has the reason."
		return nil, http.StatusServiceUnavailable
	}
	return found, http.StatusOK
}

// hitJob is the kind of a hit that only the page looks for.
const hitJob = "job"

func (h *handler) findJob(ctx context.Context, page *SearchPage, q string) error {
	job, err := h.store.Job(ctx, q)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("looking for a job: %w", err)
	}
	page.Hits = append(page.Hits, Hit{Kind: hitJob, ID: job.ID, State: job.State, At: Time(job.CreatedAt)})
	return nil
}

// Link returns the link to the page of a hit.
func (p *searchPage) Link(hit *Hit) string {
	switch hit.Kind {
	case hitRefused:
		return p.Root + "refused" + queryOf(url.Values{"id": {hit.ID}})
	case hitQuarantined:
		return p.Root + "quarantine/" + url.PathEscape(hit.ID)
	case hitJob:
		return p.Root + "jobs/" + url.PathEscape(hit.ID)
	}
	return eventLink(p.Root, hit.Source, hit.EventID)
}
