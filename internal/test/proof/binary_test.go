package proof

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/race"
)

// workerCommand returns a function that prepares worker processes: this test binary, started again.
func workerCommand(t testing.TB, s settings) func() *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if race.Enabled && s.Variant != withPgx {
		binary, err = plainBinary()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() *exec.Cmd {
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), race.Environment(), workerVariable+"="+string(text))
		return cmd
	}
}

// plainFolder holds the binary of plainBinary; "" if none was built.
var plainFolder string

// plainBinary builds this program without the race detector, once. SQLite is translated to Go and
// runs about fifteen times slower under it. The engine, which the detector is for, runs under it on
// PostgreSQL.
var plainBinary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "hookonce-proof-")
	if err != nil {
		return "", err
	}
	plainFolder = folder
	binary := filepath.Join(folder, "worker")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the worker: %w\n%s", err, out)
	}
	return binary, nil
})
