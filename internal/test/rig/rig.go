// Package rig holds the parts that the tests of several packages share: a SQLite store, its faults,
// waiting, and a log to read.
package rig

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// OpenSQLite opens a new SQLite store with the schema. It is closed at the end of the test.
func OpenSQLite(t testing.TB) *hooksql.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	MigratedSQLite(t, path)
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return store
}

// MigratedSQLite makes a migrated, empty database at path, where nothing may be yet. It copies one that is migrated once.
func MigratedSQLite(t testing.TB, path string) {
	t.Helper()
	content, err := migrated()
	if err != nil {
		t.Fatalf("rig: migrating a database: %v", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatalf("rig: making a database: %v", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatalf("rig: making a database: %v", err)
	}
}

// migrated returns the file of a migrated, empty database.
var migrated = sync.OnceValues(func() (file []byte, err error) {
	folder, err := os.MkdirTemp("", "hookonce-migrated-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "hookonce.db")
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		return nil, err
	}
	_, err = hookmigrate.Up(context.Background(), store)
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// WaitFor polls until state is true.
func WaitFor(t testing.TB, state func() bool) {
	t.Helper()
	eventually.True(t, "the state is reached", state)
}

// Log is a log for tests to read. Its methods may be called concurrently.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Write adds a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// Lines returns the lines so far.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Text returns the lines so far, joined.
func (l *Log) Text() string { return strings.Join(l.Lines(), "") }

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// WantOne fails the test unless want occurs once in the log.
func (l *Log) WantOne(t testing.TB, want string) {
	t.Helper()
	if n := strings.Count(l.Text(), want); n != 1 {
		t.Errorf("%d lines with %q, want one, in:\n%s", n, want, l.Text())
	}
}
