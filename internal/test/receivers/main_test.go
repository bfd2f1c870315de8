package receivers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// root is the module's folder, seen from this package.
var root = filepath.Join("..", "..", "..")

func TestMain(m *testing.M) {
	group.Only("receivers")
	dbtest.Parallel(8)
	code := dbtest.Run(m)
	if buildDir != "" {
		_ = os.RemoveAll(buildDir) // leftovers are in the folder for temporary files
	}
	os.Exit(code)
}

func TestGroup(t *testing.T) { group.Need(t, "receivers") }

// buildDir holds all that the tests of this binary install.
var buildDir string

var makeBuildDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hookonce-receivers-")
	buildDir = dir
	return dir, err
})

// python returns the command that runs a program of the folder python.
func python(t testing.TB, program string) []string {
	t.Helper()
	var interpreter string
	dbtest.Need(t, "receivers", func() (err error) {
		interpreter, err = findPython()
		return err
	}, "python3-fastapi", "python3-uvicorn", "python3-asyncpg")
	path, err := filepath.Abs(filepath.Join("python", program))
	if err != nil {
		t.Fatal(err)
	}
	return []string{interpreter, "-B", path} // -B: write no compiled files into the checkout
}

// findPython returns the interpreter that has the packages of the receivers. It remembers the one that
// it found, because looking takes as long as starting a receiver.
func findPython() (string, error) {
	looking.Lock()
	defer looking.Unlock()
	if foundPython != "" {
		return foundPython, nil
	}
	// Debian's packages work only with Debian's own interpreter.
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(program, "-c", "import fastapi, uvicorn, asyncpg").Run() == nil {
			foundPython = program
			return foundPython, nil
		}
	}
	return "", errors.New("NOT RUN: no Python with fastapi, uvicorn and asyncpg was found: install them " +
		"(apt-get install python3-fastapi python3-uvicorn python3-asyncpg, pip install fastapi uvicorn asyncpg)")
}

var (
	looking     sync.Mutex
	foundPython string
)

// node returns the command that runs a program of the folder node.
func node(t testing.TB, program string) []string {
	t.Helper()
	dbtest.Need(t, "receivers", func() error {
		for _, program := range []string{"node", "npm"} {
			if _, err := exec.LookPath(program); err != nil {
				return errors.New("NOT RUN: " + program + " was not found: install Node 18 or newer (apt-get install nodejs npm)")
			}
		}
		return nil
	}, "nodejs", "npm")
	folder, err := nodeModules()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"node", filepath.Join(folder, program)}
}

// nodeModules copies the folder node, so that the checkout does not change, installs its packages
// there, once, and returns the path.
var nodeModules = sync.OnceValues(func() (string, error) {
	dir, err := makeBuildDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "node")
	if err := os.CopyFS(folder, os.DirFS("node")); err != nil {
		return "", err
	}
	cmd := exec.Command("npm", "ci", "--prefer-offline")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("NOT RUN: npm cannot install express and pg: is its registry in reach? npm ci: %w\n%s", err, out)
	}
	return folder, nil
})
