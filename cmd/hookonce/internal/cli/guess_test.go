package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// On a server, a service runs in its own folder with variables of its own. A command that is typed elsewhere, without
// settings or with their file alone, asks that gateway, and makes no second database.
func TestCommandsElsewhereAskTheGateway(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "hookonce.yaml")
	writeFile(t, file, "admin: {title: production}\nsources: {gh: {provider: github, secrets: ["+githubSecret+"]}}\n")
	g := startGateway(t, dir)
	if got := g.deliver(t, "d1"); got != "ok" {
		t.Fatalf("a delivery is %q", got)
	}
	writeFile(t, file, "sources: {gh: {provider: github, secrets: ['${HOOKONCE_TEST_UNSET}']}}\n")
	listen := []string{"HOOKONCE_ADMIN_LISTEN=" + strings.TrimPrefix(g.admin, "http://")}
	database := "sqlite:" + filepath.Join(dir, "hookonce.db")
	wants := func(env, args []string, code int, parts ...string) {
		t.Helper()
		stdout, stderr, got := runWith(t, elsewhere, env, args...)
		for _, part := range parts {
			if !strings.Contains(stdout+stderr, part) || got != code {
				t.Errorf("%q: code %d, want %d and %q:\n%s%s", args, got, code, part, stdout, stderr)
			}
		}
		if strings.Contains(stdout, "no gateway serves") {
			t.Errorf("%q denies the gateway:\n%s", args, stdout)
		}
	}
	named := "Gateway: " + g.admin + " · production · " + database + "\n"
	wants(listen, []string{"events", "list"}, 0, "d1", named)
	wants([]string{"HOOKONCE_ADMIN_URL=" + g.admin}, []string{"events", "list"}, 0, "d1")
	wants(listen, []string{"events", "show", "gh", "d1", "--config", file}, 0, "d1")
	wants(listen, []string{"ready"}, 0, "ready")
	wants(listen, []string{"doctor"}, 0, "a gateway answers at "+g.admin)
	wants(listen, []string{"doctor", "--config", file}, 1, database+" answers", "serves this file")
	wants([]string{"HOOKONCE_ADMIN_LISTEN=127.0.0.1:1"}, []string{"doctor"}, 1, "no gateway answers at http://127.0.0.1:1, and there are no settings", "Try: --admin-url")
	wants(listen, []string{"events", "redact", "gh", "d1", "--yes"}, 0, named)
	wants([]string{"HOOKONCE_ADMIN_URL=" + g.admin}, []string{"events", "redact", "gh", "d1", "--yes"}, 0, named)
	for _, args := range [][]string{{"prune"}, {"backup", "copy.db"}, {"migrate", "up"}, {"migrate", "up", "--config", file}} {
		wants(listen, args, 1, "only the gateway at "+g.admin+" names one: "+database, "Try: --database "+database+", as")
	}
	// A named file that cannot be read names nothing, so the gateway that answers is another one.
	absent, broken := filepath.Join(elsewhere, "absent.yaml"), filepath.Join(t.TempDir(), "broken.yaml")
	writeFile(t, broken, "sources: [\n")
	for _, args := range [][]string{{"events", "list"}, {"events", "redact", "gh", "d1", "--yes"}, {"ready"}, {"stats"}, {"prune"}, {"events", "tail"}} {
		wants(listen, append(args, "--config", absent), 1, absent+": the settings file cannot be read: no such file")
		wants(listen, append(args, "--config", broken), 1, broken+":1:10: not valid YAML")
	}
	wants(append(listen, "HOOKONCE_CONFIG="+broken), []string{"events", "list"}, 1, broken+":1:10: not valid YAML")
	wants(listen, []string{"doctor", "--config", broken}, 1, "skipped  gateway")
	wants(append(listen, "HOOKONCE_CONFIG="+absent), []string{"events", "list"}, 1, absent+": the settings file cannot be read: no such file")
	wants([]string{"HOOKONCE_ADMIN_LISTEN=127.0.0.1:1"}, []string{"events", "list", "--config", file}, 1, "HOOKONCE_TEST_UNSET is not set")
	if files, _ := filepath.Glob(filepath.Join(elsewhere, "*")); len(files) > 0 {
		t.Errorf("the commands made %q", files)
	}
}

// A remedy names the settings of the package where they may be: not to be allowed to look is no reason to say FILE.
func TestSettingsToName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hidden := filepath.Join(dir, "hidden.yaml")
	if err := os.Symlink(hidden, hidden); err != nil { // os.Stat fails, as in a folder of another user
		t.Fatal(err)
	}
	for file, want := range map[string]string{hidden: hidden, filepath.Join(dir, "absent.yaml"): "FILE"} {
		for _, args := range [][]string{{"events", "list"}, {"doctor", "--admin-url", "http://127.0.0.1:1"}} {
			stdout, stderr, _ := runWith(t, dir, []string{"INSTALLED_SETTINGS=" + file, "HOOKONCE_ADMIN_LISTEN=127.0.0.1:1"}, args...)
			if !strings.Contains(stdout+stderr, "--config "+want) {
				t.Errorf("%q with %s does not name --config %s:\n%s%s", args, file, want, stdout, stderr)
			}
		}
	}
}

