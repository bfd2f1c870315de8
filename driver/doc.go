// Package driver is the contract between hookonce and a database.
//
// A Store holds events, the messages they owe, and the audit trail. The rest
// of hookonce is written against this contract only; package
// github.com/hookonce/hookonce/hookpgx implements it for PostgreSQL and
// github.com/hookonce/hookonce/hooksql for SQLite. Package
// github.com/hookonce/hookonce/internal/test/storetest holds the conformance suite
// that every implementation passes, and is where semantics are tested.
//
// The API of this package is not stable. Do not implement Store outside of
// this module: methods are added to it without notice.
//
// # What a store promises
//
//   - Claim is one transaction: when it returns nil, every claimed event, its
//     state row and its messages are durable, and exactly one caller, in any
//     process, ever sees Claimed for one Key while its identity is kept.
//   - The event table is insert-only for claims: nothing that works on an
//     event holds a lock that a claim of the same key would wait for.
//   - A message is sent under a lease with a fencing token. Complete is a
//     compare-and-set on that token, so whoever lost the lease changes nothing.
//   - The database's clock rules leases, backoff and windows. The Now field of
//     the parameter structs overrides it and is for tests only.
//   - Prune removes only what is finished and past its window.
//
// # Errors
//
// A store classifies what the database said by its code, never by its text,
// and returns errors that match one of the sentinels of this package with
// [errors.Is]. The one distinction that carries the guarantee: a write that
// certainly did not happen (ErrBadRow, ErrLockTimeout, ErrSerialization,
// ErrUnavailable, ErrNotFound) against a write whose outcome nobody knows
// (ErrCommitUnknown). When in doubt it is ErrCommitUnknown.
package driver
