package hookadmin_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookadmin"
)

const token = "correct-horse_battery.staple"

func TestToken(t *testing.T) {
	t.Parallel()
	store := openStore(t)
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
	for _, loopback := range []bool{true, false} {
		a := newAPI(t, func(cfg *hookadmin.Config) {
			cfg.Store, cfg.Token, cfg.Loopback = store, token, loopback
		})
		for _, tt := range tests {
			for _, path := range []string{"/api/v1/events", "/no/such/path"} {
				resp := a.do(t, http.MethodGet, path, func(r *http.Request) {
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
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = openStore(t) })
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
