package app

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// heldByte is the byte of a database that its gateway locks. No file is so long, and SQLite locks other bytes. The lock
// belongs to the open file, like that of the lock file: SQLite, which locks for the whole process, does not drop it.
const heldByte = 1 << 62

func heldLock() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: heldByte, Len: 1}
}

// holdFile locks the open database itself: this lock outlasts the removal of the lock file. A kernel without such locks,
// as gVisor, leaves it to the lock file.
func holdFile(file *os.File) error {
	err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, heldLock())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errLocked
	}
	return nil
}

// isHeld reports whether a gateway holds the database at path. It takes no lock. It leaves the file open until the process
// ends: closing it would drop the locks of SQLite in this process.
func isHeld(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	lock := heldLock()
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, lock) == nil && lock.Type != unix.F_UNLCK
}
