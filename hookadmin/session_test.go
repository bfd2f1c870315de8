package hookadmin_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

const (
	origin        = "http://127.0.0.1:8081"
	sessionCookie = "hookonce_session"
)

// submit sends a form like a browser on a page of the dashboard.
func (a *api) submit(t *testing.T, path string, form url.Values, change func(*http.Request)) *answer {
	t.Helper()
	return a.send(t, http.MethodPost, path, form.Encode(), func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if change != nil {
			change(r)
		}
	})
}

// cookieOf returns the session that an answer sets, or nil.
func cookieOf(t *testing.T, resp *answer) *http.Cookie {
	t.Helper()
	cookies := (&http.Response{Header: resp.header}).Cookies()
	if len(cookies) == 0 {
		return nil
	}
	if len(cookies) > 1 || cookies[0].Name != sessionCookie {
		t.Fatalf("cookies %v", cookies)
	}
	return cookies[0]
}

// signIn starts a session with the token.
func (a *api) signIn(t *testing.T, token string) string {
	t.Helper()
	cookie := cookieOf(t, a.submit(t, "/login", url.Values{"token": {token}}, nil))
	if cookie == nil || cookie.Value == "" {
		t.Fatal("the token starts no session")
	}
	return cookie.Value
}

func withCookie(values ...string) func(*http.Request) {
	return func(r *http.Request) {
		for _, value := range values {
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
		}
	}
}

func wantRedirect(t *testing.T, resp *answer, to string) {
	t.Helper()
	if resp.status != http.StatusSeeOther || resp.header.Get("Location") != to || len(resp.body) != 0 {
		t.Errorf("%d to %q, %d bytes; want to %q", resp.status, resp.header.Get("Location"), len(resp.body), to)
	}
}

func newClosed(t *testing.T, store driver.Store, token string) *api {
	t.Helper()
	return newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token, cfg.Loopback = store, token, false })
}

func TestLogin(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	header := func(lines ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Origin")
			r.Header.Del("Sec-Fetch-Site")
			for _, line := range lines {
				name, value, _ := strings.Cut(line, ": ")
				r.Header.Add(name, value)
			}
		}
	}
	tests := []struct {
		name   string
		token  string
		change func(*http.Request)
		status int
	}{
		{"right", token, nil, 303},
		{"right, with copied spaces", " \t" + token + "\r\n", nil, 303},
		{"old browser", token, header("Origin: " + origin), 303},
		{"behind a TLS proxy", token, header("Origin: https://127.0.0.1:8081", "Sec-Fetch-Site: same-origin"), 303},
		{"under another name", token, func(r *http.Request) { r.Host = "gateway.example.com" }, 303},

		{"none", "", nil, 403},
		{"wrong", "x" + token, nil, 403},
		{"prefix", token[:5], nil, 403},
		{"longer", token + "x", nil, 403},
		{"other case", strings.ToUpper(token), nil, 403},
		{"as in the API", "Bearer " + token, nil, 403},
		{"too long", strings.Repeat("x", 17<<10), nil, 413},
		{"no form", token, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 403},
		{"broken form", "%", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded; =") }, 400},

		{"without origin", token, header(), 403},
		{"other site", token, header("Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site"), 403},
		{"other site, old browser", token, header("Origin: https://evil.example.com"), 403},
		{"other site, without its origin", token, header("Sec-Fetch-Site: cross-site"), 403},
		{"other port of this machine", token, header("Origin: http://127.0.0.1:3000", "Sec-Fetch-Site: same-site"), 403},
		{"other port of this machine, old browser", token, header("Origin: http://127.0.0.1:3000"), 403},
		{"typed in", token, header("Sec-Fetch-Site: none"), 403},
		{"sandboxed page", token, header("Origin: null"), 403},
		{"two origins", token, header("Origin: "+origin, "Origin: https://evil.example.com"), 403},
		{"two sites", token, header("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"), 403},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := a.submit(t, "/login", url.Values{"token": {tt.token}}, func(r *http.Request) {
				r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", i)
				if tt.change != nil {
					tt.change(r)
				}
			})
			cookie := cookieOf(t, resp)
			if tt.status == 303 {
				wantRedirect(t, resp, "./")
				if cookie == nil {
					t.Error("no session was started")
				}
				return
			}
			wantPage(t, resp, tt.status)
			if cookie != nil || strings.Contains(string(resp.body), token) {
				t.Errorf("cookie %v, %s", cookie, resp.body)
			}
		})
	}
	log := a.log.String()
	if n := strings.Count(log, "a login to the dashboard failed"); n != 7 || !strings.Contains(log, `"remote":"192.0.2.6:1234"`) {
		t.Errorf("logged %d failures:\n%s", n, log)
	}
	if strings.Contains(strings.ToLower(log), token[:5]) {
		t.Errorf("the log shows a token:\n%s", log)
	}
	form := a.page(t, "/login", 200)
	if !strings.Contains(form, `type="password"`) || strings.Contains(form, "<nav") || strings.Contains(form, "alert") {
		t.Errorf("the form: %s", form)
	}
}

