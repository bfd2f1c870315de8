package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOpenStoreMakesNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := settings(t, "database: sqlite:"+path)
	_, err := OpenStore(t.Context(), s)
	wantHint(t, err, path, "hookonce migrate up")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("the file: %v", err)
	}
	store, err := CreateStore(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, err = OpenStore(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckSchema(t.Context(), store); err == nil {
		t.Error("opening a database migrated it")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// An existing file keeps the mode that its owner chose.
func TestCreateStoreKeepsTheMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	store, err := CreateStore(t.Context(), settings(t, "database: sqlite:"+path))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
