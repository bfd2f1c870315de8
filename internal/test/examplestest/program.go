package examplestest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

const (
	stopTimeout = 30 * time.Second
	shownLog    = 8 << 10
)

// Program is a program that serves webhooks, and that is started again after each kill. Except for
// URL, its methods are for one goroutine at a time.
type Program struct {
	command []string
	env     []string
	folder  string

	mu      sync.Mutex
	url     string // of the running process
	process *process
	kills   int
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

// Folder is the folder that the program runs in.
func (p *Program) Folder() string { return p.folder }

func (p *Program) start(t testing.TB) {
	t.Helper()
	started := launch(t, p.folder, p.env, p.command)
	p.process = started
	select {
	case url := <-started.url:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.url = url
	case <-started.ended:
		t.Fatalf("the program ended: %s\n%s", started.cmd.ProcessState, started.log())
	case <-time.After(eventually.Bound):
		p.Kill(t)
		t.Fatalf("the program does not serve within %s:\n%s", eventually.Bound, started.log())
	}
}

// Kill kills the process with SIGKILL. It does nothing if no process runs, as after a failed start.
func (p *Program) Kill(t testing.TB) {
	t.Helper()
	if p.process == nil {
		return
	}
	p.kills++
	p.process.signal(t, syscall.SIGKILL)
	<-p.process.ended
	p.process.checkLog(t)
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
	stopped := p.process
	p.process = nil
	stopped.signal(t, syscall.SIGTERM)
	select {
	case <-stopped.ended:
	case <-time.After(stopTimeout):
		t.Errorf("the program did not end within %s of SIGTERM", stopTimeout)
		stopped.signal(t, syscall.SIGKILL)
		<-stopped.ended
	}
	if code := stopped.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the program ended with %s", stopped.cmd.ProcessState)
	}
	stopped.checkLog(t)
	if t.Failed() {
		t.Logf("the program's last log, after %d kills:\n%s", p.kills, stopped.log())
	}
}

// process is one run of a program.
type process struct {
	cmd   *exec.Cmd
	url   chan string
	ended chan struct{}

	mu    sync.Mutex
	lines bytes.Buffer
	found bool
}

func launch(t testing.TB, folder string, env, command []string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(command[0], command[1:]...), url: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = folder, env
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the exit code
		close(p.ended)
	}()
	return p
}

// listening finds the address in a line of a log.
var listening = regexp.MustCompile(`(?m)\b(?:address=|http://)(127\.0\.0\.1:\d+)`)

// Write collects the output of the process.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.Write(b)
	if m := listening.FindSubmatch(p.lines.Bytes()); m != nil && !p.found {
		p.found = true
		p.url <- "http://" + string(m[1])
	}
	return len(b), nil
}

// log returns the end of the output.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.lines.String()
	return text[max(0, len(text)-shownLog):]
}

// checkLog searches the output for crashes and races.
func (p *process) checkLog(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, bad := range []string{"DATA RACE", "panic", "goroutine 1 ["} {
		if bytes.Contains(p.lines.Bytes(), []byte(bad)) {
			t.Errorf("the log holds %q:\n%s", bad, p.lines.Bytes())
		}
	}
}

func (p *process) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Errorf("signal %s: %v", signal, err)
	}
}
