package hookadmin_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

const token = "correct-horse_battery.staple"

func TestToken(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	tests := []struct {
		name   string
		header []string
		ok     bool
	}{
		{"right", []string{"Bearer " + token}, true},
		{"scheme in lower case", []string{"bearer " + token}, true},
		{"two spaces", []string{"Bearer  " + token}, true},
		{"none", nil, false},
		{"empty", []string{""}, false},
		{"no token", []string{"Bearer"}, false},
		{"empty token", []string{"Bearer "}, false},
		{"wrong", []string{"Bearer x" + token}, false},
		{"prefix", []string{"Bearer " + token[:5]}, false},
		{"longer", []string{"Bearer " + token + "x"}, false},
		{"other case", []string{"Bearer " + strings.ToUpper(token)}, false},
		{"other scheme", []string{"Basic " + token}, false},
		{"no scheme", []string{token}, false},
		{"repeated", []string{"Bearer " + token, "Bearer " + token}, false},
		{"right behind wrong", []string{"Bearer x", "Bearer " + token}, false},
	}
	addresses := 0
	for _, loopback := range []bool{true, false} {
		a := newAPI(t, func(cfg *hookadmin.Config) {
			cfg.Store, cfg.Token, cfg.Loopback = store, token, loopback
		})
		for _, tt := range tests {
			for _, path := range []string{"/api/v1/events", "/no/such/path"} {
				resp := a.do(t, http.MethodGet, path, func(r *http.Request) {
					addresses++ // too many wrong tokens of one address are refused otherwise
					r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", addresses)
					r.Host = "gateway.example.com" // with a token any Host is allowed
					r.Header["Authorization"] = tt.header
				})
				if !tt.ok {
					p := wantProblem(t, resp, http.StatusUnauthorized)
					if strings.Contains(p.Detail, token) || !strings.HasPrefix(resp.header.Get("WWW-Authenticate"), "Bearer") {
						t.Errorf("%s: %+v, WWW-Authenticate %q", tt.name, p, resp.header.Get("WWW-Authenticate"))
					}
				} else if want := map[string]int{"/api/v1/events": 200, "/no/such/path": 404}[path]; resp.status != want {
					t.Errorf("%s: GET %s is %d", tt.name, path, resp.status)
				}
			}
		}
		if strings.Contains(a.log.String(), token) {
			t.Error("the log shows the token")
		}
	}
}

func TestLoopbackWithoutToken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, host string
		origin     []string
		ok         bool
	}{
		{"address", "127.0.0.1:8081", nil, true},
		{"address without port", "127.0.0.1", nil, true},
		{"other loopback address", "127.8.9.1:8081", nil, true},
		{"IPv6", "[::1]:8081", nil, true},
		{"IPv6 without port", "[::1]", nil, true},
		{"mapped", "[::ffff:127.0.0.1]:8081", nil, true},
		{"localhost", "localhost:8081", nil, true},
		{"localhost in upper case", "LOCALHOST", nil, true},
		{"own origin", "localhost:8081", []string{"http://localhost:8081"}, true},
		{"own origin by address", "127.0.0.1:8081", []string{"https://[::1]"}, true},

		{"no host", "", nil, false},
		{"rebound name", "evil.example.com:8081", nil, false},
		{"name that begins alike", "localhost.evil.example.com", nil, false},
		{"name that ends alike", "evil.localhost", nil, false},
		{"name that looks like an address", "127.0.0.1.evil.example.com", nil, false},
		{"network address", "10.0.0.7:8081", nil, false},
		{"any address", "0.0.0.0:8081", nil, false},
		{"IPv6 network address", "[2001:db8::1]:8081", nil, false},
		{"zone", "[::1%25eth0]:8081", nil, false},
		{"short form", "127.1:8081", nil, false},
		{"number", "2130706433", nil, false},
		{"foreign origin", "127.0.0.1:8081", []string{"https://evil.example.com"}, false},
		{"origin null", "127.0.0.1:8081", []string{"null"}, false},
		{"origin empty", "127.0.0.1:8081", []string{""}, false},
		{"origin with user", "127.0.0.1:8081", []string{"http://127.0.0.1@evil.example.com"}, false},
		{"origin of a file", "127.0.0.1:8081", []string{"file://localhost"}, false},
		{"one origin of two is foreign", "127.0.0.1:8081", []string{"http://localhost", "http://evil.example.com"}, false},
	}
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = rig.OpenSQLite(t) })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change := func(r *http.Request) {
				r.Host = tt.host
				if tt.origin != nil {
					r.Header["Origin"] = tt.origin
				}
			}
			resp := a.do(t, http.MethodGet, "/api/v1/events", change)
			if tt.ok && resp.status != 200 {
				t.Errorf("status %d", resp.status)
			}
			if !tt.ok {
				wantProblem(t, resp, http.StatusForbidden)
			}
			if probe := a.do(t, http.MethodGet, "/healthz", change); probe.status != 200 {
				t.Errorf("a probe got %d", probe.status)
			}
		})
	}
}