func TestSessionCookie(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	for _, encrypted := range []bool{false, true} {
		resp := a.submit(t, "/login", url.Values{"token": {token}}, func(r *http.Request) {
			r.Header.Set("X-Forwarded-Proto", "https") // any client can send this
			if encrypted {
				r.TLS = new(tls.ConnectionState)
			}
		})
		c := cookieOf(t, resp)
		if c == nil || !c.HttpOnly || c.Secure != encrypted || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 {
			t.Fatalf("TLS %v: %+v", encrypted, c)
		}
		_, mac, _ := strings.Cut(c.Value, ".")
		raw, err := base64.RawURLEncoding.DecodeString(mac)
		if err != nil || len(raw) != 32 || strings.Contains(c.Value+string(raw), token) {
			t.Errorf("the value is %s", c.Value)
		}
	}
}

// TestSessions sends cookies to pages, and to the API, which accepts them for reading alone.
func TestSessions(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newClosed(t, store, token)
	good := a.signIn(t, token)
	expires, mac, _ := strings.Cut(good, ".")
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		values []string
		ok     bool
	}{
		{"good", []string{good}, true},
		{"good behind a bad one", []string{"x", good}, true},
		{"none", nil, false},
		{"empty", []string{""}, false},
		{"the token", []string{token}, false},
		{"of another token", []string{newClosed(t, store, token+"2").signIn(t, token+"2")}, false},
		{"prolonged", []string{fmt.Sprint(until+1) + "." + mac}, false},
		{"written otherwise", []string{"+" + good}, false},
		{"with zeros before", []string{"0" + good}, false},
		{"without its MAC", []string{expires, expires + "."}, false},
		{"shortened", []string{good[:len(good)-1]}, false},
		{"prolonged by text", []string{good + "A", good + "." + mac}, false},
		{"of no time", []string{"." + mac, "never." + mac, "9223372036854775808." + mac}, false},
	}
	for _, tt := range tests {
		for _, path := range []string{"/", "/sources"} {
			for _, method := range []string{"GET", "HEAD"} {
				resp := a.do(t, method, path, withCookie(tt.values...))
				if !tt.ok {
					wantRedirect(t, resp, "./login")
				} else if wantPage(t, resp, 200); !strings.Contains(string(resp.body), "Sign out") {
					t.Errorf("%s: %s %s lacks the sign-out button", tt.name, method, path)
				}
			}
		}
		for _, e := range hookadmin.Endpoints() {
			if e.Path == "/healthz" || e.Path == "/readyz" {
				continue
			}
			path := strings.NewReplacer("{source}", "lab", "{event_id}", "e1", "{id}", "m1").Replace(e.Path)
			resp := a.send(t, e.Method, path, "", func(r *http.Request) {
				withCookie(tt.values...)(r)
				r.Header.Set("Origin", origin)
				r.Header.Set("Sec-Fetch-Site", "same-origin")
			})
			opens := tt.ok && e.Method == http.MethodGet && strings.HasPrefix(e.Path, "/api/")
			if refused := resp.status == http.StatusUnauthorized; refused == opens {
				t.Errorf("%s: %s %s is %d", tt.name, e.Method, path, resp.status)
			}
		}
		wantProblem(t, a.do(t, "GET", "/no/such/page", withCookie(tt.values...)), http.StatusUnauthorized)
	}
	wantRedirect(t, a.do(t, "GET", "/login", withCookie(good)), "./")
	bearer := a.do(t, "GET", "/sources", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	wantPage(t, bearer, 200)
	// A session is valid at every gateway with this token.
	wantPage(t, newClosed(t, store, token).do(t, "GET", "/", withCookie(good)), 200)
}

