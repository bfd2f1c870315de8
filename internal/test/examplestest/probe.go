package examplestest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce/internal/test/program"
)

// Probe holds the five-minute test with a program: every check must pass. args are those of
// "hookonce probe", with --effects.
func Probe(t testing.TB, p *Program, path string, args ...string) {
	t.Helper()
	binary := program.Hookonce(t)
	args = append([]string{"probe", p.URL() + path, "--timeout", "60s", "--wait", "60s"}, args...) // the machine may be busy
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// WriteFile writes a file into a folder of its own and returns its path.
func WriteFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
