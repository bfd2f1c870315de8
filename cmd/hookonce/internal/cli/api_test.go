package cli_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

const adminToken = "a-token-of-16-bytes-or-more"

// byFlags are the flags of a gateway whose settings no file holds.
func byFlags(d *destination) []string {
	return []string{"--source", "gh=github:" + githubSecret, "--forward", "app=" + d.url}
}

// Commands know the sources, routes and destinations of a gateway that was started by flags, and give
// its answers. Once it is gone, they read the database.
func TestCommandsAskTheRunningGateway(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) (at, schema string){
		"SQLite":     func(*testing.T) (string, string) { return "sqlite:hookonce.db", "" },
		"PostgreSQL": func(t *testing.T) (string, string) { return dbtest.Ready(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, dir := startDestination(t), t.TempDir()
			d.ok.Store(true)
			at, schema := database(t)
			env := []string{"HOOKONCE_SCHEMA=" + schema}
			g := startGatewayWith(t, dir, env, append(byFlags(d), "--database", at)...)
			g.deliver(t, "d1")
			ask := func(args ...string) string {
				t.Helper()
				stdout, stderr, code := runWith(t, dir, env, append(args, "--database", at)...)
				if code != 0 || stderr != "" {
					t.Fatalf("%v: code %d: %s%s", args, code, stdout, stderr)
				}
				return stdout
			}
			g.poll(t, "it is done", func() bool { return strings.Contains(ask("events", "list", "--state", "done", "--json"), "d1") })

			for path, args := range map[string][]string{
				"/api/v1/events":       {"events", "list", "--json"},
				"/api/v1/events/gh/d1": {"events", "show", "gh", "d1", "--json"},
				"/api/v1/dead-letters": {"dlq", "list", "--json"},
				"/api/v1/quarantine":   {"quarantine", "list", "--json"},
				"/api/v1/refused":      {"refused", "list", "--json"},
				"/api/v1/destinations": {"destinations", "list", "--json"},
				"/api/v1/sources":      {"sources", "list", "--json"},
			} {
				var byCommand, byAPI any
				unmarshal(t, ask(args...), &byCommand)
				unmarshal(t, g.api(t, path), &byAPI)
				if diff := cmp.Diff(byAPI, byCommand); diff != "" {
					t.Errorf("%v (-API +command):\n%s", args, diff)
				}
			}
			if out := ask("sources", "list"); !strings.Contains(out, "gh") {
				t.Errorf("sources list: %s", out)
			}
			if out, _, _ := runWith(t, dir, env, "__complete", "events", "show", "--database", at, ""); !strings.HasPrefix(out, "gh\n") {
				t.Errorf("completion: %s", out)
			}
			if out := ask("doctor"); !strings.Contains(out, "a gateway answers at "+g.admin) || !strings.Contains(out, "its settings: sources: 1, destinations: 1") {
				t.Errorf("doctor: %s", out)
			}
			ask("events", "replay", "gh", "d1", "--as-new") // which needs the routes of the gateway
			g.poll(t, "it is sent again", func() bool { return len(d.received()) == 2 })

			g.signal(t, syscall.SIGKILL)
			g.wait(t)
			if out := ask("events", "list"); !strings.Contains(out, "d1") {
				t.Errorf("events list without a gateway: %s", out)
			}
			stdout, stderr, code := runWith(t, dir, env, "sources", "list", "--database", at)
			if stdout != "" || stderr != "No sources.\n" || code != 0 {
				t.Errorf("sources list without a gateway: %d, %s%s", code, stdout, stderr)
			}
		})
	}
}

// A command sends the token of the settings to its own gateway. A wrong one is an error: the command
// does not read the database instead.
func TestTokenOfTheRunningGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "admin: {token: "+adminToken+"}\n")
	writeFile(t, filepath.Join(dir, "other.yaml"), "admin: {token: another-token-of-16-bytes}\n")
	writeFile(t, filepath.Join(dir, "none.yaml"), "{}\n")
	g := startGateway(t, dir)
	success(t, dir, "sources", "list", "--json")
	success(t, dir, "sources", "list", "--json", "--admin-url", g.admin, "--config", "hookonce.yaml")
	for _, c := range []struct{ config, want string }{
		{"other.yaml", "Error: listing events: the gateway at " + g.admin + " answered 401: the token is wrong"},
		{"none.yaml", "Error: listing events: the gateway at " + g.admin + " needs a token\nTry: set HOOKONCE_ADMIN_TOKEN to the admin.token of that gateway\n"},
	} {
		for _, args := range [][]string{{}, {"--admin-url", g.admin}} {
			args = append([]string{"events", "list", "--config", c.config}, args...)
			stdout, stderr, code := run(t, dir, args...)
			if stdout != "" || !strings.Contains(stderr, c.want) || code != 1 {
				t.Errorf("%v: %d, %s%s", args, code, stdout, stderr)
			}
		}
	}
	if stdout, _, code := run(t, dir, "doctor", "--config", "none.yaml"); code != 1 || !strings.Contains(stdout, "needs a token") {
		t.Errorf("doctor without the token: %d, %s", code, stdout)
	}
}

