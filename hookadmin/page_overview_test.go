package hookadmin_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// plot is the part of a chart's data that the tests read.
type plot struct {
	Kind   string
	At     []int64
	Series []struct {
		Name         string
		Below, Right bool
		Values       []int64
	}
	Marks []struct {
		Name string
		At   float64
	}
}

// plots returns the data of the charts on a page, by the ids of their figures.
func plots(t *testing.T, page string) map[string]plot {
	t.Helper()
	all := make(map[string]plot)
	for _, m := range regexp.MustCompile(`(?s)id="plot-(\w+)".*?data-plot="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		var p plot
		if err := json.Unmarshal([]byte(html.UnescapeString(m[2])), &p); err != nil {
			t.Fatal(err)
		}
		all[m[1]] = p
	}
	return all
}

// sumsOf returns the sums of the values of a chart, by name; those below the axis begin with "-".
func sumsOf(p plot) map[string]int64 {
	sums := make(map[string]int64)
	for _, s := range p.Series {
		name := s.Name
		if s.Below {
			name = "-" + name
		}
		for _, n := range s.Values {
			sums[name] += n
		}
	}
	return sums
}

func fillFigures(t *testing.T, g *gateway) {
	t.Helper()
	now := time.Now()
	quick, late := [driver.FigureBuckets]int64{3: 7}, [driver.FigureBuckets]int64{6: 4}
	g.addFigures(t,
		driver.Figure{Of: driver.FigureDeliveries, At: now, Name: "lab", Label: "ok", N: 7, Buckets: quick},
		driver.Figure{Of: driver.FigureDeliveries, At: now.Add(-30 * time.Minute), Name: "lab", Label: "duplicate", N: 1200},
		driver.Figure{Of: driver.FigureDeliveries, At: now, Name: "lab", Label: "refused", N: 2},
		driver.Figure{Of: driver.FigureDeliveries, At: now.Add(-30 * time.Hour), Name: "lab", Label: "ok", N: 1_000_000},
		driver.Figure{Of: driver.FigureRefusals, At: now, Name: "lab", Label: "method", N: 2},
		driver.Figure{Of: driver.FigureDuplicates, At: now, Name: "lab", N: 4, Buckets: late},
		driver.Figure{Of: driver.FigureAttempts, At: now, Name: "billing", Label: "sent", N: 3, Buckets: quick},
		driver.Figure{Of: driver.FigureAttempts, At: now, Name: "billing", Label: "dead", N: 1},
		driver.Figure{Of: driver.FigureBacklog, At: now, Name: "billing", Label: driver.BacklogMessages, N: 5},
		driver.Figure{Of: driver.FigureBacklog, At: now, Name: "billing", Label: driver.BacklogMessagesAge, N: 90},
	)
}

// The overview tells the last day in one sentence, and draws the span that is asked for.
func TestChartsOfTheOverview(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	if page := g.overview(t); !strings.Contains(text(page), "No deliveries in the last 24 hours. Nothing is dead now.") || !strings.Contains(page, "/webhooks/lab") {
		t.Errorf("without figures: %s", text(page))
	}
	fillFigures(t, g)
	page := g.overview(t)
	if want := "1,209 deliveries → 7 new (1,200 duplicates absorbed) → 3 sent · 1 failed for good · 2 refused, since "; !strings.Contains(text(page), want) {
		t.Errorf("the page lacks %q: %s", want, text(page))
	}
	drawn := plots(t, page)
	if diff := cmp.Diff(map[string]int64{"new": 7, "duplicate": 1200, "-refused": 2}, sumsOf(drawn["deliveries"])); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"messages": 5, "oldest message": 90}, sumsOf(drawn["backlog"])); diff != "" {
		t.Errorf("backlog (-want +got):\n%s", diff)
	}
	if n := sumsOf(drawn["answers"])["to 10 ms"]; n != 7 || len(drawn["answers"].At) < 60 {
		t.Errorf("%d answers within 10 ms in %d spans", n, len(drawn["answers"].At))
	}
	if !strings.Contains(page, "3 sent, 1 failed") || !strings.Contains(page, ">75.0%<") {
		t.Errorf("the strip of billing: %s", text(page))
	}
	for _, cell := range []string{"1,200", "10 ms", "1 minute 30 seconds"} {
		if !strings.Contains(page, `<td class="num">`+cell+"</td>") {
			t.Errorf("no table has the cell %q", cell)
		}
	}
	week := plots(t, g.page(t, "/?since=7d", 200))
	if n := sumsOf(week["deliveries"])["new"]; n != 1_000_007 {
		t.Errorf("%d new events in a week", n)
	}
	for query, want := range map[string]string{
		"since=x": "since: ", "since=1h&until=2h": "until: must be later", "since=36500d": "since: ", "refresh=1": "refresh: ", "source=a": "unknown parameter",
	} {
		if refused := g.page(t, "/?"+query, http.StatusBadRequest); !strings.Contains(text(refused), want) {
			t.Errorf("%s: %s", query, text(refused))
		}
	}
}

// The running minute has no sample before a gateway takes it. The backlog ends before it, and does not fall to zero.
func TestBacklogEndsAtItsNewestSample(t *testing.T) {
	t.Parallel()
	g, before := newGateway(t), time.Now().Add(-10*time.Minute)
	g.addFigures(t,
		driver.Figure{Of: driver.FigureDeliveries, At: before, Name: "lab", Label: "ok", N: 1, Buckets: [driver.FigureBuckets]int64{3: 1}},
		driver.Figure{Of: driver.FigureBacklog, At: before, Name: "billing", Label: driver.BacklogMessages, N: 5},
	)
	drawn := plots(t, g.overview(t))
	deliveries, backlog := drawn["deliveries"].At, drawn["backlog"].At
	if n := len(deliveries) - 1; len(backlog) != n || backlog[n-1] != deliveries[n-1] {
		t.Fatalf("the backlog has %d minutes, want all %d but the running one", len(backlog), len(deliveries))
	}
	if values := drawn["backlog"].Series[0].Values; len(values) != len(backlog) {
		t.Errorf("%d values for %d minutes", len(values), len(backlog))
	}
}

// The sentence tells deaths of the day from dead letters, and agrees with the gauge beside it.
func TestStoryAgreesWithTheGauge(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	fillFigures(t, g)
	g.addFigures(t, driver.Figure{Of: driver.FigureDeliveries, At: time.Now(), Name: "lab", Label: "unavailable", N: 4})
	check := func(sentence, gauge string) {
		t.Helper()
		page := g.overview(t)
		if !strings.Contains(text(page), "3 sent · 1 failed for good · 2 refused · 4 answered 503, since ") || !strings.Contains(text(page), "UTC. "+sentence) {
			t.Errorf("the page lacks %q: %s", sentence, text(page))
		}
		if card := regexp.MustCompile(`(?s)Dead letters</a></h3>\s*<p class="number">([^<]*)<`).FindStringSubmatch(page); card == nil || card[1] != gauge {
			t.Errorf("the gauge is %q, want %s", card, gauge)
		}
	}
	g.enqueue(t, "e1", "e2")
	g.settle(t, driver.MessageDead)
	check("2 are dead now.", "2")
	for _, step := range []struct{ id, sentence, gauge string }{{"e1", "1 is dead now.", "1"}, {"e2", "Nothing is dead now.", "0"}} {
		if resp := g.post(t, "/api/v1/dead-letters/discard", `{"source":"lab","ids":["`+step.id+`"]}`); resp.status != 200 {
			t.Fatalf("discarding %s: %d %s", step.id, resp.status, resp.body)
		}
		check(step.sentence, step.gauge)
	}
}

// The page of a source draws how late duplicates come, beside the dedupe window.
func TestPageOfASource(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	fillFigures(t, g)
	page := g.page(t, "/sources/lab", 200)
	late := plots(t, page)["lateness"]
	if n := sumsOf(late)["to 3 h"]; n != 4 || len(late.Marks) != 1 || late.Marks[0].Name != "dedupe window 30 d" || late.Marks[0].At != 14 {
		t.Errorf("%d duplicates within 3 hours, and the marks %+v", n, late.Marks)
	}
	for _, want := range []string{"Refusals by reason", "method", "/webhooks/lab", "1,209"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	g.page(t, "/sources/other", http.StatusNotFound)
}

var hidden = regexp.MustCompile(`name="(token|key)" value="([^"]*)"`)

