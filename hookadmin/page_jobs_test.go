package hookadmin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// runGateway is a gateway whose engine runs, so that it works on jobs.
func runGateway(t *testing.T) *gateway {
	t.Helper()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Destinations: []hookonce.Destination{{Name: "billing", URL: "http://127.0.0.1:1/", AllowPrivate: true}},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return &gateway{api: newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine }), store: store}
}

// dead makes dead letters of events of the source "lab": each is dead by itself.
func (g *gateway) dead(t *testing.T, errorText string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := g.store.CountInlineFailure(t.Context(), &driver.InlineFailure{
			Claim: driver.Claim{Key: driver.EventKey("lab", id), Source: "lab", EventID: id, Type: "t", Headers: []byte("{}"), Body: []byte("{}"), Work: driver.WorkQueued},
			Error: errorText, Dead: true, Limit: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// plan sends a form that plans a job, and returns the address of the job's page.
func (b *browser) plan(t *testing.T, at string, more ...string) string {
	t.Helper()
	to, values := formOn(t, b.open(t, at), at, "/act/plan")
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	resp := b.send(t, http.MethodPost, to, values.Encode(), nil)
	if resp.status != http.StatusSeeOther {
		t.Fatalf("status %d: %s", resp.status, resp.body)
	}
	return mustParse(t, to).ResolveReference(mustParse(t, resp.header.Get("Location"))).String()
}

// A group of dead letters is planned as a job, started, and discards no others; then it is undone.
func TestJobFromAGroup(t *testing.T) {
	t.Parallel()
	g := runGateway(t)
	g.dead(t, "answered 500", "a1", "a2")
	g.dead(t, "panic: no", "b1")
	b := newBrowser(g.api)

	job := b.plan(t, "/dead-letters", "action", "discard", "signature", "answered 500", "source", "lab", "all", "")
	page := b.open(t, job)
	wantText(t, page, "Discard of dead letters", "planned", "2 match now", "signature answered 500")
	g.wantState(t, "a1", driver.StateDead)

	wantText(t, b.submit(t, job, "/act/job"), "The job runs.")
	eventually.True(t, "two letters are done", func() bool { return strings.Contains(text(b.open(t, job)), "2 done · 0 skipped") })
	eventually.True(t, "the job can be undone", func() bool { return strings.Contains(b.open(t, job), "/act/undo") })
	g.wantState(t, "a1", driver.StateSkipped)
	g.wantState(t, "b1", driver.StateDead)
	wantText(t, b.open(t, "/jobs"), "Discard of dead letters", "done")
	wantText(t, b.open(t, "/jobs?state=planned"), "No jobs.")

	wantText(t, b.submit(t, job, "/act/undo"), "Undone: 2 dead letters back.")
	g.wantState(t, "a1", driver.StateDead)
}

// Events of a wrong route are rerouted from the list of those of a destination: the plan says where to, and leaves the
// sent messages.
func TestRerouteFromTheEventsPage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Sources: []hookonce.Source{{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}}},
		Destinations: []hookonce.Destination{
			{Name: "billing", URL: "http://127.0.0.1:1/", AllowPrivate: true}, {Name: "crm", URL: "http://127.0.0.1:1/", AllowPrivate: true},
		},
		Routes: []hookonce.Route{{Name: "right", To: "crm"}},
	})
	g := &gateway{api: newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine }), store: store}
	g.enqueue(t, "evt_1", "evt_2")
	g.settle(t, driver.MessageSent)
	claim(t, store, event{source: "lab", id: "evt_other", typ: "t", body: "{}", at: noon})
	b := newBrowser(g.api)
	job := b.plan(t, "/events?destination=billing", "action", "replay")
	wantText(t, b.open(t, job), "Reroute of events", "2 match now", "Sent 2 → crm (route right)", "Stay as they are 2 → billing", "destination billing")
	wantText(t, b.open(t, "/jobs"), "Reroute of events")
	if page := b.open(t, "/events?type=none&destination=billing"); strings.Contains(page, "/act/plan") {
		t.Error("a reroute of no events is offered")
	}
}

func TestJobsAreCancelledAndResumed(t *testing.T) {
	t.Parallel()
	g := runGateway(t)
	g.dead(t, "no", "a1", "a2", "a3")
	b := newBrowser(g.api)
	job := b.plan(t, "/dead-letters", "action", "discard")
	to, values := formOn(t, b.open(t, job), job, "/act/job")
	values.Set("action", "cancel")
	wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "The job is cancelled. It can be resumed.", "cancelled", "Resume")
	wantText(t, b.submit(t, job, "/act/job"), "The job runs.")
	eventually.True(t, "three letters are done", func() bool { return strings.Contains(text(b.open(t, job)), "3 done") })
	eventually.True(t, "the page is not refreshed any more", func() bool { return !strings.Contains(b.open(t, job), "http-equiv") })
	wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "The job has ended.")
	values.Set("id", "none")
	wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "There is no such job any more.")
	wantProblemPage(t, g.get(t, "/jobs/none"), 404)
}

