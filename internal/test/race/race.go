// Package race carries the race detector from a test binary to the programs that it builds and
// starts: they are built with it where the test binary is, and only there. The race detector needs
// a C compiler, and plain tests must run without one.
package race

import (
	"os"
	"strings"
)

// BuildFlags returns the flags of go build for a program under test.
func BuildFlags() []string {
	if Enabled {
		return []string{"-race"}
	}
	return nil
}

// Environment returns GORACE for a program under test, as "GORACE=settings". A process under the
// race detector otherwise sleeps for a second when it ends, and tests start hundreds. It still
// reports races and exits with code 66.
func Environment() string {
	return "GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")
}
