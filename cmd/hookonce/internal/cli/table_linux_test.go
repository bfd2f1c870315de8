package cli_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// onTerminal runs a command whose stdout is a terminal with this many columns, and returns its output.
func onTerminal(t *testing.T, dir string, columns int, env []string, args ...string) string {
	t.Helper()
	master, terminal := openTerminal(t, columns)
	defer master.Close()
	cmd := exec.Command("hookonce", args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), raceEnv(), "TERM=xterm", "NO_COLOR="), env...)
	cmd.Stdout, cmd.Stderr = terminal, os.Stderr
	err := cmd.Start()
	if err := errors.Join(err, terminal.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, syscall.EIO) { // the end, on Linux
		t.Fatal(err)
	}
	_ = cmd.Wait() // doctor may fail
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// longID matches a line with nothing but the id of a quarantined request.
var longID = regexp.MustCompile(`^  [0-9a-f]{64}$`)

// longLink matches a line with nothing but a link.
var longLink = regexp.MustCompile(`^  https://\S+$`)

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Every table fits a terminal with 80 columns, and one with 60. Links stay whole, and ids where there is room.
// A state has a colour, unless NO_COLOR is set, and nothing else controls the terminal.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), `
sources:
  gh: {provider: github, secrets: [`+githubSecret+`]}
  a-source-with-a-long-name: {provider: none, event: {id: "body:id"}, malformed: quarantine}
destinations: {a-destination-with-a-long-name: {url: "`+d.url+`"}}
routes: [{name: a-route-with-a-long-name, to: a-destination-with-a-long-name}]
`)
	g := startGateway(t, dir)
	const id = "0c4b5f9e-8f3a-4d3b-9a3e-5f1f3c1d2e3f"
	g.deliver(t, id)
	g.deliver(t, "hostile \u202e")
	g.await(t, "dead", 2)
	for _, body := range []string{`{}`, `{"x":1}`} {
		g.post(t, "/webhooks/a-source-with-a-long-name", body)
	}

	commands := [][]string{
		{"events", "list"},
		{"events", "show", "gh", id},
		{"dlq", "list"},
		{"quarantine", "list"},
		{"sources", "list"},
		{"providers"},
		{"providers", "slack"},
		{"migrate", "status"},
		{"doctor"},
	}
	for _, columns := range []int{80, 60} {
		for _, args := range commands {
			text := onTerminal(t, dir, columns, nil, args...)
			if strings.Count(text, "\n") < 2 {
				t.Errorf("%v prints %q", args, text)
			}
			for line := range strings.Lines(colour.ReplaceAllString(text, "")) {
				line = strings.TrimSuffix(line, "\n")
				if args[0] == "events" && args[1] == "show" && strings.HasPrefix(line, "{") {
					continue // the body stays as it is
				}
				copied := args[0] == "providers" && len(args) > 1 || longID.MatchString(line) || longLink.MatchString(line)
				if n := len([]rune(line)); n > columns && !copied {
					t.Errorf("%v: %d columns of %d: %q", args, n, columns, line)
				}
				if strings.Contains(line, "\x1b") {
					t.Errorf("%v controls the terminal: %q", args, line)
				}
			}
		}
	}
	// A column without a value in any row is left out on a terminal, and stays in a pipe.
	wide := onTerminal(t, dir, 200, nil, "sources", "list")
	if piped := success(t, dir, "sources", "list"); !strings.Contains(piped, "ARMED UNTIL") || strings.Contains(wide, "ARMED UNTIL") || !strings.Contains(wide, "PROVIDER") {
		t.Errorf("on a terminal:\n%s\nin a pipe:\n%s", wide, piped)
	}
	message := driver.MessageID(driver.EventKey("gh", id), 0, "a-route-with-a-long-name")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"events", "list"}, []string{id, "\x1b[31mdead\x1b[0m"}},
		{[]string{"events", "show", "gh", id}, []string{message, "\x1b[31mdead\x1b[0m"}},
		{[]string{"dlq", "list"}, []string{id}},
		{[]string{"doctor"}, []string{"\x1b[32mok\x1b[0m"}},
	} {
		text := onTerminal(t, dir, 80, nil, c.args...)
		plain := onTerminal(t, dir, 80, []string{"NO_COLOR=1"}, c.args...)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%v lacks %q:\n%s", c.args, want, text)
			}
		}
		if strings.Contains(plain, "\x1b") || plain != colour.ReplaceAllString(text, "") {
			t.Errorf("%v with NO_COLOR:\n%q", c.args, plain)
		}
	}
	// A pipe has every column, and no colour.
	piped := success(t, dir, "events", "list")
	for _, want := range []string{"ATTEMPTS", "DUPLICATES", "NOTE", id} {
		if !strings.Contains(piped, want) || strings.Contains(piped, "\x1b") {
			t.Errorf("a pipe lacks %q:\n%q", want, piped)
		}
	}
}
