package hookadmin_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

const (
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	secret = "a-secret-of-16-bytes-or-more"
)

// page returns the HTML of a page, after checking it with wantPage.
func (a *api) page(t *testing.T, target string, status int) string {
	t.Helper()
	resp := a.get(t, target)
	wantPage(t, resp, status)
	return string(resp.body)
}

// overview returns the overview with its counts: it shows none if the database takes long to count, as on a busy machine.
func (a *api) overview(t *testing.T) string {
	t.Helper()
	a.get(t, "/api/v1/stats") // waits for them, and they are kept for a while
	return a.page(t, "/", http.StatusOK)
}

// wantPage checks the properties of every page, and that the page has neither scripts nor styles in
// itself, which its policy forbids, and loads nothing from elsewhere.
func wantPage(t *testing.T, resp *answer, status int) {
	t.Helper()
	if resp.status != status {
		t.Errorf("status %d, want %d", resp.status, status)
	}
	for name, want := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Content-Security-Policy":      pagePolicy,
		"X-Content-Type-Options":       "nosniff",
		"Cache-Control":                "no-store",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "same-origin",
	} {
		if got := resp.header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if found := activePattern.Find(resp.body); found != nil {
		t.Errorf("the page holds %q", found)
	}
}

var (
	activePattern = regexp.MustCompile(`(?i)<script>|<script [^s]|<style|<iframe|\s(style|on\w+)=|\s(src|action)="https?:|href="http:`)
	anyTag        = regexp.MustCompile(`<[^>]*>`)
)

// text returns the readable text of a part of a page.
func text(part string) string {
	part = anyTag.ReplaceAllString(part, " ")
	return html.UnescapeString(strings.Join(strings.Fields(part), " "))
}

var rowPattern = regexp.MustCompile(`(?s)<tr role="row"( class="grave")?>(.*?)</tr>`)

// rows returns the rows of the table of sources as text; grave ones begin with "!".
func rows(page string) []string {
	var all []string
	for _, m := range rowPattern.FindAllStringSubmatch(page, -1)[1:] { // the first row is the head
		row := text(m[2])
		if m[1] != "" {
			row = "! " + row
		}
		all = append(all, row)
	}
	return all
}

// everySource returns a source of every kind that the pages distinguish.
func everySource() []hookonce.Source {
	of := func(name string, window time.Duration) hookonce.Source {
		return hookonce.Source{Name: name, Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret), DedupeWindow: window}
	}
	return []hookonce.Source{
		of("default", 0), of("enough", 72*time.Hour), of("long", 100*24*time.Hour), of("short", 72*time.Hour-time.Second),
		{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}, DedupeWindow: time.Hour},
		{Name: "sha1", Provider: provider.GitHub, Scheme: "sha1", Secrets: hookonce.StaticSecrets(secret)},
		{Name: "tasks", Provider: "asana"},
		{Name: "todo", Provider: "asana"},
	}
}

