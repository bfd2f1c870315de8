package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// weaknessFileSystem is the name in allow_unsafe that permits a SQLite file on a shared file
// system.
const weaknessFileSystem = "shared_filesystem"

// withRemedy adds the remedy to an UnsafeError of the engine. It returns other errors as they are.
func withRemedy(err error) error {
	if unsafe, ok := errors.AsType[*hookonce.UnsafeError](err); ok {
		return &Error{Err: unsafe, Remedy: weaknessRemedy(unsafe.Weaknesses)}
	}
	return err
}

func weaknessRemedy(refused []driver.Weakness) string {
	names := make([]string, len(refused))
	for i, w := range refused {
		names[i] = w.Setting
	}
	return fmt.Sprintf("change it, or allow the loss by name in the settings: allow_unsafe: [%s]", strings.Join(names, ", "))
}

// checkFileSystem refuses a file system that other machines may share. SQLite's write-ahead log
// needs memory shared by all processes, so two machines would corrupt the file.
func checkFileSystem(path string, allowed []string) error {
	name, err := sharedFileSystem(filepath.Dir(path))
	if err != nil {
		return err
	}
	return judgeFileSystem(path, name, allowed)
}

// judgeFileSystem is checkFileSystem for a file system with this name; "" means a local one.
func judgeFileSystem(path, name string, allowed []string) error {
	if name == "" || slices.Contains(allowed, weaknessFileSystem) {
		return nil
	}
	return &Error{
		Err: fmt.Errorf("the database %s is on a file system that other machines may share (%s): two machines at once would corrupt it", path, name),
		Remedy: "put it on a local disk, use PostgreSQL, or allow it by name in the settings: allow_unsafe: [" +
			weaknessFileSystem + "]",
	}
}
