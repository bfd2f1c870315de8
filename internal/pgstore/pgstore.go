// Package pgstore is hookonce's store on PostgreSQL, independent of the client library: the SQL
// text, its arguments, its results, and the meaning of errors. Package pgsession runs it on a
// client library.
//
// # Claims
//
// There are two ways to claim. One is a plain INSERT … ON CONFLICT DO NOTHING of all events of a batch
// and of their state rows (insertNewSQL, or insertOneSQL with scalars for one event without messages). It
// returns a count, and keys only if some events were known; those are looked up. The other is the
// function claim, which looks for known events and bodies first, and writes messages too. It costs more.
//
// claimPlain takes the plain statement for events without body guards and notes. The function makes all
// other claims, and those in doubt: the plain statement waited too long for a row of the same key, a row
// was refused or dropped, or a foreign rule on event_state forbids an INSERT within WITH. The time that
// the statement may have waited is taken off the function's lock_timeout.
//
// Both raise synchronous_commit, refuse a server without fsync or full_page_writes, and write keys in
// ascending order. Before a duplicate is answered, the function confirm makes sure that the commits of the
// known events are durable.
//
// hookpgx sends the plain statement in the binary format, see binary.go, and prepares it under the hash
// of its text. If a session loses the name or has it already, the process uses no names from then on.
// Behind a noticed pooler, and in hooksql, every claim is a call of the function.
//
// # Runs
//
// Take locks the state rows of due events and skips rows that others hold. Another connection records the
// run, in a commit that does not wait for the disk. Then the transaction sets a savepoint: a failed
// handler's writes are undone back to it, and the row locks stay until the attempt is counted. Finish
// writes the done marks, deletes the record and commits.
//
// A record names its home: the cluster, the database and the table. A dump or a replica may bring records
// to another home, where their transaction numbers mean nothing; a sweep removes them, and their events
// are due again without an attempt. A role without the right to pg_control_system does not know its
// cluster; then only the database and the table are compared. A sweep skips a record that the database
// refuses to change, and ends after ten of them. The next one goes on behind them.
//
// A handler that commits by itself changes default_transaction_read_only back, which the server reports to
// pgx; database/sql compares the time of the transaction. Only the run is recorded, not the handler, since
// that would cost a round trip each: a sweep that finds such a commit waits two minutes for the process,
// and makes all events of the run dead.
//
// # Locks
//
// A write is one statement in a transaction of its own, so a process that stops in the middle keeps
// nothing open. A claim is one plain statement or one call of a function. Lease and Complete are calls
// of functions too, which a session plans once. Each statement of a function has its own snapshot. Only
// these take more than one statement: migrations, and operations that must read
// again under their locks (pruning of events, Replay, RetryMessage, CountInlineFailure, SweepRuns
// and Run.Settle). If the process stops between the statements, the server ends all of these except
// migrations. It also ends runs; see [Run]. The locks are:
//
//   - Claim inserts bodies in the order of their keys, then events in the order of theirs. It waits
//     for other claims of one of its keys. The plain statement, which does not look for known events
//     first, also waits for pruning and redacting of them, for at most 100 ms; then the claim function
//     takes over, which does not.
//
//   - Changes of messages lock the messages sorted by id (Complete, Release, Replay), or take only
//     unlocked ones (Lease, Reopen, ReplayDead, Discard).
//
//   - Every operation that makes a finished event due again, or gives it up, first locks the row of
//     the event without changing it, so that one of two concurrent calls wins. Replay and
//     RetryMessage wait for the lock, at most a second. Reopen, ReplayDead and Discard pass over
//     locked rows. A row that is locked but not changed does not block a claim of its key.
//
//   - CountDeliveries takes a shared lock on the event's row, and Prune and Redact an exclusive one,
//     before they read the rows that belong to the event. CountDeliveries and Prune do not wait; each
//     passes over the other's rows. So no row outlives its event, and no other body the event's own.
//     Redact waits for the event, then for the rows of the messages that the event caused, then for
//     the messages, each for at most a second.
//
//   - A run holds the state rows of its events and the rows of the object versions that it watches.
//     It takes both without waiting, and waits for none of our other locks until it ends. Its
//     handlers may wait for their own.
//
//   - SweepRuns takes the state rows of a run only if none is locked, and its record only
//     if no call is settling the run. Settling locks the record first, and then waits for the state
//     rows.
//
//   - A claim in a caller's transaction, or in that of a run, holds its events. It waits for other
//     claims of one of its events, up to its LockTimeout. A call that needs both locks an event
//     before its failures.
//
//   - Enqueued messages are written sorted by key.
//
//   - Writers of the feed, and its pruning, lock the one row of feed_watch first. A writer waits for
//     the statement of another one. The rows that SQL consumers left are collected without waiting.
//
//   - LearnSecret deletes the row of the armed source before it writes the secret; concurrent
//     callers block, then find the row deleted.
//
// Only pruning and redacting change a row of the event table.
package pgstore

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// Rows are the rows of a result, like [database/sql.Rows]. Close may be called more than once.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Conn runs statements. Arguments are strings, byte slices, booleans, integers, *time.Time, and
// slices of these for arrays. The statements cast each argument.
type Conn interface {
	// Query runs one statement and returns its rows.
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	// Script runs statements separated by semicolons, without arguments.
	Script(ctx context.Context, sql string) error
}

