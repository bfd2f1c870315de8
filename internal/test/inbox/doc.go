// Package inbox holds the tests of the root package through its public API: an Inbox with its handlers on pgx and on
// SQLite, and an Engine on SQLite. The tests that need internals are in the root.
package inbox
