package demo

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// isolate keeps Ctrl-C of the terminal from the process, because the demo ends it, and makes the system
// kill the process when this one ends for any reason.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// starter runs functions on one thread that lives as long as this process: Linux binds a child to the
// thread that started it.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// startBound starts cmd, bound to this process.
func startBound(cmd *exec.Cmd) error {
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}
