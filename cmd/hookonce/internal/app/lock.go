package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// errLocked is the error of lockFile if another process holds the lock.
var errLocked = errors.New("locked by another process")

const lockSuffix = ".lock"

// instanceLock ensures that at most one gateway serves a SQLite file. The kernel holds the lock for
// the open file, so it ends with the process in any case; the file of a killed process blocks no
// gateway.
type instanceLock struct {
	file     *os.File
	database *os.File // the SQLite file itself, held on systems that can; otherwise nil
}

// lockInstance takes the lock of the database at path: the file path + ".lock", which also holds
// the process id.
func lockInstance(path string) (*instanceLock, error) {
	name := path + lockSuffix
	file, err := openLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := checkContent(file, name); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := lockPatiently(func() error { return lockFile(file, true) }); err != nil {
		defer file.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		return nil, taken(holder(file), path)
	}
	lock := &instanceLock{file: file}
	// The process id is for people only: failing to write it does not prevent serving.
	if err := file.Truncate(0); err == nil {
		_ = lock.write("")
	}
	return lock, nil
}

// taken is the error for a database that another gateway serves. who is the result of whoServes.
func taken(who, path string) error {
	what := "the lock " + path + lockSuffix
	if who == withoutLock {
		what = "the file itself"
	}
	return Errorf("another gateway%s serves the database %s: it holds %s", who, path, what).
		Try("stop it, or give this gateway its own database; several gateways can share one PostgreSQL database")
}

// write writes the process id and, unless it is "", the address of the admin listener. The file
// already holds the former when the latter comes, so readers see a part of the new content at most.
func (l *instanceLock) write(admin string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if admin != "" {
		text += admin + "\n"
	}
	_, err := l.file.WriteAt([]byte(text), 0)
	return err
}

// openLock opens the lock file of the database at path. It follows no link and truncates nothing:
// another user with access to the folder could otherwise make the gateway destroy any file of its
// user.
func openLock(path string, flags int) (*os.File, error) {
	name := path + lockSuffix
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, foreignLock(name, "it is not a regular file, but "+kindOf(info.Mode()))
	}
	file, err := os.OpenFile(name, flags|openNoFollow, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, Errorf("opening the lock file of the database: %w", err).
			Try("make its folder writable for this user, and the file readable and writable")
	}
	// The name may lead to another file by now; the open file is the one that counts.
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the lock file of the database: %w", err), file.Close())
	}
	if fault := judgeLock(info, path); fault != "" {
		return nil, errors.Join(foreignLock(name, fault), file.Close())
	}
	return file, nil
}

func foreignLock(name, fault string) error {
	return Errorf("%s is not a lock file of hookonce: %s", name, fault).
		Try("find out who put it there, and move it away; the gateway makes its own")
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsDir():
		return "a folder"
	default:
		return "a device, pipe or socket"
	}
}

// maxLock is the size of the longest lock file, in bytes.
const maxLock = 128

// checkContent refuses a file with other content than parseLock reads: lockInstance would replace it.
func checkContent(file *os.File, name string) error {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxLock+1))
	if err != nil {
		return fmt.Errorf("reading the lock file of the database: %w", err)
	}
	if len(text) == 0 {
		return nil
	}
	if _, _, ok := parseLock(string(text)); !ok || len(text) > maxLock {
		return foreignLock(name, "it holds something else than a process id and an address")
	}
	return nil
}

// lockPatiently calls lock again if it fails with errLocked, because whoServes holds the lock for a moment, and so does a
// program that is being started.
func lockPatiently(lock func() error) error {
	const tries, pause = 5, 20 * time.Millisecond
	for try := 1; ; try++ {
		err := lock()
		if !errors.Is(err, errLocked) || try == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// withoutLock is the result of whoServes for a gateway whose lock file somebody removed.
const withoutLock = " without a lock file"

// whoServes reports whether a gateway holds the lock of the database at path, or the database itself. It changes nothing,
// but may leave a descriptor of the database open until the process ends; see isHeld.
func whoServes(path string) (who string, serves bool, err error) {
	who, serves, err = whoLocks(path)
	if err == nil && !serves && isHeld(path) {
		return withoutLock, true, nil
	}
	return who, serves, err
}

func whoLocks(path string) (who string, serves bool, err error) {
	file, err := openLock(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer file.Close() // releases the lock, too
	err = lockFile(file, false)
	if errors.Is(err, errLocked) {
		return holder(file), true, nil
	}
	return "", false, err
}

// holder returns " (process N)", or "" if the file holds no process id.
func holder(file *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxLock))
	if err != nil {
		return ""
	}
	pid, _, ok := parseLock(string(text))
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// release releases the lock. The file stays: removing it would let a third process lock a new file
// of that name while a second process waits for this one.
func (l *instanceLock) release() error {
	err := l.file.Close()
	if l.database != nil {
		err = errors.Join(err, l.database.Close())
	}
	return err
}

// lockDatabase takes the lock of the SQLite file at path, which it makes if it is not there, and holds the file itself. It
// must be released after SQLite has closed the file: closing it drops the locks of the process.
func lockDatabase(path string) (*instanceLock, error) {
	if err := createFile(path); err != nil {
		return nil, err
	}
	// Every name of the file must lead to the same lock.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	if err := refuseHardLinks(real); err != nil { // holding the file would find the other gateway, and not say why
		return nil, err
	}
	file, err := os.OpenFile(real, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	lock, err := lockOpened(file, real)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	lock.database = file
	return lock, nil
}

func lockOpened(file *os.File, path string) (*instanceLock, error) {
	if err := lockPatiently(func() error { return holdFile(file) }); err != nil {
		who, _, unknown := whoServes(path) // err is errLocked
		return nil, errors.Join(unknown, taken(who, path))
	}
	return lockInstance(path)
}
