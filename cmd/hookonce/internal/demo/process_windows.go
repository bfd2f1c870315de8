package demo

import (
	"os/exec"
	"syscall"
)

// isolate keeps Ctrl-C of the console from the process, because the demo ends it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// startBound starts cmd. Only Linux binds a child to its parent.
func startBound(cmd *exec.Cmd) error { return cmd.Start() }
