package failover

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// space is a network namespace for processes: one thread of the system for each, because
// Linux binds a process to the namespace of the thread that starts it. The thread lives as long as the
// test binary, since its children get a signal when it ends.
type space struct{ calls chan func() error }

// host is the namespace of the test itself.
var host = sync.OnceValue(func() *space { return newSpace("") })

// newSpace returns the namespace of this name, which exists.
func newSpace(name string) *space {
	s := &space{make(chan func() error)}
	go func() {
		runtime.LockOSThread()
		err := enter(name)
		for call := range s.calls {
			if err != nil {
				panic(fmt.Sprintf("entering the network namespace %s: %v", name, err))
			}
			_ = call() // it tells its caller
		}
	}()
	return s
}

func enter(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.Open(filepath.Join("/run/netns", name))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// within calls f on the thread of the namespace.
func (s *space) within(f func() error) error {
	result := make(chan error, 1)
	s.calls <- func() error { result <- f(); return nil }
	return <-result
}

// process is a program that a test runs.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	exited  chan struct{}
}

// command describes a process before it starts.
type command struct {
	name  string // of the log
	space *space
	user  *syscall.Credential // nil: that of this process
	env   []string
	args  []string
	end   syscall.Signal // sent when the test binary ends for any reason
}

// start starts a process whose output is in a file of folder. It ends with the test.
func (c *command) start(t testing.TB, folder string) *process {
	t.Helper()
	p := &process{name: c.name, logPath: filepath.Join(folder, c.name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the child has a copy
	p.cmd = exec.Command(c.args[0], c.args[1:]...)
	p.cmd.Dir = folder
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "LC_ALL=C.UTF-8", "TZ=UTC"}, c.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user, Setpgid: true, Pdeathsig: c.end}
	if err := c.space.within(p.cmd.Start); err != nil {
		t.Fatalf("starting %s: %v", c.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the log tells how it ended
		close(p.exited)
	}()
	t.Cleanup(func() { p.stop(syscall.SIGTERM) })
	return p
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// stop ends the process, at last by force.
func (p *process) stop(sig syscall.Signal) {
	p.signal(syscall.SIGCONT)
	p.signal(sig)
	select {
	case <-p.exited:
	case <-time.After(eventually.Bound):
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

// log returns the end of the process's output.
func (p *process) log(most int) string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// processesOf returns the ids of all processes that have text in their command line or are descendants of such.
func processesOf(text string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parents := make(map[int]int)
	found := make(map[int]bool)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue
		}
		found[pid] = strings.Contains(string(line), text)
		parents[pid] = parentOf(pid)
	}
	for pid := range parents {
		for at := pid; at > 1; at = parents[at] {
			if found[at] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// parentOf returns the parent of a process, or 0.
func parentOf(pid int) int {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// The name is in parentheses and may contain any characters.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// signalAll sends a signal to all of the processes. One that has ended is no error.
func signalAll(t testing.TB, sig syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatalf("signal %v to process %d: %v", sig, pid, err)
		}
	}
}