// The forms of a destination retry, pause and resume it, once each, and need the token of their page.
func TestFormsOfADestination(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	fillFigures(t, g)
	act := func(action, token string) *answer {
		return g.send(t, http.MethodPost, "/act/destination", "name=billing&key=k1&token="+token+"&action="+action, func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		})
	}
	page := g.page(t, "/destinations/billing", 200)
	token := hidden.FindStringSubmatch(page)[2]
	for _, step := range []struct{ action, shows string }{{"pause", `value="resume"`}, {"resume", `value="pause"`}, {"retry", `value="pause"`}} {
		if resp := act(step.action, token); resp.status != http.StatusSeeOther || resp.header.Get("Location") != "../destinations/billing" {
			t.Errorf("%s: %d to %q", step.action, resp.status, resp.header.Get("Location"))
		}
		if page = g.page(t, "/destinations/billing", 200); !strings.Contains(page, step.shows) {
			t.Errorf("after %s the page lacks %s", step.action, step.shows)
		}
	}
	wantPage(t, act("pause", "forged"), http.StatusForbidden)
	wantPage(t, act("delete", token), http.StatusBadRequest)
	if page = g.page(t, "/destinations/billing", 200); !strings.Contains(page, `value="pause"`) {
		t.Error("a refused form paused the destination")
	}
	if sums := sumsOf(plots(t, page)["attempts"]); sums["sent"] != 3 || sums["-dead"] != 1 {
		t.Errorf("attempts: %v", sums)
	}
	g.page(t, "/destinations/other", http.StatusNotFound)
}

// Characters that rearrange text have names in the newest failures, too.
func TestFailuresAreVisible(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.dead(t, "no such \u202eorder", "evt_\u202e1")
	page := g.overview(t)
	wantText(t, page, hookadmin.Visible("no such \u202eorder"), hookadmin.Visible("evt_\u202e1"))
	if strings.Contains(text(page), "\u202e") {
		t.Errorf("the overview holds a character that rearranges text: %q", text(page))
	}
}
