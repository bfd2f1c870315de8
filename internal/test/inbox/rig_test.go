package inbox_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const secret = "0123456789abcdef"

// remote is the client of all requests of httptest, without its port.
const remote = "192.0.2.1"

// newEngine returns an engine with the source gh. It is not running.
func newEngine(t *testing.T, store driver.Store, change func(*hookonce.Config)) *hookonce.Engine {
	t.Helper()
	cfg := &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret),
			AckTimeout: 30 * time.Second, // tests that hold a claim must not run into it
		}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(cfg)
	}
	in, err := hookonce.NewEngine(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	return in
}

// delivery returns a signed request as GitHub sends it, with changes made after that.
func delivery(id, body string, changes ...func(*http.Request)) *http.Request {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	r := httptest.NewRequest(http.MethodPost, "/webhooks/gh", strings.NewReader(body))
	r.Header.Set(githubSignature, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", "push")
	for _, change := range changes {
		change(r)
	}
	return r
}

const githubSignature = "X-Hub-Signature-256"

// Changes to a delivery that was signed.

func get(r *http.Request) { r.Method = http.MethodGet }

func unsign(r *http.Request) { r.Header.Del(githubSignature) }

func forge(r *http.Request) {
	r.Header.Set(githubSignature, "sha256="+strings.Repeat("0", 64))
}

// to sends it to another source.
func to(source string) func(*http.Request) {
	return func(r *http.Request) { r.URL.Path = "/webhooks/" + source }
}

// typed gives it another type than push.
func typed(eventType string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-GitHub-Event", eventType) }
}

// versioned returns a delivery of version v of object o. The id of its event is o-v.
func versioned(o, v string, changes ...func(*http.Request)) *http.Request {
	return delivery(o+"-"+v, fmt.Sprintf(`{"o":%q,"v":%q}`, o, v), changes...)
}

// answered returns the whole answer of h to r.
func answered(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// result is the part of an answer that tests compare.
type result struct {
	Code     int
	Status   string
	Reopened bool
}

// deliver sends r to h and returns the answer.
func deliver(h http.Handler, r *http.Request) result {
	w := answered(h, r)
	out := result{Code: w.Code}
	if w.Code == http.StatusOK {
		var body struct {
			Status   string `json:"status"`
			Reopened bool   `json:"reopened"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			out.Status = "not JSON: " + w.Body.String()
			return out
		}
		out.Status, out.Reopened = body.Status, body.Reopened
	}
	return out
}

var (
	ok        = result{Code: 200, Status: "ok"}
	duplicate = result{Code: 200, Status: "duplicate"}
)

// signAs returns a request for the source s, signed with secret as the provider of s does.
func signAs(t *testing.T, s *hookonce.Source, secret, body string) *http.Request {
	t.Helper()
	spec, err := provider.Lookup(s.Provider)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := spec.ChooseScheme(s.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.SetParams(&scheme, s.Params); err != nil {
		t.Fatal(err)
	}
	v, err := verify.Compile(scheme)
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	req := &verify.Request{Method: http.MethodPost, URL: s.URL, Header: http.Header{}, Body: []byte(body), Now: time.Now()}
	if err := v.Sign(req, key); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+s.Name+"?"+req.RawQuery, bytes.NewReader(req.Body))
	r.Header = req.Header
	return r
}

// settings returns a Config with the source gh and, unless url is "", the route all to the
// destination app at url.
func settings(url string) *hookonce.Config {
	cfg := &hookonce.Config{Sources: []hookonce.Source{{
		Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second,
	}}}
	if url != "" {
		sendTo(cfg, url, hookonce.Retry{})
	}
	return cfg
}

// sendTo adds the route all to the destination app at url.
func sendTo(c *hookonce.Config, url string, retry hookonce.Retry) {
	c.Destinations = []hookonce.Destination{{Name: "app", URL: url, Retry: retry, AllowPrivate: true}}
	c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
}

// sendBy adds the route all to the destination app. It has three attempts, a millisecond apart.
func sendBy(c *hookonce.Config, sender hookonce.SenderFunc) {
	c.Destinations = []hookonce.Destination{{
		Name: "app", Sender: sender, Retry: hookonce.Retry{Attempts: 3, First: time.Millisecond, Max: time.Millisecond},
	}}
	c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
}

// addSource adds a source like the first one, which change may change.
func addSource(c *hookonce.Config, name string, change func(*hookonce.Source)) {
	added := c.Sources[0]
	added.Name = name
	if change != nil {
		change(&added)
	}
	c.Sources = append(c.Sources, added)
}

func reload(t *testing.T, in *hookonce.Engine, cfg *hookonce.Config) {
	t.Helper()
	if err := in.Reload(cfg); err != nil {
		t.Fatal(err)
	}
}

// quick allows two attempts, a millisecond apart.
var quick = hookonce.Retry{Attempts: 2, First: time.Millisecond, Max: time.Millisecond}

// messageID returns the id of the message that the route all makes of an event of gh.
func messageID(event string, generation int) string {
	return driver.MessageID(driver.EventKey("gh", event), generation, "all")
}

// settled waits until an event of gh is in a state, and returns it.
func settled(t *testing.T, store driver.Store, id, state string) *driver.EventDetail {
	t.Helper()
	var ev *driver.EventDetail
	eventually.True(t, "event "+id+" is "+state, func() bool {
		ev = eventState(t, store, id)
		return ev.State == state
	})
	return ev
}

// received holds the fields of a request to a destination that tests compare.
type received struct {
	ID, Key, Attempt, Replay, Body string
}

// sink is a destination. It answers with its statuses in order, and then with 200.
type sink struct {
	*httptest.Server

	mu       sync.Mutex
	statuses []int
	requests []received
}

func newSink(t *testing.T, statuses ...int) *sink {
	s := &sink{statuses: statuses}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, received{
		ID: r.Header.Get("webhook-id"), Key: r.Header.Get("Idempotency-Key"),
		Attempt: r.Header.Get("Hookonce-Attempt"), Replay: r.Header.Get("Hookonce-Replay"), Body: string(body),
	})
	status := http.StatusOK
	if len(s.statuses) > 0 {
		status, s.statuses = s.statuses[0], s.statuses[1:]
	}
	w.WriteHeader(status)
}

func (s *sink) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// forwarding runs an engine that sends all events of gh to url.
func forwarding(t *testing.T, store driver.Store, url string, retry hookonce.Retry) *hookonce.Engine {
	t.Helper()
	in := newEngine(t, store, func(c *hookonce.Config) { sendTo(c, url, retry) })
	run(t, in)
	return in
}

// runner is an Engine or an Inbox.
type runner interface {
	Run(ctx context.Context) error
}

// run runs in until the test ends.
func run(t testing.TB, in runner) {
	t.Helper()
	t.Cleanup(start(t, in))
}

// start runs in until the returned function is called.
func start(t testing.TB, in runner) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// runEnded runs in with a context that has ended. Run writes the counts, figures and refused requests, and returns.
func runEnded(t *testing.T, in runner) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// eventState returns an event of gh.
func eventState(t *testing.T, store driver.Store, id string) *driver.EventDetail {
	t.Helper()
	ev, err := store.Event(t.Context(), "gh", id)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// stale adds a stale rule to gh: version v of object o.
func stale(c *hookonce.Config) {
	c.Sources[0].Stale = []hookonce.StaleRule{{Types: []string{"push"}, Key: "body:o", Version: "body:v"}}
}
