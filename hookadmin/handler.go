package hookadmin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// queryTimeout bounds one question to the store.
	queryTimeout = 10 * time.Second
	// readyTimeout bounds Config.Ready; probes give up after a few seconds.
	readyTimeout = 2 * time.Second
)

// Config is what the handler works with. It is read once, by New.
type Config struct {
	// Store is asked for events. Required.
	Store driver.Store
	// Ready returns nil while deliveries can be claimed. It is called for each
	// request of /readyz, with 2 s to answer. Required.
	Ready func(context.Context) error
	// Token is what callers send as "Authorization: Bearer TOKEN"; printable
	// ASCII without spaces. "" needs Loopback.
	Token string
	// Loopback says that the handler is served on a loopback address only.
	Loopback bool
	// Logger takes the log. Defaults to slog.Default().
	Logger *slog.Logger
}

type handler struct {
	store  driver.Store
	ready  func(context.Context) error
	guard  guard
	logger *slog.Logger
}

// New returns the handler of the admin API. It is safe for concurrent use. The
// error says what of cfg is missing, or that a handler without a token would
// be open to the network.
func New(cfg *Config) (http.Handler, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("admin API: Config.Store is missing")
	case cfg.Ready == nil:
		return nil, errors.New("admin API: Config.Ready is missing")
	}
	g, err := newGuard(cfg.Token, cfg.Loopback)
	if err != nil {
		return nil, err
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	return &handler{store: cfg.Store, ready: cfg.Ready, guard: g, logger: logger}, nil
}

const eventsPath = "/api/v1/events"

// ServeHTTP routes on the escaped path by hand: http.ServeMux would redirect an
// event id that holds "//" or "..", and decode "%2F" before splitting.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	path := r.URL.EscapedPath()
	switch path {
	case "/healthz":
		h.serveGet(w, r, h.healthz)
		return
	case "/readyz":
		h.serveGet(w, r, h.readyz)
		return
	}
	if refusal := h.guard.check(r); refusal != nil {
		if refusal.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hookonce"`)
		}
		h.fail(w, r, refusal.status, refusal.detail, nil)
		return
	}
	if path == eventsPath {
		h.serveGet(w, r, h.listEvents)
		return
	}
	if source, id, ok := splitEventPath(path); ok {
		about := *h
		about.logger = h.logger.With(slog.String("source", source), slog.String("event_id", id))
		about.serveGet(w, r, func(w http.ResponseWriter, r *http.Request) { about.showEvent(w, r, source, id) })
		return
	}
	h.fail(w, r, http.StatusNotFound, "There is nothing at this path. A '/' in an event id is written %2F.", nil)
}

func setSecurityHeaders(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
}

// serveGet calls next for GET and HEAD, whose body net/http drops.
func (h *handler) serveGet(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, r, http.StatusMethodNotAllowed, "Only GET and HEAD are allowed here.", nil)
		return
	}
	next(w, r)
}

// splitEventPath returns the source and the event id of an escaped path.
func splitEventPath(path string) (source, id string, ok bool) {
	rest, found := strings.CutPrefix(path, eventsPath+"/")
	if !found {
		return "", "", false
	}
	source, id, found = strings.Cut(rest, "/")
	if !found || strings.Contains(id, "/") {
		return "", "", false
	}
	source, errSource := url.PathUnescape(source)
	id, errID := url.PathUnescape(id)
	if errSource != nil || errID != nil || source == "" || id == "" {
		return "", "", false
	}
	return source, id, true
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"status": "ok"})
}

func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := h.ready(ctx); err != nil {
		h.fail(w, r, http.StatusServiceUnavailable, "Deliveries cannot be claimed now; the log says why under this error id.", err)
		return
	}
	writeJSON(w, map[string]string{"status": "ready"})
}

func (h *handler) listEvents(w http.ResponseWriter, r *http.Request) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, "The query string is malformed: write '&' between parameters and %XX for other characters.", nil)
		return
	}
	filter, err := ParseFilter(values, time.Now())
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	page, err := h.store.Events(ctx, filter)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("listing events: %w", err))
		return
	}
	writeJSON(w, NewEventPage(page))
}

func (h *handler) showEvent(w http.ResponseWriter, r *http.Request, source, id string) {
	if r.URL.RawQuery != "" {
		h.fail(w, r, http.StatusBadRequest, "This path takes no parameters. A '?' in an event id is written %3F.", nil)
		return
	}
	if !plainText(source) || !plainText(id) {
		// No stored event has such an id, and no database should be asked.
		h.failStore(w, r, driver.ErrNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.store.Event(ctx, source, id)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("reading an event: %w", err))
		return
	}
	detail, err := NewEventDetail(found)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	writeJSON(w, detail)
}

func writeJSON(w http.ResponseWriter, v any) { write(w, http.StatusOK, "application/json", v) }
