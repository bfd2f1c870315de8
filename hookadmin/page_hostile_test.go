package hookadmin_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

var (
	tagPattern   = regexp.MustCompile(`^</?([a-z][a-z0-9]*)((?:\s+[a-zA-Z0-9-]+(?:="[^"<>]*")?)*)\s*/?>$`)
	localPattern = regexp.MustCompile(`^[a-z-]+(?:[/?#]|$)`) // a link of the overview
	attrPattern  = regexp.MustCompile(`([a-zA-Z0-9-]+)(?:="([^"<>]*)")?`)
	elements     = strings.Fields("a article body bdi button caption code circle dd desc details dialog div dl dt fieldset form g h1 h2 h3 head header " +
		"figcaption figure html input kbd rect label legend li line link main meta nav ol option p path pre script section select span strong summary svg symbol table tbody " +
		"td text th thead time title tr ul use wbr")
)

// unshown are the attributes that a browser keeps to itself.
var unshown = regexp.MustCompile(`data-[a-z-]+="[^"]*"|<input type="hidden"[^>]*>|<option value="[^"]*"|<input type="checkbox" name="letter" value="[^"]*"`)

// wantNoneHidden checks that an output for people holds no character that acts on a screen unseen.
func wantNoneHidden(t *testing.T, about, output string) {
	t.Helper()
	if c, found := rig.HiddenIn(output); found {
		t.Errorf("%s holds %U: %.200q", about, c, output[max(strings.IndexRune(output, c)-80, 0):])
	}
}

// wantIntact checks that a page consists of elements that its templates have, that no attribute runs
// code, that no link leaves the dashboard, and that no character acts unseen.
func wantIntact(t *testing.T, about, page string) {
	t.Helper()
	wantNoneHidden(t, about, unshown.ReplaceAllString(page, ""))
	for rest := strings.TrimPrefix(page, "<!doctype html>"); ; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			return
		}
		rest = rest[i:]
		tag := rest[:strings.IndexByte(rest, '>')+1]
		if !harmless(tag) {
			t.Fatalf("%s: the page holds %.80q", about, rest)
		}
		rest = rest[len(tag):]
		if strings.HasPrefix(tag, "<script") && !strings.HasPrefix(rest, "</script>") {
			t.Fatalf("%s: a script has text: %.80q", about, rest)
		}
	}
}

// harmlessTags are those that harmless has seen: most tags of a page stand on other pages, too.
var harmlessTags sync.Map

// harmless reports whether text is a tag of the templates, without code and without a link that leaves the dashboard.
func harmless(text string) bool {
	if _, known := harmlessTags.Load(text); known {
		return true
	}
	tag := tagPattern.FindStringSubmatch(text)
	if tag == nil || !slices.Contains(elements, tag[1]) {
		return false
	}
	for _, attr := range attrPattern.FindAllStringSubmatch(tag[2], -1) {
		name, value := attr[1], html.UnescapeString(attr[2])
		leads := slices.Contains([]string{"href", "src", "action", "formaction"}, name)
		if strings.HasPrefix(name, "on") || name == "style" || name == "srcdoc" || leads && !staysHere(value) {
			return false
		}
	}
	harmlessTags.Store(text, true)
	return true
}

// staysHere reports whether a link leads to the dashboard, wherever a browser resolves it.
func staysHere(link string) bool {
	for _, start := range []string{"./", "../", "?", "#"} {
		if strings.HasPrefix(link, start) {
			return !strings.Contains(strings.TrimLeft(link, "./"), "//")
		}
	}
	return link == "" || localPattern.MatchString(link) && !strings.Contains(link, "//")
}

// Text from outside is shown as text on every page, and nothing breaks out of it.
func TestHostileTextsOnPages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	texts := append(rig.HostileTexts(), rig.HiddenTexts()...)
	if len(texts) < 180 {
		t.Fatalf("only %d texts", len(texts))
	}
	g.storeHostile(t, texts)

	queries := []string{
		"/events?limit=200", "/events?limit=200&state=dead", "/dead-letters?limit=200", "/dead-letters?limit=200&select=page", "/refused?limit=200",
		"/refused/groups", "/sources", "/destinations", "/jobs?limit=200", "/jobs/job0",
	}
	for next := ""; ; {
		page := g.show(t, "/quarantine?limit=20"+next, 200)
		wantIntact(t, "/quarantine", page)
		older := linksOn(t, page, "/quarantine", "Older")
		if len(older) == 0 {
			break
		}
		next = "&" + strings.TrimPrefix(older[0], "/quarantine?")
		next = strings.ReplaceAll(next, "&limit=20", "")
	}
	for _, query := range queries {
		wantIntact(t, query, g.show(t, query, 200))
	}
	wantIntact(t, "/", g.overview(t))
	for _, path := range []string{
		"events", "events.csv", "events.ndjson", "dead-letters", "errors", "messages", "refused", "refused/groups", "quarantine",
		"sources", "destinations", "routes", "jobs", "jobs/job0", "stats", "gateway", "warnings", "series?of=types",
	} {
		wantNoneHidden(t, path, strings.ReplaceAll(g.raw(t, path), "\r\n", "\n"))
	}
	all := g.show(t, "/events?limit=200", 200) + g.show(t, older(t, g), 200)
	empty := newGateway(t)
	for _, hostile := range texts {
		if shown := hookadmin.Visible(hostile); len([]rune(shown)) < 28 && !strings.ContainsAny(shown, "+`") && !strings.Contains(all, "<bdi>"+html.EscapeString(shown)) {
			t.Errorf("%q is not shown as an id", hostile)
		}
		for _, parameter := range []string{"type", "state", "since", "tz", "cursor", "nonsense"} {
			resp := empty.get(t, "/events?"+url.Values{parameter: {hostile}}.Encode())
			wantIntact(t, fmt.Sprintf("%s=%q", parameter, hostile), string(resp.body))
		}
		if !isPlain(hostile) {
			continue
		}
		wantNoneHidden(t, "the event", g.raw(t, "events/lab/"+url.PathEscape(hostile)))
		wantNoneHidden(t, "the search", g.raw(t, "search?"+url.Values{"q": {hostile}}.Encode()))
		for _, mode := range []string{"pretty", "raw", "hex"} {
			at := "/event?" + url.Values{"source": {"lab"}, "id": {hostile}, "body": {mode}}.Encode()
			wantIntact(t, fmt.Sprintf("%s of %q", mode, hostile), g.show(t, at, 200))
		}
	}
}

