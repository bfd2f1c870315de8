// Package hooksql runs hookonce on databases that are reached through
// database/sql. It imports no driver: the program does, and names it.
//
// SQLite is what it knows. The simplest way is a path:
//
//	import _ "modernc.org/sqlite"
//
//	store, err := hooksql.OpenSQLite("sqlite", "hookonce.db")
//
// which opens two pools with the settings that hookonce needs, and checks that
// they are in force. A program with pools of its own makes them with the names
// that SQLiteDSN returns, and passes them to NewSQLite.
//
// # What SQLite is set to, and why
//
// PRAGMAs belong to a connection, and a pool opens connections when it likes; so
// they stand in the data source name, never in an Exec.
//
//   - busy_timeout comes first, because the other PRAGMAs may meet a lock too.
//   - journal_mode(WAL): readers and the writer do not hold each other up.
//   - synchronous(FULL): a commit is on the disk before it is acknowledged. Under
//     NORMAL, the usual advice for WAL, a power cut loses the last commits.
//   - _txlock=immediate: a transaction takes the write lock when it begins. One
//     that reads first and takes it later fails at once when somebody else wrote
//     in between, whatever the busy timeout.
//   - query_only for the readers.
//
// The file must be on a local disk: WAL needs memory that all processes share,
// which network file systems do not have. Any number of processes on one machine
// may open it.
package hooksql
