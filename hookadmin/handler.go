package hookadmin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/problem"
)

const (
	// queryTimeout bounds one query of the store, and one short change.
	queryTimeout = 10 * time.Second
	// readyTimeout bounds Config.Ready; probes time out after a few seconds.
	readyTimeout = 2 * time.Second
)

// Config configures the handler. New reads it once.
type Config struct {
	// Store answers queries. Required.
	Store driver.Store
	// Engine replays, discards and retries, and knows the settings. It uses Store, or another store
	// of the same database. Required.
	Engine *hookonce.Engine
	// Ready returns nil while deliveries can be claimed. Each request of /readyz calls it, with a
	// timeout of 2 s. Required.
	Ready func(context.Context) error
	// Token is the secret that callers send as "Authorization: Bearer TOKEN": printable ASCII
	// without spaces. Without Loopback it has at least 16 bytes; with Loopback it may be "".
	Token string
	// ReadToken is a second secret of the same form. It gives ReadAccess. "" means none; otherwise
	// Token must be set too, and be another one.
	ReadToken string
	// Authorize returns the access of the caller of a request, by the logins of the program that
	// serves the handler. Each request calls it, except /healthz, /readyz and the files of the pages. Only
	// for NewHandler. It may be called concurrently.
	Authorize func(*http.Request) Access
	// FormKey signs the forms of the pages: at least 32 random bytes, the same in all replicas of a
	// program. Otherwise a replica refuses forms on the pages of another. nil means a key of this
	// handler, which is enough for one replica. With Token it must be nil: the key follows from Token.
	FormKey []byte
	// Loopback promises that the handler is served on a loopback address only.
	Loopback bool
	// TrustedProxies are the networks of proxies whose X-Forwarded-For names the client, for the
	// limit of wrong tokens and the log alone, as hookonce.Config.TrustedProxies. The default trusts
	// none: the client is the address of the connection.
	TrustedProxies []netip.Prefix
	// Warnings returns more warnings for the dashboard, one line each, about faults of the settings
	// that stop nothing. Each view calls it. nil means none.
	Warnings func() []string
	// ReloadFailed, unless nil, returns when and why the last reload of the settings failed, or no error. The dashboard
	// shows that as a warning.
	ReloadFailed func() (time.Time, error)
	// StreamClients, unless nil, is called with the number of open streams when it changes, and must
	// return at once.
	StreamClients func(n int)
	// Metrics answers /metrics, which needs the token as the API does. nil means 404.
	Metrics http.Handler
	// WebhookURL is the address of the gateway for senders, without /webhooks/: "https://hooks.example.com".
	// The dashboard shows the addresses of sources with it. "" shows only their paths.
	WebhookURL string
	// About describes the gateway to commands and on every page.
	About Gateway
	// Docs is the address of the documentation, which every page links to; "" for no link. If it ends with README.md,
	// warnings link to runbook.md beside it.
	Docs string
	// Logger receives the log. Defaults to slog.Default().
	Logger *slog.Logger
}

// Gateway is the answer of GET /api/v1/gateway: which gateway this is, and the database that it serves. Every
// field may be "".
type Gateway struct {
	Title    string `json:"title"`    // admin.title of the settings
	Version  string `json:"version"`  // of the program
	Database string `json:"database"` // without its password; the path of a SQLite file is absolute
}

type handler struct {
	store    driver.Store
	engine   *hookonce.Engine
	ready    func(context.Context) error
	warnings func() []string
	reload   func() (time.Time, error) // see Config.ReloadFailed
	metrics  http.Handler
	streams  *streams
	guard    guard
	formKey  []byte // signs forms and flashes
	counts   *counts
	kept     *keptPages // without those of one event
	webhooks string     // see Config.WebhookURL
	about    Gateway
	docs     string
	logger   *slog.Logger

	keptEvents *keptPages
}

