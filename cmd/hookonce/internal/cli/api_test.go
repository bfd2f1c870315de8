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

// A named gateway may be behind another path and https; its certificate is verified. The token goes
// to no other address: redirects are not followed. The script remote has the other answers.
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

	var told atomic.Bool
	curious := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Store(true) }))
	t.Cleanup(curious.Close)
	trusting := "SSL_CERT_FILE=" + authority
	for _, c := range []struct {
		args []string
		env  string
		code int
		want string
	}{
		{[]string{proxy.URL + "/hooks/"}, trusting, 0, "lab"},
		{[]string{proxy.URL + "/hooks/", "--ca", authority}, "", 0, "lab"},
		{[]string{proxy.URL + "/hooks"}, "", 1, "tls: failed to verify certificate"},
		{[]string{answering(t, "application/json", "[", nil)}, "", 1, "its answer cannot be read"},
		{[]string{answering(t, "text/html", "", http.Header{"Location": {curious.URL}})}, "", 1, "it answered 302"},
		{[]string{"http://127.0.0.1:1/?x=1"}, "", 2, "it holds a query or a fragment"},
	} {
		stdout, stderr, code := runWith(t, elsewhere, []string{c.env, "HOOKONCE_ADMIN_TOKEN=" + adminToken}, append([]string{"sources", "list", "--admin-url"}, c.args...)...)
		if (stdout == "") == (c.code == 0) || code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%v: %d, %s%s", c.args, code, stdout, stderr)
		}
	}
	if told.Load() {
		t.Error("a redirect was followed")
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "hookonce.db")); err == nil {
		t.Error("a command made a database")
	}
}

// A token that cannot be read is an error, and no file is read without an end.
func TestOddFilesOfAClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.pem")
	writeFile(t, large, strings.Repeat("x", 1<<20+1))
	for _, c := range []struct {
		env, ca, want string
		code          int
	}{
		{"HOOKONCE_ADMIN_TOKEN=file:" + dir, "", "the file of the admin API's token cannot be read: it is not a regular file", 1},
		{"HOOKONCE_READ_TOKEN=file:" + dir, "", "the file of the admin API's token cannot be read: it is not a regular file", 1},
		{"", large, `large.pem" cannot be read: it has more than 1048576 bytes`, 2},
	} {
		args := []string{"sources", "list", "--admin-url", "http://127.0.0.1:1"}
		if c.ca != "" {
			args = append(args, "--ca", c.ca)
		}
		if stdout, stderr, code := runWith(t, dir, []string{c.env}, args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%+v: %d, %s%s", c, code, stdout, stderr)
		}
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
