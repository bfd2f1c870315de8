//go:build unix

package probe

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, which ends with it when it is cancelled.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