// handling is the handler at work on one request.
type handling struct {
	*handler
	endpoint *endpoint    // of the request; for an unknown path, one like it
	logger   *slog.Logger // names the source, event, job … of the request
	access   Access       // of the caller
	reason   string       // the word for programs in a problem; "" for none
}

// New returns the handler of the admin API and of the dashboard, for a listener of its own. It is safe
// for concurrent use. New fails if a required field of cfg is missing, or if a handler without a token
// would be open to the network.
func New(cfg *Config) (http.Handler, error) {
	if cfg.Authorize != nil {
		return nil, errors.New("admin API: Config.Authorize is for NewHandler")
	}
	return newHandler(cfg)
}

// NewHandler returns the same handler for a place in a program that has logins of its own: every
// request is allowed or refused by cfg.Authorize, which is required. Mount it by http.StripPrefix. It fails if a required field of cfg is missing.
func NewHandler(cfg *Config) (http.Handler, error) {
	if cfg.Authorize == nil {
		return nil, errors.New("admin API: Config.Authorize is missing: it says which callers may see and change everything")
	}
	return newHandler(cfg)
}

func newHandler(cfg *Config) (http.Handler, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("admin API: Config.Store is missing")
	case cfg.Engine == nil:
		return nil, errors.New("admin API: Config.Engine is missing")
	case cfg.Ready == nil:
		return nil, errors.New("admin API: Config.Ready is missing")
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	g, err := newGuard(cfg, logger)
	if err != nil {
		return nil, err
	}
	for _, prefix := range cfg.TrustedProxies {
		if err := limit.CheckProxy(prefix); err != nil {
			return nil, fmt.Errorf("admin API: Config.TrustedProxies: %s %w", prefix, err)
		}
	}
	formKey, err := g.formKey(cfg.FormKey)
	if err != nil {
		return nil, err
	}
	g.proxies = limit.NewProxies(cfg.TrustedProxies)
	h := &handler{
		store: cfg.Store, engine: cfg.Engine, ready: cfg.Ready, warnings: cfg.Warnings, reload: cfg.ReloadFailed, metrics: cfg.Metrics,
		streams: newStreams(cfg, logger), guard: g, formKey: formKey, counts: newCounts(cfg.Store),
		kept: newKeptPages(), keptEvents: newKeptPages(), webhooks: strings.TrimSuffix(cfg.WebhookURL, "/"), about: cfg.About, docs: cfg.Docs, logger: logger,
	}
	if h.warnings == nil {
		h.warnings = func() []string { return nil }
	}
	return h, nil
}

// endpoint is one method of one path.
type endpoint struct {
	method string // GET, which includes HEAD, or POST
	// path consists of segments; {name} matches any segment that is not empty.
	path  string
	serve func(*handling, http.ResponseWriter, *http.Request)
	query []string // parameters that the endpoint takes
	thing string   // the missing thing that a 404 names
	probe bool     // needs no token
	page  bool     // part of the dashboard: HTML, and a session is enough
	door  bool     // needs neither token nor session; exists only where a token is set
}

