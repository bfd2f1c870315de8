package hookadmin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// event is an event for a test to claim.
type event struct {
	source, id, typ string
	body            string
	routes          []string
	at              time.Time
}

func (ev event) claim() driver.Claim {
	key := driver.EventKey(ev.source, ev.id)
	c := driver.Claim{
		Key:      key,
		Source:   ev.source,
		EventID:  ev.id,
		Type:     ev.typ,
		Headers:  []byte(`{"Content-Type":["application/json"],"X-Two":["a","b"]}`),
		Body:     []byte(ev.body),
		BodyHash: sha256.Sum256([]byte(ev.body)),
	}
	for _, route := range ev.routes {
		c.Messages = append(c.Messages, driver.NewMessage{
			ID: driver.MessageID(key, 0, route), Route: route, Destination: "billing",
		})
	}
	return c
}

func claim(t *testing.T, store driver.Store, ev event) driver.ClaimResult {
	t.Helper()
	results, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{ev.claim()}, Now: ev.at})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// newEngine returns an engine on store that does not run.
func newEngine(t *testing.T, store driver.Store, cfg *hookonce.Config) *hookonce.Engine {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	engine, err := hookonce.NewEngine(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// api is a handler under test.
type api struct {
	handler http.Handler
	log     *bytes.Buffer
}

// newAPI returns a handler on loopback without a token; change may alter that.
func newAPI(t *testing.T, change func(*hookadmin.Config)) *api {
	t.Helper()
	a := &api{log: new(bytes.Buffer)}
	cfg := &hookadmin.Config{
		Ready:    func(context.Context) error { return nil },
		Loopback: true,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Write([]byte("up 1\n"))
		}),
		Logger: slog.New(slog.NewJSONHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	change(cfg)
	if cfg.Engine == nil {
		cfg.Engine = newEngine(t, cfg.Store, &hookonce.Config{})
	}
	var err error
	if a.handler, err = hookadmin.New(cfg); err != nil {
		t.Fatal(err)
	}
	return a
}

// answer is an answer of the handler.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *api) do(t *testing.T, method, target string, change func(*http.Request)) *answer {
	t.Helper()
	return a.send(t, method, target, "", change)
}

// reader records an answer, and hangs up when it has begun to stream.
type reader struct {
	*httptest.ResponseRecorder
	hangUp func()
}

func (r *reader) Flush() { r.hangUp() }

// send also checks every answer against the OpenAPI document.
func (a *api) send(t *testing.T, method, target, body string, change func(*http.Request)) *answer {
	t.Helper()
	got := a.ask(t, method, target, body, change)
	path, _, _ := strings.Cut(target, "?")
	checkDescribed(t, method, path, got)
	return got
}

func (a *api) ask(t *testing.T, method, target, body string, change func(*http.Request)) *answer {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8081"+target, strings.NewReader(body))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(&reader{w, hangUp}, r)
	return &answer{w.Code, w.Header(), w.Body.Bytes()}
}

func (a *api) get(t *testing.T, target string) *answer {
	t.Helper()
	return a.do(t, http.MethodGet, target, nil)
}

func readJSON[T any](t *testing.T, got *answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(got.body, &v); err != nil {
		t.Fatalf("status %d, body %q: %v", got.status, got.body, err)
	}
	return v
}

// wantProblem checks the shape of a refusal and returns it.
func wantProblem(t *testing.T, resp *answer, status int) problem.Problem {
	t.Helper()
	if got := resp.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	p := readJSON[problem.Problem](t, resp)
	if resp.status != status || p.Status != status {
		t.Errorf("status %d, in the body %d (%s); want %d", resp.status, p.Status, p.Detail, status)
	}
	if p.Type != "about:blank" || p.Title != http.StatusText(status) || p.Detail == "" ||
		!strings.HasPrefix(p.Instance, "urn:hookonce:error:") {
		t.Errorf("problem %+v", p)
	}
	return p
}

func TestNewRefusesUnsafeConfigs(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{})
	ready := func(context.Context) error { return nil }
	tests := []struct {
		name string
		cfg  hookadmin.Config
		ok   bool
	}{
		{"loopback without a token", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Loopback: true}, true},
		{"network with a token", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: "0123456789abcdef"}, true},
		{"network with a short token", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: "0123456789abcde"}, false},
		{"loopback with a short token", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: "s3cret", Loopback: true}, true},
		{"network without a token", hookadmin.Config{Store: store, Engine: engine, Ready: ready}, false},
		{"token with a space", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: "s3 cret"}, false},
		{"blank token", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: " "}, false},
		{"token with a line feed", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: "s3cret\n"}, false},
		{"token beyond ASCII", hookadmin.Config{Store: store, Engine: engine, Ready: ready, Token: "sécret"}, false},
		{"no store", hookadmin.Config{Engine: engine, Ready: ready, Loopback: true}, false},
		{"no engine", hookadmin.Config{Store: store, Ready: ready, Loopback: true}, false},
		{"no readiness", hookadmin.Config{Store: store, Engine: engine, Loopback: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := hookadmin.New(&tt.cfg)
			if (err == nil) != tt.ok || (h != nil) != tt.ok {
				t.Fatalf("handler %v, error %v", h, err)
			}
			if err != nil && tt.cfg.Token != "" && strings.Contains(err.Error(), tt.cfg.Token) && tt.cfg.Token != " " {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	ready := errors.New("pool of postgres://secret@db is empty")
	a := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store = rig.OpenSQLite(t)
		cfg.Token = "s3cret"
		cfg.Ready = func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("Ready was called without a deadline")
			}
			return ready
		}
	})
	anyHost := func(r *http.Request) { r.Host = "gateway.example.com" }

	health := a.do(t, http.MethodGet, "/healthz", anyHost)
	if got := readJSON[map[string]string](t, health); health.status != 200 || got["status"] != "ok" {
		t.Errorf("healthz: %d %v", health.status, got)
	}
	p := wantProblem(t, a.do(t, http.MethodGet, "/readyz", anyHost), 503)
	if strings.Contains(p.Detail, "pool") {
		t.Errorf("the answer reveals the internal error: %q", p.Detail)
	}
	id := strings.TrimPrefix(p.Instance, "urn:hookonce:error:")
	if !slices.ContainsFunc(strings.Split(a.log.String(), "\n"), func(line string) bool {
		return strings.Contains(line, id) && strings.Contains(line, "is empty")
	}) {
		t.Errorf("the log lacks the cause under %s:\n%s", id, a.log)
	}
	ready = nil
	resp := a.do(t, http.MethodGet, "/readyz", anyHost)
	if got := readJSON[map[string]string](t, resp); resp.status != 200 || got["status"] != "ready" {
		t.Errorf("readyz: %d %v", resp.status, got)
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store = rig.OpenSQLite(t)
		cfg.Ready = func(context.Context) error { panic("a defect of Ready") }
		cfg.Warnings = func() []string { panic("a defect of Warnings") }
	})
	for path, want := range map[string]struct {
		status int
		logged string
	}{
		"/readyz":       {http.StatusServiceUnavailable, "panic: a defect of Ready"},
		"/api/v1/stats": {http.StatusOK, ""},
		"/":             {http.StatusInternalServerError, "panic: a defect of Warnings"},
	} {
		if resp := a.get(t, path); resp.status != want.status || !strings.Contains(a.log.String(), want.logged) {
			t.Errorf("GET %s: answer %d %s, want %d, and %q in the log:\n%s", path, resp.status, resp.body, want.status, want.logged, a.log)
		}
	}
}

