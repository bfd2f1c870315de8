// Package e2e holds the acceptance tests of the gateway. It has no code.
//
// The tests run the real program: TestMain's helper builds ./cmd/hookonce once, with
// the race detector where the tests run under it, and each test starts it as a process of its own,
// with a settings file, a real database and a real HTTP server as destination.
// They know what a user knows: settings, URLs, status codes, headers, the
// command line and the admin API. What they sign, they sign with code of their
// own. Where a test must hurt the database, it does so as another client of it
// would: a second session that holds a lock, a constraint that an operator
// added, a server that is stopped or killed, a connection that is cut between
// a commit and its answer.
//
// Most tests run on both stores, as the subtests sqlite and postgres.
// PostgreSQL comes from package dbtest; each test has a database of its own.
//
// Three things are checked on every gateway without a test asking for them:
// every refusal is a problem of RFC 9457, no secret stands in an answer or in
// the log, and the process ends with exit code 0 on SIGTERM and without a
// report of the race detector.
//
// A load (load_*_test.go) delivers events while processes are killed, is their
// destination, and in the end compares what it remembers with the database. Its
// random choices follow from a seed that the test logs; the environment variable
// HOOKONCE_TEST_SEED repeats them.
//
// That nothing more is sent is never found out by waiting: an event that the
// API calls done has no open message, so what the sink has by then is all.
package e2e
