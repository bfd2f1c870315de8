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
	"path/filepath"
	"syscall"

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

// Opening such a file would change it: every database of hookonce is in WAL mode.
var (
	errEmpty  = errors.New("it is an empty file")
	errNotWAL = errors.New("it is not in WAL mode: it is not a database of hookonce, or was changed")
)

// checkSQLiteFile refuses a missing file, one that is not of SQLite, and one that opening would change.
// The error for the latter matches errEmpty or errNotWAL.
func checkSQLiteFile(path string) error {
	if err := refuseIrregular(path); err != nil {
		return err // opening a pipe would block
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return missingFile(path)
	}
	if err != nil {
		return notOpened(err, "make it readable and writable for this user")
	}
	defer file.Close()
	header := make([]byte, sqliteModeOffset+1)
	n, err := io.ReadFull(file, header)
	switch {
	case errors.Is(err, io.EOF):
		return Errorf("the database %s cannot be used: %w", path, errEmpty).Try("hookonce migrate up, or start serve")
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("reading the database: %w", err)
	case !bytes.HasPrefix(header[:n], []byte(sqliteMagic)):
		return Errorf("%s is not a SQLite database, or it is damaged or encrypted", path).Try(otherFile)
	case header[sqliteModeOffset] != sqliteModeWAL:
		return Errorf("the SQLite database %s cannot be used: %w", path, errNotWAL).
			Try("check the setting database; hookonce migrate up and serve set the mode")
	}
	return nil
}

const otherFile = "name another file in the setting database, or by --database"

// missingFile is the error for a file that does not exist.
func missingFile(path string) error {
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		return Errorf("the folder %s of the database does not exist", folder).
			Try(firstStart(folder, "make it, or "+otherFile))
	}
	return Errorf("the database %s does not exist", path).
		Try(firstStart(folder, "hookonce migrate up, which makes it; or "+otherFile))
}

// firstStart returns the remedy for a missing file in folder. That of the package's service belongs to its user, so a
// command of another user must not make it.
func firstStart(folder, remedy string) string {
	if real, err := filepath.Abs(folder); err == nil && real == InstalledFolder {
		return "systemctl start hookonce, which makes it"
	}
	return remedy
}

// notOpened is the error for a file that cannot be opened. No right helps a path that leads through
// another file.
func notOpened(err error, remedy string) error {
	if errors.Is(err, syscall.ENOTDIR) {
		remedy = otherFile
	}
	return Errorf("opening the database: %w", err).Try(remedy)
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
			Err:    &openError{path, err},
			Remedy: cmp.Or(Remedy(err), "check that no other program keeps the file locked, and the setting database"),
		}
	}
	return store, nil
}

// openError is the error of opening a file. Its text leaves out the wrappers of the library.
type openError struct {
	path string
	err  error
}

// Error implements error.
func (e *openError) Error() string {
	cause := e.err
	if coded, is := errors.AsType[interface {
		error
		Code() int
	}](cause); is {
		cause = coded
	}
	return fmt.Sprintf("opening the database %s: %v", e.path, cause)
}

// Unwrap returns the error of the library.
func (e *openError) Unwrap() error { return e.err }

// createFile creates the file of a database, for this user only, because it holds request bodies.
// An existing file keeps its mode and its content.
func createFile(path string) error {
	if err := refuseIrregular(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return missingFile(path)
	}
	if err != nil {
		return notOpened(err, "make the folder and the file writable for this user, or "+otherFile)
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
	return Errorf("the database %s is not a regular file, but %s", path, kindOf(info.Mode())).Try(otherFile)
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
