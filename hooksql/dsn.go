package hooksql

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// The settings of a connection, in the syntax of modernc.org/sqlite.
const (
	// writerBusyTimeout is short because nothing can interrupt SQLite's wait. The store retries
	// until its caller's context ends.
	writerBusyTimeout = 100 // milliseconds
	readerBusyTimeout = 5000
	// checkpointPages is four times SQLite's default. Event keys are random, so a changed page is
	// soon changed again; with a longer log it is copied into the database once instead of often.
	// The value bounds the log at about 16 MiB.
	checkpointPages = 4000
	// writerCacheKiB is enough for the upper levels of the indexes on random keys.
	writerCacheKiB = 64 << 10
	// logSizeLimit is the size, in bytes, that the log is cut back to after it had to grow.
	logSizeLimit = 64 << 20
)

// SQLiteDSN returns the data source names of the writer and the readers of the database file at
// path, for the driver modernc.org/sqlite. The writer's pool must have one connection. SQLite
// creates the file if it does not exist, but not its folder.
//
// The path is a plain file path and may hold any character. SQLiteDSN refuses an empty path,
// ":memory:", and paths that begin with "file:": every connection would have an in-memory database
// of its own and lose it when it closes.
func SQLiteDSN(path string) (writer, reader string, err error) {
	switch {
	case path == "":
		return "", "", errors.New("hooksql: the path is empty: name a file, such as hookonce.db")
	case strings.Contains(path, ":memory:"):
		return "", "", fmt.Errorf("hooksql: %q would be lost when its connection closes: name a file, such as hookonce.db", path)
	case strings.HasPrefix(strings.ToLower(path), "file:"):
		return "", "", fmt.Errorf("hooksql: %q is a URI: give the path of the file alone", path)
	case strings.ContainsRune(path, 0):
		return "", "", fmt.Errorf("hooksql: the path %q holds a NUL", path)
	}
	uri := sqliteURI(path)
	writer = uri + "?" + url.Values{
		"_txlock": {"immediate"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", writerBusyTimeout),
			"journal_mode(WAL)",
			"synchronous(FULL)",
			"secure_delete(ON)",
			fmt.Sprintf("cache_size(-%d)", writerCacheKiB),
			fmt.Sprintf("journal_size_limit(%d)", logSizeLimit),
			fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
		},
	}.Encode()
	reader = uri + "?" + url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", readerBusyTimeout),
			"query_only(1)",
			"synchronous(FULL)",
		},
	}.Encode()
	return writer, reader, nil
}

// sqliteURI returns path as an SQLite URI; see https://www.sqlite.org/uri.html. It escapes
// characters that end the path or are decoded, and all that are not plain ASCII, which decode to
// the same bytes.
func sqliteURI(path string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
	slashed := filepath.ToSlash(filepath.Clean(path))
	var b strings.Builder
	b.WriteString("file:")
	switch {
	case filepath.VolumeName(path) != "":
		b.WriteString("///") // C:/hookonce.db; the drive is not a host
	case strings.HasPrefix(slashed, "//"):
		b.WriteString("//") // an empty host
	}
	for i := range len(slashed) {
		if c := slashed[i]; strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
