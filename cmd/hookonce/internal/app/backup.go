package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

// Backup writes a copy of the SQLite database of the settings to a new file, also while a gateway writes to it. The copy
// has all that was committed when Backup began. Either the whole file is there, and on the disk, or none is.
func Backup(ctx context.Context, settings *config.Settings, file string) error {
	path, ok := settings.SQLitePath()
	if !ok {
		return Errorf("the database is a PostgreSQL, and backup copies a SQLite file").
			Try("use pg_dump, or the backups of your server")
	}
	if err := checkSQLiteFile(path); err != nil {
		return err
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return existing(file, err)
	}
	copied, err := os.CreateTemp(filepath.Dir(file), ".hookonce-backup-*") // only its owner may read it
	if err != nil {
		return Errorf("writing the copy: %w", err).Try("name a file in a folder that you can write to")
	}
	defer os.Remove(copied.Name())
	defer copied.Close()
	if err := copySQLite(ctx, path, copied.Name()); err != nil {
		return Errorf("copying the database: %w", err).Try("make room for the copy, or name a file on another disk")
	}
	if err := copied.Sync(); err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	if err := os.Link(copied.Name(), file); err != nil { // it replaces no file
		return existing(file, err)
	}
	return syncFolder(filepath.Dir(file))
}

func existing(file string, err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s exists, and backup replaces no file", file)
	}
	return &Error{err, "name another file"}
}

// copySQLite copies the database at path into the empty file copied.
func copySQLite(ctx context.Context, path, copied string) error {
	db, err := sql.Open(sqliteDriver, (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", copied)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	// Commands that read refuse a file in another mode.
	if db, err = sql.Open(sqliteDriver, copied); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	return errors.Join(err, db.Close())
}

// syncFolder makes the name of a new file durable. Windows cannot, and does so by itself.
func syncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
