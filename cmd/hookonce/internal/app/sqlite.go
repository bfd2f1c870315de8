package app

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"

	// The driver of SQLite files. The library leaves this choice to the program.
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// sqliteDriver is the name that modernc.org/sqlite registers.
const sqliteDriver = "sqlite"

// The header of a SQLite file; see https://www.sqlite.org/fileformat2.html#the_database_header.
const (
	sqliteMagic      = "SQLite format 3\x00"
	sqliteModeOffset = 18 // the file format write version
	sqliteModeWAL    = 2
)

// checkSQLiteFile refuses a file that opening would change: an empty one, and one that is not in
// WAL mode, which every database of hookonce uses. OpenStore handles a missing file.
func checkSQLiteFile(path string) error {
	if err := refuseIrregular(path); err != nil {
		return err // opening a pipe would block
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &Error{fmt.Errorf("opening the database: %w", err), "make it readable and writable for this user"}
	}
	defer file.Close()
	header := make([]byte, sqliteModeOffset+1)
	n, err := io.ReadFull(file, header)
	switch {
	case errors.Is(err, io.EOF):
		return &Error{fmt.Errorf("the database %s is an empty file", path), "hookonce migrate up, or start serve"}
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("reading the database: %w", err)
	case !bytes.HasPrefix(header[:n], []byte(sqliteMagic)):
		return &Error{fmt.Errorf("%s is not a SQLite database, or it is damaged or encrypted", path), "check the setting database"}
	case header[sqliteModeOffset] != sqliteModeWAL:
		return &Error{
			fmt.Errorf("the SQLite database %s is not in WAL mode: it is not a database of hookonce, or was changed", path),
			"check the setting database; hookonce migrate up and serve set the mode",
		}
	}
	return nil
}

func openSQLite(_ context.Context, settings *config.Settings) (driver.Store, error) {
	path, _ := settings.SQLitePath()
	if err := refuseIrregular(path); err != nil {
		return nil, err
	}
	if err := checkFileSystem(path, settings.AllowUnsafe); err != nil {
		return nil, err
	}
	if err := refuseHardLinks(path); err != nil {
		return nil, err
	}
	store, err := hooksql.OpenSQLite(sqliteDriver, path)
	if err != nil {
		return nil, &Error{
			Err:    fmt.Errorf("opening the database %s: %w", path, err),
			Remedy: cmp.Or(lastingRemedy(err), "check that no other program keeps the file locked, and the setting database"),
		}
	}
	return store, nil
}

// createFile creates the file of a database, for this user only, because it holds request bodies.
// An existing file keeps its mode and its content.
func createFile(path string) error {
	if err := refuseIrregular(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &Error{
			Err:    fmt.Errorf("opening the database: %w", err),
			Remedy: "check the setting database; its folder must be there, and folder and file writable for this user",
		}
	}
	return file.Close()
}

// refuseIrregular refuses folders, pipes and devices as the file of a database. It follows symbolic
// links, as opening the database does. A missing file is fine.
func refuseIrregular(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil // opening the file reports the error
	}
	return &Error{
		Err:    fmt.Errorf("the database %s is not a regular file, but %s", path, kindOf(info.Mode())),
		Remedy: "check the setting database",
	}
}

// SQLiteVersion returns the version of the SQLite library in this program.
func SQLiteVersion(ctx context.Context) (version string, err error) {
	db, err := sql.Open(sqliteDriver, ":memory:")
	if err != nil {
		return "", fmt.Errorf("asking SQLite for its version: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&version); err != nil {
		return "", fmt.Errorf("asking SQLite for its version: %w", err)
	}
	return version, nil
}
