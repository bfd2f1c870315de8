// Package rig holds the parts that the tests of several packages share: a SQLite store, its faults, and
// a log to read.
package rig

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
)

// OpenSQLite returns a new SQLite store with the schema. It is closed at the end of the test. Building the schema
// costs four times as much as the rest, so each store gets a copy of a file. The store has
// pools as hooksql.OpenSQLite makes them, which open their connections when they are needed.
func OpenSQLite(t testing.TB) *hooksql.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	MigratedSQLite(t, path)
	writerDSN, readerDSN, err := hooksql.SQLiteDSN(path)
	if err != nil {
		t.Fatal(err)
	}
	writer, reader := openPool(t, writerDSN), openPool(t, readerDSN)
	writer.SetMaxOpenConns(1)
	reader.SetMaxOpenConns(4 + driver.TextSearches)
	store := hooksql.NewSQLite(writer, reader)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return store
}

// MigratedSQLite makes a migrated, empty database at path, where nothing may be yet. It copies a file that is
// made once.
func MigratedSQLite(t testing.TB, path string) {
	t.Helper()
	content, err := emptySQLite()
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

func openPool(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("closing a pool: %v", err)
		}
	})
	return pool
}

// emptySQLite returns a file with the schema and nothing else.
var emptySQLite = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "hookonce-rig-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "hookonce.db")
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		return nil, err
	}
	_, err = hookmigrate.Up(context.Background(), store)
	if err := errors.Join(err, store.Close()); err != nil { // the end copies the log into the file
		return nil, err
	}
	return os.ReadFile(path)
})

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
