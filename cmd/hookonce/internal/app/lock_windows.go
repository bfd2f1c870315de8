package app

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// openNoFollow is 0: Windows has no such flag. judgeLock finds a link that was made after openLock
// had looked.
const openNoFollow = 0

// judgeLock returns the reason why the open file is not a lock file of the database at path, or "".
func judgeLock(info fs.FileInfo, path string) string {
	named, err := os.Lstat(path + lockSuffix)
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(named, info) {
		return "it is not a regular file"
	}
	return ""
}

// isPrivate returns true: the folder of a file decides on Windows, and that of temporary files
// belongs to the user.
func isPrivate(fs.FileInfo) bool { return true }

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
