package dbtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// folders are where distributions put the programs of a PostgreSQL server that
// are not on the PATH. A '*' is a version.
var folders = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // PGDG packages for Red Hat
	"/usr/local/pgsql*/bin",                              // built from source
	"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
	"/opt/local/lib/postgresql*/bin",                     // MacPorts
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
}

var errNotInstalled = errors.New("no PostgreSQL server was found on the PATH nor in the usual folders: " +
	"install one (apt-get install postgresql, dnf install postgresql-server, brew install postgresql), " +
	"or set " + Environment + " to the DSN of a server on which tests may create schemas")

// programs returns the folder that holds initdb and postgres, and installs
// PostgreSQL where that is possible and needed.
func programs() (string, error) {
	if err := install(installed, configureCluster, "postgresql"); err != nil {
		return "", err
	}
	return find(), nil
}

func installed() error {
	if find() == "" {
		return errNotInstalled
	}
	return nil
}

// Need fails the test where check finds that what the test needs is missing. On
// Debian and Ubuntu, run as root, it is installed first: packages are the names of
// the packages that hold it. The error of check says what else can be done.
func Need(t testing.TB, check func() error, packages ...string) {
	t.Helper()
	if err := install(check, nil, packages...); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// find returns the folder of the newest server that is installed, where the
// PATH has none; "" if there is none.
func find() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		// The PATH often holds a link, and initdb looks for its siblings.
		if real, err := filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(real)) {
			return filepath.Dir(real)
		}
	}
	for _, pattern := range folders {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic("dbtest: " + err.Error()) // a constant pattern is malformed
		}
		slices.SortFunc(matches, func(a, b string) int { return version(b) - version(a) })
		for _, folder := range matches {
			if complete(folder) {
				return folder
			}
		}
	}
	return ""
}

func complete(folder string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// version returns the major version that a folder's path names, or 0.
func version(folder string) int {
	digits := strings.FieldsFunc(folder, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, err := strconv.Atoi(digits[0])
	if err != nil {
		return 0
	}
	return n
}

func canInstall() bool {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return false
	}
	_, err := exec.LookPath("apt-get")
	return err == nil
}

// installTimeout bounds one run of apt-get.
const installTimeout = 10 * time.Minute

// install installs packages with apt-get if check says that something is missing,
// and returns what it says then. before may be nil.
func install(check, before func() error, packages ...string) error {
	missing := check()
	if missing == nil || !canInstall() {
		return missing
	}
	unlock, err := lockFile(filepath.Join(os.TempDir(), "hookonce-apt.lock"), true)
	if err != nil {
		return err
	}
	defer unlock()
	if check() == nil {
		return nil // another test binary was faster
	}
	fmt.Fprintf(os.Stderr, "dbtest: %v; installing %s with apt-get\n", missing, strings.Join(packages, ", "))
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	err = aptGet("update")
	if err == nil {
		err = aptGet(append([]string{
			"install", "--yes", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold",
		}, packages...)...)
	}
	if err != nil {
		return fmt.Errorf("%w; installing failed: %w", missing, err)
	}
	return check()
}

// configureCluster keeps the package from creating a cluster and starting it: a
// file that its scripts read tells it not to.
func configureCluster() error {
	const conf = "/etc/postgresql-common/createcluster.conf"
	if _, err := os.Stat(conf); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(conf), 0o755); err != nil {
		return err
	}
	return os.WriteFile(conf, []byte("create_main_cluster = false\n"), 0o644)
}
