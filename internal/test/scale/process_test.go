package scale

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// process is a program that a test started.
type process struct {
	cmd    *exec.Cmd
	log    output
	exited chan struct{} // closed when the process has ended
}

// start starts a program. It is killed at the end of the test, or of the test's process, and its log is shown if the
// test failed.
func start(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := dbtest.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState has the exit code
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text := p.log.String()
			const most = 2 << 10 // of the beginning and of the end
			if len(text) > 2*most {
				text = text[:most] + "\n[…]\n" + text[len(text)-most:]
			}
			t.Logf("the log of %s:\n%s", name, text)
		}
	})
	return p
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process without warning, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// stop ends the process as an operator does, and fails the test if it does not end with code 0.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	select {
	case <-p.exited:
	case <-time.After(eventually.Bound):
		t.Errorf("it did not end within %s of SIGTERM", eventually.Bound)
		p.kill()
	}
	if p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it ended with %s after SIGTERM, not with code 0", p.cmd.ProcessState)
	}
}

// eventually polls ok until it returns true. It fails the test when the process ends before.
func (p *process) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		if ok() {
			return true
		}
		if !p.running() {
			t.Fatalf("waiting until %s: the process ended: %s\n%s", what, p.cmd.ProcessState, p.log.String())
		}
		return false
	})
}

// output keeps the output of a process.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
