// Package hooksql runs hookonce on databases through database/sql. It imports no driver: the
// program imports one and names it.
//
// It supports SQLite and PostgreSQL. On SQLite the simplest way is a path:
//
//	import _ "modernc.org/sqlite"
//
//	store, err := hooksql.OpenSQLite("sqlite", "hookonce.db")
//
// OpenSQLite opens two pools with the settings that hookonce needs, and checks that they are in
// force. The program uses the same pools for its own tables: store.Writer() and store.Reader(). A
// program that makes pools itself opens them with the data source names of SQLiteDSN, and passes
// them to NewSQLite.
//
// # Settings of SQLite
//
// PRAGMAs belong to a connection, and a pool opens connections at any time; so they stand in the
// data source name, never in an Exec.
//
//   - busy_timeout comes first, because the other PRAGMAs may meet a lock too.
//   - journal_mode(WAL): readers and the writer do not block each other.
//   - synchronous(FULL): a commit is on the disk before it is acknowledged. Under NORMAL, the usual
//     advice for WAL, a power cut loses the last commits.
//   - secure_delete(ON): removed bytes are overwritten with zeros, so that bodies past their retention
//     and redacted events cannot be read from the file. FAST would leave the pages that a body of
//     more than 4 kB had for itself. Removing such a body writes about half the bytes that receiving
//     it wrote.
//   - _txlock=immediate: a transaction takes the write lock when it begins. A transaction that
//     reads first and takes the lock later fails at once if another one wrote in between, despite
//     the busy timeout.
//   - query_only for the readers.
//
// # Handlers on SQLite
//
// SQLite has one writer. The handlers' transaction holds the write lock from its beginning to its
// commit. Receiving waits for it, up to its own timeout. So a handler has 1 s by default, and no
// further handler begins in a transaction that is 200 ms old. Longer work belongs in the outbox, or
// on PostgreSQL. A handler must write through its *sql.Tx only: on another connection to the file
// it would wait for itself. It must pass its context to every statement, because nothing else ends
// a running statement.
//
// SQLite undoes a failed statement alone. The transaction goes on, and is committed if the handler
// returns nil. Sometimes SQLite must undo the whole transaction (a context interrupted a statement
// that writes, or the disk is full). Then all later writes of the handler fail too, and so does the
// attempt.
//
// A handler must not end its transaction. Commit of its *sql.Tx commits, as does COMMIT as a
// statement: the event is then dead with the note driver.NoteTxEnded, and only a replay that names
// the note runs it again. Rollback makes the attempt fail. Package hookpgx refuses both calls
// instead.
//
// The driver's connections must have methods that set SQLite's commit and rollback hooks, as those
// of modernc.org/sqlite and github.com/mattn/go-sqlite3 do. Otherwise hookonce could not keep a handler from writing after the end of its transaction, and
// hookonce.New refuses handlers.
//
// The file must be on a local disk: WAL needs memory that all processes share, and network file
// systems do not have it. Any number of processes on one machine may open the file.
//
// # PostgreSQL
//
// PostgreSQL must be version 13 or newer. A program that has a pool passes it on:
//
//	import _ "github.com/jackc/pgx/v5/stdlib"
//
//	db, err := sql.Open("pgx", "postgres://app@db/app")
//	store := hooksql.NewPostgres(db)
//
// It is better to give receiving a pool of its own, see PostgresOptions. OpenPostgres opens all
// pools itself.
//
// Only the code of an error (SQLSTATE) decides whether a failed write may have happened, and
// nothing is ever sent twice. No statement runs on the *sql.DB itself: database/sql would repeat a
// committed statement if the driver took a lost reply for a bad connection.
//
// A handler must not end its transaction, neither with Commit nor with SQL (see above), and must
// close its rows. hookonce detects violations; this costs one round trip to the server per handler. If a
// handler does not return, hookonce ends its session on the server, through another connection of
// the receiving pool, whose user must be the same.
//
// With several hosts in the data source name and target_session_attrs=read-write, connections lead to
// the host that accepts writes. If a server becomes read-only or shuts down, the store closes the
// connection that met the error and the idle ones of its pools, so that the next ones are dialed again.
//
// This package does not know how connections are made. So every transaction states its isolation
// level. Transactions that need it bound their waits for locks, and how long a process that has
// stopped may keep locks. The other settings that package hookpgx pins are not set here. They can
// stand in the data source name: statement_timeout (the end of a context closes the connection, but
// the server may go on for a while), target_session_attrs=read-write if there are several hosts, the TCP
// timeouts, and jit=off.
//
// Behind PgBouncer with session or transaction pooling, statements must not be prepared on the server
// under a name. OpenPostgres sees to that with pgx. Pools that the program opens need
// default_query_exec_mode=cache_describe with pgx, which also keeps outdated plans from being used.
// github.com/lib/pq needs session pooling. A pooler refuses most other settings as start-up
// parameters: set them for the user or the database.
//
// The driver must end a call when its context ends, even if the network is silent, and its errors
// must have the method SQLState. The driver of pgx does both. github.com/lib/pq works as well, but
// while a server is silent its calls outlast their contexts.
package hooksql

import (
	"database/sql"

	"github.com/hookonce/hookonce"
)

// Mux is a hookonce.Mux for handlers that work in a *sql.Tx.
type Mux = hookonce.Mux[*sql.Tx]
