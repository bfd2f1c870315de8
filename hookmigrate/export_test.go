package hookmigrate

import "io/fs"

// ReplaceFiles makes Postgres and SQLite read other files until restore is called. Tests that call it
// must not be parallel.
func ReplaceFiles(with fs.FS) (restore func()) {
	before := files
	files = with
	return func() { files = before }
}
