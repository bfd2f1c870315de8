// Package pgstore is hookonce's store on PostgreSQL, independent of the client
// library: the SQL text, its arguments, what comes back, and what a failure
// means. Package hookpgx runs it on pgx.
//
// # Locks
//
// What writes is one statement, in a transaction of its own, so a process that
// stops in the middle holds nothing open; a claim is the call of a function, each
// statement of which has a snapshot of its own. Only migrating, and what has to look again
// under its locks, take more than one: the pruning of events, Replay, RetryMessage,
// CountInlineFailure, SweepRuns and Run.Settle. The server ends all of these but the
// first where the process stops in between. So it does with runs; see [Run].
// The locks are:
//
//   - Claim inserts: bodies first, in the order of their keys, then events, in
//     the order of theirs. It waits for other claims of one of its keys only.
//
//   - What changes messages locks them sorted by id (Complete, Release, Replay),
//     or takes only those that nobody holds (Lease, Reopen, ReplayDead, Discard).
//
//   - Whatever makes a finished event owed again, or gives it up, first locks the
//     row of the event, without changing it, so that one of two concurrent calls
//     wins: Replay and RetryMessage wait for it, a second at most; Reopen,
//     ReplayDead and Discard pass over what they do not get. A row that is locked
//     but not changed does not hold up a claim of its key.
//
//   - CountDeliveries takes a shared lock on the event's row, and Prune an
//     exclusive one, before it looks at what belongs to the event: neither
//     waits, both pass over what the other holds. So nothing is left behind of
//     an event that is gone.
//
//   - A run holds the state rows of its events, which it took without waiting, and
//     those of the versions that it watches, sorted by key. It waits for nothing else
//     of ours until it ends; what its handlers wait for is theirs.
//
//   - SweepRuns takes the state rows of a run only if nobody holds one of them, and
//     its record only if nobody settles the run. Settling locks the record first,
//     and then waits for the state rows.
//
//   - A claim in a transaction of the caller's, or of a run, holds its events, and
//     waits for others that claim one of them, up to its LockTimeout. The failures of
//     an event are locked after the event, by whoever takes both.
//
//   - Messages that are enqueued are written sorted by key.
//
//   - LearnSecret takes the row of the armed source away before it writes the secret;
//     who comes at the same time waits, and finds it gone.
//
// Nothing but pruning ever changes a row of the event table.
package pgstore

