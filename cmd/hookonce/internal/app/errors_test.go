package app

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// A file that another program keeps locked is named with what to do.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	open := func() *sql.DB {
		db, err := sql.Open(sqliteDriver, path+"?_pragma=busy_timeout(0)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db
	}
	if _, err := open().ExecContext(t.Context(), `CREATE TABLE t (x)`); err != nil {
		t.Fatal(err)
	}
	tx, err := open().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open().ExecContext(t.Context(), `INSERT INTO t VALUES (1)`)
	if text := (&openError{path, err}).Error(); !strings.HasPrefix(text, "opening the database "+path+": database is locked (5)") {
		t.Errorf("the error of the file is %s", text)
	}
	if got := Remedy(err); !strings.HasPrefix(got, "end the program that keeps the file locked, or run the same command again") {
		t.Errorf("the remedy for %v is %q", err, got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}
