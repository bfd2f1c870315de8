package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// emptyWorld is a world without a settings file.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	return &world{db: &database{store: "sqlite"}, sink: newSink(t), dir: t.TempDir()}
}

func TestServeWithoutFile(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	g := w.launch(t, "--source", "github=github:"+githubSecret, "--forward", "app="+w.sink.url("/inbox"))
	g.waitReady(t)
	g.expect(t, push("gh-1"), "200 ok")
	g.expect(t, push("gh-1"), "200 duplicate")
	g.expect(t, push("gh-2").with("X-Hub-Signature-256", ""), "401")
	g.waitState(t, "github", "gh-1", "done")
	got := w.sink.requests("")
	if len(got) != 1 || got[0].path != "/inbox" || got[0].body != push("gh-1").body {
		t.Errorf("%d requests, want one to /inbox with the body", len(got))
	}
	if _, err := os.Stat(filepath.Join(w.dir, "hookonce.db")); err != nil {
		t.Errorf("the default database: %v", err)
	}
	// The commands find the same database, beside the running gateway.
	if out := w.run(t, "events", "list"); out.code != 0 || !strings.Contains(out.stdout, "gh-1") {
		t.Errorf("events list: code %d, %s%s", out.code, out.stdout, out.stderr)
	}
}

// TestSecretsNeverLeak makes each setting that holds a secret fail. The harness searches the output
// and the answers of every program in this package for secrets; this test covers the errors.
func TestSecretsNeverLeak(t *testing.T) {
	t.Parallel()
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}
	unreachable := "postgres://user:" + databasePassword + "@127.0.0.1:1/db?connect_timeout=1"
	for name, c := range map[string]struct {
		settings string
		args     []string
	}{
		"unknown provider":      {"sources: {a: {provider: nobody, secrets: [\"" + githubSecret + "\"]}}", serve},
		"secret in wrong place": {"sources: {a: {provider: github, secret: \"" + githubSecret + "\"}}", serve},
		"secret is a mapping":   {"sources: {a: {provider: github, secrets: {x: \"" + githubSecret + "\"}}}", serve},
		"secret as a list":      {"sources: {a: {provider: github, secrets: [[\"" + githubSecret + "\"]]}}", serve},
		"broken YAML":           {"sources:\n  a: {provider: github, secrets: [\"" + githubSecret + "\"\n  b: [", serve},
		"tab in YAML":           {"sources:\n\ta: \"" + githubSecret + "\"", serve},
		"secret as a key":       {"sources: {a: {provider: github, secrets: [\"${GITHUB_WEBHOOK_SECRET}\"], " + githubSecret + ": 1}}", []string{"version"}},
		"base64 that is none":   {"sources: {a: {provider: standard-webhooks, secrets: [\"whsec_!" + standardKey + "\"]}}", serve},
		"destination secret":    {"destinations: {a: {url: \"http://127.0.0.1:1/\", secret: \"whsec_!" + destinationKey + "\"}}\nroutes: [{name: a, to: a}]\nsources: {b: {provider: none, event: {id: \"body:id\"}}}", []string{"config", "check"}},
		"credential in a URL":   {"destinations: {a: {url: \"ftp://user:" + urlCredential + "@h/\"}}", serve},
		"user in a URL":         {"destinations: {a: {url: \"http://user:" + urlCredential + "@h/\"}}", serve},
		"admin token":           {"admin: {listen: \"0.0.0.0:0\", token: \"" + adminToken + " with a space\"}", serve},
		"database refuses":      {"database: " + unreachable, []string{"migrate", "status"}},
		"database is malformed": {"database: \"postgres://user:" + databasePassword + "@:no:port:/db\"", []string{"migrate", "status"}},
		"source flag":           {"", append(serve, "--source", "a=nobody:"+githubSecret)},
		"source flag, no name":  {"", append(serve, "--source", githubSecret)},
		"source flag, hmac":     {"", append(serve, "--source", "a=hmac:"+labSecret)},
		"forward flag":          {"", append(serve, "--source", "a=none", "--forward", "app=ftp://user:"+urlCredential+"@h/")},
		"database flag":         {"", []string{"events", "list", "--database", unreachable}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t)
			w.env = secretEnvironment()
			w.configure(t, c.settings)
			out := w.run(t, c.args...) // searches the output for secrets
			if c.args[0] != "version" && out.code == 0 {
				t.Errorf("the command succeeded, so the test is void: %s", out.stdout)
			}
		})
	}
	t.Run("a destination that fails", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, newDatabase(t, "sqlite"), standardSettings+`
  - {name: closed, url: "http://127.0.0.1:1/x?key=`+urlCredential+`", retry: {attempts: 1}}
`)
		g := w.start(t)
		d := push("gh-1").with("Authorization", "Bearer "+credentialInQuery)
		g.expect(t, d, "200 ok")
		g.waitState(t, "github", "gh-1", "dead") // searches the API's answers
		for _, args := range [][]string{{"events", "list"}, {"events", "list", "--json"}, {"events", "show", "github", "gh-1"}, {"config", "check"}} {
			if out := w.run(t, args...); out.code != 0 {
				t.Errorf("%v: code %d: %s", args, out.code, out.stderr)
			}
		}
		for _, r := range w.sink.requests("") {
			if found := leaked(strings.Join(r.header.Values("Authorization"), "")); len(found) > 0 {
				t.Error("the sender's credential was forwarded")
			}
		}
	})
}
