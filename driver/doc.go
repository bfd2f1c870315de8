// Package driver is the contract between hookonce and a database.
//
// A Store holds events, their messages, and the audit trail. The rest of hookonce uses this
// contract only. Package github.com/hookonce/hookonce/hookpgx implements it for PostgreSQL, and
// github.com/hookonce/hookonce/hooksql for PostgreSQL and SQLite over database/sql. Package
// github.com/hookonce/hookonce/internal/test/storetest holds the conformance suite that every
// implementation passes; it tests the semantics.
//
// The API of this package is not stable. Do not implement Store outside this module: new versions
// add methods without notice.
//
// # Guarantees of a store
//
//   - Claim is one transaction. When it returns nil, every claimed event, its state row and its
//     messages are durable. Exactly one caller, in any process, ever sees Claimed for one Key while
//     its identity is kept.
//   - Claims only insert into the event table. Work on an event holds no lock that a claim of the
//     same key would wait for.
//   - A message is sent under a lease with a fencing token. Complete is a compare-and-set on that
//     token, so a sender that lost its lease changes nothing.
//   - The database's clock rules leases, backoff and windows. The Now field of the parameter
//     structs overrides it and is for tests only.
//   - Prune removes only finished events that are past their window.
//
// # Errors
//
// A store classifies the database's errors by code, never by text. It returns errors that match one
// of the sentinels of this package with [errors.Is]. One distinction carries the guarantee: a write
// that certainly did not happen (ErrBadRow, ErrLockTimeout, ErrSerialization, ErrUnavailable,
// ErrNotFound) against a write with an unknown outcome (ErrCommitUnknown). When in doubt the error
// is ErrCommitUnknown.
package driver
