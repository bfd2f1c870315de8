package app

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks file exclusively or, if not exclusive, shared. It locks one byte far beyond the
// process id, because other processes cannot read a locked range on Windows.
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