func TestSourcesPage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{Sources: everySource()})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
	now := time.Now()
	then := now.Truncate(time.Minute).Add(-4 * time.Minute) // its minute ended 3 minutes ago, or 4 on a slow machine
	fast := [driver.FigureBuckets]int64{0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	figures := []driver.Figure{
		{Of: driver.FigureDeliveries, At: then, Name: "long", Label: "ok", N: 100, Buckets: fast},
		{Of: driver.FigureDeliveries, At: then, Name: "long", Label: "refused", N: 4},
		{Of: driver.FigureDeliveries, At: now.Add(-100 * time.Hour), Name: "lab", Label: "ok", N: 1},
		{Of: driver.FigureDeliveries, At: now, Name: "todo", Label: "refused", N: 20},
		{Of: driver.FigureDeliveries, At: now, Name: "default", Label: "unavailable", N: 1},
	}
	if err := store.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: figures}); err != nil {
		t.Fatal(err)
	}
	armed, err := engine.Arm(t.Context(), "tasks", time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"default Stripe look here 1 delivery was answered 5xx. The provider repeats them. now 1 0% – 30 days the provider retries for 3 days in the settings",
		"enough Stripe silent No deliveries in the last 24 hours. none in 90 days 0 – – 3 days the provider retries for 3 days in the settings",
		"! lab Unsigned look here Requests are not verified. 3 days ago 0 – – 1 hour the retries of the provider are not known Unsigned requests are not verified",
		"long Stripe working 3 minutes ago 104 3.8% 2.5 ms 100 days the provider retries for 3 days in the settings",
		"sha1 GitHub · sha1 silent No deliveries in the last 24 hours. none in 90 days 0 – – the provider gives up after 10 seconds " +
			"30 days the retries of the provider are not known in the settings",
		"! short Stripe look here The provider retries for longer than the dedupe window. none in 90 days 0 – – " +
			"2 days 23 hours 59 minutes 59 seconds Shorter than the provider retries the provider retries for 3 days in the settings",
		"tasks Asana silent No deliveries in the last 24 hours. none in 90 days 0 – – the provider gives up after 10 seconds " +
			"30 days the provider retries for 1 day none learned armed until " + armed.ArmedUntil.UTC().Format("2006-01-02 15:04:05 UTC"),
		"todo Asana trouble Every delivery of the last 24 hours was refused. Look at the reasons. now 20 100% – the provider gives up after 10 seconds " +
			"30 days the provider retries for 1 day none learned",
	}
	got := rows(a.page(t, "/sources", 200))
	// Whole days by UTC, so the last delivery of lab was three or four days ago.
	got[2] = strings.Replace(got[2], "4 days ago", "3 days ago", 1)
	got[3] = strings.Replace(got[3], "4 minutes ago", "3 minutes ago", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := store.LearnSecret(t.Context(), &driver.LearnParams{Source: "tasks", Secret: "handed-over-s3cret"}); err != nil {
		t.Fatal(err)
	}
	wrong := []driver.Figure{{Of: driver.FigureRefusals, At: now.Add(-2 * time.Hour), Name: "todo", Label: "signature_wrong", N: 20}}
	if err := store.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: wrong}); err != nil {
		t.Fatal(err)
	}
	after := a.page(t, "/sources", 200)
	wantText(t, rows(after)[7], "was refused. Wrong secret?")
	if page := a.page(t, "/sources/todo", 200); !strings.Contains(page, `<a href="../refused?since=24h&amp;source=todo">100%</a>`) {
		t.Errorf("the page of a source does not link its refused requests: %s", text(page))
	}
	if row := rows(after)[6]; !strings.HasSuffix(row, " 1 learned") {
		t.Errorf("source with a learned secret: %s", row)
	}
	if strings.Contains(after+a.page(t, "/sources/tasks", 200), "handed-over-s3cret") {
		t.Error("a page shows the secret")
	}
	empty := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store }).page(t, "/sources", 200)
	if !strings.Contains(empty, "There are no sources") {
		t.Errorf("without sources: %s", text(empty))
	}
}

var figurePattern = regexp.MustCompile(`(?s)<li(?: class="(trouble)")?>\s*<h3><a href="[^"]*">(.*?)</a></h3>\s*<p class="number">(.*?)</p>(.*?)<p class="about">`)

func TestFiguresOfTheOverview(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	show := func() map[string]string {
		shown := make(map[string]string)
		for _, m := range figurePattern.FindAllStringSubmatch(g.overview(t), -1) {
			shown[m[2]] = strings.TrimSpace(m[3] + " " + m[1] + " " + text(m[4]))
		}
		return shown
	}
	want := map[string]string{
		"Dead letters": "0", "Events pending": "0", "Messages pending": "0", "Messages being sent": "0", "Quarantined": "0",
	}
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("an empty store (-want +got):\n%s", diff)
	}
	g.enqueue(t, "d1", "d2")
	g.settle(t, driver.MessageDead)
	g.enqueue(t, "s1")
	g.lease(t)
	g.enqueue(t, "p1", "p2", "p3")
	work := driver.Claim{Key: driver.EventKey("lab", "w"), Source: "lab", EventID: "w", Headers: []byte("{}"), Work: driver.WorkQueued}
	_, err := g.store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{work}, Now: noon.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	g.quarantine(t, "lab", "x", noon)
	g = newGatewayOn(t, g.store) // without the counts of a moment ago
	days := int(time.Since(noon) / (24 * time.Hour))
	want = map[string]string{
		"Dead letters": "2 trouble", "Messages being sent": "1", "Quarantined": "1 trouble",
		"Events pending":   fmt.Sprintf("1  Oldest due %d days ago", int((time.Since(noon)+time.Hour)/(24*time.Hour))),
		"Messages pending": fmt.Sprintf("3  First due %d days ago", days),
	}
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// down is a store that does not answer.
type down struct{ driver.Store }

func (down) Stats(context.Context) (*driver.Stats, error) { return nil, driver.ErrUnavailable }

func (down) LearnedSecrets(context.Context, []string) ([]driver.SourceSecrets, error) {
	return nil, driver.ErrUnavailable
}

