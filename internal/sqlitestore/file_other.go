//go:build !linux

package sqlitestore

import "os"

// file identifies a file as long as it is open or has a name.
type file struct{ info os.FileInfo }

// lookAt returns the file at a path, and its size in bytes.
func lookAt(path string) (file, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, 0, err
	}
	return file{info}, info.Size(), nil
}

func (f file) is(other file) bool { return os.SameFile(f.info, other.info) }
