package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

func TestMain(m *testing.M) {
	group.Only("packages")
	code := m.Run()
	for _, made := range built {
		_ = os.RemoveAll(filepath.Dir(made))
	}
	os.Exit(code)
}

func TestGroup(t *testing.T) { group.Need(t, "packages") }

// built are the results of .ci/release, by version, in a folder of the whole run.
var built = map[string]string{}

// release builds a release of the last commit for this system, and returns its folder.
func release(t *testing.T, version string) string {
	t.Helper()
	if built[version] == "" {
		folder, err := os.MkdirTemp("", "hookonce-packaging-") //nolint:usetesting // several tests share it
		if err != nil {
			t.Fatal(err)
		}
		must(t, "../../../.ci/release", "-snapshot", "-targets", "host", version, filepath.Join(folder, "made"))
		built[version] = filepath.Join(folder, "made")
	}
	return built[version]
}

// one returns the only file of a release that fits a pattern.
func one(t *testing.T, folder, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, folder, files, err)
	}
	return files[0]
}

// tools installs programs of Debian packages that are missing: pairs of program and package.
func tools(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: it needs root")
	}
	var missing []string
	for _, program := range programs {
		name, pack, _ := strings.Cut(program, "=")
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, pack)
		}
	}
	if len(missing) == 0 {
		return
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("NOT RUN: install " + strings.Join(missing, ", "))
	}
	must(t, "apt-get", "update", "-qq")
	must(t, "apt-get", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...)
}

// must runs a command, and returns its output.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := run(exec.Command(name, args...))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func run(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	return string(bytes.TrimSpace(out)), err
}

// contains fails unless a text has a part.
func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Fatalf("%q is not in\n%s", part, text)
	}
}