func TestLogout(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	good := a.signIn(t, token)
	for name, change := range map[string]func(*http.Request){
		"other site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"other port": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"other site, old": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example.com")
		},
		"no origin":          func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Del("Origin") },
		"origin is withheld": func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") },
	} {
		resp := a.submit(t, "/logout", nil, func(r *http.Request) { withCookie(good)(r); change(r) })
		if wantPage(t, resp, http.StatusForbidden); cookieOf(t, resp) != nil {
			t.Errorf("%s: the session ended", name)
		}
	}
	if resp := a.do(t, http.MethodGet, "/logout", withCookie(good)); resp.status != http.StatusMethodNotAllowed || cookieOf(t, resp) != nil {
		t.Errorf("GET ends the session: %d", resp.status)
	}
	resp := a.submit(t, "/logout", nil, withCookie(good))
	wantRedirect(t, resp, "login")
	if c := cookieOf(t, resp); c == nil || c.Value != "" || c.MaxAge >= 0 || c.Path != "/" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie that ends the session: %+v", c)
	}
	wantRedirect(t, a.submit(t, "/logout", nil, nil), "login") // again, in another tab
}

// Without a token there is no login.
func TestNoLoginWithoutAToken(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = rig.OpenSQLite(t) })
	wantProblem(t, a.get(t, "/login"), http.StatusNotFound)
	wantProblem(t, a.submit(t, "/login", url.Values{"token": {""}}, nil), http.StatusNotFound)
	wantProblem(t, a.submit(t, "/logout", nil, nil), http.StatusNotFound)
	if page := a.page(t, "/", 200); strings.Contains(page, "Sign out") {
		t.Error("the page offers to sign out")
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	synctest.Test(t, func(t *testing.T) {
		good := a.signIn(t, token)
		time.Sleep(12*time.Hour - time.Second)
		// The login page does not use the database, which would run outside of this bubble's time.
		wantRedirect(t, a.do(t, "GET", "/login", withCookie(good)), "./")
		time.Sleep(time.Second)
		wantPage(t, a.do(t, "GET", "/login", withCookie(good)), 200)
		wantRedirect(t, a.do(t, "GET", "/", withCookie(good)), "./login")
	})
}

func TestLoginsAreLimited(t *testing.T) {
	t.Parallel()
	a := newClosed(t, rig.OpenSQLite(t), token)
	synctest.Test(t, func(t *testing.T) {
		try := func(remote, token string) *answer {
			return a.submit(t, "/login", url.Values{"token": {token}}, func(r *http.Request) { r.RemoteAddr = remote })
		}
		for range 20 {
			wantRedirect(t, try("[2001:db8::1]:1", token), "./") // a right token does not count
		}
		for i := range 10 {
			wantPage(t, try(fmt.Sprintf("[2001:db8::%d]:1", i+1), "x"), http.StatusForbidden)
		}
		resp := try("[2001:db8::ffff:1]:1", "x")
		if wantPage(t, resp, http.StatusTooManyRequests); resp.header.Get("Retry-After") != "6" || cookieOf(t, resp) != nil {
			t.Errorf("Retry-After %q, cookie %v", resp.header.Get("Retry-After"), cookieOf(t, resp))
		}
		wantRedirect(t, try("[2001:db8::ffff:1]:1", token), "./") // the right token always passes
		wantRedirect(t, try("[2001:db8:0:1::1]:1", token), "./")
		wantRedirect(t, try("192.0.2.1:1", token), "./")
		time.Sleep(6 * time.Second)
		wantPage(t, try("[2001:db8::1]:1", "x"), http.StatusForbidden)
		wantPage(t, try("[2001:db8::1]:1", "x"), http.StatusTooManyRequests)
		time.Sleep(6 * time.Second)
		wantRedirect(t, try("[2001:db8::1]:1", token), "./")

		before := strings.Count(a.log.String(), "a login to the dashboard failed")
		for i := range 200 {
			wantPage(t, try(fmt.Sprintf("198.51.100.%d:1", i), "x"), http.StatusForbidden)
		}
		if n := strings.Count(a.log.String(), "a login to the dashboard failed") - before; n < 50 || n > 60 {
			t.Errorf("200 failures at once wrote %d lines", n)
		}
	})
}
