package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

// The names in allow_unsafe that permit a SQLite file on a shared file system, and in memory.
const (
	weaknessShared   = "shared_filesystem"
	weaknessVolatile = "volatile_filesystem"
)

// fileSystem is a kind of file system. The zero value is a local disk, as far as is known.
type fileSystem struct {
	name string
	is   place
}

// place is where a file system keeps a file.
type place int

const (
	placeDisk   place = iota
	placeShared       // another machine may serve it
	placeMemory       // gone after a restart
	placeLayer        // the container's own layer, which goes with the container
)

// weakness returns the weakness of a database there; nil: none.
func (f fileSystem) weakness() *driver.Weakness {
	switch f.is {
	case placeShared:
		return &driver.Weakness{
			Setting: weaknessShared, Value: f.name,
			Effect: "Two machines that use the file at once corrupt it.", Remedy: "Put it on a local disk.",
		}
	case placeMemory:
		return &driver.Weakness{
			Setting: weaknessVolatile, Value: f.name,
			Effect: "The file is in memory: commits do not survive a restart or a power cut.", Remedy: "Put it on a disk.",
		}
	}
	return nil
}

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

// realPath follows the links of a path, as SQLite does, also to a file that is not there yet.
func realPath(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real
	}
	if target, linkErr := os.Readlink(path); linkErr == nil && errors.Is(err, fs.ErrNotExist) {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return realPath(target)
	}
	return path
}

// checkFileSystem refuses a file system in memory, and one that other machines may share. SQLite's write-ahead log
// needs memory shared by all processes, so two machines would corrupt the file.
func checkFileSystem(path string, allowed []string) error {
	found, err := fileSystemOf(filepath.Dir(realPath(path)))
	if err != nil {
		return err
	}
	return judgeFileSystem(path, found, allowed)
}

func judgeFileSystem(path string, found fileSystem, allowed []string) error {
	w := found.weakness()
	if w == nil || slices.Contains(allowed, w.Setting) {
		return nil
	}
	text := "the database %s is on a file system that other machines may share (%s): two machines at once would corrupt it"
	if found.is == placeMemory {
		text = "the database %s is in memory (%s): commits do not survive a restart or a power cut"
	}
	return Errorf(text, path, found.name).
		Try("put it on a local disk, use PostgreSQL, or allow it by name in the settings: allow_unsafe: [" + w.Setting + "]")
}

// warnOfFileSystem logs that the settings allow the file system of a SQLite file, as the engine does for settings of
// the database.
func warnOfFileSystem(settings *config.Settings, log *slog.Logger) {
	path, isSQLite := settings.SQLitePath()
	if !isSQLite {
		return
	}
	found, err := fileSystemOf(filepath.Dir(realPath(path))) // opening the file returns the error, too
	if w := found.weakness(); err == nil && w != nil && slices.Contains(settings.AllowUnsafe, w.Setting) {
		log.Warn("the database may lose acknowledged events; the settings allow it", "setting", w.Setting,
			"value", w.Value, "effect", w.Effect, "remedy", w.Remedy)
	}
}

// inLayer adds the warning of a file in the container's own layer to a check of the durability.
func inLayer(c Check, found fileSystem) Check {
	if found.is == placeLayer {
		c.Seen = append(c.Seen, "the file is in the container's own layer ("+found.name+"): it goes with the container")
		if c.Status == StatusOK {
			c.Status, c.Remedy = StatusWarning, "mount a volume for the folder of the file"
		}
	}
	return c
}

// largeLog tells that the write-ahead log of a SQLite file is too large, and what to do; "" if it is not.
func largeLog(path string) (text, remedy string) {
	const most = 1e9
	log, err := os.Stat(realPath(path) + "-wal")
	if err != nil || log.Size() <= most {
		return "", ""
	}
	return fmt.Sprintf("the write-ahead log has %.1f GB: a reader keeps it from being copied into the file", float64(log.Size())/1e9),
		"end the program that keeps reading the file: fuser " + path + "-wal"
}

// warnOfLog adds largeLog to c.
func warnOfLog(c Check, path string) Check {
	if text, remedy := largeLog(path); text != "" && c.Status == StatusOK {
		c.Status, c.Remedy = StatusWarning, remedy
		c.Seen = append(c.Seen, text)
	}
	return c
}
