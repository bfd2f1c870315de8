package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	code := dbtest.Run(m)
	if built != "" {
		_ = os.RemoveAll(built) // leftovers are in the folder for temporary files
	}
	os.Exit(code)
}

var built string

// build builds the program as a reader does, once.
var build = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "hookonce-pages-"); err != nil {
		return "", err
	}
	binary := filepath.Join(built, "hookonce")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/hookonce")
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return binary, nil
})

func program(t *testing.T) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
