// Package hooksql runs hookonce on databases that are reached through
// database/sql. It imports no driver: the program does, and names it.
//
// It knows SQLite and PostgreSQL. On SQLite the simplest way is a path:
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
// # Handlers on SQLite
//
// SQLite has one writer. The transaction in which handlers run holds the write lock
// from its beginning to its commit, and receiving waits for it, up to its own
// time-out: so a handler has 1 s by default, and no further one is begun in a
// transaction that is 200 ms old. What takes longer belongs into the outbox, or on
// PostgreSQL. A handler writes by the *sql.Tx that it is given and by nothing else: by
// another connection to the file it would wait for itself. It passes its context to
// every statement, because nothing else ends one that is running.
//
// A statement that fails is undone by itself; the transaction goes on, and is
// committed if the handler returns nil. Where SQLite has to undo the whole transaction
// (a statement that writes was interrupted by its context, the disk is full), all that
// the handler writes after it fails too, and so does the attempt.
//
// The file must be on a local disk: WAL needs memory that all processes share,
// which network file systems do not have. Any number of processes on one machine
// may open it.
//
// # PostgreSQL
//
// PostgreSQL must be of version 12 or newer. A program that has a pool passes it on:
//
//	import _ "github.com/jackc/pgx/v5/stdlib"
//
//	db, err := sql.Open("pgx", "postgres://app@db/app")
//	store := hooksql.NewPostgres(db)
//
// and better gives receiving a pool of its own, see PostgresOptions; OpenPostgres
// opens all of them itself.
//
// Whether a write that failed may have happened is decided by the code of the error
// alone (SQLSTATE), and nothing is ever sent twice: no statement runs on the *sql.DB
// itself, where database/sql repeats what had been committed, should the driver take a
// lost reply for a connection that was bad from the start.
//
// A handler must not end its transaction, neither by Commit nor as SQL, and must close
// its rows. It is found out: for that, each handler costs a question to the server.
// One that does not return is cut off by ending its session on the server, by another
// connection of the pool for receiving, whose user must be the same.
//
// This package does not know how connections are made. So every transaction states its
// isolation level, and what bounds the wait for locks, and how long a process that
// stopped may keep them, is set in the transactions that need it. What package hookpgx
// pins beyond that is not set here, and can stand in the data source name:
// statement_timeout (a context's end closes the connection; the server may go on for a
// while), target_session_attrs=read-write where there are standbys, the time-outs of
// TCP, jit=off, and with pgx default_query_exec_mode=cache_describe, which poolers need
// and which keeps plans from outliving what they were made for.
//
// The driver must be one that ends a call with its context, whatever the network does,
// and whose errors have the method SQLState, as those of pgx do. github.com/lib/pq does
// the work as well, but while a server is silent its calls outlast their contexts.
package hooksql

import (
	"database/sql"

	"github.com/hookonce/hookonce"
)

// Mux is a hookonce.Mux whose handlers get an *sql.Tx.
type Mux = hookonce.Mux[*sql.Tx]
