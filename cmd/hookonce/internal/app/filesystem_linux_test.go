package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

// mount mounts a file system of a kind on a new folder until the test ends.
func mount(t *testing.T, kind string, options ...string) (folder string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: it needs root, to mount")
	}
	folder = filepath.Join(t.TempDir(), kind)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(kind, folder, kind, 0, strings.Join(options, ",")); err != nil {
		t.Skipf("NOT RUN: mounting %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// inFolder makes a database in a folder, and returns settings for it.
func inFolder(t *testing.T, folder string) string {
	t.Helper()
	text := "database: sqlite:" + filepath.Join(folder, "hookonce.db") + "\n"
	store, err := CreateStore(t.Context(), settings(t, text+"allow_unsafe: [volatile_filesystem]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDatabaseInMemory has a SQLite file on a tmpfs and on a ramfs. A start refuses it, unless it is allowed by name.
func TestDatabaseInMemory(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"tmpfs", "ramfs"} {
		folder := mount(t, kind)
		text := inFolder(t, folder)
		_, err := OpenStore(t.Context(), settings(t, text))
		wantHint(t, err, "hookonce.db is in memory ("+kind+")", "allow_unsafe: [volatile_filesystem]")
		for file, open := range map[string]func(context.Context, *config.Settings) (driver.Store, error){"hookonce.db": OpenStore, "new.db": CreateStore} {
			link := filepath.Join(t.TempDir(), "linked.db")
			if err := os.Symlink(filepath.Join(folder, file), link); err != nil {
				t.Fatal(err)
			}
			_, err := open(t.Context(), settings(t, "database: sqlite:"+link+"\n"))
			wantHint(t, err, "linked.db is in memory ("+kind+")", "allow_unsafe: [volatile_filesystem]")
		}
		_, checks := statuses(t, settings(t, text+"allow_unsafe: [volatile_filesystem]"))
		seen := strings.Join(check(t, checks, "durability").Seen, "\n")
		if got := check(t, checks, "durability"); got.Status != StatusWarning || !strings.Contains(seen, "do not survive a restart") {
			t.Errorf("%s: %+v", kind, got)
		}
		r := serve(t, settings(t, text+"allow_unsafe: [volatile_filesystem]"))
		if line := r.await(t, "effect"); line["setting"] != "volatile_filesystem" || line["value"] != kind {
			t.Errorf("%s: a start logs %v", kind, line)
		}
		r.cancel()
		if err := r.wait(t); err != nil {
			t.Error(err)
		}
	}
}

// TestDatabaseInTheLayerOfAContainer has a SQLite file on an overlay, as in a container without a volume.
func TestDatabaseInTheLayerOfAContainer(t *testing.T) {
	t.Parallel()
	layers := mount(t, "tmpfs")
	for _, name := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(layers, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folder := mount(t, "overlay", "lowerdir="+layers+"/lower", "upperdir="+layers+"/upper", "workdir="+layers+"/work")
	_, checks := statuses(t, settings(t, inFolder(t, folder)))
	got := check(t, checks, "durability")
	if got.Status != StatusWarning || !strings.Contains(strings.Join(got.Seen, "\n"), "the container's own layer") || !strings.Contains(got.Remedy, "volume") {
		t.Errorf("durability: %+v", got)
	}
}

// TestDoctorOfAFileThatCannotBeWritten has a SQLite file on a file system that became read-only.
func TestDoctorOfAFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	folder := mount(t, "tmpfs")
	text := inFolder(t, folder) + "allow_unsafe: [volatile_filesystem]"
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, checks := statuses(t, settings(t, text))
	for _, c := range checks {
		if c.Status == StatusFailure {
			return
		}
	}
	t.Errorf("no check fails: %+v", checks)
}
