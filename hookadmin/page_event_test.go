package hookadmin_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// browser sends requests as a browser on a page of the dashboard does, with the cookies it was given.
type browser struct {
	*api
	cookies map[string]string
}

func newBrowser(a *api) *browser { return &browser{a, make(map[string]string)} }

func (b *browser) send(t *testing.T, method, target, body string, change func(*http.Request)) *answer {
	t.Helper()
	resp := b.api.send(t, method, target, body, func(r *http.Request) {
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for name, value := range b.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		if change != nil {
			change(r)
		}
	})
	for _, c := range (&http.Response{Header: resp.header}).Cookies() {
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return resp
}

func (b *browser) open(t *testing.T, target string) string {
	t.Helper()
	resp := b.send(t, http.MethodGet, target, "", nil)
	if resp.status != 200 {
		t.Fatalf("%s: status %d\n%s", target, resp.status, resp.body)
	}
	return string(resp.body)
}

var (
	formPattern  = regexp.MustCompile(`(?s)<form[^>]*method="post" action="([^"]*)"[^>]*>(.*?)</form>`)
	inputPattern = regexp.MustCompile(`<(?:input|button)[^>]*?\sname="([^"]*)"[^>]*?value="([^"]*)"`)
)

// form returns the hidden fields of the form with that action on a page, and its address.
func formOn(t *testing.T, page, at, action string) (string, url.Values) {
	t.Helper()
	for _, m := range formPattern.FindAllStringSubmatch(page, -1) {
		to := mustParse(t, at).ResolveReference(mustParse(t, html.UnescapeString(m[1]))).String()
		if to != action {
			continue
		}
		values := url.Values{}
		for _, input := range inputPattern.FindAllStringSubmatch(m[2], -1) {
			if strings.Contains(input[0], `type="hidden"`) {
				values.Add(input[1], html.UnescapeString(input[2]))
			}
		}
		return to, values
	}
	t.Fatalf("the page has no form for %s:\n%s", action, page)
	return "", nil
}

// submit sends the form with that action on a page, with more fields, and returns the page that it
// leads to.
func (b *browser) submit(t *testing.T, at, action string, more ...string) string {
	t.Helper()
	to, values := formOn(t, b.open(t, at), at, action)
	for i := 0; i < len(more); i += 2 {
		values.Add(more[i], more[i+1])
	}
	return b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil))
}

func (b *browser) follow(t *testing.T, at string, resp *answer) string {
	t.Helper()
	if resp.status != http.StatusSeeOther {
		t.Fatalf("status %d, want a redirect:\n%s", resp.status, resp.body)
	}
	return b.open(t, mustParse(t, at).ResolveReference(mustParse(t, resp.header.Get("Location"))).String())
}

func TestEventPage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	page := g.show(t, "/events/lab/e1", 200)
	wantText(t, page, "dead", "e1", "answered 410", "410", "X-Two", "1 delivery", "Timeline", "attempt 1 failed for good", "billing", "curl -X POST",
		"hookonce send http://127.0.0.1:3000/ --from-event lab e1 --secret", "hookonce listen --from http", " --source lab --since 20")
	if strings.Contains(page, "s3cret") {
		t.Error("the page shows the path of a destination's URL")
	}
	if got := linksOn(t, page, "/events/lab/e1", "lab"); len(got) == 0 || got[0] != "/events?source=lab" {
		t.Errorf("the source links to %q", got)
	}
	wantProblemPage(t, g.get(t, "/events/lab/none"), 404)
	wantProblemPage(t, g.get(t, "/events/lab/e1?body=wrong"), 400)
	wantProblemPage(t, g.get(t, "/events/lab/e1?source=x"), 400)
	wantProblemPage(t, g.get(t, "/event?source=lab&id=none"), 404)
}

func TestEventPageShowsBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	claim(t, g.store, event{source: "lab", id: "e1", body: `{"n":12345678901234567890.10}`, at: noon})
	claim(t, g.store, event{source: "lab", id: "bytes", body: "\xff\x00", at: noon})
	wantText(t, g.show(t, "/events/lab/e1", 200), `"n" : 12345678901234567890.10`, "29 bytes")
	wantText(t, g.show(t, "/events/lab/e1?body=raw", 200), `{"n":12345678901234567890.10}`)
	wantText(t, g.show(t, "/events/lab/e1?body=hex", 200), "7b 22 6e 22 3a 31")
	wantText(t, g.show(t, "/events/lab/bytes", 200), "ff 00", "not text in UTF-8")

	for id, want := range map[string]string{"e1": `{"n":12345678901234567890.10}`, "bytes": "\xff\x00"} {
		resp := g.get(t, "/event/body?source=lab&id="+id)
		if resp.status != 200 || string(resp.body) != want || resp.header.Get("Content-Type") != "application/octet-stream" ||
			resp.header.Get("Content-Disposition") != `attachment; filename="event-`+id+`.body"` || resp.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("download of %s: %d %v %q", id, resp.status, resp.header, resp.body)
		}
	}
	g.prune(t)
	page := g.show(t, "/events/lab/e1", 200)
	wantText(t, page, "past their retention")
	if strings.Contains(page, "act/replay") {
		t.Error("a replay without a body is offered")
	}
	wantProblemPage(t, g.get(t, "/event/body?source=lab&id=e1"), 410)
}

// A browser removes "." and ".." from paths, so the links to such events have parameters.
func TestEventsNamedLikeFolders(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, id := range []string{".", "..", "a/../b", "x?y#z%2F", " "} {
		claim(t, g.store, event{source: "lab", id: id, typ: "t-" + id, body: "{}", at: noon})
		page := g.show(t, "/events?type="+url.QueryEscape("t-"+id), 200)
		at := regexp.MustCompile(`data-open data-id="[^"]*" href="([^"]*)"`).FindStringSubmatch(page)
		if at == nil {
			t.Fatalf("%q is not listed", id)
		}
		to := mustParse(t, "http://127.0.0.1/events").ResolveReference(mustParse(t, html.UnescapeString(at[1])))
		wantText(t, g.show(t, to.RequestURI(), 200), "t-"+id)
	}
}

func TestReplayFromThePage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "dead", "done")
	b := newBrowser(g.api)
	if page := b.open(t, "/events/lab/dead"); strings.Contains(page, `id="replay"`) {
		t.Error("the replay of an unfinished event is offered")
	}
	g.settle(t, driver.MessageDead)
	wantText(t, b.submit(t, "/events/lab/dead", "/act/replay"), "Replayed: 1 message is due, as generation 1.", "replayed")
	g.wantState(t, "dead", driver.StateRunning)
	if page := b.open(t, "/events/lab/dead"); strings.Contains(page, "Replayed:") {
		t.Error("the outcome is shown twice")
	}
	g.settle(t, driver.MessageSent)
	wantText(t, b.submit(t, "/events/lab/dead", "/act/replay"), "Choose whether its messages get new ids")
	wantText(t, b.submit(t, "/events/lab/dead", "/act/replay", "mode", "as_new"), "as generation 2", "replayed as new")
	if got, want := g.actions(t, "dead"), []string{"replayed", "replayed_as_new"}; !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
}

// A form that is sent twice acts once: its key is the key of the request.
func TestFormsActOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	b := newBrowser(g.api)
	to, values := formOn(t, b.open(t, "/events/lab/e1"), "/events/lab/e1", "/act/replay")
	for range 3 {
		wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "as generation 1")
	}
	if got := g.actions(t, "e1"); len(got) != 1 {
		t.Errorf("history %q", got)
	}
}

func TestRetryAndDiscardFromThePage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	b := newBrowser(g.api)
	g.settle(t, driver.MessageRetry)
	wantText(t, b.submit(t, "/events/lab/e1", "/act/retry"), "The message is due now.", "retried")
	g.settle(t, driver.MessageDead)
	wantText(t, b.submit(t, "/events/lab/e1", "/act/discard"), "1 dead letter discarded", "skipped")
	g.wantState(t, "e1", driver.StateSkipped)
}

