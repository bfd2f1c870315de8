// Package settingfile reads the files that settings name: secrets, certificates, credentials. Such a path may lead to a
// pipe, to a device without an end, or to a disk that no longer answers.
package settingfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"
)

// Timeout bounds one reading.
const Timeout = 10 * time.Second

// File is a file as it was read.
type File struct {
	Data []byte

	mode fs.FileMode
}

// Read reads a regular file of at most limit bytes, within Timeout. Its error does not hold path.
func Read(path string, limit int64) (*File, error) {
	return within(path, func() (*File, error) {
		// Opening a pipe would block, and opening a device may change it.
		if info, err := os.Stat(path); err != nil {
			return nil, err
		} else if !info.Mode().IsRegular() {
			return nil, errors.New("it is not a regular file")
		}
		return read(path, limit)
	})
}

// ReadAny is Read for a file of any kind: a shell may hand over settings through a pipe.
func ReadAny(path string, limit int64) (*File, error) {
	return within(path, func() (*File, error) { return read(path, limit) })
}

func read(path string, limit int64) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return &File{data, info.Mode()}, err
}

// readings holds, by path, a channel that is closed when a reading has ended. A reading cannot be interrupted and holds a
// thread, so no path has two.
var readings sync.Map

func within(path string, read func() (*File, error)) (*File, error) {
	late := time.After(Timeout)
	done := make(chan struct{})
	for {
		other, busy := readings.LoadOrStore(path, done)
		if !busy {
			break
		}
		select {
		case <-other.(chan struct{}):
		case <-late:
			return nil, errLate
		}
	}
	var file *File
	var err error
	go func() {
		defer close(done)
		defer readings.Delete(path)
		file, err = read()
	}()
	select {
	case <-done:
	case <-late:
		return nil, errLate
	}
	if err != nil {
		return nil, bare(err)
	}
	return file, nil
}

var errLate = fmt.Errorf("it cannot be read within %s; its disk may be away, or nothing writes to the pipe", Timeout)

// bare returns err without the path, which may be the value of a variable.
func bare(err error) error {
	if fault, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Err
	}
	return err
}

// Warning tells of the rights that others have on f and should not have, and how to take them away. name is what a user
// calls f. Others may read f unless it is secret. It is "" if all is well.
func (f *File) Warning(name string, secret bool) string {
	verb, remedy := f.shared(secret)
	if verb == "" {
		return ""
	}
	return fmt.Sprintf("every user of this machine can %s %s; forbid that with %s", verb, name, remedy)
}

// shared returns the rights, as "read and change", and the command that takes them away.
func (f *File) shared(secret bool) (verb, remedy string) {
	if runtime.GOOS == "windows" { // it has no such rights, and os makes them up
		return "", ""
	}
	switch readable, writable := secret && f.mode&0o004 != 0, f.mode&0o002 != 0; {
	case readable && writable:
		return "read and change", "chmod o-rw"
	case readable:
		return "read", "chmod o-r"
	case writable:
		return "change", "chmod o-w"
	}
	return "", ""
}