import (
	"context"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// Rows are the rows of a result; see [database/sql.Rows]. Close may be called
// more than once.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Conn runs statements. Arguments are strings, byte slices, booleans, integers,
// *time.Time, and slices of these for arrays; the statements cast each of them.
type Conn interface {
	// Query runs one statement and returns its rows.
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	// Script runs statements separated by semicolons, without arguments.
	Script(ctx context.Context, sql string) error
}

// Isolation is the isolation level of a transaction.
type Isolation int

const (
	// ReadCommitted sees with each statement what was committed before it.
	ReadCommitted Isolation = iota
	// Snapshot reads one state of the database, and writes nothing.
	Snapshot
)

// Outcome is what is known about a statement that failed.
type Outcome int

const (
	// Unknown: it may have been executed and committed.
	Unknown Outcome = iota
	// NotSent: nothing of it reached the server.
	NotSent
	// Refused: the server itself answered with an error that undid it.
	Refused
)

// DB is a pool of connections. A statement outside of Transaction commits by
// itself, at the isolation level READ COMMITTED.
type DB interface {
	Conn
	// Transaction runs f in a transaction, which it commits unless f fails.
	Transaction(ctx context.Context, level Isolation, f func(Conn) error) error
	// Begin begins a transaction that lasts until Commit or Rollback. A failure
	// certainly precedes it.
	Begin(ctx context.Context) (Tx, error)
	// Outcome tells what is known about an error of this DB. Errors of the
	// server also have the method SQLState() string.
	Outcome(err error) Outcome
}

// Pools are the databases that a store works on: three, so that neither slow
// work nor slow reading holds up what a sender waits for.
type Pools struct {
	Receive DB // claims and what else a sender waits for
	Work    DB // leases, outcomes, pruning
	Admin   DB // what operators do: listings, replays, checks, migrations; and the search for interrupted runs
}

// Store implements all of [driver.Store] but Close.
type Store struct {
	pools      Pools
	migrations []driver.Migration
	name       string // of the schema
	schema     string // its name, quoted
	sql        statements
}

// New returns a store on a schema, whose name hookmigrate.CheckSchemaName must
// have accepted; it panics on any other.
func New(schema string, pools Pools) *Store {
	s := &Store{
		pools:      pools,
		migrations: hookmigrate.Postgres(schema), // panics
		name:       schema,
		schema:     `"` + schema + `"`,
	}
	s.sql = newStatements(func(text string) string {
		return strings.ReplaceAll(text, "{schema}", s.schema)
	})
	return s
}

// statements is the SQL of a store, written for its schema.
type statements struct {
	claim, known, lookUp  string
	reopen                string
	count, quarantine     string
	leaseOldest           string
	leaseUntried          string
	complete, release     string
	eventByKey, eventByID string
	repeatOf              string
	messages, attempts    string
	history               string
	lockEvent, repeated   string
	state                 string
	lockMessages          string
	replay                string
	replayDead, discard   string
	eventOfMessage        string
	lockMessage, retry    string
	stats                 string
	pruneEvents           pruneStatements
	pruneBodies           pruneStatements
	pruneVersions         string
	pruneQuarantineAge    string
	pruneQuarantineRows   string
	takeFresh, takeTried  string
	takeKeys, claimed     string
	mark, unmark, lockRun string
	wait                  string
	finish, finishClaim   string
	recordReserved        string
	versions              string
	lockableVersions      string
	lockVersions          string
	lockEvents            string
	reopenClaimed         string
	enqueue               string
	dueSources, reserve   string
	suspects, lockLost    string
	takeRecord, lost      string
	countInline           string
	forgetInline          string
	fileInline, oldInline string
	arm, learn, learned   string
}

func newStatements(write func(string) string) statements {
	return statements{
		claim:          write(claimSQL),
		known:          write(knownSQL),
		lookUp:         write(lookUpSQL),
		reopen:         write(again(reopenSQL, stateAgainSQL, false)),
		count:          write(countSQL),
		quarantine:     write(quarantineSQL),
		leaseOldest:    write(leaseIn("", "ASC")),
		leaseUntried:   write(leaseIn("AND m.attempts = 0", "DESC")),
		complete:       write(completeSQL),
		release:        write(releaseSQL),
		eventByKey:     write(eventByKeySQL),
		eventByID:      write(eventByIDSQL),
		repeatOf:       write(repeatOfSQL),
		messages:       write(messagesSQL),
		attempts:       write(attemptsSQL),
		history:        write(historySQL),
		lockEvent:      write(lockEventSQL),
		repeated:       write(repeatedSQL),
		state:          write(stateSQL),
		lockMessages:   write(lockMessagesSQL),
		replay:         write(again(replaySQL, stateAgainSQL, true)),
		replayDead:     write(again(replayDeadSQL, stateAgainSQL, true)),
		discard:        write(discardSQL),
		eventOfMessage: write(eventOfMessageSQL),
		lockMessage:    write(lockMessageSQL),
		retry:          write(retrySQL),
		stats:          write(statsSQL),
		pruneEvents: pruneStatements{
			"pruning events", write(lockPast(walkEventsSQL, "FOR UPDATE")), write(lastPast(walkEventsSQL)), write(pruneEventsSQL),
		},
		pruneBodies: pruneStatements{
			"pruning bodies", write(lockPast(walkBodiesSQL, "FOR NO KEY UPDATE")), write(lastPast(walkBodiesSQL)), write(pruneBodiesSQL),
		},
		pruneVersions:       write(pruneVersionsSQL),
		pruneQuarantineAge:  write(pruneQuarantineAgeSQL),
		pruneQuarantineRows: write(pruneQuarantineRowsSQL),
		takeFresh:           write(takeIn(freshSQL + dueSQL)),
		takeTried:           write(takeIn(triedSQL + dueSQL)),
		takeKeys:            write(takeIn(keysSQL)),
		claimed:             write(claimedSQL),
		mark:                write(markSQL),
		unmark:              write(unmarkSQL),
		lockRun:             write(lockRunSQL),
		wait:                write(waitSQL),
		finish:              write(strings.ReplaceAll(finishSQL, "{held}", "given")),
		finishClaim:         write(finishClaimSQL),
		recordReserved:      write(strings.ReplaceAll(recordReservedSQL, "{held}", "held")),
		versions:            write(versionsSQL),
		lockableVersions:    write(lockableVersionsSQL),
		lockVersions:        write(lockVersionsSQL),
		lockEvents:          write(lockEventsSQL),
		reopenClaimed:       write(again(reopenClaimedSQL, stateClaimedSQL, false)),
		enqueue:             write(enqueueSQL),
		dueSources:          write(dueSourcesSQL),
		reserve:             write(reserveSQL),
		suspects:            write(suspectsSQL),
		lockLost:            write(lockLostSQL),
		takeRecord:          write(takeRecordSQL),
		lost:                write(lostSQL),
		countInline:         write(countInlineSQL),
		forgetInline:        write(forgetInlineSQL),
		fileInline:          write(fileInlineSQL),
		oldInline:           write(oldInlineSQL),
		arm:                 write(armSQL),
		learn:               write(learnSQL),
		learned:             write(learnedSQL),
	}
}

// maxStale is how many connections that broke while they were kept a read passes
// over: after a restart of the server a pool may be full of them.
const maxStale = 8

// read runs a statement that changes nothing, and each over its rows. Where the
// connection breaks before the first row it is tried again on another one.
func read(ctx context.Context, db DB, what string, each func(Rows) error, sql string, args ...any) error {
	started := false
	first := func(rows Rows) error {
		started = true
		return each(rows)
	}
	for try := 0; ; try++ {
		err := scan(ctx, db, first, sql, args...)
		if err == nil || started || try == maxStale || ctx.Err() != nil || db.Outcome(err) != Unknown {
			return readFailed(db, what, err)
		}
	}
}

// write runs a statement that changes something and commits by itself, and
// each over its rows.
func write(ctx context.Context, db DB, what string, each func(Rows) error, sql string, args ...any) error {
	return writeFailed(db, what, scan(ctx, db, each, sql, args...))
}

// scan reads a result to its end: only the end says that a statement that
// commits by itself has committed.
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

// noRows is for statements that return none.
func noRows(Rows) error { return nil }

// clock returns the argument for a time that a test gave; nil, which is NULL,
// stands for the database's clock.
func clock(now time.Time) *time.Time {
	if now.IsZero() {
		return nil
	}
	return &now
}

// timeOf returns the time that a column holds; zero for NULL.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