// Pages show the settings without the database, and invent nothing.
func TestPagesWithoutADatabase(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{Sources: everySource()})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = down{store}, engine })
	overview := a.page(t, "/", 200)
	if n := len(readJSON[hookadmin.WarningPage](t, a.get(t, "/api/v1/warnings")).Warnings); n != 2 {
		t.Errorf("the API lists %d warnings", n)
	}
	if len(warnings(overview)) != 2 || figurePattern.MatchString(overview) || strings.Count(text(overview), "The database cannot be used now. There are no figures.") != 1 {
		t.Errorf("overview: %s", text(overview))
	}
	sources := a.page(t, "/sources", 200)
	want := "! short Stripe not known not known – – – 2 days 23 hours 59 minutes 59 seconds " +
		"Shorter than the provider retries the provider retries for 3 days in the settings"
	if got := rows(sources); got[5] != want || !strings.Contains(sources, "There are no figures.") {
		t.Errorf("sources: %s", text(sources))
	}
	if log := a.log.String(); !strings.Contains(log, "the overview has no counts") || !strings.Contains(log, "the page shows old ones, or none") {
		t.Errorf("logged %s", log)
	}
}

// leaving is a store that stops answering.
type leaving struct {
	driver.Store
	away atomic.Bool
}

func (f *leaving) Stats(ctx context.Context) (*driver.Stats, error) {
	if f.away.Load() {
		return nil, driver.ErrUnavailable
	}
	return f.Store.Stats(ctx)
}

func (f *leaving) Series(ctx context.Context, filter *driver.SeriesFilter) ([]driver.Point, error) {
	if f.away.Load() {
		return nil, driver.ErrUnavailable
	}
	return f.Store.Series(ctx, filter)
}

func (f *leaving) Event(ctx context.Context, source, id string) (*driver.EventDetail, error) {
	if f.away.Load() {
		return nil, driver.ErrUnavailable
	}
	return f.Store.Event(ctx, source, id)
}

func (f *leaving) Events(ctx context.Context, filter *driver.EventFilter) (*driver.EventPage, error) {
	if f.away.Load() {
		return nil, driver.ErrUnavailable
	}
	return f.Store.Events(ctx, filter)
}

// Pages keep their last figures while the database is away, and say how old they are.
func TestPagesKeepTheirFigures(t *testing.T) {
	t.Parallel()
	store := &leaving{Store: rig.OpenSQLite(t)}
	g := newGatewayOn(t, store)
	now := time.Now()
	g.addFigures(t,
		driver.Figure{Of: driver.FigureDeliveries, At: now, Name: "lab", Label: "ok", N: 4321},
		driver.Figure{Of: driver.FigureAttempts, At: now, Name: "billing", Label: "sent", N: 4321})
	paths := []string{"/", "/sources", "/sources/lab", "/destinations", "/destinations/billing"}
	for _, path := range paths {
		if shown := g.page(t, path, 200); !strings.Contains(shown, "4,321") || strings.Contains(shown, `class="stale"`) {
			t.Errorf("%s: %s", path, text(shown))
		}
	}
	store.away.Store(true)
	for _, path := range paths {
		shown := g.page(t, path, 200)
		if !strings.Contains(shown, "4,321") || !strings.Contains(text(shown), "The database cannot be used now. Grey figures were read") || !strings.Contains(shown, "stale") {
			t.Errorf("%s without the database: %s", path, text(shown))
		}
	}
	store.away.Store(false)
	if shown := g.page(t, "/", 200); strings.Contains(shown, "cannot be used now") {
		t.Errorf("with the database again: %s", text(shown))
	}
}

var linkPattern = regexp.MustCompile(`\s(?:href|action)="([^"]*)"`)

