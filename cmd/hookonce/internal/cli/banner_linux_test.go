package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The command that the banner shows works as it is printed, and brings the event to the destination.
func TestBannerOnATerminal(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), `
sources:
  pay: {provider: stripe, secrets: ["${PAY_SECRET}"]}
  lab: {provider: none, event: {id: "body:id"}}
destinations: {billing: {url: "`+d.url+`"}}
routes: [{sources: [pay], types: [invoice.paid], to: billing}]
`)
	env := []string{"PAY_SECRET=whsec_of-enough-bytes-for-a-test"}
	s := startSession(t, dir, 200, env, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	s.await(t, "\n  try ")
	s.await(t, "--type invoice.paid\n")
	_, after, _ := strings.Cut(s.plain(), "\n  try ")
	command, _, _ := strings.Cut(after, "\n")
	shell := exec.Command("sh", "-c", strings.TrimSpace(command))
	shell.Dir, shell.Env = dir, append(append(os.Environ(), raceEnv()), env...)
	text, err := shell.CombinedOutput()
	if err != nil || !strings.Contains(string(text), `"status":"ok"`) {
		t.Errorf("%s: %v\n%s", command, err, text)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.end(t); code != 0 {
		t.Errorf("serve exits with %d", code)
	}
	for _, want := range []string{"→ billing\n", "/webhooks/lab → no route  UNSIGNED\n", "\n  dashboard  http://127.0.0.1:", "sqlite:hookonce.db"} {
		if !strings.Contains(s.plain(), want) {
			t.Errorf("the banner lacks %q", want)
		}
	}
	if !strings.Contains(s.text, "\x1b[33mUNSIGNED\x1b[0m") || strings.Contains(s.plain(), "whsec_") {
		t.Error("UNSIGNED has no colour, or the secret is shown")
	}
}

// Where both streams are pipes, every line of both is JSON, and the banner is one line of stdout.
func TestBannerInAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startGateway(t, dir, "--source", "gh=github:"+githubSecret, "--log-level", "info")
	g.stop(t, syscall.SIGTERM)
	lines := strings.Split(strings.TrimSuffix(g.stdout.String(), "\n"), "\n")
	var ready struct {
		Msg, Database, Webhooks, Dashboard string
		Sources                            int
	}
	if err := json.Unmarshal([]byte(lines[0]), &ready); err != nil || len(lines) != 1 {
		t.Fatalf("stdout is %q", g.stdout)
	}
	if ready.Msg != "ready" || ready.Database != "sqlite:hookonce.db" || ready.Webhooks != g.public+"/webhooks/" ||
		ready.Dashboard != g.admin+"/" || ready.Sources != 1 {
		t.Errorf("ready: %s", lines[0])
	}
	for line := range strings.Lines(g.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log has the line %q", line)
		}
	}
	if strings.Contains(g.stdout.String()+g.stderr.String(), githubSecret) {
		t.Error("the secret is shown")
	}
}
