package browser

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// noteStreams marks a page whose stream of the live feed is open: rows before that are not streamed.
const noteStreams = `const Plain = EventSource;
	window.EventSource = class extends Plain {
		constructor(url) {
			super(url);
			this.addEventListener('open', () => document.documentElement.setAttribute('data-streams', ''));
		}
	};`

// streaming opens a page of the gateway, and waits until it streams.
func (v *tab) streaming(t *testing.T, url string) {
	t.Helper()
	ask(t, v, page.Enable, page.EnableParams{})
	ask(t, v, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noteStreams})
	v.do(t, chromedp.Navigate(url), chromedp.WaitVisible(`html[data-streams] h1`))
}

// shownIDs are the ids of the rows of a listing.
const shownIDs = `[...document.querySelectorAll('[data-row] [data-id]')].map((e) => e.dataset.id)`

// An event that arrives is announced, and moves no row until it is asked for. It is then found by a
// filter, opened, and replayed by the form of its page.
func TestEventArrivesAndIsReplayed(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	browser := chromium(t)
	v := openTab(t, browser, look{"flow", 1280, false, true})
	v.streaming(t, g.admin+"/events")
	letters := openTab(t, browser, look{"letters", 1280, false, true})
	letters.streaming(t, g.admin+"/dead-letters")
	before := eval[string](t, v, shownIDs+`.join()`)
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "invoice.paid", "--id", "evt_arrives", "--duplicate", "1")
	v.await(t, `document.getElementById('fresh').textContent === '1 new – show'`)
	if now := eval[string](t, v, shownIDs+`.join()`); now != before {
		t.Errorf("the rows moved by themselves: %s, and before %s", now, before)
	}
	v.do(t, chromedp.Click(`#fresh button`), chromedp.WaitVisible(`[data-id="evt_arrives"]`))
	v.await(t, `document.getElementById('fresh').hidden`)

	v.do(t, chromedp.Click(`[data-row]:has([data-id="evt_arrives"]) a[href*="type=invoice.paid"]`), chromedp.WaitVisible(`.chips`))
	if shown := eval[string](t, v, shownIDs+`.join()`); !strings.Contains(shown, "evt_arrives") || strings.Contains(shown, eventID) {
		t.Errorf("the filter by type shows %s", shown)
	}
	v.do(t, chromedp.Click(`[data-id="evt_arrives"]`), chromedp.WaitVisible(`#replay`))
	// The confirmation is needed: the browser does not send the form without it.
	v.do(t, chromedp.Click(`#replay summary`), chromedp.Click(`#replay button`), chromedp.WaitVisible(`#replay input:invalid`),
		chromedp.Click(`#replay input[value="as_new"]`), chromedp.Click(`#replay button`), chromedp.WaitVisible(`#flash`))
	if said := eval[string](t, v, `document.getElementById('flash').textContent`); !strings.Contains(said, "Replayed: 1 message is due, as generation 1.") {
		t.Errorf("the replay says %s", said)
	}
	// The page refreshes itself until it has the second attempt.
	v.await(t, `/replayed.*attempt 1 succeeded/s.test(document.querySelector('[aria-labelledby="timeline"] table').textContent)`)
	v.await(t, `document.querySelector('.chart svg').querySelectorAll('.mark-good').length >= 3`)
	v.quiet(t)

	// The page of dead letters announces those, and not the attempts that succeeded.
	if !eval[bool](t, letters, `document.getElementById('fresh').hidden`) {
		t.Error("the page of dead letters announces attempts that succeeded")
	}
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "report.made", "--id", "evt_dies")
	letters.await(t, `document.getElementById('fresh').textContent === '1 new – show'`)
	letters.quiet(t)
}

// holdStream makes a page wait with its stream until openStream is called.
const holdStream = `const Plain = EventSource;
	window.EventSource = function (url) {
		const held = new EventTarget();
		held.close = () => held.real?.close();
		window.openStream = () => {
			held.real = new Plain(url);
			for (const kind of ['open', 'delivery', 'event', 'attempt', 'refused', 'reload']) {
				held.real.addEventListener(kind, (e) => held.dispatchEvent(new MessageEvent(kind, {data: e.data})));
			}
		};
		return held;
	};`

