//go:build unix

package app

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks file exclusively or, if not exclusive, shared.
func lockFile(file *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
