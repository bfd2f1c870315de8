// Package sqlitestore is the store of package driver on SQLite: the SQL text and
// the scanning of rows, over database/sql and without a particular driver.
//
// # Who holds the write lock when
//
// SQLite has one writer per file. A Store has a pool of one connection for
// writing, so that goroutines of one process queue up in Go, where a context can
// end the wait, and a pool of readers, which in WAL mode neither wait for the
// writer nor hold it up. Every write is one transaction that takes the lock at
// its BEGIN IMMEDIATE:
//
//	Claim, Lease, Complete, Release,   for one call; every statement finds its
//	Reopen, CountDeliveries,           rows by a key or a partial index, and most
//	Quarantine, Replay, ReplayDead,    of the time is the flush at COMMIT
//	Discard, RetryMessage, Reserve,
//	SweepRuns, and what counts
//	and records failures
//	Take, TakeClaim                    from then on until the run is finished,
//	                                   settled or abandoned: for as long as the
//	                                   handlers take
//	Prune                              for up to 200 rows; what to remove is looked
//	                                   up on a reader, and the lock is given back
//	                                   after each 200, so claims get in between
//	Apply                              for all missing steps of the schema
//
// Another process on the same file (a command beside a running gateway) meets
// the same lock in SQLite. That wait is SQLite's busy timeout, which nothing can
// interrupt (a context that ended after 0.2 s came back after the 3 s of the
// timeout). BEGIN therefore runs in a goroutine that its caller can leave
// behind; it then ends the transaction as soon as it has it.
//
// # Runs of handlers
//
// Take marks events as running, in a commit of its own, with a number that the run
// alone has, and with the time at which it counts as interrupted. Then the
// transaction of the handlers begins. It has the write lock, and so every other write
// waits for it, receiving too, in this process and in others: handlers must be short.
// Since a sweep needs the lock as well, what it finds past its time under the lock
// belongs to nobody any more, however long a run takes.
//
// The first statement of that transaction gives the rows a second number. Where a
// handler ends the transaction by itself, a reader sees by this number whether it was
// committed; and so does a sweep, if the process has died over it.
//
// What is in the transaction is committed, also after the error of a statement that a
// handler passed over: SQLite undoes the one statement. There are errors by which it
// undoes the whole transaction (a statement that writes was interrupted by its context,
// the disk is full), unknown to database/sql; see run and guard.
//
// # What a COMMIT says
//
// COMMIT runs in a goroutine too: a flush on a stalled disk cannot be
// interrupted either, and its caller has a deadline. Once it was started only its
// own answer counts, and a caller who does not wait for it, or gets an I/O error,
// knows nothing: ErrCommitUnknown. An fsync that failed was seen to leave the
// rows in place. Two answers are certain, see commitError.
//
// Everything before COMMIT is certain, whatever went wrong: a transaction that
// is not committed is not there after it is rolled back, nor after a crash.
//
// # The log
//
// A checkpoint after a commit copies the log into the database, as far as no
// reader is in the way, and the log begins anew when a commit finds all of it
// copied and nobody reading from it. While listings overlap there is no such
// moment, and the log grew to 244 MB in 20 s of four clients. So after each
// commit its size is looked at, and where it is above 64 MiB, beside the writer:
//
//   - new listings wait at a gate, until those under way have ended, which a limit
//     of 5 s makes them do; claims go on;
//   - the log is copied on a reader's connection; claims go on;
//   - the little that was written meanwhile is copied, and the log is cut, on the
//     writer's connection. Claims wait for that, tens of milliseconds as a rule;
//     after 0.3 s, or where a reader of another process does not end within the
//     busy timeout of 0.1 s, it is given up and tried again 2 s later.
//
// The log is thus bounded by 64 MiB and what is written in the few seconds until
// the readers have ended, unless other processes keep reading.
//
// # Listings
//
// They stand in the order in which events were received. The small indexes on
// what is dead and what is skipped have that order, so that a page reads no more
// than the page. Those on what is open serve leases and have another one: where
// they hold few rows these are sorted, and where they hold many the events are
// walked, from the newest on, which finds a page soon.
package sqlitestore