// An event that arrives between the making of a page and the opening of its stream is announced, once.
func TestEventBeforeTheStream(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	g := startGateway(t)
	v := openTab(t, chromium(t), look{"early", 1280, false, true})
	ask(t, v, page.Enable, page.EnableParams{})
	ask(t, v, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: holdStream})
	v.do(t, chromedp.Navigate(g.admin+"/events"))
	v.await(t, `typeof openStream === 'function'`)
	send := func(id string) {
		g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "invoice.paid", "--id", id)
		eventually.True(t, "the event is listed", func() bool { return strings.Contains(g.get(t, "/api/v1/events?id="+id), id) })
	}
	send("evt_between")
	eval[bool](t, v, `openStream() === undefined`)
	v.await(t, `document.getElementById('fresh').textContent === '1 new – show'`)
	send("evt_after")
	v.await(t, `document.getElementById('fresh').textContent === '2 new – show'`)
	v.do(t, chromedp.Click(`#fresh button`), chromedp.WaitVisible(`[data-id="evt_after"]`), chromedp.WaitVisible(`[data-id="evt_between"]`))
	v.await(t, `document.getElementById('fresh').hidden`)
	v.quiet(t)
}

// quiet fails if the console of the browser said something.
func (v *tab) quiet(t *testing.T) {
	t.Helper()
	for _, line := range v.takeNoise() {
		t.Errorf("the console says %s", line)
	}
}

// manyLetters is a group that a job replays in 15 seconds, at its pace of 100 a second: it is
// cancelled long before its end.
const manyLetters = 1500

// jobDone is the number of letters that the job of the page has replayed.
const jobDone = `Number(/([0-9,]+) done/.exec(document.querySelector('.job').textContent)?.[1].replace(',', ''))`

// A group of dead letters is replayed as a job that is planned, started, cancelled and resumed.
func TestGroupIsReplayedAsJob(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	g := startGateway(t)
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "report.made", "--times", strconv.Itoa(manyLetters), "--concurrency", "8")
	eventually.True(t, "all letters were refused", func() bool { return count(&g.archive.refused) == manyLetters })
	eventually.True(t, "the letters are dead", func() bool {
		return strings.Contains(g.get(t, "/api/v1/errors?destination=archive"), fmt.Sprintf(`"count":"%d"`, manyLetters))
	})
	g.archive.repaired.Store(true)
	v := openTab(t, chromium(t), look{"flow", 1280, false, true})
	const group = `.groups tr:has(a[href*="destination=archive"]) button`
	v.do(t, chromedp.Navigate(g.admin+"/dead-letters"), chromedp.Click(group), chromedp.WaitVisible(`.jobcount`))
	if plan := eval[string](t, v, `document.querySelector('.job').textContent`); !strings.Contains(plan, "1,500 match now, about 15 seconds at 100/s") {
		t.Errorf("the plan is %s", plan)
	}
	const start, cancel = `form:has([value="start"]) button`, `form:has([value="cancel"]) button`
	v.do(t, chromedp.SendKeys(`[name="count"]`, "15"), chromedp.Click(start), chromedp.WaitVisible(`.flash-bad`))
	if said := eval[string](t, v, `document.getElementById('flash').textContent`); !strings.Contains(said, "type 1,500") {
		t.Errorf("the start with a wrong number says %s", said)
	}
	v.do(t, chromedp.SendKeys(`[name="count"]`, "1500"), chromedp.Click(start), chromedp.WaitVisible(`progress`))
	v.reaches(t, jobDone+` > 0`)
	v.screenshot(t, "job-running")
	v.do(t, chromedp.Click(cancel), chromedp.WaitVisible(start))
	done := eval[int](t, v, jobDone)
	if state := eval[string](t, v, `document.querySelector('.headline').textContent`); !strings.Contains(state, "cancelled") || done == 0 || done >= manyLetters {
		t.Errorf("the job is %s with %d done, want it cancelled in the middle", state, done)
	}
	v.screenshot(t, "job-cancelled")
	v.do(t, chromedp.Click(start), chromedp.WaitVisible(cancel))
	// The page is loaded again at the end, so its parts appear one after the other.
	v.reaches(t, `document.querySelector('.headline').textContent.includes('done') &&
		Boolean(document.querySelector('.job')?.textContent.includes('1,500 done · 0 skipped · 0 failed'))`)
	v.screenshot(t, "job-done")
	eventually.True(t, "all letters are archived", func() bool { return count(&g.archive.archived) == manyLetters })
	v.do(t, chromedp.Navigate(g.admin+"/dead-letters?destination=archive"), chromedp.WaitVisible(`.empty`))
	v.quiet(t)
}

