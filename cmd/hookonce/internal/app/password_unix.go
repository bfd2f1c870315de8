//go:build unix

package app

import (
	"os/exec"
	"syscall"
)

// endsWhole makes a command that is ended take along the processes that it started.
func endsWhole(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
