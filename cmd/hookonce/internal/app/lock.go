package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

// errLocked is what lockFile returns where another process holds the lock.
var errLocked = errors.New("locked by another process")

const lockSuffix = ".lock"

// instanceLock makes sure that one gateway at most serves a SQLite file. The
// kernel holds it for the open file, so it ends with the process however that
// ends, and a file left behind by a killed one locks nobody out.
type instanceLock struct{ file *os.File }

// lockInstance takes the lock of the database at path: the file path + ".lock",
// which also tells the process id of the holder.
func lockInstance(path string) (*instanceLock, error) {
	name := path + lockSuffix
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &Error{
			Err:    fmt.Errorf("opening the lock file of the database: %w", err),
			Remedy: "make its folder writable for this user",
		}
	}
	if err := lockPatiently(file); err != nil {
		defer file.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		return nil, &Error{
			Err:    fmt.Errorf("another gateway%s serves the database %s: it holds the lock %s", holder(file), path, name),
			Remedy: "stop it, or give this one a database of its own; several gateways can share one PostgreSQL",
		}
	}
	// The process id is for people only: that it cannot be written is no
	// reason not to serve.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &instanceLock{file}, nil
}

// lockPatiently is lockFile, which gives those that only look at the lock the
// moment that they need.
func lockPatiently(file *os.File) error {
	const tries, pause = 5, 20 * time.Millisecond
	for try := 1; ; try++ {
		err := lockFile(file, true)
		if !errors.Is(err, errLocked) || try == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// whoServes tells whether a gateway holds the lock of the database at path, and
// changes nothing.
func whoServes(path string) (who string, serves bool, err error) {
	file, err := os.Open(path + lockSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("opening the lock file of the database: %w", err)
	}
	defer file.Close() // and with it the lock
	err = lockFile(file, false)
	if errors.Is(err, errLocked) {
		return holder(file), true, nil
	}
	return "", false, err
}

// holder returns " (process N)", or "" where the file does not tell.
func holder(file *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// release gives the lock up. The file stays: removing it would let a third
// process lock a new file of that name while a second one waits on this one.
func (l *instanceLock) release() error { return l.file.Close() }

// lockDatabase takes the lock of a SQLite file, and returns what gives it up.
func lockDatabase(settings *config.Settings) (release func() error, err error) {
	path, ok := settings.SQLitePath()
	if !ok {
		return func() error { return nil }, nil
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	// Every name of the file must lead to the same lock.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	lock, err := lockInstance(real)
	if err != nil {
		return nil, err
	}
	return lock.release, nil
}