// reaches waits until an expression is true: in a page that changes by its scripts, or in one that reloads.
func (v *tab) reaches(t *testing.T, expression string) {
	t.Helper()
	if v.look.script {
		v.await(t, expression)
		return
	}
	eventually.True(t, "the letters are done", func() bool {
		is, err := chromedp.Run(v, chromedp.Evaluate[bool](expression)) // fails while the page reloads
		return err == nil && is
	})
}

// Without scripts a link makes a page reload, and another one ends that.
func TestReloadingPage(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	g := startGateway(t)
	v := openTab(t, chromium(t), look{"reload", 1280, false, false})
	v.do(t, chromedp.Navigate(g.admin+"/events?source=stripe"), chromedp.Click(`a[href*="refresh=10"]`), chromedp.WaitVisible(`a[href="?source=stripe"]`))
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "invoice.paid", "--id", "evt_reloaded")
	v.reaches(t, `document.querySelector('[data-id="evt_reloaded"]') !== null`)
	if at := eval[string](t, v, `location.search`); !strings.Contains(at, "source=stripe") || !strings.Contains(at, "refresh=10") {
		t.Errorf("the page reloads at %s", at)
	}
	v.do(t, chromedp.Click(`a[href="?source=stripe"]`), chromedp.WaitVisible(`a[href*="refresh=10"]`))
	if eval[bool](t, v, `document.querySelector('meta[http-equiv="refresh"]') !== null`) {
		t.Error("the page still reloads")
	}
	v.quiet(t)
}

// A refused request shows the reason, and is announced when it comes.
func TestRefusedRequestShowsWhy(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	v := openTab(t, chromium(t), look{"flow", 1280, false, true})
	v.streaming(t, g.admin+"/refused")
	const rows = `document.querySelectorAll('[data-row]').length`
	before := eval[int](t, v, rows)
	g.send(t, "shop", "shopify", "--secret", "a-secret-that-is-another-one", "--corrupt")
	v.await(t, `document.getElementById('fresh').textContent === '1 new – show'`)
	const first = `[data-row]:has(a[href*="source=shop"])`
	// Refused requests are stored after their answers.
	eventually.True(t, "the refused request is listed", func() bool { return strings.Contains(g.get(t, "/api/v1/refused?source=shop"), "shop") })
	v.do(t, chromedp.Click(`#fresh button`), chromedp.WaitVisible(first))
	if now := eval[int](t, v, rows); now != before+1 {
		t.Errorf("%d rows, and %d before", now, before)
	}
	v.do(t, chromedp.Click(first+` summary`), chromedp.WaitVisible(first+` pre, `+first+` .json`))
	text := eval[string](t, v, `document.querySelector('`+first+`').textContent`)
	for _, want := range []string{"signature_wrong", "401", "Not verified", "X-Shopify-Topic"} {
		if !strings.Contains(text, want) {
			t.Errorf("the request lacks %q: %s", want, strings.Join(strings.Fields(text), " "))
		}
	}
	v.do(t, chromedp.Click(first+` th a`), chromedp.WaitVisible(`.chips`))
	v.quiet(t)
}
