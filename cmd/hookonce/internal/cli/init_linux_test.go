package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The ends of the questions. The form writes only the part of a line that differs from the line before.
const (
	whichProviders = "Which providers send to you?"
	whichURL       = "URL takes the events?"
	whichDatabase  = "database?"
)

// namesIn returns the names of the files in dir.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// On a terminal init asks, and its answers become settings. The command that it prints brings an event
// through a gateway with these settings.
func TestInitOnATerminal(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	for _, tt := range []struct {
		name    string
		columns int
		env     []string
	}{
		{"wide", 120, nil},
		{"narrow", 40, nil},
		{"without colours", 80, []string{"NO_COLOR=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := startSession(t, dir, tt.columns, tt.env, "init")
			s.await(t, whichProviders)
			s.press(t, "githu\r\r")
			s.await(t, "choose at least one")
			s.press(t, "x\r")
			s.await(t, whichURL)
			s.press(t, "nonsense\r")
			s.await(t, "the URL must begin with")
			s.press(t, "\x15"+d.url+"\r") // Ctrl-U removes the line
			s.await(t, whichDatabase)
			s.press(t, "\r")
			if code := s.end(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if got := namesIn(t, dir); !slices.Equal(got, []string{".env.example", "hookonce.yaml"}) {
				t.Fatalf("the folder holds %v", got)
			}
			if colours := regexp.MustCompile(`\x1b\[[0-9;]*\b[349][0-8]\b[0-9;]*m`).MatchString(s.text); colours != (tt.env == nil) {
				t.Errorf("colours: %v", colours)
			}
			for line := range strings.Lines(s.plain()[strings.Index(s.plain(), "Wrote "):]) {
				if n := len([]rune(line)) - 1; n > max(tt.columns, 60) && !strings.Contains(line, "https://github.com/") { // 60: the first part of the command
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
			if tt.name == "wide" {
				tryBeginning(t, d, dir, s.plain())
			}
		})
	}
}

// tryBeginning follows the steps that init printed in dir.
func tryBeginning(t *testing.T, d *destination, dir, steps string) {
	t.Helper()
	before := len(d.received())
	text, err := os.ReadFile(filepath.Join(dir, ".env.example"))
	if err != nil {
		t.Fatal(err)
	}
	secret := regexp.MustCompile(`whsec_[\w+/]{32}`).FindString(steps)
	filled := strings.NewReplacer("GITHUB_WEBHOOK_SECRET=\n", "GITHUB_WEBHOOK_SECRET="+githubSecret+"\n", "APP_SECRET=\n", "APP_SECRET="+secret+"\n")
	writeFile(t, filepath.Join(dir, ".env"), filled.Replace(string(text)))
	_, after, _ := strings.Cut(steps, "hookonce send ")
	command, _, _ := strings.Cut(after, "\n\n")
	shell := func(script string) (string, error) {
		cmd := exec.Command("sh", "-ec", "set -a; . ./.env; set +a\n"+script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), raceEnv())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if said, err := shell("hookonce config check"); err != nil || said != "ok\n" {
		t.Errorf("config check: %v\n%s", err, said)
	}
	g := startGatewayWith(t, dir, []string{"GITHUB_WEBHOOK_SECRET=" + githubSecret})
	base := "http://127.0.0.1:8080" // the address of the settings, which the test does not use
	if !strings.Contains(command, base+"/webhooks/github") || !strings.Contains(steps, "set -a; . ./.env; set +a\n") {
		t.Fatalf("the steps are\n%s", steps)
	}
	if said, err := shell("hookonce send " + strings.Replace(command, base, g.public, 1)); err != nil || !strings.Contains(said, `"status":"ok"`) {
		t.Errorf("send %s: %v\n%s", command, err, said)
	}
	g.poll(t, "the destination has the event", func() bool { return len(d.received()) > before })
	g.stop(t, syscall.SIGTERM)
}

// Interrupted at any question, init writes nothing.
func TestInitInterrupted(t *testing.T) {
	t.Parallel()
	const found = "  GitHub"
	for _, tt := range []struct {
		name, last string // the last question that the terminal shows
		stop       func(t *testing.T, s *session)
	}{
		{"at the first question", whichProviders, ctrlC},
		{"at the search", found, ctrlC},
		{"at the second question", whichURL, ctrlC},
		{"at the third question", whichDatabase, ctrlC},
		{"by SIGTERM", whichURL, func(t *testing.T, s *session) { _ = s.cmd.Process.Signal(syscall.SIGTERM) }},
		{"by SIGINT", whichDatabase, func(t *testing.T, s *session) { _ = s.cmd.Process.Signal(syscall.SIGINT) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := startSession(t, dir, 80, nil, "init", "--systemd", "--compose")
			for _, step := range []struct{ shows, keys string }{
				{whichProviders, "/GitHub"}, {found, "\rx\r"}, {whichURL, "\r"}, {whichDatabase, ""},
			} {
				s.await(t, step.shows)
				if step.shows == tt.last {
					break
				}
				s.press(t, step.keys)
			}
			tt.stop(t, s)
			if code := s.end(t); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(s.plain(), "Error: interrupted: nothing was written\nTry: run the same command again\n") {
				t.Error("the terminal does not say so")
			}
			if got := namesIn(t, dir); len(got) > 0 {
				t.Errorf("the folder holds %v", got)
			}
		})
	}
}

func ctrlC(t *testing.T, s *session) { s.press(t, "\x03") }

// A terminal that cannot move its cursor, and questions that flags have answered, are not asked.
func TestInitAsksNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	dumb := startSession(t, t.TempDir(), 80, []string{"TERM=dumb"}, "init")
	if code := dumb.end(t); code != 2 || !strings.Contains(dumb.plain(), "and a dumb terminal cannot show the questions") ||
		!strings.Contains(dumb.plain(), "\nTry: hookonce init --provider NAME --forward URL; hookonce providers lists the names\n") {
		t.Errorf("on a dumb terminal: exit code %d", code)
	}
	all := startSession(t, t.TempDir(), 80, nil, "init", "--provider", "github", "--forward", "", "--database", "sqlite:x.db")
	if code := all.end(t); code != 0 || strings.Contains(all.plain(), "?") {
		t.Errorf("with all flags: exit code %d", code)
	}
	one := startSession(t, t.TempDir(), 80, nil, "init", "--provider", "github", "--forward", "http://127.0.0.1:1")
	one.await(t, whichDatabase)
	one.press(t, "\r")
	if code := one.end(t); code != 0 || strings.Contains(one.plain(), whichProviders) || strings.Contains(one.plain(), whichURL) {
		t.Errorf("with two flags: exit code %d", code)
	}
}
