package proof

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// place is where one process runs and, after its end, the next one.
type place struct {
	name    string
	folder  string // for the logs
	listens bool   // the process prints the address that it listens on, and ends with code 0 on SIGTERM
	command func() *exec.Cmd

	kept sync.WaitGroup
	lost atomic.Bool // a process ended wrongly, so no other one is started

	mu       sync.Mutex
	process  *process // nil while none runs
	address  string   // "" while none listens
	stopping bool
	started  int
	lastPID  int
	kills    int // by the test
	leaves   int // by an event that ends its process
	logs     []string
}

// process is one process of a place.
type process struct {
	cmd    *exec.Cmd
	killed bool
}

// keep runs a process in the place, and a new one after each end, until the place is stopped.
func (p *place) keep(t testing.TB) {
	p.kept.Go(func() {
		for {
			again, err := p.runOnce()
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
				p.lost.Store(true)
			}
			if err != nil || !again {
				return
			}
		}
	})
}

// runOnce runs one process to its end, and reports whether to start another one.
func (p *place) runOnce() (again bool, err error) {
	started, output, err := p.start()
	if err != nil || started == nil {
		return false, err
	}
	lines := bufio.NewReader(output)
	if p.listens {
		line, err := lines.ReadString('\n')
		if err == nil { // otherwise it has ended
			p.mu.Lock()
			p.address = strings.TrimSpace(line)
			p.mu.Unlock()
		}
	}
	_, _ = io.Copy(io.Discard, lines) // blocks until the process ends
	_ = started.cmd.Wait()            // its state tells how it ended

	p.mu.Lock()
	defer p.mu.Unlock()
	// A process that does not listen, or not yet, may have no handler for signals.
	mayTerminate := p.stopping && p.address == ""
	p.address, p.process = "", nil
	state := started.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case started.killed:
		p.kills++
	case status.Signaled() && status.Signal() == syscall.SIGKILL, state.ExitCode() == leaveCode:
		p.leaves++
	case p.stopping && state.Success():
	case mayTerminate && status.Signaled() && status.Signal() == syscall.SIGTERM:
	default:
		return false, fmt.Errorf("the process ended by itself: %s\n%s", state, tail(p.logs[len(p.logs)-1]))
	}
	return !p.stopping, nil
}

// start starts a process, and returns nil if the place is stopped.
func (p *place) start() (*process, io.Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil, nil, nil
	}
	cmd := p.command()
	path := filepath.Join(p.folder, fmt.Sprintf("%s-%d.log", p.name, p.started))
	log, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close() // the process has a copy
	p.logs = append(p.logs, path)
	cmd.Stderr = log
	output, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe() // closes when the test ends, which tells the process
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	p.started++
	p.lastPID = cmd.Process.Pid
	p.process = &process{cmd: cmd}
	return p.process, output, nil
}

// kill ends the running process, if there is one, without warning.
func (p *place) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.process.killed {
		return
	}
	p.process.killed = true
	_ = p.process.cmd.Process.Kill() // it may have ended just now
}

// signal sends a signal to the running process.
func (p *place) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		t.Fatalf("%s: no process runs", p.name)
	}
	if err := p.process.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// pid returns the id of the running process; 0 if none runs.
func (p *place) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return 0
	}
	return p.process.cmd.Process.Pid
}

// listening returns the address of the listening process; "" if none listens.
func (p *place) listening() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// stop ends the process as an operator does, and waits for its end. Calling it again is harmless.
func (p *place) stop(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	p.stopping = true
	if p.process != nil {
		_ = p.process.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	}
	p.mu.Unlock()
	timer := time.AfterFunc(stopTimeout, func() {
		t.Errorf("%s: the process did not end within %s of SIGTERM", p.name, stopTimeout)
		p.kill()
	})
	defer timer.Stop()
	p.kept.Wait()
}

// stopTimeout is promised to operators.
const stopTimeout = 30 * time.Second

// checkLogs searches the logs for crashes and races.
func (p *place) checkLogs(t testing.TB) {
	t.Helper()
	for _, path := range p.logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:", "Traceback"} {
				if strings.HasPrefix(line, bad) {
					t.Errorf("%s holds %q:\n%s", filepath.Base(path), bad, tail(path))
				}
			}
		}
	}
}

// tail returns the end of a file, or the error of reading it.
func tail(path string) string {
	const most = 8 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
