// Package program builds the programs that tests need, once for all test binaries of a checkout. It starts them and ends
// them.
package program

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/race"
)

// Environment names the variable that may hold the path of the program hookonce, built from this checkout without the race
// detector. Then it is not built again.
const Environment = "HOOKONCE_TEST_PROGRAM"

// Hookonce returns the path of the program hookonce, under the race detector where the test binary is.
func Hookonce(t testing.TB) string {
	t.Helper()
	return Path(t, "./cmd/hookonce")
}

// Path builds a package of the module, which its path from the module's folder names, and returns the path of the program.
// Test binaries that run at the same time, or later, find it built.
func Path(t testing.TB, pkg string) string {
	t.Helper()
	return of(t, pkg, race.Enabled)
}

// Plain is Path for a program that never has the race detector.
func Plain(t testing.TB, pkg string) string {
	t.Helper()
	return of(t, pkg, false)
}

type built struct {
	pkg  string
	race bool
}

var programs sync.Map // built to func() (string, error)

func of(t testing.TB, pkg string, race bool) string {
	t.Helper()
	once, _ := programs.LoadOrStore(built{pkg, race}, sync.OnceValues(func() (string, error) { return build(pkg, race) }))
	file, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("program: %v", err)
	}
	return file
}

func build(pkg string, withRace bool) (string, error) {
	if given := os.Getenv(Environment); given != "" && pkg == "./cmd/hookonce" && !withRace {
		return given, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	checkout := fnv.New64a()
	_, _ = checkout.Write([]byte(root)) // never fails
	folder = filepath.Join(folder, "hookonce-tests", fmt.Sprintf("%x", checkout.Sum64()))
	if withRace {
		folder += "-race"
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	unlock, err := dbtest.LockFile(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	file := filepath.Join(folder, path.Base(pkg))
	return file, race.Build(file, root, pkg, withRace) // quick if nothing has changed: go build looks at the file
}

// Root returns the folder of the module, above the working directory.
func Root() (string, error) {
	folder, err := os.Getwd()
	for ; err == nil; folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module github.com/hookonce/hookonce\n")) {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("no go.mod of hookonce above the working directory")
		}
	}
	return "", err
}
