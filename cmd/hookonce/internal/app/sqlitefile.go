package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// The header of a SQLite file; see https://www.sqlite.org/fileformat2.html#the_database_header.
const (
	sqliteMagic      = "SQLite format 3\x00"
	sqliteModeOffset = 18 // the file format write version
	sqliteModeWAL    = 2
)

// checkSQLiteFile refuses a file that opening would change: one that is empty,
// and one that is not in the WAL mode, which every database of hookonce is in.
// A file that is not there is left to OpenStore.
func checkSQLiteFile(path string) error {
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
		return &Error{fmt.Errorf("%s is no SQLite database, or it is damaged or encrypted", path), "check the setting database"}
	case header[sqliteModeOffset] != sqliteModeWAL:
		return &Error{
			fmt.Errorf("the SQLite database %s is not in WAL mode: it is not one of hookonce, or was changed", path),
			"check the setting database; hookonce migrate up and serve set the mode",
		}
	}
	return nil
}
