//go:build unix

package app

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/hookmigrate"
)

// Another user with access to the folder of the database can put anything at the name of the lock
// file, and of SQLite's own files. The gateway changes no file that it did not make.
func TestForeignLockFilesAreRefused(t *testing.T) {
	t.Parallel()
	const content = "1234567890\nthe file of another program\n"
	for name, c := range map[string]struct {
		put   func(victim, lock string) error
		fault string
	}{
		"symbolic link":          {os.Symlink, "a symbolic link"},
		"hard link":              {os.Link, "a second name"},
		"dangling symbolic link": {func(victim, lock string) error { return os.Symlink(victim+"-new", lock) }, "a symbolic link"},
		"file of another program": {
			func(_, lock string) error { return os.WriteFile(lock, []byte(content), 0o600) },
			"something else than a process id and an address",
		},
		"folder": {func(_, lock string) error { return os.Mkdir(lock, 0o700) }, "a folder"},
		"pipe":   {func(_, lock string) error { return syscall.Mkfifo(lock, 0o600) }, "pipe"},
		"device": {func(_, lock string) error { return os.Symlink("/dev/null", lock) }, "a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, victim := filepath.Join(dir, "test.db"), filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.put(victim, path+lockSuffix); err != nil {
				t.Fatal(err)
			}
			wantHint(t, serve(t, settings(t, "database: sqlite:"+path)).wait(t), c.fault, "move it away")
			if _, _, err := whoServes(path); err == nil && name != "file of another program" {
				t.Error("doctor takes it for a lock file")
			}
			for _, file := range []string{victim, path + lockSuffix} {
				if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
					continue
				}
				if got, err := os.ReadFile(file); err != nil || string(got) != content {
					t.Errorf("%s holds %q now, %v", filepath.Base(file), got, err)
				}
			}
			if _, err := os.Lstat(victim + "-new"); err == nil {
				t.Error("a file was made behind the link")
			}
		})
	}
}

// SQLite follows no link at the names of its own files, for a new database and for an old one.
func TestForeignFilesBesideTheDatabaseAreNotChanged(t *testing.T) {
	t.Parallel()
	const content = "the file of another program\n"
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		for _, isNew := range []bool{true, false} {
			dir := t.TempDir()
			path, victim := filepath.Join(dir, "test.db"), filepath.Join(dir, "victim")
			opened := settings(t, "database: sqlite:"+path)
			if err := os.WriteFile(victim, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if !isNew {
				store, err := CreateStore(t.Context(), opened)
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(victim, path+suffix); err != nil {
				t.Fatal(err)
			}
			store, err := CreateStore(t.Context(), opened)
			if err == nil { // SQLite removes the link where it needs no such file
				if _, err := hookmigrate.Up(t.Context(), store); err != nil {
					t.Logf("%s, new %t: %v", suffix, isNew, err)
				}
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
			if got, err := os.ReadFile(victim); err != nil || string(got) != content {
				t.Errorf("%s, new %t: the linked file holds %q now, %v", suffix, isNew, got, err)
			}
		}
	}
}

func TestDatabaseIsARegularFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, "/dev/null"} {
		wantHint(t, serve(t, settings(t, "database: sqlite:"+path)).wait(t), "not a regular file", "the setting database")
		_, err := OpenStore(t.Context(), settings(t, "database: sqlite:"+path))
		wantHint(t, err, "not a regular file", "the setting database")
		if checkSQLiteFile(path) == nil {
			t.Errorf("doctor accepts %s", path)
		}
	}
}