// A server has the settings of the package, whose paths are those of the service. Typed elsewhere, doctor and config check
// take these settings, and make no database; events list says where they are. Settings of this folder come first.
func TestCommandsTakeInstalledSettings(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "installed.yaml")
	writeFile(t, file, "database: sqlite:data.db\nsources: {gh: {provider: github, secrets: ["+githubSecret+"]}}\nadmin: {listen: '127.0.0.1:1'}\n")
	wants := func(code int, part string, args ...string) {
		t.Helper()
		stdout, stderr, got := runWith(t, elsewhere, []string{"INSTALLED_SETTINGS=" + file, "HOOKONCE_ADMIN_LISTEN=127.0.0.1:1"}, args...)
		if got != code || !strings.Contains(stdout+stderr, part) {
			t.Errorf("%q: code %d, want %d and %q:\n%s%s", args, got, code, part, stdout, stderr)
		}
	}
	wants(1, "systemctl start hookonce, which makes it", "doctor")
	wants(0, "Settings: "+file, "config", "check")
	wants(1, "--config "+file, "events", "list")
	success(t, dir, "migrate", "up", "--config", file)
	wants(0, file+"; sources: 1", "doctor")
	if files, _ := filepath.Glob(filepath.Join(elsewhere, "*")); len(files) > 0 {
		t.Errorf("the commands made %q", files)
	}
	writeFile(t, filepath.Join(elsewhere, "hookonce.yaml"), "sources: {a: {provider: github, secrets: ["+githubSecret+"]}, b: {provider: none, event: {id: 'body:id'}}}\n")
	wants(1, "hookonce.yaml", "doctor")
	wants(1, "the database hookonce.db does not exist", "doctor")
}

// An address that the user did not name gets no token from any command.
func TestNoTokenGoesToAGuessedAddress(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked, sent []string
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked = append(asked, r.URL.Path); r.Header.Get("Authorization") != "" {
			sent = append(sent, r.URL.Path)
		}
		if r.URL.Path != "/healthz" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"status":401,"detail":"A token is missing."}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok"}`)
	}))
	t.Cleanup(stranger.Close)
	env := []string{"HOOKONCE_ADMIN_TOKEN=0123456789abcdef", "HOOKONCE_ADMIN_LISTEN=" + strings.TrimPrefix(stranger.URL, "http://")}
	for _, args := range [][]string{{"events", "list"}, {"events", "redact", "gh", "d1", "--yes"}, {"ready"}, {"doctor"}, {"prune"}} {
		stdout, stderr, code := runWith(t, t.TempDir(), env, args...)
		if code != 1 || strings.Contains(stdout, "no gateway serves") {
			t.Errorf("%q: code %d:\n%s%s", args, code, stdout, stderr)
		}
		if args[0] == "events" && !strings.Contains(stderr, "Try: --admin-url "+stranger.URL+", with the token in HOOKONCE_ADMIN_TOKEN") {
			t.Errorf("%q does not name the remedy:\n%s", args, stderr)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) < 5 || len(sent) > 0 {
		t.Errorf("asked for %q, and a token went to %q", asked, sent)
	}
}

// A secret is rotated without a restart: a reload takes the new value of the file, although the process keeps the old one
// in its environment.
func TestRotationByEnvFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "env_file: env\nsources: {gh: {provider: github, secrets: ['${GH_SECRET}']}}\n")
	const before = "the-secret-before-the-rotation"
	environment := []string{"GH_SECRET=" + before}
	g := startGatewayWith(t, dir, environment)
	sends := func(secret string) bool {
		_, _, code := run(t, dir, "send", g.public+"/webhooks/gh", "--provider", "github", "--secret", secret, "--type", "push")
		return code == 0
	}
	check := func(note string) {
		t.Helper()
		if _, stderr, code := runWith(t, dir, environment, "config", "check"); code != 0 || !strings.Contains(stderr, note) || note == "" && stderr != "" {
			t.Errorf("config check: code %d, want the note %q:\n%s", code, note, stderr)
		}
	}
	if !sends(before) {
		t.Fatal("the secret of the environment is refused")
	}
	check("It keeps the values of GH_SECRET until a restart")
	writeFile(t, filepath.Join(dir, "env"), "GH_SECRET="+githubSecret+"\n")
	check("")
	g.signal(t, syscall.SIGHUP)
	g.poll(t, "the secret of the file verifies", func() bool { return sends(githubSecret) })
	if sends(before) {
		t.Error("the secret of the environment still verifies")
	}
}
