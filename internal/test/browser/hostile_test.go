package browser

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// storeHostile stores each of the hostile texts as id, type, header and body of an event, as a refused
// request, and in the quarantine. Each event has a dead twin of the source "dead", with the text as its error.
func (g *gateway) storeHostile(t *testing.T, texts []string) {
	t.Helper()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(g.dir, "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	claims, refused, quarantined := new(driver.ClaimParams), new(driver.AddRefusedParams), new(driver.QuarantineParams)
	for i, text := range texts {
		headers, err := json.Marshal(map[string][]string{"X-" + text: {text}})
		if err != nil {
			t.Fatal(err)
		}
		claims.Claims = append(claims.Claims, driver.Claim{
			Key: driver.EventKey("lab", text), Source: "lab", EventID: text, Type: text, Headers: headers, Body: []byte(text), BodyHash: sha256.Sum256([]byte(text)),
		})
		refused.Requests = append(refused.Requests, driver.RefusedRequest{
			ErrorID: fmt.Sprintf("%d%s", i, text), Source: text, Reason: text, Status: 401, Method: text, Remote: text, Gateway: text, Headers: headers,
			Body: []byte(text), BodySize: int64(len(text)),
		})
		quarantined.Requests = append(quarantined.Requests, driver.Quarantined{
			Source: "lab", BodyHash: sha256.Sum256([]byte(text)), Headers: headers, Body: []byte(text), Reason: text,
		})
		_, err = store.CountInlineFailure(t.Context(), &driver.InlineFailure{
			Claim: driver.Claim{
				Key: driver.EventKey("dead", text), Source: "dead", EventID: text, Type: text, Headers: headers, Body: []byte(text), Work: driver.WorkQueued,
			},
			Error: text, Dead: true, Limit: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(claims.Claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := store.Claim(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	if err := store.AddRefused(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	if err := store.Quarantine(t.Context(), quarantined); err != nil {
		t.Fatal(err)
	}
}

// foreign names the elements and attributes of a page that its templates never have. Charts draw with
// styles of their own.
const foreign = `[...document.querySelectorAll('img, iframe, object, embed, video, audio, base, style, math, template, marquee, frameset, ' +
	'script:not([src]), link:not([rel="stylesheet"], [rel="icon"]), form:not([action^="./"], [action^="../"], [method="dialog"]), h4, h5, footer')]
	.map((e) => e.outerHTML.slice(0, 100)).concat([...document.querySelectorAll('*')].filter((e) => !e.closest('[data-plot]')).flatMap((e) => [...e.attributes]
	.filter((a) => a.name.startsWith('on') || a.name === 'style' || a.name === 'srcdoc' ||
		(a.name === 'href' && /^\s*[a-z]+:/i.test(a.value) && !a.value.startsWith('https://github.com/hookonce/hookonce/blob/'))).map((a) => a.name + '=' + a.value.slice(0, 80)))).join(' | ')`

// A real browser shows hostile texts as texts: none becomes an element, runs, or leads elsewhere.
func TestHostileTexts(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	g := startGateway(t)
	texts := rig.HostileTexts()
	g.storeHostile(t, texts)
	v := openTab(t, chromium(t), look{"hostile", 1280, false, true})
	pages := []string{
		"/", "/events?limit=200", "/events?limit=200&source=dead", "/dead-letters?limit=200", "/refused?limit=200", "/quarantine?limit=20", "/sources", "/destinations",
	}
	// The lists hold all texts. One event in three is opened, which is enough for the other pages.
	for i, text := range texts {
		if i%3 != 0 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }) {
			continue // control characters are no address
		}
		pages = append(pages, "/event?"+url.Values{"source": {"dead"}, "id": {text}}.Encode())
	}
	for _, path := range pages {
		v.do(t, chromedp.Navigate(g.admin+path))
		if found := eval[string](t, v, foreign); found != "" {
			t.Errorf("%s holds %s", path, found)
		}
		if at := eval[string](t, v, `location.origin`); at != g.admin {
			t.Fatalf("%s led to %s", path, at)
		}
	}
	for _, line := range v.takeNoise() {
		t.Errorf("the console says %s", line)
	}
}