// endpoints are all endpoints. Each path matches one pattern.
var endpoints = []endpoint{
	{method: "GET", path: "/api/v1/events", serve: (*handling).listEvents, query: eventParameters},
	{method: "GET", path: "/api/v1/events.ndjson", serve: (*handling).exportNDJSON, query: eventParameters},
	{method: "GET", path: "/api/v1/events.csv", serve: (*handling).exportCSV, query: eventParameters},
	{method: "GET", path: "/api/v1/search", serve: (*handling).search, query: searchParameters},
	{method: "GET", path: "/api/v1/events/{source}/{event_id}", serve: (*handling).showEvent, thing: "event"},
	{method: "POST", path: "/api/v1/events/{source}/{event_id}/replay", serve: (*handling).replayEvent, thing: "event"},
	{method: "POST", path: "/api/v1/events/{source}/{event_id}/redact", serve: (*handling).redactEvent, thing: "event"},
	{method: "GET", path: "/api/v1/dead-letters", serve: (*handling).listDeadLetters, query: deadLetterParameters},
	{method: "POST", path: "/api/v1/dead-letters/replay", serve: (*handling).replayDead},
	{method: "POST", path: "/api/v1/dead-letters/discard", serve: (*handling).discardDead},
	{method: "POST", path: "/api/v1/dead-letters/undo", serve: (*handling).undoDiscard},
	{method: "GET", path: "/api/v1/jobs", serve: (*handling).listJobs, query: jobParameters},
	{method: "POST", path: "/api/v1/jobs", serve: (*handling).planJob},
	{method: "GET", path: "/api/v1/jobs/{id}", serve: (*handling).showJob, thing: "job"},
	{method: "POST", path: "/api/v1/jobs/{id}/start", serve: (*handling).startJob, thing: "job"},
	{method: "POST", path: "/api/v1/jobs/{id}/cancel", serve: (*handling).cancelJob, thing: "job"},
	{method: "GET", path: "/api/v1/errors", serve: (*handling).listErrors, query: errorParameters},
	{method: "GET", path: "/api/v1/messages", serve: (*handling).listMessages, query: messageParameters},
	{method: "POST", path: "/api/v1/messages/{id}/retry", serve: (*handling).retryMessage, thing: "message"},
	{method: "GET", path: "/api/v1/quarantine", serve: (*handling).listQuarantine, query: quarantineParameters},
	{method: "GET", path: "/api/v1/quarantine/{id}", serve: (*handling).showQuarantined, thing: quarantinedRequest},
	{method: "POST", path: "/api/v1/quarantine/{id}/retry", serve: (*handling).retryQuarantined, thing: quarantinedRequest},
	{method: "GET", path: "/api/v1/refused", serve: (*handling).listRefused, query: refusedParameters},
	{method: "GET", path: "/api/v1/refused/groups", serve: (*handling).groupRefused, query: refusedGroupParameters},
	{method: "GET", path: "/api/v1/sources", serve: (*handling).listSources},
	{method: "GET", path: "/api/v1/routes", serve: (*handling).listRoutes},
	{method: "GET", path: "/api/v1/destinations", serve: (*handling).listDestinations},
	{method: "POST", path: "/api/v1/destinations/{name}/retry", serve: (*handling).retryDestination, thing: destinationThing},
	{method: "POST", path: "/api/v1/destinations/{name}/pause", serve: (*handling).pauseDestination, thing: destinationThing},
	{method: "POST", path: "/api/v1/destinations/{name}/resume", serve: (*handling).resumeDestination, thing: destinationThing},
	{method: "GET", path: "/api/v1/gateway", serve: (*handling).showGateway},
	{method: "GET", path: "/api/v1/warnings", serve: (*handling).showWarnings},
	{method: "GET", path: "/api/v1/stats", serve: (*handling).showStats},
	{method: "GET", path: "/api/v1/series", serve: (*handling).showSeries, query: seriesParameters},
	{method: "GET", path: "/api/v1/stream", serve: (*handling).showStream, query: streamParameters},
	{method: "GET", path: "/api/v1/openapi.json", serve: (*handling).showOpenAPI},
	{method: "GET", path: "/debug/pprof/{profile}", serve: (*handling).showProfile, query: profileParameters},
	{method: "GET", path: "/metrics", serve: (*handling).showMetrics},
	{method: "GET", path: "/healthz", serve: (*handling).healthz, probe: true},
	{method: "GET", path: "/readyz", serve: (*handling).readyz, probe: true},
	{method: "GET", path: "/", serve: (*handling).showOverview, query: chartPageParameters, page: true},
	{method: "GET", path: "/events", serve: (*handling).showEventsPage, query: eventPageParameters, page: true},
	{method: "GET", path: "/events/{source}/{event_id}", serve: (*handling).showEventPage, query: eventPageQuery, thing: "event", page: true},
	{method: "GET", path: "/event", serve: (*handling).showEventPage, query: eventPageQuery, thing: "event", page: true},
	{method: "GET", path: "/event/body", serve: (*handling).downloadBody, query: eventPageQuery, thing: "event", page: true},
	{method: "GET", path: "/sources", serve: (*handling).showSources, query: pageParameters, page: true},
	{method: "GET", path: "/sources/{name}", serve: (*handling).showSource, query: chartPageParameters, thing: "source", page: true},
	{method: "GET", path: "/destinations", serve: (*handling).showDestinations, query: pageParameters, page: true},
	{method: "GET", path: "/destinations/{name}", serve: (*handling).showDestination, query: chartPageParameters, thing: destinationThing, page: true},
	{method: "GET", path: "/dead-letters", serve: (*handling).showLettersPage, query: letterParameters, page: true},
	{method: "GET", path: "/refused", serve: (*handling).showRefusedPage, query: refusedPageParameters, page: true},
	{method: "GET", path: "/refused/groups", serve: (*handling).showRefusedGroupsPage, query: refusedGroupPageParameters, page: true},
	{method: "GET", path: "/quarantine", serve: (*handling).showQuarantinePage, query: quarantinePageParameters, page: true},
	{method: "POST", path: "/act/destination", serve: (*handling).actDestination, thing: destinationThing, page: true},
	{method: "GET", path: "/jobs", serve: (*handling).showJobsPage, query: jobPageParameters, page: true},
	{method: "GET", path: "/jobs/{id}", serve: (*handling).showJobPage, query: pageParameters, thing: "job", page: true},
	{method: "GET", path: "/quarantine/{id}", serve: (*handling).showQuarantinedPage, query: pageParameters, thing: quarantinedRequest, page: true},
	{method: "GET", path: "/search", serve: (*handling).showSearchPage, query: searchPageParameters, page: true},
	{method: "POST", path: "/act/plan", serve: (*handling).actPlan, page: true},
	{method: "POST", path: "/act/job", serve: (*handling).actJob, thing: "job", page: true},
	{method: "POST", path: "/act/undo", serve: (*handling).actUndo, thing: "discard", page: true},
	{method: "POST", path: "/act/letters", serve: (*handling).actLetters, page: true},
	{method: "POST", path: "/act/discard", serve: (*handling).actDiscard, thing: "event", page: true},
	{method: "POST", path: "/act/redact", serve: (*handling).actRedact, thing: "event", page: true},
	{method: "POST", path: "/act/replay", serve: (*handling).actReplay, thing: "event", page: true},
	{method: "POST", path: "/act/retry", serve: (*handling).actRetry, thing: "message", page: true},
	{method: "POST", path: "/act/quarantine", serve: (*handling).actQuarantine, thing: quarantinedRequest, page: true},
	{method: "GET", path: "/login", serve: (*handling).showLogin, page: true, door: true},
	{method: "POST", path: "/login", serve: (*handling).login, page: true, door: true},
	{method: "POST", path: "/logout", serve: (*handling).logout, page: true, door: true},
	{method: "GET", path: "/static/{name}", serve: (*handling).showAsset, probe: true},
}

