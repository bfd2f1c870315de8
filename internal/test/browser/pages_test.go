package browser

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// pages are all pages of the dashboard: the name of its screenshots, its address, and a text that it
// shows.
var pages = []struct{ name, path, shows string }{
	{"overview", "/", "new ("},
	{"overview-day", "/?since=24h", "Deliveries"},
	{"events", "/events", eventID},
	{"event", "/events/stripe/" + eventID, "invoice.voided"},
	{"event-hostile", "/events/lab/%3Cscript%3Ealert%281%29%3C%2Fscript%3E", "<script>alert(1)</script>"},
	{"dead-letters", "/dead-letters", "ledger"},
	{"dead-letters-ticked", "/dead-letters?select=page", "Replay group"},
	{"event-bytes", "/events/stripe/" + eventID + "?body=hex", "As curl"},
	{"events-empty", "/events?state=running&type=none", "No events match these filters"},
	{"search-empty", "/search", "by its id"},
	{"search-none", "/search?q=none", "Nothing has the id"},
	{"search", "/search?q=same-id", "lab"},
	{"jobs", "/jobs", "destination ledger"},
	{"job", "/jobs/{job}", "match now"},
	{"quarantined", "/quarantine/{quarantined}", "Read again"},
	{"refused", "/refused", "signature"},
	{"quarantine", "/quarantine", "Where Stripe has the event id"},
	{"sources", "/sources", "shop"},
	{"source", "/sources/stripe", "How late duplicates come"},
	{"source-unsigned", "/sources/lab", "Set up at the sender"},
	{"source-silent", "/sources/shop", "Shorter than the provider retries"},
	{"destinations", "/destinations", "ledger"},
	{"destination", "/destinations/ledger", "Retry now"},
	{"problem", "/sources?x=1", "unknown parameter"},
}

// Every page has no fault that axe-core finds, says nothing in the console, keeps to its policy and
// fits the screen: light and dark, wide and narrow, with scripts and without.
func TestPages(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	addressOf := g.addPages(t)
	browser := chromium(t)
	for _, l := range []look{
		{"light-1280", 1280, false, true},
		{"dark-1280", 1280, true, true},
		{"light-360", 360, false, true},
		{"dark-360", 360, true, true},
		{"noscript-light-1280", 1280, false, false},
		{"noscript-dark-360", 360, true, false},
	} {
		if !group.Long() && l.name != "light-360" {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			v := openTab(t, browser, l)
			for _, p := range pages {
				v.do(t, chromedp.Navigate(g.admin+addressOf.Replace(p.path)))
				checkPage(t, v, p.name, p.shows)
			}
		})
	}
}

