package app

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOneGatewayForEachSQLiteFileByEachName starts a second gateway by other names of the first one's file, with and without
// the lock file.
func TestOneGatewayForEachSQLiteFileByEachName(t *testing.T) {
	t.Parallel()
	folder, there := t.TempDir(), t.TempDir()
	path, hard := filepath.Join(folder, "test.db"), filepath.Join(there, "hard.db")
	first := serve(t, settings(t, "database: sqlite:"+path))
	first.await(t, "admin")
	if err := os.Link(path, hard); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, hard} { // each name would have a log of its own
		wantHint(t, serve(t, settings(t, "database: sqlite:"+name)).wait(t), "2 names (hard links)", "remove the other names")
	}
	if err := os.Remove(hard); err != nil {
		t.Fatal(err)
	}
	names := []string{path}
	if os.Geteuid() == 0 { // only root may mount
		mounted := filepath.Join(there, "mounted")
		if err := os.Mkdir(mounted, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(folder, mounted, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
		names = append(names, filepath.Join(mounted, "test.db"))
	}
	for _, removed := range []bool{false, true} {
		if removed {
			if err := os.Remove(path + lockSuffix); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			wantHint(t, serve(t, settings(t, "database: sqlite:"+name)).wait(t), "another gateway", "PostgreSQL")
		}
	}
	first.cancel()
	if err := first.wait(t); err != nil {
		t.Fatal(err)
	}
	second := serve(t, settings(t, "database: sqlite:"+path))
	second.await(t, "admin")
	second.cancel()
	if err := second.wait(t); err != nil {
		t.Fatal(err)
	}
}
