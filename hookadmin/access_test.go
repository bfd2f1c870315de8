package hookadmin_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

const readToken = "read-only_battery.staple"

// pathOf fills in the pattern of an endpoint.
func pathOf(pattern string) string {
	return strings.NewReplacer("{source}", "lab", "{event_id}", "e1", "{id}", "m1", "{name}", "style.css", "{profile}", "cmdline").Replace(pattern)
}

// wantAccess sends a request to every endpoint, as a caller with an access.
func wantAccess(t *testing.T, a *api, access hookadmin.Access, as func(*http.Request)) {
	t.Helper()
	for _, e := range append(hookadmin.Endpoints(), hookadmin.Pages()...) {
		path := pathOf(e.Path)
		switch {
		case path == "/healthz" || path == "/readyz" || path == "/login" || path == "/logout" || strings.HasPrefix(path, "/static/"):
			continue
		case access == hookadmin.FullAccess && e.Method == http.MethodPost:
			continue // tested where each is
		}
		resp := a.send(t, e.Method, path, "", func(r *http.Request) {
			r.Header.Set("Origin", origin)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			as(r)
		})
		full := e.Method == http.MethodPost || strings.HasPrefix(path, "/debug/")
		forbidden := access == hookadmin.NoAccess || access == hookadmin.ReadAccess && full
		if got := resp.status == http.StatusForbidden; got != forbidden || resp.status == http.StatusUnauthorized {
			t.Errorf("access %d: %s %s is %d", access, e.Method, path, resp.status)
		}
	}
}

func TestReadToken(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token, cfg.ReadToken = store, token, readToken })
	for access, token := range map[hookadmin.Access]string{hookadmin.ReadAccess: readToken, hookadmin.FullAccess: token} {
		wantAccess(t, a, access, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	}
	reader := a.signIn(t, readToken)
	wantPage(t, a.do(t, "GET", "/", withCookie(reader)), http.StatusOK)
	wantProblem(t, a.send(t, "POST", "/api/v1/dead-letters/replay", "{}", withCookie(reader)), http.StatusUnauthorized)

	// Each token ends its own sessions alone.
	next := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token, cfg.ReadToken = store, token, readToken+"2" })
	wantRedirect(t, next.do(t, "GET", "/", withCookie(reader)), "./login")
	wantPage(t, next.do(t, "GET", "/", withCookie(a.signIn(t, token))), http.StatusOK)
}

func TestReadTokenIsRefused(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{})
	for name, cfg := range map[string]hookadmin.Config{
		"alone":         {ReadToken: readToken, Loopback: true},
		"the full one":  {ReadToken: token, Token: token},
		"short":         {ReadToken: "s3cret", Token: token},
		"with a space":  {ReadToken: "s3cret of " + token, Token: token},
		"with callback": {Authorize: func(*http.Request) hookadmin.Access { return hookadmin.FullAccess }},
	} {
		cfg.Store, cfg.Engine, cfg.Ready = store, engine, func(context.Context) error { return nil }
		if h, err := hookadmin.New(&cfg); err == nil || h != nil {
			t.Errorf("%s: New accepts it", name)
		} else if strings.Contains(err.Error(), cfg.ReadToken) && cfg.ReadToken != "" {
			t.Errorf("%s: the error shows the token: %v", name, err)
		}
	}
}

// newMounted returns a handler for a program whose logins are the header User.
func newMounted(t *testing.T, store driver.Store, formKey []byte) *api {
	t.Helper()
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	cfg := &hookadmin.Config{
		Store: store, Engine: newEngine(t, store, &hookonce.Config{}), Ready: func(context.Context) error { return nil },
		FormKey: formKey,
		Authorize: func(r *http.Request) hookadmin.Access {
			switch r.Header.Get("User") {
			case "operator":
				return hookadmin.FullAccess
			case "support":
				return hookadmin.ReadAccess
			case "broken":
				panic("no logins")
			}
			return hookadmin.NoAccess
		},
	}
	var err error
	if a.handler, err = hookadmin.NewHandler(cfg); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	a := newMounted(t, rig.OpenSQLite(t), nil)
	user := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Host = "ops.example.com"; r.Header.Set("User", name) }
	}
	for name, access := range map[string]hookadmin.Access{
		"operator": hookadmin.FullAccess, "support": hookadmin.ReadAccess, "": hookadmin.NoAccess,
	} {
		wantAccess(t, a, access, user(name))
	}
	wantProblem(t, a.do(t, "GET", "/api/v1/events", user("broken")), http.StatusInternalServerError)
	if got := a.do(t, "GET", "/healthz", user("broken")).status; got != http.StatusOK {
		t.Errorf("GET /healthz is %d", got)
	}
	wantPage(t, a.do(t, "GET", "/", user("support")), http.StatusOK)
	wantProblem(t, a.do(t, "GET", "/login", user("operator")), http.StatusNotFound)
	wantProblem(t, a.submit(t, "/login", url.Values{"token": {""}}, user("operator")), http.StatusNotFound)

	// The login of the program may be a cookie, which a page elsewhere can make a browser send.
	wantProblem(t, a.send(t, "POST", "/api/v1/dead-letters/replay", `{"source":"lab"}`, func(r *http.Request) {
		user("operator")(r)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}), http.StatusForbidden)
}

func TestNewHandlerNeedsAuthorize(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	allow := func(*http.Request) hookadmin.Access { return hookadmin.FullAccess }
	for name, cfg := range map[string]hookadmin.Config{
		"nothing":      {},
		"loopback":     {Loopback: true},
		"a token":      {Token: token},
		"both":         {Token: token, Authorize: allow},
		"both, reads":  {ReadToken: readToken, Authorize: allow},
		"and loopback": {Loopback: true, Authorize: allow},
		"a short key":  {Authorize: allow, FormKey: make([]byte, 31)},
		"an empty key": {Authorize: allow, FormKey: []byte{}},
	} {
		cfg.Store, cfg.Engine, cfg.Ready = store, newEngine(t, store, &hookonce.Config{}), func(context.Context) error { return nil }
		if h, err := hookadmin.NewHandler(&cfg); err == nil || h != nil {
			t.Errorf("%s: NewHandler accepts it", name)
		}
	}
}

// A form on the page of one replica is accepted by another with the same key, and only then.
func TestFormKeyOfReplicas(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	g := &gateway{store: store}
	g.dead(t, "no", "a1")
	key := bytes.Repeat([]byte("k"), 32)
	page := newBrowser(newMounted(t, store, key))
	operator := func(r *http.Request) { r.Header.Set("User", "operator") }
	shown := page.send(t, http.MethodGet, "/dead-letters", "", operator)
	to, values := formOn(t, string(shown.body), "/dead-letters", "/act/plan")
	for name, tt := range map[string]struct {
		key  []byte
		want int
	}{
		"the same key": {bytes.Clone(key), http.StatusSeeOther},
		"another key":  {bytes.Repeat([]byte("l"), 32), http.StatusForbidden},
		"no key":       {nil, http.StatusForbidden},
	} {
		got := newBrowser(newMounted(t, store, tt.key)).send(t, http.MethodPost, to, values.Encode(), operator)
		if got.status != tt.want {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, tt.want, got.body)
		}
	}
	withToken := &hookadmin.Config{
		Store: store, Engine: newEngine(t, store, &hookonce.Config{}), Ready: func(context.Context) error { return nil }, Token: token, FormKey: key,
	}
	if _, err := hookadmin.New(withToken); err == nil {
		t.Error("New accepts a form key beside a token")
	}
}