// Isolation is the isolation level of a transaction.
type Isolation int

const (
	// ReadCommitted shows each statement all commits before it. The transaction has the session's own
	// access mode: a server that an operator made read-only must refuse a write.
	ReadCommitted Isolation = iota
	// Snapshot shows one state of the database, and writes nothing.
	Snapshot
)

// Outcome is the certainty about a statement that failed.
type Outcome int

const (
	// Unknown: the statement may have been executed and committed.
	Unknown Outcome = iota
	// NotSent: nothing of the statement reached the server.
	NotSent
	// Refused: the server answered with an error that undid the statement.
	Refused
)

// DB is a pool of connections. A statement outside of Transaction and Begin commits by itself, at
// the isolation level READ COMMITTED.
type DB interface {
	Conn
	// Transaction runs f in a transaction, and commits it unless f fails.
	Transaction(ctx context.Context, level Isolation, f func(Conn) error) error
	// Begin begins a transaction that lasts until Commit or Rollback. If Begin fails, the
	// transaction was not begun.
	Begin(ctx context.Context) (Tx, error)
	// Outcome classifies an error of this DB. Errors of the server also have the method SQLState()
	// string.
	Outcome(err error) Outcome
}

// Pools are the databases of a store. There are four, so that neither slow work nor slow listings
// delay a sender, and no search for a text delays another listing.
type Pools struct {
	Receive DB // claims, and other calls that delay a sender
	Work    DB // leases, outcomes, pruning
	Admin   DB // calls of operators (listings, replays, checks, migrations) and the search for interrupted runs
	Search  DB // searches for a text, at most driver.TextSearches at once
}

// Store implements all of [driver.Store] except Close.
type Store struct {
	pools      Pools
	binary     BinaryDB // pools.Receive; nil if its client library cannot
	workBinary BinaryDB // pools.Work; nil if it cannot, or belongs to the caller
	migrations []driver.Migration
	name       string      // of the schema
	schema     string      // its name, quoted
	statements []Statement // those of declared, in their order
	marks      lowWater
	sweepFrom  atomic.Int64  // the id of the record where the next sweep goes on
	searching  chan struct{} // holds an element for each search for a text
	proving    chan struct{} // holds an element during a proof: two in one pool could wait for each other's second session
	passed     sync.Map      // by walk of pruning: the place where it ended after too many refusals; the next one goes on there
}

// New returns a store on a schema. It panics if hookmigrate.CheckSchemaName refuses the name.
func New(schema string, pools Pools) *Store {
	s := &Store{
		pools:      pools,
		migrations: hookmigrate.Postgres(schema), // panics on a bad name
		name:       schema,
		schema:     `"` + schema + `"`,
		searching:  make(chan struct{}, driver.TextSearches),
		proving:    make(chan struct{}, 1),
	}
	s.binary, _ = pools.Receive.(BinaryDB)
	s.workBinary, _ = pools.Work.(BinaryDB)
	s.sweepFrom.Store(firstRun)
	for _, sql := range qualifiedTexts() {
		s.statements = append(s.statements, newStatement(strings.ReplaceAll(sql, "{schema}", s.schema)))
	}
	return s
}

// text is a statement of this package: its place in declared.
type text int

// declared are all statements that need nothing but the name of the schema. {schema} stands for it.
var declared []string

// qualifiedTexts returns declared for every search_path. Qualifying takes milliseconds, and does not depend on the schema.
var qualifiedTexts = sync.OnceValue(func() []string {
	texts := make([]string, len(declared))
	for i, sql := range declared {
		texts[i] = qualified(sql)
	}
	return texts
})

// statement declares a statement.
func statement(sql string) text {
	declared = append(declared, sql)
	return text(len(declared) - 1)
}

// text returns a statement with the store's schema.
func (s *Store) text(t text) string { return s.statements[t].SQL }

// statement returns a statement with the store's schema, for a BinaryDB.
func (s *Store) statement(t text) *Statement { return &s.statements[t] }

// maxStale is how many lost connections a read passes over: after a restart of the server a pool
// may be full of them.
const maxStale = 8

// read runs a statement that changes nothing, and calls each for every row. If the connection
// breaks before the first row, read retries on another one.
func read(ctx context.Context, db DB, op string, each func(Rows) error, sql string, args ...any) error {
	started := false
	first := func(rows Rows) error {
		started = true
		return each(rows)
	}
	for try := 0; ; try++ {
		err := scan(ctx, db, first, sql, args...)
		if err == nil || started || try == maxStale || ctx.Err() != nil || db.Outcome(err) != Unknown {
			return readFailed(db, op, err)
		}
	}
}

// write runs a statement that changes something and commits by itself, and calls each for every
// row.
func write(ctx context.Context, db DB, op string, each func(Rows) error, sql string, args ...any) error {
	return writeFailed(db, op, scan(ctx, db, each, sql, args...))
}

// scan reads a result to its end, because only the end shows that the statement has committed.
func scan(ctx context.Context, conn Conn, each func(Rows) error, sql string, args ...any) error {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// noRows is for statements without rows.
func noRows(Rows) error { return nil }

// clock returns the argument for a test's time. nil, which is NULL, means the database's clock.
func clock(now time.Time) *time.Time {
	if now.IsZero() {
		return nil
	}
	return &now
}

// timeOf returns the time of a column; the zero time for NULL.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