// ServeHTTP routes on the escaped path itself: http.ServeMux would redirect an event id that
// contains "//" or "..", and decode "%2F" before splitting.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	problem.CloseUnlessFramedOnce(w, r)
	setSecurityHeaders(w.Header())
	if mount := mountedAt(r); r.URL.Path == "" && mount != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Location", mount+"/") // links of the pages are relative, so the slash matters
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	at, values := match(r.URL.EscapedPath())
	if len(at) > 0 && at[0].door && !h.guard.signsIn() {
		at = nil
	}
	// An unknown path counts as one of the API, unless a person asks for a page.
	here := &endpoint{method: http.MethodGet, page: asksForPage(r)}
	if len(at) > 0 {
		here = at[0]
	}
	if e := forMethod(at, r.Method); e != nil {
		here = e
	}
	h.handling(here, values).serve(w, r, at, values)
}

// serve answers a request to one of the endpoints at its path, whose segments have these values.
func (h *handling) serve(w http.ResponseWriter, r *http.Request, at []*endpoint, values map[string]string) {
	if h.endpoint.page {
		setPageHeaders(w.Header())
	}
	defer h.answerPanic(w, r)
	access, refused := h.guard.check(w.Header(), r, h.endpoint)
	h.access = access
	if refused != nil {
		h.refuse(w, r, refused)
		return
	}
	if len(at) == 0 {
		h.fail(w, r, http.StatusNotFound, "There is nothing at this path. A '/' in an event id is written %2F.", nil)
		return
	}
	e := forMethod(at, r.Method)
	if e == nil {
		h.refuseMethod(w, r, at)
		return
	}
	if r.URL.RawQuery != "" && e.query == nil && !e.probe {
		h.fail(w, r, http.StatusBadRequest, "This path takes no parameters. A '?' in an event id is written %3F.", nil)
		return
	}
	for name, value := range values {
		if reason := badText(name, value); reason != "" {
			h.fail(w, r, http.StatusBadRequest, (&ParameterError{name, reason}).Error()+", in the path", nil)
			return
		}
		r.SetPathValue(name, value)
	}
	e.serve(h, w, r)
	if e.method == http.MethodPost {
		h.counts.forget()
	}
}

