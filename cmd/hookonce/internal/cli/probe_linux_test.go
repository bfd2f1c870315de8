package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The report fits terminals of 80 and 60 columns. Its marks have colours, unless NO_COLOR is set.
func TestProbeOnATerminal(t *testing.T) {
	t.Parallel()
	url, _ := probeAnswers(t, func(http.ResponseWriter, *http.Request) {})
	args := []string{"probe", url, "--provider", "stripe", "--secret", "whsec_test_secret", "--checks", "valid,tampered,several-signatures,duplicate"}
	for _, columns := range []int{80, 60} {
		coloured := onTerminal(t, t.TempDir(), columns, nil, args...)
		for _, mark := range []string{"\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m", "\x1b[33m?\x1b[0m"} {
			if !strings.Contains(coloured, mark) {
				t.Errorf("%d columns: no %q in\n%s", columns, mark, coloured)
			}
		}
		for line := range strings.Lines(colour.ReplaceAllString(coloured, "")) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns && !strings.Contains(line, "https://github.com/") || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns of %d: %q", n, columns, line)
			}
		}
	}
	if plain := onTerminal(t, t.TempDir(), 80, []string{"NO_COLOR=1"}, args...); strings.Contains(plain, "\x1b") || !strings.Contains(plain, " ✗ tampered byte ") {
		t.Errorf("with NO_COLOR: %q", plain)
	}
}

// An interrupted probe ends the command that it runs, with the processes of that command.
func TestProbeEndsItsCommands(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("hookonce", "probe", "http://127.0.0.1:1/", "--provider", "none",
		"--effects", "sleep 600 & echo $! >'"+fifo+"'; wait # {id}")
	cmd.Env = append(os.Environ(), raceEnv())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fifo) // waits for the command
	if err == nil {
		err = cmd.Process.Signal(os.Interrupt)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // ProcessState holds the result
	if code := cmd.ProcessState.ExitCode(); code != 1 || stderr.String() != "Error: interrupted: the checks are not complete\nTry: run the same command again; --checks NAME,NAME runs a few of the checks alone\n" {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "no process of the command runs", func() bool { return !runs(pid) })
}

// runs reports whether a process runs. A zombie, which waits for its parent, does not.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
