//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// isolate keeps Ctrl-C of the terminal from the process, because the demo ends it.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// startBound starts cmd. Only Linux binds a child to its parent.
func startBound(cmd *exec.Cmd) error { return cmd.Start() }