// answerPanic is deferred. It answers a panic, also of a function of the Config, with 500, or with 503
// to a probe.
func (h *handling) answerPanic(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	status := http.StatusInternalServerError
	if h.endpoint.probe {
		status = http.StatusServiceUnavailable
	}
	h.fail(w, r, status, "An internal error occurred. The log has it under this error id.", fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
}

// handling returns h at work on one request of e, with the source, event, message or quarantined request in
// its log lines.
func (h *handler) handling(e *endpoint, values map[string]string) *handling {
	logger := h.logger
	for _, name := range []string{"source", "event_id"} {
		if value, ok := values[name]; ok {
			logger = logger.With(slog.String(name, value))
		}
	}
	if name, ok := values["name"]; ok && e.thing == destinationThing {
		logger = logger.With(slog.String("destination", name))
	}
	if id, ok := values["id"]; ok {
		name := "message_id"
		switch e.thing {
		case quarantinedRequest:
			name = "quarantined"
		case "job":
			name = "job"
		}
		logger = logger.With(slog.String(name, id))
	}
	return &handling{handler: h, endpoint: e, logger: logger}
}

// asksForPage reports whether a browser asks for something to show to a person.
func asksForPage(r *http.Request) bool {
	path := r.URL.EscapedPath()
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") &&
		!strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/static/")
}

func setSecurityHeaders(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
}

func (h *handling) refuseMethod(w http.ResponseWriter, r *http.Request, at []*endpoint) {
	var allowed []string
	for _, e := range at {
		allowed = append(allowed, e.method)
		if e.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	h.fail(w, r, http.StatusMethodNotAllowed, "Allowed here: "+strings.Join(allowed, ", ")+".", nil)
}

func (h *handling) showMetrics(w http.ResponseWriter, r *http.Request) {
	if h.metrics == nil {
		h.fail(w, r, http.StatusNotFound, "This program keeps no metrics.", nil)
		return
	}
	h.metrics.ServeHTTP(w, r)
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, Health{Status: "ok"})
}

func (h *handling) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := h.ready(ctx); err != nil {
		h.fail(w, r, http.StatusServiceUnavailable, strings.TrimSpace("Deliveries cannot be accepted. "+readyText(err))+" The log has more under this error id.", err)
		return
	}
	writeJSON(w, Health{Status: "ready"})
}
