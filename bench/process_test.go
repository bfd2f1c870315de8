package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/program"
)

// process is a server under measurement.
type process struct {
	cmd     *exec.Cmd
	address string // receives deliveries
	admin   string // of a gateway
	exited  chan struct{}
	log     lockedBuffer
}

// startRole starts this binary as a serving baseline.
func startRole(t testing.TB, role, dsn string) *process {
	t.Helper()
	p := startProcess(t, role, databaseVariable+"="+dsn)
	p.address = p.waitFor(t, regexp.MustCompile(`(?m)^(127\.0\.0\.1:\d+)$`))
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
	return start(t, cmd)
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
	p := start(t, cmd)
	p.address = p.waitFor(t, regexp.MustCompile(`(?m)serving webhooks.*?\b(127\.0\.0\.1:\d+)`))
	p.admin = p.waitFor(t, regexp.MustCompile(`(?m)serving the admin.*?\b(127\.0\.0\.1:\d+)`))
	p.waitReady(t)
	return p
}

func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState has the exit code
		close(p.exited)
	}()
	t.Cleanup(func() { p.stop(t) })
	return p
}

// waitFor waits until the process has printed a match of line, and returns its first group.
func (p *process) waitFor(t testing.TB, line *regexp.Regexp) string {
	t.Helper()
	var found string
	p.eventually(t, "it prints its address", func() bool {
		if m := line.FindStringSubmatch(p.log.String()); m != nil {
			found = m[1]
		}
		return found != ""
	})
	return found
}

func (p *process) waitReady(t testing.TB) {
	t.Helper()
	p.eventually(t, "it is ready", func() bool { return isReady(p.admin) })
}

func isReady(admin string) bool {
	resp, err := http.Get("http://" + admin + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// eventually polls ok until it returns true. It fails the test when the process ends.
func (p *process) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		if ok() {
			return true
		}
		select {
		case <-p.exited:
			t.Fatalf("waiting until %s: %s ended: %s\n%s", what, p.cmd.Path, p.cmd.ProcessState, p.log.String())
		default:
		}
		return false
	})
}

// stop ends the process as an operator does. A second call is harmless.
func (p *process) stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
	select {
	case <-p.exited:
	case <-time.After(eventually.Bound):
		t.Errorf("%s did not end within %s\n%s", p.cmd.Path, eventually.Bound, p.log.String())
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// peakMemory returns the largest resident size of the process so far, in bytes.
func (p *process) peakMemory(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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

// lockedBuffer keeps the output of a process.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