// A job of more than 1,000 rows starts only after its count was typed.
func TestLargeJobsNeedTheirCount(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	plan, err := json.Marshal(&driver.JobPlan{Count: 1234})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.store.AddJob(t.Context(), &driver.AddJobParams{
		ID: "job_1", Plan: string(plan), JobSpec: driver.JobSpec{Of: driver.JobOfDeadLetters, Action: driver.JobDiscard, Filter: `{"q":"<script>alert(1)</script>"}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(g.api)
	page := b.open(t, "/jobs/job_1")
	if !strings.Contains(page, `<a href="../jobs" aria-current="page">Jobs</a>`) {
		t.Errorf("the head of the page does not lead to the jobs: %s", text(page))
	}
	wantText(t, page, "1,234 match now", "Type 1,234 to start")
	wantIntact(t, "the page", page)
	for _, typed := range []string{"", "1233", "12345", "yes"} {
		wantText(t, b.submit(t, "/jobs/job_1", "/act/job", "count", typed), "Nothing was started: type 1,234", "planned")
	}
	wantText(t, b.submit(t, "/jobs/job_1", "/act/job", "count", " 1 234"), "The job runs.", "running")
}

// The form for all that match plans for the same rows as the page lists.
func TestPlansOfAllThatMatch(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for i := range 12 {
		g.dead(t, fmt.Sprintf("answered %d", i%2), fmt.Sprintf("e%d", i))
	}
	b := newBrowser(g.api)
	for query, want := range map[string]string{
		"limit=2": "12 match now", "type=t&limit=2": "12 match now", "source=lab&id=e3": "1 match", "q=e1": "3 match", "since=1h": "12 match",
		"until=2020-01-01T00:00&tz=UTC&type=t": "",
	} {
		page := b.open(t, "/dead-letters?"+query)
		if want == "" {
			if strings.Contains(page, "/act/plan") {
				t.Errorf("%s: a job without rows is offered", query)
			}
			continue
		}
		forms := formPattern.FindAllStringSubmatch(page, -1)
		last := forms[len(forms)-1] // after those of the groups
		values := url.Values{"action": {"replay"}}
		for _, input := range inputPattern.FindAllStringSubmatch(last[2], -1) {
			if strings.Contains(input[0], `type="hidden"`) {
				values.Add(input[1], input[2])
			}
		}
		wantText(t, b.follow(t, "/act/plan", b.send(t, http.MethodPost, "/act/plan", values.Encode(), nil)), want, "Replay of dead letters")
	}
	wantText(t, b.open(t, b.plan(t, "/dead-letters?type=t", "action", "replay")), "12 match now, about 1 second at 100/s")
	_, values := formOn(t, b.open(t, "/dead-letters"), "/dead-letters", "/act/plan")
	for field, want := range map[string]string{"since": "since: ", "id": "is required with ids", "all": "all: must be true"} {
		form := url.Values{"token": values["token"], "key": {"k-" + field}, "action": {"replay"}}
		if field != "all" {
			form.Set(field, "x")
		}
		b.send(t, http.MethodPost, "/act/plan", form.Encode(), nil)
		wantText(t, b.open(t, "/dead-letters"), "Nothing was planned:", want)
	}
}

// A discard can be undone from the page for ten minutes, by the browser that made it.
func TestUndoOfADiscard(t *testing.T) {
	t.Parallel()
	g, b := newLetters(t)
	page := b.submit(t, "/dead-letters", "/act/letters", "action", "discard", "letter", "e/lab/d3", "letter", "m/"+driver.MessageID(driver.EventKey("lab", "d1"), 0, "billing"))
	wantText(t, page, "2 dead letters discarded", "It can be undone for 10 minutes.")
	if other := newBrowser(g.api).open(t, "/dead-letters"); strings.Contains(other, "/act/undo") {
		t.Error("another browser is offered to undo it")
	}
	wantText(t, b.submit(t, "/dead-letters", "/act/undo"), "Undone: 2 dead letters back.")
	g.wantState(t, "d1", driver.StateDead)
	g.wantState(t, "d3", driver.StateDead)
	if page := b.open(t, "/dead-letters"); strings.Contains(page, "/act/undo") {
		t.Error("it can be undone twice")
	}
	wantText(t, b.submit(t, "/events/lab/d3", "/act/discard"), "1 dead letter discarded", "It can be undone")
	wantText(t, b.submit(t, "/events/lab/d3", "/act/undo"), "Undone: 1 dead letter back.")
}
