package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// spawner runs functions on one operating system thread that lives as long as the process: Linux
// binds a child to the thread that started it.
var spawner = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go spawn(calls)
	return calls
})

func spawn(calls <-chan func()) {
	runtime.LockOSThread()
	for call := range calls {
		call()
	}
}

// StartChild starts cmd. On Linux, the system kills it when this process ends for any reason.
func StartChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	dieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	return startChild(cmd)
}

// startChild starts cmd on a thread that ends only with this process, as dieWithParent needs it.
func startChild(cmd *exec.Cmd) error {
	done := make(chan error)
	spawner() <- func() { done <- cmd.Start() }
	return <-done
}

func aptGet(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return nil
}

// LockFile creates a file if necessary, and waits until no other process holds its lock. The returned function unlocks it.
func LockFile(path string) (unlock func(), err error) { return lockFile(path, lockExclusive) }

// lockFile creates a file if necessary and locks it as flock(2) does: how is lockExclusive or lockShared, with lockNow to fail
// where it would wait. The returned function unlocks it; the system does so when the process ends.
func lockFile(path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, how); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// waitGone waits until all of the processes have ended.
func waitGone(pids []int) error {
	return waitFor(pids, "lives", func(pid int) bool { return !alive(pid) })
}

// waitFor waits until is holds for each of the processes. The error says that a process still does what the text still
// names, as in "runs".
func waitFor(pids []int, still string, is func(pid int) bool) error {
	began := time.Now()
	for _, pid := range pids {
		for !is(pid) {
			if time.Since(began) > eventually.Bound {
				return fmt.Errorf("process %d still %s after %v", pid, still, eventually.Bound)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// signalAll sends a signal to each of the processes. A process that has ended is no error.
func signalAll(pids []int, signal syscall.Signal) error {
	var failed []error
	for _, pid := range pids {
		if err := kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = append(failed, fmt.Errorf("signal %v to process %d: %w", signal, pid, err))
		}
	}
	return errors.Join(failed...)
}
