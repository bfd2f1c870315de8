// Package race carries the race detector from a test binary to the programs that it builds and
// starts: they are built with it where the test binary is, and only there. The race detector needs
// a C compiler, and plain tests must run without one.
package race

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// withoutSQLite leaves SQLite out of the race detector. It is C translated to Go, and takes several
// times as long with the detector and the pointer checks that come with it. .ci/race has the same
// flag.
const withoutSQLite = "-gcflags=modernc.org/...=-race=false -d=checkptr=0"

// Build builds the package pkg, as go build in folder names it, into the file binary, under the race detector or not. It
// may run concurrently.
func Build(binary, folder, pkg string, detect bool, flags ...string) error {
	args := append([]string{"build", "-o", binary}, flags...)
	if detect {
		args = append(args, "-race", withoutSQLite)
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Environment returns GORACE for a program under test, as "GORACE=settings". A process under the
// race detector otherwise sleeps for a second when it ends, and tests start hundreds. It still
// reports races and exits with code 66.
func Environment() string {
	return "GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")
}
