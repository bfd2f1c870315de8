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

	"github.com/hookonce/hookonce/internal/test/group"
)

// folders are where distributions put the programs of a PostgreSQL server that are not on the PATH.
// A '*' stands for a version.
var folders = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // PGDG packages for Red Hat
	"/usr/local/pgsql*/bin",                              // built from source
	"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
	"/opt/local/lib/postgresql*/bin",                     // MacPorts
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
}

var errNotInstalled = errors.New("no PostgreSQL server was found on the PATH or in the usual folders: " +
	"install one (apt-get install postgresql, dnf install postgresql-server, brew install postgresql), " +
	"or set " + Environment + " to the DSN of a server where tests may create schemas")

// programs returns the folder with initdb and postgres. If it is missing, programs installs
// PostgreSQL where it can.
func programs() (string, error) {
	if err := install(installed, configureCluster, "postgresql"); err != nil {
		return "", err
	}
	return find(), nil
}

// Programs returns the folder with the programs of the PostgreSQL server that tests use.
func Programs(t testing.TB) string {
	t.Helper()
	folder, err := programs()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return folder
}

func installed() error {
	if find() == "" {
		return errNotInstalled
	}
	return nil
}

// Need skips the test unless its group runs (see package group), and fails it if check returns an error. On Debian and
// Ubuntu, as root, it first installs packages if they are missing, without starting their services. The error of check must
// say what to install elsewhere.
func Need(t testing.TB, groupName string, check func() error, packages ...string) {
	t.Helper()
	group.Need(t, groupName)
	if err := install(check, nil, packages...); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// find returns the folder of the server on the PATH, otherwise of the newest one installed; "" if
// there is none.
func find() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		// The PATH often has a link, but initdb needs its siblings.
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

// version returns the major version in a folder's path, or 0.
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

// aptLock is locked while a test binary installs packages.
func aptLock() string { return filepath.Join(os.TempDir(), "hookonce-apt.lock") }

// install installs packages with apt-get if check returns an error, and calls check again. before,
// which may be nil, runs before apt-get. install returns the last error.
func install(check, before func() error, packages ...string) error {
	if !canInstall() {
		return check()
	}
	// While another test binary installs, programs may be there, but not yet the user that they run as.
	wait, err := lockFile(aptLock(), lockShared)
	if err != nil {
		return err
	}
	missing := check()
	wait()
	if missing == nil {
		return nil
	}
	unlock, err := lockFile(aptLock(), lockExclusive)
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
	allow, err := refuseServices(servicePolicy)
	if err != nil {
		return err
	}
	defer allow()
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

// servicePolicy is the program that Debian's packages ask before they start a service.
const servicePolicy = "/usr/sbin/policy-rc.d"

// refuseServices writes a policy that forbids starting services until allow is called or this process ends. It leaves
// a policy of the host as it is.
func refuseServices(path string) (allow func(), err error) {
	const mark = "#!/bin/sh\n# written by a test of hookonce\n"
	if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), mark) {
		_ = os.Remove(path) // a killed process left it
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, "%sif kill -0 %d 2>/dev/null; then exit 101; fi\n", mark, os.Getpid())
	allow = func() { _ = os.Remove(path) }
	if err = errors.Join(err, f.Close()); err != nil {
		allow()
		return nil, err
	}
	return allow, nil
}

// configureCluster writes a setting that keeps the package's scripts from creating and starting a
// cluster.
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
