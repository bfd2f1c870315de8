package app

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks file for one process, or for all that share it: one byte of it
// far behind the process id, which others can then still read, as they could not
// in a range that is locked on Windows.
func lockFile(file *os.File, exclusive bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(file.Fd()), how, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}
