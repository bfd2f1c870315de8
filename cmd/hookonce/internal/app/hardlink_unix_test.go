//go:build unix

package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileWithTwoNamesIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, second := filepath.Join(dir, "test.db"), filepath.Join(dir, "second.db")
	r := serve(t, settings(t, "database: sqlite:"+path))
	r.await(t, "admin")
	if err := os.Link(path, second); err != nil {
		t.Fatal(err)
	}
	wantHint(t, serve(t, settings(t, "database: sqlite:"+second)).wait(t), "2 names (hard links)", "remove the other names")
	// A command beside the gateway would use a second log, too.
	_, err := OpenStore(t.Context(), settings(t, "database: sqlite:"+second))
	wantHint(t, err, second, "remove the other names")
	if _, err := os.Stat(second + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the log of the second name: %v", err)
	}

	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(t.Context(), settings(t, "database: sqlite:"+path))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