// addPages makes a job, and an id of two sources, for the pages that need them. It returns the
// replacer of the placeholders in the addresses of pages.
func (g *gateway) addPages(t *testing.T) *strings.Replacer {
	t.Helper()
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "invoice.paid", "--id", "same-id")
	resp, err := http.Post(g.public+"/webhooks/lab", "application/json", strings.NewReader(`{"id":"same-id","type":"invoice.paid"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	resp, err = http.Post(g.admin+"/api/v1/jobs", "application/json", strings.NewReader(`{"action":"replay","filter":{"destination":"ledger"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var job struct{ ID string }
	var kept struct{ Requests []struct{ ID string } }
	if err := errors.Join(json.NewDecoder(resp.Body).Decode(&job), json.Unmarshal([]byte(g.get(t, "/api/v1/quarantine")), &kept)); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusCreated || len(kept.Requests) != 2 {
		t.Fatalf("planning a job: %s; quarantined are %+v", resp.Status, kept)
	}
	return strings.NewReplacer("{job}", job.ID, "{quarantined}", kept.Requests[0].ID)
}

func checkPage(t *testing.T, v *tab, name, shows string) {
	t.Helper()
	if text := eval[string](t, v, `document.body.textContent`); !strings.Contains(text, shows) {
		t.Errorf("%s lacks %q: %s", name, shows, strings.Join(strings.Fields(text), " "))
	}
	// The warning has the colour of the style sheet, which the policy of the page must allow.
	if name == "source-silent" {
		if plain := eval[bool](t, v, `getComputedStyle(document.querySelector('.kind')).color === getComputedStyle(document.body).color`); plain {
			t.Errorf("%s warns in the colour of its text", name)
		}
	}
	if wide := eval[int64](t, v, `document.documentElement.scrollWidth`); wide > v.look.width {
		t.Errorf("%s is %d wide, and the screen %d: %s", name, wide, v.look.width, eval[string](t, v, widest))
	}
	if v.look.width < 600 {
		v.checkPhone(t, name)
	}
	if v.look.script {
		if name == "overview" {
			if legend := eval[string](t, v, `document.querySelector('#plot-deliveries .legend').textContent`); !strings.Contains(legend, "refused (cut: up to 50k)") {
				t.Errorf("the flood of refusals is not cut: %s", legend)
			}
		}
		if drawn := eval[bool](t, v, `[...document.querySelectorAll('[data-plot]')].every((e) => e.querySelector('canvas'))`); !drawn {
			t.Errorf("%s has a chart that is not drawn", name)
		}
	} else if eval[bool](t, v, `document.documentElement.classList.contains('js')`) {
		t.Errorf("%s ran its scripts", name)
	}
	for _, fault := range v.violations(t) {
		t.Errorf("%s: %s", name, fault)
	}
	v.screenshot(t, name)
	for _, line := range v.takeNoise() {
		if name == "problem" && strings.Contains(line, "400") {
			continue // the answer itself
		}
		t.Errorf("%s says %s", name, line)
	}
}

// widest names the elements that reach beyond the screen.
const widest = `[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest('.scroll, pre, nav'))
	.slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join(' | ')`

// Keys lead to pages, rows and settings, and can be switched off.
func TestKeys(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	g := startGateway(t)
	v := openTab(t, chromium(t), look{"keys", 1280, false, true})
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			v.do(t, chromedp.KeyEvent(key))
		}
	}
	await := func(what, expression string) {
		t.Helper()
		eventually.True(t, expression, func() bool {
			is, err := chromedp.Run(v, chromedp.Evaluate[bool](expression)) // fails while the page changes
			return err == nil && is
		})
	}
	v.do(t, chromedp.Navigate(g.admin+"/"))
	press("g", "s")
	await("the sources", `location.pathname === '/sources' && document.readyState === 'complete'`)
	press("j", "j", "k", kb.Enter)
	await("the first source", `location.pathname === '/sources/github' && document.readyState === 'complete'`)
	press("t", "t")
	await("dark colours", `document.documentElement.dataset.theme === 'dark'`)
	press("u")
	await("times in UTC", `document.getElementById('times').textContent.trim() === 'UTC'`)
	press("?")
	await("the keys", `document.getElementById('help').open`)
	press(kb.Escape)
	await("no dialog", `!document.getElementById('help').open`)
	press("p")
	await("a pause", `document.getElementById('pause').textContent.trim() === 'Frozen'`)
	v.do(t, chromedp.Navigate(g.admin+"/sources"))
	await("colours that stay", `document.documentElement.dataset.theme === 'dark' && document.readyState === 'complete'`)
	eval[bool](t, v, `document.getElementById('keys').click(), document.getElementById('keys-on').click(), document.getElementById('help').close(), true`)
	press("g", "o")
	if at := eval[string](t, v, `location.pathname`); at != "/sources" {
		t.Errorf("with keys switched off, they lead to %s", at)
	}
	for _, line := range v.takeNoise() {
		t.Errorf("the console says %s", line)
	}
}

// A destination is paused and resumed without scripts. A page that stays open refreshes its figures,
// without losing its place.
func TestActionsAndFreshFigures(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	browser := chromium(t)
	v := openTab(t, browser, look{"plain", 1280, false, false})
	v.do(t, chromedp.Navigate(g.admin+"/destinations/billing"),
		chromedp.Click(`button[value="pause"]`), chromedp.WaitVisible(`#flash`), chromedp.WaitVisible(`button[value="resume"]`))
	if text := eval[string](t, v, `document.getElementById('flash').textContent`); !strings.Contains(text, "Paused") {
		t.Errorf("after the pause: %s", text)
	}
	open := openTab(t, browser, look{"open", 1280, false, true})
	open.do(t, chromedp.Navigate(g.admin+"/destinations/billing"), chromedp.WaitVisible(`.drawing canvas`))
	eval[bool](t, open, `document.querySelector('details.astable').open = true`)
	v.do(t, chromedp.Click(`button[value="resume"]`), chromedp.WaitVisible(`button[value="pause"]`))
	eventually.True(t, "the page has fresh figures", func() bool {
		return eval[bool](t, open, `document.querySelector('button[value="pause"]') !== null`)
	})
	if !eval[bool](t, open, `document.querySelector('details.astable').open && document.querySelector('.drawing canvas') !== null`) {
		t.Error("the fresh figures closed the open table, or removed the drawing")
	}
	for _, line := range append(v.takeNoise(), open.takeNoise()...) {
		t.Errorf("the console says %s", line)
	}
}
