package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/program"
)

// process is a server under measurement.
type process struct {
	*program.Process
	address string // receives deliveries
	admin   string // of a gateway
}

// startRole starts this binary as a serving baseline.
func startRole(t testing.TB, role, dsn string) *process {
	t.Helper()
	p := startProcess(t, role, databaseVariable+"="+dsn)
	p.address = p.WaitFor(t, regexp.MustCompile(`(?m)^(127\.0\.0\.1:\d+)$`))
	return p
}

// startProcess starts this binary in a role.
func startProcess(t testing.TB, role string, env ...string) *process {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	if _, err := cmd.StdinPipe(); err != nil { // the role ends when this process ends
		t.Fatal(err)
	}
	return &process{Process: program.Start(t, cmd)}
}

// startGateway starts the gateway as users do and waits until it is ready.
func startGateway(t testing.TB, settings string, env ...string) *process {
	t.Helper()
	return startGatewayIn(t, writeSettings(t, settings), env...)
}

// writeSettings returns a new folder with a settings file.
func writeSettings(t testing.TB, settings string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "hookonce.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// startGatewayIn starts the gateway on the settings in a folder, with more variables in its environment.
func startGatewayIn(t testing.TB, folder string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(program.Plain(t, "./cmd/hookonce"), "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	p := &process{Process: program.Start(t, cmd)}
	p.address, p.admin = p.Addresses(t)
	p.WaitReady(t, p.admin)
	return p
}

// peakMemory returns the largest resident size of the process so far, in bytes.
func (p *process) peakMemory(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kilobytes, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