// A form acts only with the token of its session, and only from a page of this origin.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	const read = "a-read-only-token-of-length"
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token, cfg.ReadToken = store, token, read })
	claim(t, store, event{source: "lab", id: "e1", typ: "t", body: "{}", at: noon})
	signIn := func(token string) *browser {
		b := newBrowser(a)
		if resp := b.send(t, http.MethodPost, "/login", url.Values{"token": {token}}.Encode(), nil); resp.status != http.StatusSeeOther {
			t.Fatalf("login: %d", resp.status)
		}
		return b
	}
	b := signIn(token)
	to, values := formOn(t, b.open(t, "/events/lab/e1"), "/events/lab/e1", "/act/replay")
	values.Set("mode", "as_new")
	with := func(name string, value ...string) url.Values {
		changed := url.Values{}
		for n, v := range values {
			changed[n] = v
		}
		changed[name] = value
		return changed
	}
	other := signIn(token)
	other.cookies["hookonce_session"] = b.cookies["hookonce_session"] + "x"
	tests := []struct {
		name   string
		body   string
		change func(*http.Request)
		status int
	}{
		{"no token", with("token").Encode(), nil, 403},
		{"another token", with("token", "!"+values.Get("token")[1:]).Encode(), nil, 403},
		{"no key", with("key").Encode(), nil, 400},
		{"a long key", with("key", strings.Repeat("k", 256)).Encode(), nil, 400},
		{"an unknown field", with("all", "1").Encode(), nil, 400},
		{"a field twice", with("id", "e1", "e2").Encode(), nil, 400},
		{"a control character", with("id", "e1\x00").Encode(), nil, 400},
		{"too long", with("id", strings.Repeat("x", 300<<10)).Encode(), nil, 413},
		{"broken", "%zz", nil, 400},
		{"JSON", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, 415},
		{"a multipart form", "", func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=x") }, 415},
		{"a page of another site", values.Encode(), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"a page of another port", values.Encode(), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"a page of another origin", values.Encode(), func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://127.0.0.1:9999") }, 403},
		{"no browser", values.Encode(), func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }, 403},
		{"another session", values.Encode(), func(r *http.Request) {
			r.Header.Del("Cookie")
			r.Header.Set("Authorization", "Bearer "+token)
		}, 403},
	}
	for _, tt := range tests {
		if resp := b.send(t, http.MethodPost, to, tt.body, tt.change); resp.status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, resp.status, tt.status)
		}
	}
	reader := signIn(read)
	page := reader.open(t, "/events/lab/e1")
	if strings.Contains(page, "/act/") || strings.Contains(page, `name="token"`) {
		t.Error("a reader is offered actions")
	}
	if resp := reader.send(t, http.MethodPost, to, values.Encode(), nil); resp.status != 403 {
		t.Errorf("a reader acts: %d", resp.status)
	}
	if got := historyOf(t, store, "e1"); got != 0 {
		t.Errorf("a forged form acted %d times", got)
	}
	if resp := b.send(t, http.MethodPost, to, values.Encode(), nil); resp.status != http.StatusSeeOther {
		t.Errorf("the form itself: %d", resp.status)
	}
}

func historyOf(t *testing.T, store driver.Store, id string) int {
	t.Helper()
	detail, err := store.Event(t.Context(), "lab", id)
	if err != nil {
		t.Fatal(err)
	}
	return len(detail.History)
}

// Only the handler itself can make a page show an outcome, once and for a minute.
func TestForgedFlashes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	b := newBrowser(g.api)
	to, values := formOn(t, b.open(t, "/events/lab/e1"), "/events/lab/e1", "/act/replay")
	b.send(t, http.MethodPost, to, values.Encode(), nil)
	real := b.cookies["hookonce_flash"]
	text, mac, _ := strings.Cut(real, ".")
	for _, cookie := range []string{"", ".", "..", "x", real + "x", "9" + real, text + "." + mac[:len(mac)-2], "9999999999.eyJUZXh0IjoiSGkifQ.x"} {
		b.cookies["hookonce_flash"] = cookie
		if page := b.open(t, "/events/lab/e1"); strings.Contains(page, `id="flash"`) {
			t.Errorf("the cookie %q is shown", cookie)
		}
	}
	b.cookies["hookonce_flash"] = real
	wantText(t, b.open(t, "/events/lab/e1"), "Replayed: 1 message is due")
}

