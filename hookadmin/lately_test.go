package hookadmin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// A flood is a few groups, largest first, each with its newest request.
func TestRefusedGroups(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	wantText(t, g.show(t, "/refused/groups", 200), "No refused requests.")
	now := time.Now()
	for i := range 250 {
		reason := "signature_wrong"
		if i == 7 {
			reason = "method"
		}
		g.addRefused(t, driver.RefusedRequest{
			ErrorID: fmt.Sprint("e", i), At: now.Add(time.Duration(i) * time.Millisecond), Source: []string{"lab", "pay"}[i%2], Reason: reason,
			Status: 401, Method: "POST", Remote: "203.0.113.9", Headers: []byte(`{}`),
		})
	}
	page := readJSON[hookadmin.RefusedGroupPage](t, g.get(t, "/api/v1/refused/groups"))
	if len(page.Groups) != 2 || page.More {
		t.Fatalf("the groups are %+v", page)
	}
	first, second := page.Groups[0], page.Groups[1]
	if first.Count != 249 || first.Reason != "signature_wrong" || first.ID != "e249" || !slices.Equal(first.Sources, []string{"lab", "pay"}) ||
		time.Time(first.LastAt).Sub(time.Time(first.FirstAt)) != 249*time.Millisecond {
		t.Errorf("the first group is %+v", first)
	}
	if second.Count != 1 || second.Reason != "method" || second.ID != "e7" {
		t.Errorf("the second group is %+v", second)
	}
	if page := readJSON[hookadmin.RefusedGroupPage](t, g.get(t, "/api/v1/refused/groups?source=lab&since=1h")); page.Groups[0].Count != 125 {
		t.Errorf("the requests of lab are %+v", page)
	}
	wantText(t, g.show(t, "/refused/groups?reason=method", 200), "Only kept requests are counted", "1 method 203.0.113.9 pay")
	wantText(t, g.show(t, "/refused?reason=method&limit=1", 200), "By address and reason")
}

// A source whose last deliveries all have a wrong signature is in trouble, also after right ones: its secret was
// rotated. Requests of strangers beside right ones are no such trouble, but a flood is told of.
func TestRotatedSecret(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	now := time.Now()
	refuse := func(source, reason string, n int64) {
		g.addFigures(t, driver.Figure{Of: driver.FigureRefusals, At: now, Name: source, Label: reason, N: n},
			driver.Figure{Of: driver.FigureDeliveries, At: now, Name: source, Label: "refused", N: n})
	}
	g.addFigures(t, driver.Figure{Of: driver.FigureDeliveries, At: now.Add(-20 * time.Minute), Name: "lab", Label: "ok", N: 1000})
	refuse("", "unknown_source", 50)
	const rotated = "Was the secret rotated?"
	if page := g.show(t, "/", 200); strings.Contains(page, rotated) || strings.Contains(page, "Flood") {
		t.Errorf("a healthy source is suspected:\n%s", page)
	}
	refuse("lab", "signature_wrong", 12)
	for page, steps := range map[string]int{"/": 3, "/sources": 0, "/sources/lab": 3} {
		shown := g.page(t, page, 200)
		wantText(t, text(shown), "All deliveries of the last 15 minutes (12) were refused with a wrong signature. "+rotated)
		if _, todo, _ := strings.Cut(shown, `<ol class="todo">`); strings.Count(strings.Split(todo, "</ol>")[0], "<li>") != steps {
			t.Errorf("%s has not the %d steps:\n%s", page, steps, todo)
		}
	}
	wantText(t, string(g.get(t, "/api/v1/sources").body), rotated+" 1. Add the new secret")
	g.addFigures(t, driver.Figure{Of: driver.FigureDeliveries, At: now.Add(-5 * time.Minute), Name: "lab", Label: "ok", N: 20})
	for _, page := range []string{"/", "/sources", "/sources/lab"} {
		wantText(t, g.show(t, page, 200), "12 of the last 12 deliveries were refused with a wrong signature. "+rotated)
	}
	g.addFigures(t, driver.Figure{Of: driver.FigureDeliveries, At: now, Name: "lab", Label: "ok", N: 9})
	refuse("lab", "signature_wrong", 400)
	wantText(t, g.show(t, "/", 200), rotated+" Or do strangers send them?")
	refuse("", "unknown_source", 100)
	g.addFigures(t, driver.Figure{Of: driver.FigureDeliveries, At: now, Name: "lab", Label: "unavailable", N: 1000}) // 503
	if page := g.show(t, "/", 200); strings.Contains(page, rotated) || !strings.Contains(page, "hookonce refused list --group --since 15m") {
		t.Errorf("after right deliveries, and in a flood:\n%s", page)
	}
}