// TestForgedChanges sends requests that a page can make an operator's browser send.
func TestForgedChanges(t *testing.T) {
	t.Parallel()
	const host = "127.0.0.1:8081"
	tests := []struct {
		name   string
		header http.Header
		want   int // 0: carried out
	}{
		{"command line", nil, 0},
		{"own page", http.Header{"Origin": {"http://" + host}, "Sec-Fetch-Site": {"same-origin"}}, 0},
		{"own page, old browser", http.Header{"Origin": {"http://" + host}}, 0},
		{"typed in", http.Header{"Sec-Fetch-Site": {"none"}}, 0},

		{"other site", http.Header{"Origin": {"https://evil.example.com"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"other site, old browser", http.Header{"Origin": {"https://evil.example.com"}}, 403},
		{"other site, without its origin", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"sandboxed page", http.Header{"Origin": {"null"}}, 403},
		{"sandboxed page, new browser", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"other port of this machine", http.Header{"Origin": {"http://127.0.0.1:3000"}, "Sec-Fetch-Site": {"same-site"}}, 403},
		{"other port of this machine, old browser", http.Header{"Origin": {"http://127.0.0.1:3000"}}, 403},
		{"other name of this machine", http.Header{"Origin": {"http://localhost:8081"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"other name of this machine, old browser", http.Header{"Origin": {"http://localhost:8081"}}, 403},
	}
	for _, withToken := range []bool{false, true} {
		g := newGateway(t)
		if withToken {
			engine := newEngine(t, g.store, &hookonce.Config{})
			g.api = newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine, cfg.Token = g.store, engine, token })
		}
		send := func(method, target, body string, header http.Header) *answer {
			return g.send(t, method, target, body, func(r *http.Request) {
				r.Header = http.Header{"Content-Type": {"application/json"}}
				if withToken {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				maps.Copy(r.Header, header)
			})
		}
		state := func(id string) any {
			return readJSON[map[string]any](t, send("GET", "/api/v1/events/lab/"+id, "", nil))["state"]
		}
		for i, tt := range tests {
			id := fmt.Sprint(i)
			for target, body := range g.posts(t, id) {
				resp := send("POST", target, body, tt.header)
				if tt.want != 0 {
					wantProblem(t, resp, tt.want)
				} else if resp.status == 403 || resp.status == 401 {
					t.Errorf("%s: %s: answer %d %s", tt.name, target, resp.status, resp.body)
				}
			}
			if got := state(id); (got == "dead") != (tt.want != 0) {
				t.Errorf("%s: the event is %v", tt.name, got)
			}
		}
	}
}

func TestChangesNeedTheToken(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	posts := g.posts(t, "e1")
	open := g.api
	engine := newEngine(t, g.store, &hookonce.Config{})
	guarded := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine, cfg.Token = g.store, engine, token })
	for target, body := range posts {
		wantProblem(t, guarded.post(t, target, body), http.StatusUnauthorized)
		wantProblem(t, guarded.post(t, target, body, "Authorization: Bearer x"), http.StatusUnauthorized)
		// A page under a rebound name sends this.
		rebound := open.send(t, "POST", target, body, func(r *http.Request) {
			r.Host = "evil.example.com:8081"
			r.Header = http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"same-origin"}}
		})
		wantProblem(t, rebound, http.StatusForbidden)
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			wrong := open.send(t, method, target, body, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
			wantProblem(t, wrong, http.StatusMethodNotAllowed)
		}
	}
	open.wantState(t, "e1", "dead")
}

