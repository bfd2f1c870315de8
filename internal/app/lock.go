package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// errLocked is what lockFile returns where another process holds the lock.
var errLocked = errors.New("locked by another process")

// instanceLock makes sure that one gateway at most serves a SQLite file. The
// kernel holds it for the open file, so it ends with the process however that
// ends, and a file left behind by a killed one locks nobody out.
type instanceLock struct{ file *os.File }

// lockInstance takes the lock of the database at path: the file path + ".lock",
// which also tells the process id of the holder.
func lockInstance(path string) (*instanceLock, error) {
	name := path + ".lock"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &Error{
			Err:    fmt.Errorf("opening the lock file of the database: %w", err),
			Remedy: "make its folder writable for this user",
		}
	}
	if err := lockFile(file); err != nil {
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
