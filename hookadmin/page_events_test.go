package hookadmin_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// show returns the HTML of a page of the dashboard.
func (a *api) show(t *testing.T, target string, status int) string {
	t.Helper()
	resp := a.get(t, target)
	if resp.status != status || resp.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%s: status %d, type %q, want a page with %d:\n%s", target, resp.status, resp.header.Get("Content-Type"), status, resp.body)
	}
	return string(resp.body)
}

// wantText checks that the text of a page holds each of the texts.
func wantText(t *testing.T, page string, wants ...string) {
	t.Helper()
	shown := text(page)
	for _, want := range wants {
		if !strings.Contains(shown, want) {
			t.Errorf("the page lacks %q:\n%s", want, shown)
		}
	}
}

var idPattern = regexp.MustCompile(`data-open data-id="([^"]*)"`)

// idsOn returns the ids of the events in the rows of a page.
func idsOn(page string) []string {
	ids := []string{}
	for _, m := range idPattern.FindAllStringSubmatch(page, -1) {
		ids = append(ids, html.UnescapeString(m[1]))
	}
	return ids
}

var anchorPattern = regexp.MustCompile(`(?s)<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>`)

// linksOn returns the links of a page whose text is as given, resolved at its address.
func linksOn(t *testing.T, page, at, text string) []string {
	t.Helper()
	var links []string
	for _, m := range anchorPattern.FindAllStringSubmatch(page, -1) {
		if words := strings.Join(strings.Fields(html.UnescapeString(anyTag.ReplaceAllString(m[2], " "))), " "); words == text {
			links = append(links, mustParse(t, at).ResolveReference(mustParse(t, html.UnescapeString(m[1]))).String())
		}
	}
	return links
}

func newEvents(t *testing.T) *gateway {
	t.Helper()
	g := newGateway(t)
	for i, ev := range []event{
		{id: "old", typ: "invoice.paid", body: `{"who":"ada"}`, routes: []string{"billing"}},
		{id: "mid", typ: "invoice.void", body: `{"who":"bob"}`, routes: []string{"billing", "ledger"}},
		{id: "new", typ: "fork", body: `{"who":"ada"}`},
	} {
		ev.source, ev.at = "lab", noon.Add(time.Duration(i)*time.Hour)
		claim(t, g.store, ev)
	}
	return g
}

func TestEventsPage(t *testing.T) {
	t.Parallel()
	g := newEvents(t)
	page := g.show(t, "/events", 200)
	if diff := cmp.Diff([]string{"new", "mid", "old"}, idsOn(page)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantText(t, page, "done", "waiting", "no route", "invoice.paid", "billing")
	// Every cell leads to the events like it.
	for word, want := range map[string]string{
		"fork": "/events?type=fork", "no route": "/events?note=no+route", "lab": "/events?source=lab", "waiting": "/events?state=running",
		"1 h": "/events?since=1h", "new": "/events/lab/new",
	} {
		if got := linksOn(t, page, "/events", word); len(got) == 0 || got[0] != want {
			t.Errorf("%q links to %q, want %s", word, got, want)
		}
	}
}

func TestEventsPageFilters(t *testing.T) {
	t.Parallel()
	g := newEvents(t)
	for query, want := range map[string]string{
		"state=running": "mid,old", "type=fork": "new", "q=bob": "mid", "id=old": "old", "note=no+route": "new", "state=&type=": "new,mid,old",
		"since=2026-01-31T12:30:00Z":                      "new,mid",
		"since=2026-01-31+13:30":                          "new",
		"since=2026-01-31T14:30&tz=%2B01:00":              "new",
		"until=2026-01-31T08:30&tz=America/New_York":      "mid,old",
		"since=2026-01-31&tz=UTC":                         "new,mid,old",
		"since=2026-02-01":                                "",
		"state=running&since=2026-01-31T12:30&refresh=60": "mid",
	} {
		page := g.show(t, "/events?"+query, 200)
		if got := strings.Join(idsOn(page), ","); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	// A chip removes its filter and no other, and begins at the first page.
	page := g.show(t, "/events?state=running&source=lab&limit=1", 200)
	if got := regexp.MustCompile(`href="([^"]*)" aria-label="Remove the filter state running"`).FindStringSubmatch(page); got == nil ||
		html.UnescapeString(got[1]) != "./events?limit=1&source=lab" {
		t.Errorf("the chip of state links to %q", got)
	}
	older := linksOn(t, page, "/events", "Older")
	if len(older) != 1 {
		t.Fatalf("links to older rows: %q", older)
	}
	page = g.show(t, older[0], 200)
	if diff := cmp.Diff([]string{"old"}, idsOn(page)); diff != "" {
		t.Errorf("the second page (-want +got):\n%s", diff)
	}
	if got := linksOn(t, page, "/events", "Newest"); len(got) != 1 || got[0] != "/events?limit=1&source=lab&state=running" {
		t.Errorf("newest links to %q", got)
	}
}

// A wrong filter shows the page with the fault and the filters, so that the person can correct it.
func TestEventsPageWithAWrongFilter(t *testing.T) {
	t.Parallel()
	g := newEvents(t)
	for query, want := range map[string]string{
		"state=wrong": `state: "wrong" is not a state here; use pending`, "since=soon": "since: ",
		"state=waiting": `state: "waiting" is not a state here; use pending, running, done, dead, skipped; events shown as waiting are running`, "tz=Mars/Olympus": "tz: ", "tz=Local": "tz: ",
		"tz=../../etc/passwd": "tz: ", "cursor=x": "cursor: malformed", "limit=0": "limit: ", "nonsense=1": `"nonsense": unknown parameter`,
		"type=a&type=b": "type: given more than once", "q=" + url.QueryEscape("\x00"): "q: holds a control character",
		"tz=UTC&tz=UTC": "tz: given more than once", "refresh=1": "refresh: ", "id=" + strings.Repeat("x", 2000): "id: longer than",
	} {
		page := g.show(t, "/events?"+query, 400)
		wantText(t, page, "The filter is not right. "+want)
		if len(idsOn(page)) != 0 || !strings.Contains(page, `<details class="filter" open>`) || strings.Contains(page, "http-equiv") {
			t.Errorf("%s: the page has rows, reloads itself, or hides its filters", query)
		}
	}
	wantProblemPage(t, g.get(t, "/events?%zz"), 400)
}

func wantProblemPage(t *testing.T, resp *answer, status int) {
	t.Helper()
	if resp.status != status || !strings.Contains(string(resp.body), "Error id") {
		t.Errorf("status %d, want a problem page with %d:\n%s", resp.status, status, resp.body)
	}
}

// An empty listing says which filter empties it, or how to send a first event.
func TestEventsPageWithoutRows(t *testing.T) {
	t.Parallel()
	g := newEvents(t)
	wantText(t, g.show(t, "/events?state=running&type=fork", 200), "No events match these filters.", "There are some without type, or without state.", "Remove type")
	wantText(t, g.show(t, "/events?type=none", 200), "Remove the filter to see all events.")
	wantText(t, g.show(t, "/events?type=none&state=dead", 200), "One removed filter is not enough", "Remove all filters")

	wantText(t, newGateway(t).show(t, "/events", 200), "No events yet.", "curl -H 'Content-Type: application/json'", "/webhooks/lab")
	none := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = rig.OpenSQLite(t) })
	wantText(t, none.show(t, "/events", 200), "There are no sources in the settings.")
}

