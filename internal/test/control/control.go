// Package control lets the commands of a probe, such as that of --effects, call functions of the test
// that runs the probe.
package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program builds the program that the commands run, and returns its path. A probe runs it dozens of
// times, so it is small and without the race detector.
func Program(folder string) (path string, err error) {
	path = filepath.Join(folder, "ask.exe")
	cmd := exec.Command("go", "build", "-o", path, "github.com/hookonce/hookonce/internal/test/control/ask")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", path, err)
	}
	return path, nil
}

// Serve serves handler until the test ends. It returns a function that returns the command for sh that
// prints the answer to GET path. The command fails if that is not 200.
func Serve(t testing.TB, program string, handler http.Handler) (command func(path string) string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return func(path string) string { return fmt.Sprintf("'%s' '%s%s'", program, server.URL, path) }
}
