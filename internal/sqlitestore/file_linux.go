package sqlitestore

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// file identifies a file as long as it is open or has a name.
type file struct {
	major, minor uint32 // of its device
	inode        uint64
}

// lookAt returns the file at a path, and its size in bytes. It does not ask for the times of the file: since Linux 6.13,
// a write after somebody read them gets a time of its own, which the next fsync must write to the disk too. For a lone
// claim that was a fifth of its time. See https://docs.kernel.org/filesystems/multigrain-ts.html.
func lookAt(path string) (file, int64, error) {
	var s unix.Statx_t
	err := uninterrupted(func() error { return unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE, &s) })
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // a sandbox that does not know the call
		return lookAtAll(path)
	}
	if err != nil {
		return file{}, 0, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return file{s.Dev_major, s.Dev_minor, s.Ino}, int64(s.Size), nil
}

func lookAtAll(path string) (file, int64, error) {
	var s unix.Stat_t
	if err := uninterrupted(func() error { return unix.Stat(path, &s) }); err != nil {
		return file{}, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	device := uint64(s.Dev) //nolint:unconvert // on some processors it has 32 bits
	return file{unix.Major(device), unix.Minor(device), s.Ino}, s.Size, nil
}

// uninterrupted repeats a call of the system that a signal ended, as the runtime sends them.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (f file) is(other file) bool { return f == other }
