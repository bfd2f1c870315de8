package examplestest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

// Program is a program that serves webhooks, and that is started again after each kill. Except for
// URL, its methods are for one goroutine at a time.
type Program struct {
	command []string
	env     []string
	folder  string

	mu      sync.Mutex
	url     string // of the running process
	process *program.Process
}

// Build builds the example in the current folder, under the race detector if the test runs under
// it, and returns the path of the binary.
func Build(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return program.Path(t, "./examples/"+filepath.Base(folder))
}

// Start starts a program in a folder of its own and waits until its log contains the address that
// it serves on. LISTEN is set to a free port. The program is stopped when the test ends, at the
// latest.
func Start(t testing.TB, env []string, command ...string) *Program {
	t.Helper()
	p := &Program{command: command, folder: t.TempDir()}
	p.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.folder, "LISTEN=127.0.0.1:0", race.Environment()}, env...)
	p.start(t)
	t.Cleanup(func() {
		if p.process != nil {
			p.Stop(t)
		}
	})
	return p
}

// URL returns the address of the running program, or of the last one that ran.
func (p *Program) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

func (p *Program) start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = p.folder, p.env
	p.process = program.Start(t, cmd)
	address := p.process.WaitFor(t, listening)
	// Some log the address before they listen.
	eventually.True(t, "the program listens on "+address, func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url = "http://" + address
}

// Kill kills the process with SIGKILL. It does nothing if no process runs, as after a failed start.
func (p *Program) Kill(t testing.TB) {
	t.Helper()
	if p.process == nil {
		return
	}
	p.process.Kill()
	p.process.CheckLog(t)
	p.process = nil
}

// Crash kills the process and starts it again.
func (p *Program) Crash(t testing.TB) {
	t.Helper()
	p.Kill(t)
	p.start(t)
}

// Stop ends the process with SIGTERM, and checks its exit code and its log.
func (p *Program) Stop(t testing.TB) {
	t.Helper()
	p.process.Stop(t)
	p.process = nil
}

// listening finds the address in a line of a log.
var listening = regexp.MustCompile(`(?m)\b(?:address=|http://)(127\.0\.0\.1:\d+)`)