// raw returns an answer of the API. Its texts are not those that the API describes.
func (g *gateway) raw(t *testing.T, path string) string {
	t.Helper()
	answer := g.ask(t, http.MethodGet, "/api/v1/"+path, "", nil)
	if answer.status == http.StatusNotFound && !strings.HasPrefix(path, "events/") {
		t.Errorf("%s is not there", path)
	}
	return string(answer.body)
}

func older(t *testing.T, g *gateway) string {
	t.Helper()
	return linksOn(t, g.show(t, "/events?limit=200", 200), "/events", "Older")[0]
}

// isPlain reports whether text may be a parameter: it holds no control character.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 })
}

// storeHostile stores each text as id, type, header, body and error of an event, as a refused request,
// and in the quarantine.
func (g *gateway) storeHostile(t *testing.T, texts []string) {
	t.Helper()
	p := new(driver.ClaimParams)
	errors := make(map[string]string)
	refused := new(driver.AddRefusedParams)
	quarantined := &driver.QuarantineParams{Now: noon}
	for i, hostile := range texts {
		key := driver.EventKey("lab", hostile)
		header, err := json.Marshal(map[string][]string{"Content-Type": {"application/json"}, "X-" + hostile: {hostile, hostile}})
		if err != nil {
			t.Fatal(err)
		}
		id := driver.MessageID(key, 0, "billing")
		p.Claims = append(p.Claims, driver.Claim{
			Key: key, Source: "lab", EventID: hostile, Type: hostile, Headers: header, Body: []byte(hostile), BodyHash: sha256.Sum256([]byte(hostile)),
			Messages: []driver.NewMessage{{ID: id, Route: "billing", Destination: "billing"}},
		})
		errors[id] = hostile
		refused.Requests = append(refused.Requests, driver.RefusedRequest{
			ErrorID: fmt.Sprintf("%d%s", i, hostile), At: noon, Source: hostile, Reason: hostile, Status: 401, Method: hostile, Remote: hostile, Gateway: hostile,
			Headers: header, Body: []byte(hostile), BodySize: int64(len(hostile)),
		})
		quarantined.Requests = append(quarantined.Requests, driver.Quarantined{
			Source: "lab", BodyHash: sha256.Sum256([]byte(hostile)), Headers: header, Body: []byte(hostile), Reason: hostile,
		})
	}
	slices.SortFunc(p.Claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := g.store.Claim(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	done := new(driver.CompleteParams)
	for _, m := range g.lease(t) {
		done.Completions = append(done.Completions, driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 500, Error: errors[m.ID], RetryIn: time.Hour,
		})
	}
	if _, err := g.store.Complete(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if len(done.Completions) != len(texts) {
		t.Fatalf("%d of %d messages died", len(done.Completions), len(texts))
	}
	if err := g.store.AddRefused(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	if err := g.store.Quarantine(t.Context(), quarantined); err != nil {
		t.Fatal(err)
	}
	for i, hostile := range texts {
		filter, err := json.Marshal(&driver.JobSelection{Source: hostile, Type: hostile, Text: hostile, EventIDs: []string{hostile}})
		if err != nil {
			t.Fatal(err)
		}
		job := &driver.AddJobParams{ID: fmt.Sprintf("job%d", i), RequestID: fmt.Sprintf("%d%s", i, hostile), Plan: "{}", Now: noon}
		job.JobSpec = driver.JobSpec{Of: driver.JobOfEvents, Action: driver.JobReplay, Mode: "to:" + hostile, Filter: string(filter)}
		if len(job.RequestID) > 255 {
			job.RequestID = ""
		}
		if _, err := g.store.AddJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
}
