// Package rig holds the parts that the tests of several packages share: a SQLite store, its faults,
// waiting, and a log to read.
package rig

import (
	"log/slog"
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
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

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