// A named gateway may be behind another path and https; its certificate is verified. The token goes
// to no other address: redirects are not followed.
func TestAdminURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "admin: {token: "+adminToken+"}\nsources: {lab: {provider: none, event: {id: body:id}}}\n")
	g := startGateway(t, dir)
	target, err := url.Parse(g.admin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(http.StripPrefix("/hooks", httputil.NewSingleHostReverseProxy(target)))
	t.Cleanup(proxy.Close)
	elsewhere := t.TempDir()
	authority := filepath.Join(elsewhere, "authority.pem")
	writeFile(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})))

	withEnv := func(env []string, args ...string) (stdout, stderr string, code int) {
		return runWith(t, elsewhere, env, args...)
	}
	trusting := []string{"SSL_CERT_FILE=" + authority, "HOOKONCE_ADMIN_TOKEN=" + adminToken}
	stdout, stderr, code := withEnv(trusting, "sources", "list", "--admin-url", proxy.URL+"/hooks/")
	if code != 0 || !strings.Contains(stdout, "lab") || stderr != "" {
		t.Errorf("over https: %d, %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = withEnv(trusting[1:], "sources", "list", "--admin-url", proxy.URL+"/hooks/", "--ca", authority)
	if code != 0 || !strings.Contains(stdout, "lab") || stderr != "" {
		t.Errorf("over https with --ca: %d, %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "hookonce.db")); err == nil {
		t.Error("the command made a database")
	}

	var told atomic.Bool
	curious := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told.Store(true)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(curious.Close)
	for _, c := range []struct {
		name, url string
		env       []string
		code      int
		want      string
	}{
		{"untrusted certificate", proxy.URL + "/hooks", trusting[1:], 1, "Try: name the authority of its certificate by --ca FILE, or give the gateway a certificate that this machine trusts"},
		{"no token", g.admin, nil, 1, "needs a token\nTry: set HOOKONCE_ADMIN_TOKEN"},
		{"the public listener", g.public, trusting, 1, "Try: use the address of admin.listen, not that of listen"},
		{"nothing there", "http://" + dbtest.FreeAddress(t), trusting, 1, "Try: check that the gateway runs, and its address"},
		{"another program", answering(t, "text/html", "<p>hello", nil), trusting, 1, "is not an admin API of hookonce: it answered 200 with content of type \"text/html\""},
		{"not its JSON", answering(t, "application/json", "[", nil), trusting, 1, "its answer cannot be read"},
		{"a redirect", answering(t, "text/html", "", http.Header{"Location": {curious.URL}}), trusting, 1, "it answered 302"},
		{"a password", "http://u:hunter2@127.0.0.1:1", trusting, 2, "it holds a user or a password"},
		{"no URL", "127.0.0.1:8081", trusting, 2, "it is not a URL such as http://127.0.0.1:8081"},
		{"a query", "http://127.0.0.1:1/?x=1", trusting, 2, "it holds a query or a fragment"},
		{"empty", "", trusting, 2, "--admin-url has no value"},
	} {
		stdout, stderr, code := withEnv(c.env, "sources", "list", "--admin-url", c.url)
		if stdout != "" || code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: %d, %s%s", c.name, code, stdout, stderr)
		}
	}
	if told.Load() {
		t.Error("a redirect was followed")
	}
	if _, stderr, code := withEnv(trusting, "events", "list", "--admin-url", g.admin, "--database", "sqlite:x.db"); code != 2 || !strings.Contains(stderr, "exclude each other") {
		t.Errorf("--admin-url and --database: %d, %s", code, stderr)
	}
	if _, stderr, code := withEnv(trusting, "events", "show", "lab", "none", "--admin-url", g.admin); code != 3 || !strings.Contains(stderr, `Error: event "none" of source "lab": not found`) {
		t.Errorf("an event that does not exist: %d, %s", code, stderr)
	}
}

// answering returns the URL of a server that gives one answer.
func answering(t *testing.T, kind, body string, header http.Header) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for name := range header {
			w.Header().Set(name, header.Get(name))
			w.WriteHeader(http.StatusFound)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
