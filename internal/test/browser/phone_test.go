package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hookonce/hookonce/internal/test/group"
)

// sideways names the parts of a page that scroll sideways, and the cells of stacked tables with hidden content.
// The tables and figures of charts are left out.
const sideways = `[...document.querySelectorAll('main .scroll:not(.plot *), main .stack [data-label]')].filter((e) => e.scrollWidth > e.clientWidth)
	.slice(0, 5).map((e) => e.outerHTML.slice(0, 160)).join(' | ')`

// mislabelled names the cells of stacked tables that do not begin with the visible name of their column.
const mislabelled = `[...document.querySelectorAll('main table.stack')].flatMap((table) => {
	const names = [...table.tHead.rows[0].cells].map((cell) => cell.querySelector('.hidden') ? null : cell.textContent);
	return [...table.tBodies[0].rows].flatMap((row) => [...row.cells].filter((cell, i) => row.cells.length !== names.length ||
		names[i] !== null && (cell.dataset.label !== names[i] || !getComputedStyle(cell, '::before').content.includes(names[i]))));
}).slice(0, 5).map((e) => e.outerHTML.slice(0, 160)).join(' | ')`

// unreadable names the texts in the timeline that are small, cut off or cover each other.
const unreadable = `[...document.querySelectorAll('main .chart text')].map((e) => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width > 0)
	.filter(([e, r], i, all) => r.height < 11 || r.left < 0 || r.right > innerWidth || all.some(([, o], j) => i < j &&
		r.left < o.right && o.left < r.right && r.top < o.bottom && o.top < r.bottom)).map(([e]) => e.textContent).join(' | ')`

// checkPhone checks that a narrow screen shows all of the page without scrolling sideways.
func (v *tab) checkPhone(t *testing.T, name string) {
	t.Helper()
	if found := eval[string](t, v, sideways); found != "" {
		t.Errorf("%s hides a part at the right: %s", name, found)
	}
	if found := eval[string](t, v, unreadable); found != "" {
		t.Errorf("%s has a timeline with unreadable texts: %s", name, found)
	}
	if found := eval[string](t, v, mislabelled); found != "" {
		t.Errorf("%s has cells without the name of their column: %s", name, found)
	}
}

// On a phone, without scripts, a person sees why an event is dead, and can replay it without scrolling.
func TestPhoneShowsLetter(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	g := startGateway(t)
	v := openTab(t, chromium(t), look{"phone", 360, false, false})
	const row = `[data-row]:has([data-id="` + eventID + `"])`
	v.do(t, chromedp.Navigate(g.admin+"/dead-letters"), chromedp.WaitVisible(`.pick a`), chromedp.WaitVisible(row))
	if below := eval[bool](t, v, `scrollY > 0 || document.querySelector('#letters button[value="replay"]').getBoundingClientRect().bottom > innerHeight`); below {
		t.Error("the button to replay is below the screen")
	}
	shown := eval[string](t, v, `document.querySelector('`+row+`').innerText`)
	for _, want := range []string{"stripe", eventID, "ledger", "500"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the letter does not show %q: %s", want, shown)
		}
	}
	v.quiet(t)
}