func TestMethodsHeadersAndUnknownPaths(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	claim(t, store, event{source: "github", id: "e1", body: "{}"})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	(&gateway{api: a, store: store}).quarantine(t, "github", "{}", noon)

	if _, err := store.AddJob(t.Context(), &driver.AddJobParams{ID: "m1", Plan: "{}", JobSpec: driver.JobSpec{Of: "events", Action: "replay", Filter: "{}"}}); err != nil {
		t.Fatal(err)
	}
	for _, e := range hookadmin.Endpoints() {
		if e.Path == "/api/v1/jobs" && e.Method == http.MethodPost {
			continue // GET is served here too
		}
		path := strings.NewReplacer("/series", "/series?of=types", "/search", "/search?q=e1", "quarantine/{id}", "quarantine/"+quarantineID("github", "{}"), "{source}", "github", "{event_id}", "e1", "{id}", "m1", "{profile}", "heap").Replace(e.Path)
		allow, refused := "GET, HEAD", []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "QUERY"}
		if e.Path == "/api/v1/jobs" {
			allow += ", POST"
		} else {
			refused = append(refused, "POST")
		}
		if e.Method == http.MethodPost {
			allow, refused = "POST", []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "post"}
		}
		for _, method := range refused {
			resp := a.do(t, method, path, nil)
			wantProblem(t, resp, http.StatusMethodNotAllowed)
			if got := resp.header.Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q", method, path, got)
			}
		}
		if e.Method == http.MethodPost {
			continue
		}
		head, get := a.do(t, http.MethodHead, path, nil), a.get(t, path)
		sameLength := head.header.Get("Content-Length") == get.header.Get("Content-Length") || strings.HasSuffix(path, "/heap") // two heap profiles differ in length
		sameLength = sameLength || get.header.Get("Content-Disposition") != "" && head.header.Get("Content-Length") == ""       // an export is as long as it gets
		if head.status != 200 || !sameLength {
			t.Errorf("HEAD %s: %d with length %q, GET has %q", path, head.status,
				head.header.Get("Content-Length"), get.header.Get("Content-Length"))
		}
	}
	for _, path := range []string{
		"/sources/", "/static", "/static/", "/static/none.css", "/static/..%2Fopenapi.json", "/login", "/logout", "/api", "/api/v1/events/", "/api/v1/events/github", "/api/v1/events/github/", "/api/v1/events//e1",
		"/api/v1/events/github/e1/", "/api/v1/events/github/e1/replay/", "/api/v1/events/github/e1%2Freplay", "/webhooks/github",
		"//api/v1/events", "/api/v1/dead-letters/", "/api/v1/dead-letters/none", "/api/v1/messages/m1", "/api/v1/%65vents",
		"/api/v1/Events", "/api/v1/events/github/none", "/api/v1/events/none/e1",
	} {
		resp := a.get(t, path)
		wantProblem(t, resp, http.StatusNotFound)
		for header, want := range map[string]string{
			"X-Content-Type-Options":  "nosniff",
			"Cache-Control":           "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := resp.header.Get(header); got != want {
				t.Errorf("%s: %s is %q", path, header, got)
			}
		}
	}
}