// unreachable is a store whose listings and look-ups fail.
type unreachable struct{ driver.Store }

func (unreachable) Events(context.Context, *driver.EventFilter) (*driver.EventPage, error) {
	return nil, driver.ErrUnavailable
}

func (unreachable) Event(context.Context, string, string) (*driver.EventDetail, error) {
	return nil, driver.ErrUnavailable
}

func (unreachable) Messages(context.Context, *driver.MessageFilter) (*driver.MessagePage, error) {
	return nil, driver.ErrUnavailable
}

func (unreachable) DeadLetters(context.Context, *driver.MessageFilter) (*driver.DeadLetterPage, error) {
	return nil, driver.ErrUnavailable
}

func (unreachable) Refused(context.Context, *driver.RefusedFilter) (*driver.RefusedPage, error) {
	return nil, driver.ErrUnavailable
}

func (unreachable) Quarantined(context.Context, *driver.QuarantineFilter) (*driver.QuarantinePage, error) {
	return nil, driver.ErrUnavailable
}

// Without the database a page stands, with its filters, and says so.
func TestListingsWithoutADatabase(t *testing.T) {
	t.Parallel()
	g := newGatewayOn(t, unreachable{rig.OpenSQLite(t)})
	for _, path := range []string{"/events?state=dead&source=lab", "/dead-letters?type=t", "/refused?reason=rate", "/quarantine?source=lab"} {
		page := g.show(t, path, 503)
		wantText(t, page, "The database cannot be used now. So there are no rows.")
		if !strings.Contains(page, "Remove the filter") {
			t.Errorf("%s: the filters are gone", path)
		}
	}
	wantProblemPage(t, g.get(t, "/events/lab/e1"), 503)
}

// A browser that asks for an unknown path gets a page with links; a program gets JSON.
func TestUnknownPathsInABrowser(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	asPerson := func(r *http.Request) { r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8") }
	for _, path := range []string{"/nothing", "/events/", "/events/lab", "/webhooks/lab", "/x/%2e%2e"} {
		resp := g.do(t, http.MethodGet, path, asPerson)
		wantProblemPage(t, resp, 404)
		if got := linksOn(t, string(resp.body), path, "events"); len(got) != 1 || got[0] != "/events" {
			t.Errorf("%s: the page links to %q", path, got)
		}
		wantProblem(t, g.get(t, path), 404)
	}
	wantProblem(t, g.do(t, http.MethodGet, "/api/v1/nothing", asPerson), 404)
	wantProblem(t, g.do(t, http.MethodPost, "/nothing", asPerson), 404)
	closed := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token = rig.OpenSQLite(t), token })
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8081/nothing", nil)
	asPerson(r)
	if closed.handler.ServeHTTP(w, r); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./login" {
		t.Errorf("without a session: %d to %q", w.Code, w.Header().Get("Location"))
	}
}