// Wrong tokens are limited by address, on every path that takes one, together with logins. Right ones
// always pass: a script with an old token must not lock out its neighbours behind a proxy.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	synctest.Test(t, func(t *testing.T) {
		as := func(remote string, header ...string) func(*http.Request) {
			return func(r *http.Request) { r.RemoteAddr, r.Header["Authorization"] = remote, header }
		}
		get := func(path, remote string, header ...string) *answer {
			return a.do(t, http.MethodGet, path, as(remote, header...))
		}
		const right, wrong = "Bearer " + token, "Bearer x"
		paths := []string{"/api/v1/openapi.json", "/debug/pprof/heap", "/no/such/path", "/api/v1/events"}
		for i, guess := range []string{wrong, "Bearer ", "bearer  " + token[1:], wrong, "Bearer " + token + "x", wrong, wrong} {
			wantProblem(t, get(paths[i%len(paths)], fmt.Sprintf("[2001:db8::%d]:1", i), guess), http.StatusUnauthorized)
			// Neither right tokens nor requests without one count.
			if resp := get("/api/v1/openapi.json", "[2001:db8::1]:1", right); resp.status != 200 {
				t.Fatalf("a right token: %d", resp.status)
			}
			wantProblem(t, get("/api/v1/openapi.json", "[2001:db8::1]:1"), http.StatusUnauthorized)
			wantProblem(t, get("/api/v1/openapi.json", "[2001:db8::1]:1", right, right), http.StatusUnauthorized)
			wantProblem(t, get("/api/v1/openapi.json", "[2001:db8::1]:1", "Basic "+token), http.StatusUnauthorized)
		}
		wantRedirect(t, get("/sources", "[2001:db8::1]:1", wrong), "./login")
		for range 2 {
			wantPage(t, a.submit(t, "/login", url.Values{"token": {"x"}}, func(r *http.Request) { r.RemoteAddr = "[2001:db8::2]:1" }), http.StatusForbidden)
		}
		before := strings.Count(a.log.String(), ": wrong token")
		for _, path := range paths {
			resp := get(path, "[2001:db8::ffff]:1", wrong)
			if wantProblem(t, resp, http.StatusTooManyRequests); resp.header.Get("Retry-After") != "6" {
				t.Errorf("%s: Retry-After %q, want 6", path, resp.header.Get("Retry-After"))
			}
		}
		login := func(token string) *answer {
			return a.submit(t, "/login", url.Values{"token": {token}}, func(r *http.Request) { r.RemoteAddr = "[2001:db8::2]:1" })
		}
		wantPage(t, get("/sources", "[2001:db8::1]:1", wrong), http.StatusTooManyRequests)
		wantPage(t, login("x"), http.StatusTooManyRequests)
		wantPage(t, get("/sources", "[2001:db8::1]:1", right), http.StatusOK)
		wantRedirect(t, login(token), "./")
		if resp := get("/api/v1/openapi.json", "[2001:db8::1]:1", right); resp.status != 200 || resp.header.Get("Retry-After") != "" {
			t.Errorf("a right token after too many wrong ones: %d", resp.status)
		}
		wantProblem(t, get("/api/v1/openapi.json", "[2001:db8::1]:1"), http.StatusUnauthorized)
		if resp := get("/healthz", "[2001:db8::1]:1", wrong); resp.status != 200 {
			t.Errorf("a probe got %d", resp.status)
		}
		if resp := get("/api/v1/openapi.json", "[2001:db8:0:1::1]:1", right); resp.status != 200 {
			t.Errorf("another address got %d", resp.status)
		}
		log := a.log.String()
		if n := strings.Count(log, ": wrong token"); n != 10 || before != 10 || !strings.Contains(log, `"remote":"[2001:db8::4]:1","path":"/api/v1/openapi.json"`) {
			t.Errorf("%d log lines about 10 wrong tokens:\n%s", n, log)
		}
		time.Sleep(6 * time.Second)
		wantProblem(t, get("/api/v1/openapi.json", "[2001:db8::1]:1", wrong), http.StatusUnauthorized)
		wantProblem(t, get("/api/v1/openapi.json", "[2001:db8::1]:1", wrong), http.StatusTooManyRequests)
	})
	if strings.Contains(a.log.String(), token[1:]) {
		t.Error("the log shows a token")
	}
}