func TestStoreFailuresAreServerErrors(t *testing.T) {
	t.Parallel()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	for _, path := range []string{"/api/v1/events", "/api/v1/events/github/e1"} {
		resp := a.get(t, path)
		p := readJSON[problem.Problem](t, resp)
		if resp.status != 500 && resp.status != 503 {
			t.Errorf("%s: %d", path, resp.status)
		}
		if strings.Contains(strings.ToLower(p.Detail), "sql") {
			t.Errorf("%s: the answer reveals the internal error: %q", path, p.Detail)
		}
	}
	// The second line is about one event.
	_, line, _ := strings.Cut(a.log.String(), "\n")
	var logged struct {
		Source  string `json:"source"`
		EventID string `json:"event_id"`
	}
	if err := json.Unmarshal([]byte(line), &logged); err != nil || logged.Source != "github" || logged.EventID != "e1" {
		t.Errorf("logged %s", a.log)
	}
	// The store is not asked for names that it cannot hold.
	for path, status := range map[string]int{
		"/api/v1/events/github/%00": 400, "/api/v1/events/git%0ahub/e1": 400, "/api/v1/events/github/": 404, "/api/v1/events//e1": 404,
	} {
		wantProblem(t, a.get(t, path), status)
	}
}

func hexSHA256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