// Wherever the handler is mounted, its pages link to each other, and to nothing else.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	open := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	closed := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token = store, token })
	for _, prefix := range []string{"", "/tools/hooks"} {
		for _, a := range []*api{open, closed} {
			mounted := http.StripPrefix(prefix, a.handler)
			if w := httptest.NewRecorder(); prefix != "" {
				mounted.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, prefix, nil))
				if to := w.Header().Get("Location"); w.Code != http.StatusPermanentRedirect || to != prefix+"/" {
					t.Errorf("%s without a slash: %d to %q", prefix, w.Code, to)
				}
			}
			seen := map[string]bool{prefix + "/": true}
			for queue := []string{prefix + "/"}; len(queue) > 0; queue = queue[1:] {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8081"+queue[0], nil)
				if a == closed {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				mounted.ServeHTTP(w, r)
				if isLogout := queue[0] == prefix+"/logout"; w.Code != 200 && (!isLogout || w.Code != 405) {
					t.Errorf("%s is linked, but answers %d", queue[0], w.Code)
				}
				for _, m := range linkPattern.FindAllStringSubmatch(w.Body.String(), -1) {
					to := r.URL.ResolveReference(mustParse(t, html.UnescapeString(m[1])))
					if to.Host != r.URL.Host || !strings.HasPrefix(to.Path, prefix+"/") {
						t.Errorf("%s links to %s", queue[0], to)
					}
					if !seen[to.Path] {
						seen[to.Path] = true
						queue = append(queue, to.Path)
					}
				}
			}
			for _, path := range []string{"/", "/sources", "/static/style.css"} {
				if !seen[prefix+path] {
					t.Errorf("no page links to %s", prefix+path)
				}
			}
			if seen[prefix+"/logout"] != (a == closed) {
				t.Errorf("with a token: %v; page offers to sign out: %v", a == closed, seen[prefix+"/logout"])
			}
		}
	}
}

func mustParse(t *testing.T, link string) *url.URL {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPagesThatFail(t *testing.T) {
	t.Parallel()
	// The count never ends: one that ends between two requests would change the overview and its length.
	forever := make(chan struct{})
	defer close(forever)
	store := &busy{Store: rig.OpenSQLite(t), hold: func(int32) { <-forever }}
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	for _, path := range []string{"/", "/sources"} {
		resp := a.do(t, http.MethodPut, path, nil)
		wantPage(t, resp, http.StatusMethodNotAllowed)
		if got := resp.header.Get("Allow"); got != "GET, HEAD" {
			t.Errorf("%s: Allow %q", path, got)
		}
		if body := a.page(t, path+"?x=1", http.StatusBadRequest); !strings.Contains(body, "unknown parameter; known parameters are") || !strings.Contains(body, "Error id") {
			t.Errorf("%s with a parameter: %s", path, text(body))
		}
		head, get := a.do(t, http.MethodHead, path, nil), a.get(t, path)
		if head.status != 200 || head.header.Get("Content-Length") != get.header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d with length %q, GET has %q", path, head.status,
				head.header.Get("Content-Length"), get.header.Get("Content-Length"))
		}
		rebound := a.do(t, http.MethodGet, path, func(r *http.Request) { r.Host = "evil.example.com:8081" })
		wantPage(t, rebound, http.StatusForbidden)
		foreign := a.do(t, http.MethodGet, path, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") })
		wantPage(t, foreign, http.StatusForbidden)
		for _, refused := range []*answer{rebound, foreign} {
			if strings.Contains(string(refused.body), "<nav") {
				t.Errorf("%s: a caller without a session sees %s", path, refused.body)
			}
		}
	}
}

func TestStyleSheet(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token = rig.OpenSQLite(t), token })
	resp := a.get(t, "/static/style.css") // the login page needs it
	etag := resp.header.Get("ETag")
	if resp.status != 200 || resp.header.Get("Content-Type") != "text/css; charset=utf-8" || etag == "" ||
		resp.header.Get("Cache-Control") != "no-cache" || resp.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", resp.status, resp.header)
	}
	again := a.do(t, http.MethodGet, "/static/style.css", func(r *http.Request) { r.Header.Set("If-None-Match", etag) })
	if again.status != http.StatusNotModified || len(again.body) != 0 {
		t.Errorf("revalidated: %d, %d bytes", again.status, len(again.body))
	}
	if found := regexp.MustCompile(`url\(|@import`).Find(resp.body); found != nil {
		t.Errorf("the style sheet loads something: %s", found)
	}
	if classes := unknownClasses(t, a, string(resp.body)); len(classes) > 0 {
		t.Errorf("pages use classes that are not in the style sheet: %q", classes)
	}
}

func unknownClasses(t *testing.T, a *api, sheet string) []string {
	t.Helper()
	var unknown []string
	for _, path := range []string{"/", "/sources", "/sources/lab", "/destinations", "/destinations/billing", "/login"} {
		resp := a.do(t, http.MethodGet, path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		for _, m := range regexp.MustCompile(`class="([^"]*)"`).FindAllStringSubmatch(string(resp.body), -1) {
			for class := range strings.FieldsSeq(m[1]) {
				if !strings.Contains(sheet, "."+class) && !slices.Contains(unknown, class) {
					unknown = append(unknown, class)
				}
			}
		}
	}
	return unknown
}
