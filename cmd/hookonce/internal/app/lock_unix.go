//go:build unix

package app

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// openNoFollow makes opening a symbolic link an error, and opening a pipe return at once.
const openNoFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// judgeLock returns the reason why the open file is not a lock file of the database at path, or "".
// A file with a second name may be another program's file. One of another user may be held by that
// user; root's, and those of the database's owner, are allowed.
func judgeLock(info fs.FileInfo, path string) string {
	if !info.Mode().IsRegular() {
		return "it is not a regular file"
	}
	lock, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	if lock.Nlink > 1 {
		return "it has a second name (a hard link)"
	}
	owners := []uint32{0, uint32(os.Geteuid())}
	if db, err := os.Stat(path); err == nil {
		if stat, ok := db.Sys().(*syscall.Stat_t); ok {
			owners = append(owners, stat.Uid)
		}
	}
	if !slices.Contains(owners, lock.Uid) {
		return "it belongs to another user"
	}
	return ""
}

// isPrivate reports whether a file or folder belongs to this user, and no other user can read or
// change it.
func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == uint32(os.Geteuid()) && info.Mode().Perm()&0o077 == 0
}

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
