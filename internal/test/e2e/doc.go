// Package e2e holds the acceptance tests of the gateway. It has no code.
//
// The tests run the real program. A helper builds ./cmd/hookonce once, with the race detector if
// the tests run under it. Each test starts it as a process of its own, with a settings file, a real
// database and a real HTTP server as destination. The tests know as much as a user: settings, URLs,
// status codes, headers, the command line and the admin API. They sign with code of their own. A
// test that disturbs the database does so as another client would: a second session holds a lock, a
// server is stopped or killed.
//
// The tests of claims, crashes and outages run on both stores, as the subtests sqlite and postgres;
// most others need both in a long run only. That run also kills more often, and plays more than one
// demo to its end. PostgreSQL comes from package dbtest; each test has a database of its own.
//
// Every gateway is checked for three things without a test asking: every refusal is a problem of
// RFC 9457, no secret appears in an answer or in the log, and the process ends with exit code 0 on
// SIGTERM and without a report of the race detector.
//
// A load (load_*_test.go) delivers events while processes are killed. It is also their destination,
// and in the end it compares its own record with the database. Its random choices follow from a
// seed that the test logs; the environment variable HOOKONCE_TEST_SEED repeats them.
//
// No test waits to find out that nothing more is sent: an event that the API calls done has no open
// message, so the sink already has every request.
package e2e
