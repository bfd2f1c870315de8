// Package sqlitestore is the store of package driver on SQLite: the SQL text and the scanning of
// rows, over database/sql and without a particular driver.
//
// # The write lock
//
// SQLite has one writer per file. A Store writes through a pool of one connection, so that the
// goroutines of a process queue up in Go, where a context can end the wait. It reads through a
// second pool, whose readers neither wait for the writer in WAL mode nor block it. Every write is
// one transaction that takes the lock at its BEGIN IMMEDIATE and holds it:
//
//	Claim, Lease, Complete, Release,   for one call; every statement finds its
//	Reopen, CountDeliveries,           rows by a key or a partial index, and most
//	Quarantine, SettleQuarantined,     of the time is the flush at COMMIT
//	Replay, ReplayDead, Discard,
//	RetryMessage, Reserve,
//	SweepRuns, PullBack,
//	RegisterWindows, and the calls
//	that count and record failures
//	Take, TakeClaim                    until the run is finished, settled or
//	                                   abandoned: as long as the handlers take
//	Prune                              for a chunk of 8 ms; a reader looks rows up,
//	                                   and claims get in between
//	Apply                              for all missing steps of the schema
//
// Another process on the same file (a command beside a running gateway) meets the same lock in
// SQLite. That wait is SQLite's busy timeout, which nothing can interrupt: a context that ended
// after 0.2 s returned after the 3 s of the timeout. BEGIN therefore runs in a goroutine that its
// caller can leave behind; the goroutine ends the transaction as soon as it has begun. Claim and Reopen run their
// whole transaction in one, see apart.
//
// # Runs of handlers
//
// Take marks events as running in a commit of its own. The mark holds a number that is unique to
// the run, and a deadline: past it the run counts as interrupted. Then the transaction of the
// handlers begins. It holds the write lock, so every other write waits for it, in this process and
// in others, receiving included: handlers must be short. A sweep needs the lock too, so an overdue
// event that it sees under the lock belongs to no run, however long runs take.
//
// Before a handler begins, its event gets a second number in that transaction, and the event before
// it is marked as done. So if a handler ends the transaction by itself, a reader sees whether it was
// committed. If the process has died since, a sweep sees the same: the events before are done, the
// event with the second number is dead, and the others were not run.
//
// If a handler ignores the error of a statement, SQLite undoes only that statement, and the rest is
// committed. Some errors undo the whole transaction without database/sql knowing: the context
// interrupts a statement that writes, or the disk is full. See run and guard.
//
// # The outcome of a COMMIT
//
// COMMIT runs in a goroutine too: a flush on a stalled disk cannot be interrupted, and the caller
// has a deadline. Once the COMMIT has started only its own answer counts. A caller that stops
// waiting for it, or gets an I/O error, gets ErrCommitUnknown; an fsync that failed was seen to
// leave the rows in place. Some answers are certain, see commitError.
//
// Before the COMMIT everything is certain: a transaction that is not committed leaves nothing
// behind, neither after a rollback nor after a crash.
//
// # The log
//
// A checkpoint after a commit copies the log into the database as far as no reader is in the way.
// The log starts over when a commit finds all of it copied and no reader on it. While listings
// overlap there is no such moment: with four clients the log grew to 244 MB in 20 s. So the store
// checks the size of the log after each commit. Above 64 MiB it cuts the log, beside the writer:
//
//   - New listings wait at a gate until the running ones have ended, which takes at most their
//     limit of 5 s. Claims go on.
//   - A reader's connection copies the log. Claims go on.
//   - The writer's connection copies the rest and cuts the log. Claims wait, usually tens of
//     milliseconds. The store gives up after 0.3 s, or if a reader of another process does not end
//     within the busy timeout of 0.1 s, and retries 2 s later.
//
// So the log holds at most 64 MiB plus the writes of the few seconds until the readers have ended,
// unless other processes keep reading.
//
// # The place of the file
//
// SQLite goes on without an error in a file that was moved, deleted or replaced. So each write and
// Now compare the files at the path with the first ones, and each commit compares again before it
// is reported; see place.
//
// # Listings
//
// Listings are ordered by the receiving time of events. The partial indexes on dead and on skipped
// rows have the same order, so that a page reads no more rows than it shows. The partial indexes on
// open rows serve leases and have another order. If one of them holds few rows, the listing sorts
// them; if it holds many, walking the events from the newest on finds a page soon.
package sqlitestore
