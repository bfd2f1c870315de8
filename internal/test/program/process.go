package program

import (
	"bytes"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// shownLog is how much of the beginning and of the end of a log a failed test shows, in bytes.
const shownLog = 4 << 10

// Process is a program that a test started. Its methods may run concurrently.
type Process struct {
	Cmd    *exec.Cmd
	Exited <-chan struct{} // closed when the process has ended; then Cmd.ProcessState is set
	log    log
}

// Start starts a program and collects its output. It is killed at the end of the test, or of the
// test's process; a failed test shows the log.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	exited := make(chan struct{})
	p := &Process{Cmd: cmd, Exited: exited}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := dbtest.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState has the exit code
		close(exited)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", cmd, shortened(p.Log()))
		}
	})
	return p
}

func shortened(text string) string {
	if len(text) <= 2*shownLog {
		return text
	}
	return text[:shownLog] + "\n[…]\n" + text[len(text)-shownLog:]
}

// Log returns the output of the process.
func (p *Process) Log() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.text.String()
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Eventually polls ok until it returns true. It fails the test when the process ends before.
func (p *Process) Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		if ok() {
			return true
		}
		if !p.Running() {
			t.Fatalf("waiting until %s: %s ended: %s\n%s", what, p.Cmd, p.Cmd.ProcessState, p.Log())
		}
		return false
	})
}

// WaitFor waits until the log has a match of line, and returns its first group.
func (p *Process) WaitFor(t testing.TB, line *regexp.Regexp) string {
	t.Helper()
	var found string
	p.Eventually(t, "its log has "+line.String(), func() bool {
		if m := line.FindStringSubmatch(p.Log()); m != nil {
			found = m[1]
		}
		return found != ""
	})
	return found
}

// A gateway tells where it listens by these lines.
var (
	publicLine = regexp.MustCompile(`(?m)serving webhooks.*?\b(127\.0\.0\.1:\d+)`)
	adminLine  = regexp.MustCompile(`(?m)serving the admin.*?\b(127\.0\.0\.1:\d+)`)
)

// Addresses waits until a gateway listens on ports of 127.0.0.1, and returns host and port of both listeners.
func (p *Process) Addresses(t testing.TB) (public, admin string) {
	t.Helper()
	return p.WaitFor(t, publicLine), p.WaitFor(t, adminLine)
}

// WaitReady waits until a gateway's admin listener answers that it is ready.
func (p *Process) WaitReady(t testing.TB, admin string) {
	t.Helper()
	p.Eventually(t, "it is ready", func() bool { return Readiness(admin) == http.StatusOK })
}

var client = &http.Client{Timeout: eventually.Bound}

// Readiness returns the status of /readyz, 0 if there is no answer.
func Readiness(admin string) int {
	resp, err := client.Get("http://" + admin + "/readyz")
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Signal sends a signal to the process, which must be running.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(signal); err != nil {
		t.Errorf("signal %s: %v", signal, err)
	}
}

// Kill ends the process without warning, and waits for its end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Exited
}

// Stop ends the process as an operator does. It fails the test if the process does not end with code 0, or
// if its log tells of a crash or a race. It may be called again.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	_ = p.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.Exited:
	case <-time.After(eventually.Bound):
		t.Errorf("%s did not end within %s of SIGTERM", p.Cmd, eventually.Bound)
		p.Kill()
	}
	if p.Cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("%s ended with %s after SIGTERM, not with code 0", p.Cmd, p.Cmd.ProcessState)
	}
	p.CheckLog(t)
}

// CheckLog fails the test if the log tells of a crash or a race.
func (p *Process) CheckLog(t testing.TB) {
	t.Helper()
	text := p.Log()
	for _, bad := range []string{"DATA RACE", "panic", "goroutine 1 ["} {
		if strings.Contains(text, bad) {
			t.Errorf("the log of %s holds %q:\n%s", p.Cmd, bad, text)
		}
	}
}

// log keeps the output of a process.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}
