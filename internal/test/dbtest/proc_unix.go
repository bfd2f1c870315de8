//go:build unix

package dbtest

import (
	"errors"
	"os"
	"syscall"
)

// Credential is a user for the processes of servers.
type Credential = syscall.Credential

const (
	lockExclusive = syscall.LOCK_EX
	lockShared    = syscall.LOCK_SH
	lockNow       = syscall.LOCK_NB

	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// ownGroup makes a process the leader of a group, as the user owner.
func ownGroup(owner *Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Setpgid: true}
}

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func kill(pid int, signal syscall.Signal) error { return syscall.Kill(pid, signal) }