// A GET changes nothing, not even at the address of an action.
func TestActionsNeedAPost(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, e := range hookadmin.Pages() {
		if !strings.HasPrefix(e.Path, "/act/") {
			continue
		}
		if e.Method != http.MethodPost {
			t.Errorf("%s %s", e.Method, e.Path)
		}
		resp := g.get(t, e.Path)
		wantProblemPage(t, resp, http.StatusMethodNotAllowed)
		w := httptest.NewRecorder()
		g.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "http://127.0.0.1:8081"+e.Path, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("HEAD %s: %d", e.Path, w.Code)
		}
	}
}

func TestTimelineOnThePage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageRetry)
	page := g.show(t, "/events/lab/e1", 200)
	marks := regexp.MustCompile(`class="mark mark-(\w+)" x="[\d.]+%" y="[\d.]+"`).FindAllStringSubmatch(page, -1)
	var kinds []string
	for _, m := range marks {
		kinds = append(kinds, m[1])
	}
	if got := strings.Join(kinds, " "); got != "delivery event retry due" {
		t.Errorf("marks %q", got)
	}
	wantText(t, page, "next attempt due")
}

// The page shows each kept delivery, the difference of another body, and the answer to an attempt.
func TestEvidenceOnThePage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	var done driver.CompleteParams
	for _, m := range g.lease(t) {
		done.Completions = append(done.Completions, driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 422, Error: "answered 422", Response: []byte(`{"error":"<b>closed</b>"}`), ResponseType: "application/json",
		})
	}
	if _, err := g.store.Complete(t.Context(), &done); err != nil {
		t.Fatal(err)
	}
	count := driver.DeliveryCount{Key: driver.EventKey("lab", "e1"), Duplicates: 2, OtherBodies: 1, Recent: []driver.Delivery{
		{At: noon.Add(time.Hour), Remote: "203.0.113.9:1", Gateway: "gw-2"}, {At: noon.Add(time.Minute), Remote: "203.0.113.8:1", Gateway: "gw-1", SameBody: true},
	}, Other: &driver.OtherBody{At: noon.Add(time.Hour), Body: []byte(`{"late":1}`), Size: 10}}
	if err := g.store.CountDeliveries(t.Context(), &driver.CountDeliveriesParams{Counts: []driver.DeliveryCount{count}, Now: noon.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	page := g.show(t, "/events/lab/e1", 200)
	wantText(t, page, "203.0.113.9:1 gw-2 another body", "203.0.113.8:1 gw-1 the same", "Same id, other body", `+ "late": 1`, "duplicate with another body", `Answer, 25 bytes {"error":"<b>closed</b>"}`)
	wantIntact(t, "the page", page)
}

// A redaction is confirmed by a tick, removes the body for good, and is offered for finished events
// alone.
func TestRedactFromThePage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	b := newBrowser(g.api)
	if page := b.open(t, "/events/lab/e1"); strings.Contains(page, "/act/redact") {
		t.Error("the redaction of an unfinished event is offered")
	}
	g.settle(t, driver.MessageDead)
	wantText(t, b.submit(t, "/events/lab/e1", "/act/redact"), "Nothing was changed: confirm")
	page := b.submit(t, "/events/lab/e1", "/act/redact", "sure", "yes")
	wantText(t, page, "Redacted: the body, the headers", "redacted")
	if strings.Contains(page, "answered 410") || strings.Contains(page, "/act/redact") || strings.Contains(page, "/act/replay") {
		t.Errorf("the page still shows the error, or offers a replay or another redaction:\n%s", text(page))
	}
	wantProblemPage(t, g.get(t, "/event/body?source=lab&id=e1"), 410)
}