// Concurrent guesses are answered 401 no more often than the limit allows.
func TestConcurrentGuessesAreLimited(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	var unlimited atomic.Int64
	var guesses sync.WaitGroup
	for i := range 200 {
		guesses.Go(func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/api/v1/openapi.json", http.NoBody)
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", i))
			a.handler.ServeHTTP(w, r)
			if w.Code != http.StatusTooManyRequests {
				unlimited.Add(1)
			}
		})
	}
	guesses.Wait()
	if n := unlimited.Load(); n < 10 || n > 12 {
		t.Errorf("%d of 200 guesses were not answered 429, want 10", n)
	}
}

// Behind a trusted proxy each client has tries of its own; X-Forwarded-For of others means nothing.
func TestWrongTokensBehindAProxy(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store, cfg.Token, cfg.TrustedProxies = store, token, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	get := func(peer, client, token string) int {
		return a.do(t, http.MethodGet, "/api/v1/openapi.json", func(r *http.Request) {
			r.RemoteAddr = peer
			r.Header.Set("X-Forwarded-For", client)
			r.Header.Set("Authorization", "Bearer "+token)
		}).status
	}
	const proxy, stranger = "10.0.0.1:1", "203.0.113.7:1"
	for i := range 10 {
		// The client chooses the first address.
		if got := get(proxy, fmt.Sprintf("192.0.2.%d, 198.51.100.1, 10.0.0.2", i), "x"); got != 401 {
			t.Errorf("wrong token %d by a proxy: %d, want 401", i, got)
		}
		if got := get(stranger, fmt.Sprintf("192.0.2.%d", i), "x"); got != 401 {
			t.Errorf("wrong token %d of a stranger: %d, want 401", i, got)
		}
	}
	for _, tt := range []struct {
		peer, client string
		want         int
	}{
		{proxy, "192.0.2.100, 198.51.100.1", 429},
		{proxy, "198.51.100.2", 401},
		{stranger, "198.51.100.2", 429},
		{proxy, "203.0.113.7", 429}, // the same client, by the proxy
	} {
		if got := get(tt.peer, tt.client, "x"); got != tt.want {
			t.Errorf("a wrong token of %s by %s: %d, want %d", tt.client, tt.peer, got, tt.want)
		}
		if got := get(tt.peer, tt.client, token); got != 200 {
			t.Errorf("the right token of %s by %s: %d, want 200", tt.client, tt.peer, got)
		}
	}
	if log := a.log.String(); !strings.Contains(log, `"remote":"198.51.100.1"`) || strings.Contains(log, `"remote":"10.0.0.1`) {
		t.Error("the log does not name the client")
	}
	_, err := hookadmin.New(&hookadmin.Config{
		Store: store, Engine: newEngine(t, store, &hookonce.Config{}), Ready: func(context.Context) error { return nil }, Loopback: true,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
	})
	if err == nil {
		t.Error("New trusts every address")
	}
}
