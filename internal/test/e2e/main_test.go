package e2e

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/race"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(6)
	code := dbtest.Run(m)
	if buildDir != "" {
		_ = os.RemoveAll(buildDir) // leftovers are in the folder for temporary files
	}
	os.Exit(code)
}

var buildDir string

// build builds the program under test, once.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hookonce-e2e-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	binary := filepath.Join(dir, "hookonce")
	return binary, race.Build(binary, filepath.Join("..", "..", ".."), "./cmd/hookonce")
})

// program returns the path of the program under test.
func program(t testing.TB) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
