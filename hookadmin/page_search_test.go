package hookadmin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// An id leads to its only hit; several hits are listed.
func TestSearchPage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	claim(t, g.store, event{source: "lab", id: "both", body: "{}", at: noon})
	g.addRefused(t, driver.RefusedRequest{ErrorID: "both", At: noon, Source: "lab", Reason: "rate", Status: 429, Method: "POST", BodySize: -1},
		driver.RefusedRequest{ErrorID: "bad1", At: noon, Reason: "rate", Status: 429, Method: "POST", BodySize: -1})
	g.quarantine(t, "lab", "text", noon)
	if _, err := g.store.AddJob(t.Context(), &driver.AddJobParams{
		ID: "job_7", Plan: "{}", JobSpec: driver.JobSpec{Of: driver.JobOfDeadLetters, Action: driver.JobReplay, Filter: "{}"},
	}); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(g.api)
	for q, want := range map[string]string{
		"e1": "/events/lab/e1", " e1 ": "/events/lab/e1", driver.MessageID(driver.EventKey("lab", "e1"), 0, "billing"): "/events/lab/e1",
		"bad1": "/refused?id=bad1", "urn:hookonce:error:bad1": "/refused?id=bad1",
		quarantineID("lab", "text"): "/quarantine/" + quarantineID("lab", "text"), "job_7": "/jobs/job_7",
	} {
		resp := b.send(t, http.MethodGet, "/search?q="+url.QueryEscape(q), "", nil)
		if got := mustParse(t, "/search").ResolveReference(mustParse(t, resp.header.Get("Location"))).String(); resp.status != http.StatusSeeOther || got != want {
			t.Errorf("%q: %d to %q, want %s", q, resp.status, got, want)
			continue
		}
		b.open(t, want)
	}
	page := g.show(t, "/search?q=both", 200)
	wantText(t, page, "event both done lab", "refused both – lab – rate")
	wantText(t, g.show(t, "/search?q=nothing", 200), "Nothing has the id nothing", "Look for this text")
	wantText(t, g.show(t, "/search", 200), "Find an event, a message")
	wantText(t, g.show(t, "/search?q=x&cursor=x", 400), "cursor: malformed")
	wantText(t, g.show(t, "/search?q=x&q=y", 400), "q: given more than once")
	wantText(t, newGatewayOn(t, unreachable{g.store}).show(t, "/search?q=e1", 503), "The database cannot be used now. So there are no hits.")
	wantProblemPage(t, g.get(t, "/quarantine/0123"), 404)
	for _, hostile := range append(rig.HostileTexts(), rig.HiddenTexts()...) {
		wantIntact(t, hostile, string(b.send(t, http.MethodGet, "/search?q="+url.QueryEscape(hostile), "", nil).body))
	}
}

// The links to files select the events of the page.
func TestExportsOfThePage(t *testing.T) {
	t.Parallel()
	g := newEvents(t)
	page := g.show(t, "/events?state=running&since=2026-01-31T12:30&tz=-01:00&limit=1", 200)
	for _, form := range []string{"CSV", "NDJSON"} {
		links := linksOn(t, page, "/events", form)
		if len(links) != 1 {
			t.Fatalf("links to %s: %q", form, links)
		}
		resp := g.get(t, links[0])
		if resp.status != 200 || strings.Contains(string(resp.body), "old") || strings.Contains(string(resp.body), "new") {
			t.Errorf("%s: %d %s", links[0], resp.status, resp.body)
		}
	}
}
