package consumer_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/sqltest"
)

func TestMain(m *testing.M) {
	group.Only("examples")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "examples") }

func TestConsumer(t *testing.T) {
	dbtest.Need(t, "examples", func() error {
		for _, program := range []string{"node", "npm"} {
			if exec.Command(program, "--version").Run() != nil {
				return errors.New(program + " was not found: install Node 18 or newer (apt-get install nodejs npm)")
			}
		}
		return nil
	}, "nodejs", "npm")
	schema, err := os.ReadFile(filepath.Join("..", "python", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	sqltest.Consumer(t, string(schema), "node", install(t))
}

// install installs the consumer in a folder of its own, so that the checkout does not change, and
// returns its path.
func install(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"consumer.js", "package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return filepath.Join(folder, "consumer.js")
}
