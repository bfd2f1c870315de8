// Package control lets the commands of a probe, such as that of --effects, call functions of the test
// that runs the probe.
package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hookonce/hookonce/internal/test/program"
)

// Serve serves handler until the test ends. It returns a function that returns the command for sh that
// prints the answer to GET path. The command fails if that is not 200.
//
// A probe runs the command dozens of times, so it is a small program without the race detector.
func Serve(t testing.TB, handler http.Handler) (command func(path string) string) {
	t.Helper()
	ask := program.Plain(t, "./internal/test/control/ask")
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return func(path string) string { return fmt.Sprintf("'%s' '%s%s'", ask, server.URL, path) }
}
